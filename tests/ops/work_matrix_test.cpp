// Matrix products: the formula against an execution of the definition.
#include <gtest/gtest.h>

#include "ops/facts/work.hpp"
#include "tests/support/brute_force.hpp"

namespace plumbline::work_matrix_test {
namespace {

using brute::Array;
using brute::Machine;
using brute::Num;
using brute::OnTensorUnit;

/// y[row] += x[row of x] W^T with W at `w0`, one output row.
void product_row(Array& x, std::int64_t x0, Array& w, std::int64_t w0, Array& y, std::int64_t y0, std::int64_t n,
                 std::int64_t k) {
  const OnTensorUnit unit;
  for (std::int64_t j = 0; j < n; ++j) {
    Num sum(0);
    for (std::int64_t i = 0; i < k; ++i) sum += x[x0 + i] * w[w0 + j * k + i];
    y.set(y0 + j, sum);
  }
}

/// `group` > 0: W is quantized with an fp16 scale for each `group` values, which is read with them.
void run_gemm(Machine& machine, const Gemm& s, double in, double weight, double out, std::int64_t group = 0) {
  Array& x = machine.array(s.batch * s.m * s.k, in);
  Array& w = machine.array(s.batch * s.n * s.k, weight);
  Array& y = machine.array(s.batch * s.m * s.n, out);
  Array& bias = machine.array(s.batch * s.n, out);
  Array& scale = machine.array(group > 0 ? s.batch * s.n * s.k / group : 0, 2);
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t i = 0; i < s.m; ++i) {
      product_row(x, (b * s.m + i) * s.k, w, b * s.n * s.k, y, (b * s.m + i) * s.n, s.n, s.k);
      for (std::int64_t j = 0; s.bias && j < s.n; ++j) {
        const std::int64_t at = (b * s.m + i) * s.n + j;
        y.set(at, y[at] + bias[b * s.n + j]);
      }
    }
    for (std::int64_t g = 0; group > 0 && g < s.n * s.k / group; ++g) (void)scale[b * s.n * s.k / group + g];
  }
}

TEST(WorkMatrix, GemmEqualsExecution) {
  for (bool bias : {false, true}) {
    for (std::int64_t batch : {1, 3}) {
      for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 1}, {3, 5, 7}, {4, 1, 9}, {1, 8, 2}}) {
        const Gemm s{m, n, k, batch, *parse_precision("bf16"), bias};
        Machine machine;
        run_gemm(machine, s, 2, 2, 2);
        EXPECT_SAME_WORK(s, machine);
      }
    }
  }
}

TEST(WorkMatrix, GemmTypesTakeTheirOwnBytes) {
  const Gemm fp8{3, 5, 7, 1, *parse_precision("fp8"), true};
  Machine narrow;
  run_gemm(narrow, fp8, 1, 1, 2);
  EXPECT_SAME_WORK(fp8, narrow);
  EXPECT_EQ(work(fp8).math, DType::fp8);

  const Gemm w4a16{2, 3, 256, 2, *parse_precision("w4a16"), false};
  Machine grouped;
  run_gemm(grouped, w4a16, 2, 0.5, 2, 128);
  EXPECT_SAME_WORK(w4a16, grouped);
  EXPECT_EQ(work(w4a16).math, DType::bf16);

  const Gemm fp64{2, 2, 3, 1, *parse_precision("fp64"), false};
  Machine wide;
  run_gemm(wide, fp64, 8, 8, 8);
  EXPECT_SAME_WORK(fp64, wide);
}

/// One execution with `route[t * topk + j]` the j-th expert of token t.
void run_grouped(Machine& machine, const GroupedGemm& s, const std::vector<std::int64_t>& route) {
  Array& x = machine.array(s.tokens * s.k, 2);
  Array& w = machine.array(s.experts * s.n * s.k, 2);
  Array& y = machine.array(s.tokens * s.topk * s.n, 2);
  for (std::int64_t r = 0; r < s.tokens * s.topk; ++r) {
    const std::int64_t expert = route[static_cast<std::size_t>(r)];
    product_row(x, r / s.topk * s.k, w, expert * s.n * s.k, y, r * s.n, s.n, s.k);
  }
}

/// Every set of `topk` different experts, as a list of expert numbers.
std::vector<std::vector<std::int64_t>> choices(std::int64_t experts, std::int64_t topk) {
  std::vector<std::vector<std::int64_t>> all;
  for (std::int64_t mask = 0; mask < (1 << experts); ++mask) {
    std::vector<std::int64_t> chosen;
    for (std::int64_t e = 0; e < experts; ++e) {
      if ((mask >> e & 1) != 0) chosen.push_back(e);
    }
    if (static_cast<std::int64_t>(chosen.size()) == topk) all.push_back(chosen);
  }
  return all;
}

/// The mean over every routing that uniform routing can produce, each executed.
TEST(WorkMatrix, GroupedGemmEqualsTheMeanOverAllRoutings) {
  for (const auto& [experts, topk, tokens] :
       {std::array<std::int64_t, 3>{4, 2, 3}, {3, 1, 4}, {5, 3, 2}, {3, 3, 2}, {1, 1, 2}, {6, 2, 1}}) {
    const GroupedGemm s{experts, topk, tokens, 2, 3, 0, *parse_precision("bf16")};
    const auto sets = choices(experts, topk);
    std::size_t routings = 1;
    for (std::int64_t t = 0; t < tokens; ++t) routings *= sets.size();
    double read = 0, written = 0, tensor = 0;
    for (std::size_t r = 0; r < routings; ++r) {
      std::vector<std::int64_t> route;
      for (std::size_t t = 0, rest = r; t < static_cast<std::size_t>(tokens); ++t, rest /= sets.size()) {
        const auto& chosen = sets[rest % sets.size()];
        route.insert(route.end(), chosen.begin(), chosen.end());
      }
      Machine machine;
      run_grouped(machine, s, route);
      read += machine.read_bytes();
      written += machine.written_bytes();
      tensor += machine.counts().tensor;
    }
    const double count = static_cast<double>(routings);
    EXPECT_NEAR(work(s).read.in(units::B), read / count, 1e-9 * read / count);
    EXPECT_DOUBLE_EQ(work(s).write.in(units::B), written / count);
    EXPECT_DOUBLE_EQ(work(s).tensor.in(units::FLOP), tensor / count);
  }
}

/// Gradients of the experts' weights: rows of both sides once, of all experts where each has rows, on top of what is there.
TEST(WorkMatrix, GradientsOfExpertsReadTheirRowsAndAddUp) {
  GroupedGemm s{4, 1, 4096, 2, 3, 0, *parse_precision("bf16"), true};
  s.precision.output = DType::fp32;
  const double rows = 4096, weights = 4 * 2 * 3;
  EXPECT_DOUBLE_EQ(work(s).tensor.in(units::FLOP), 2 * rows * 2 * 3);
  EXPECT_DOUBLE_EQ(work(s).read.in(units::B), 2 * rows * (2 + 3));
  EXPECT_DOUBLE_EQ(work(s).write.in(units::B), 4 * weights);
  s.accumulate = true;
  EXPECT_DOUBLE_EQ(work(s).read.in(units::B), 2 * rows * (2 + 3) + 4 * weights);
  EXPECT_DOUBLE_EQ(work(s).fp32.in(units::FLOP), weights);
}

TEST(WorkMatrix, ExpertsTouchedKnowsItsEnds) {
  EXPECT_DOUBLE_EQ(experts_touched(8, 8, 1), 8);
  EXPECT_DOUBLE_EQ(experts_touched(256, 8, 1), 8);
  EXPECT_EQ(experts_touched(256, 8, 0), 0);
  EXPECT_EQ(experts_touched(4, 4, 0), 0);
  EXPECT_NEAR(experts_touched(256, 8, 1e6), 256, 1e-9);
  EXPECT_NEAR(experts_touched(1e9, 1, 2), 2, 1e-6);  // no cancellation when experts abound
}

/// Of each four weights two are kept, with two bits that say which.
TEST(WorkMatrix, SparseGemmEqualsExecution) {
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{3, 5, 8}, {1, 2, 4}, {2, 3, 16}}) {
    const GemmSparse24 s{m, n, k, *parse_precision("fp16")};
    Machine machine;
    Array& x = machine.array(m * k, 2);
    Array& kept = machine.array(n * k / 2, 2);
    Array& position = machine.array(n * k / 2, 0.25);
    Array& y = machine.array(m * n, 2);
    for (std::int64_t i = 0; i < n * k / 2; ++i)
      position.poke(i, static_cast<double>(i % 2 == 0 ? i / 2 % 2 : 2 + i % 3 % 2));
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        const OnTensorUnit unit;
        Num sum(0);
        for (std::int64_t t = 0; t < k / 2; ++t) {
          const std::int64_t at = j * k / 2 + t;
          sum += x[i * k + t / 2 * 4 + position.index(at)] * kept[at];
        }
        y.set(i * n + j, sum);
      }
    }
    const Work formula = work(s);
    EXPECT_DOUBLE_EQ(formula.tensor.in(units::FLOP), machine.counts().tensor);
    EXPECT_DOUBLE_EQ(formula.fp32.in(units::FLOP), 0);
    EXPECT_DOUBLE_EQ(formula.write.in(units::B), machine.written_bytes());
    // Which of x is touched depends on the pattern; all of it when every column is kept by some row.
    for (std::int64_t i = 0; i < m * k; ++i) (void)x[i];
    EXPECT_DOUBLE_EQ(formula.read.in(units::B), machine.read_bytes());
  }
}

}  // namespace
}  // namespace plumbline::work_matrix_test

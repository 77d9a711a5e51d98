// Softmax, sums, the largest, losses and quantization of rows: the formula against an execution of the definition.
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/executed_rows.hpp"

namespace plumbline::work_row_reductions_test {
namespace {

using namespace executed_rows;

TEST(WorkRowwise, SoftmaxEqualsExecution) {
  Execution run;
  run.start();
  for (std::int64_t r = 0; r < kRows; ++r) {
    Row row = run.row(r);
    Num largest(-std::numeric_limits<double>::infinity()), sum(0);
    for (Num v : row) largest = max(largest, v);
    for (Num& v : row) {
      v = exp(v - largest);
      sum += v;
    }
    const Num inverse = reciprocal(sum);
    for (std::int64_t c = 0; c < kCols; ++c) run.put(r, c, at(row, c) * inverse);
  }
  EXPECT_SAME_WORK(shape(Kind::softmax), run.machine);
  double sum = 0;
  for (std::int64_t c = 0; c < kCols; ++c) sum += run.y->peek(c);
  EXPECT_NEAR(sum, 1, 1e-12);
}

TEST(WorkRowwise, RowReductionsEqualExecution) {
  Execution sums;
  sums.x = &sums.machine.array(kAll, 2);
  sums.y = &sums.machine.array(kRows, 4);
  for (std::int64_t r = 0; r < kRows; ++r) {
    Num sum(0);
    for (Num v : sums.row(r)) sum += v;
    sums.y->set(r, sum);
  }
  EXPECT_SAME_WORK(shape(Kind::sum_rows, false, DType::bf16, DType::fp32), sums.machine);

  Execution best;
  best.x = &best.machine.array(kAll, 2);
  best.y = &best.machine.array(kRows, 4);
  for (std::int64_t r = 0; r < kRows; ++r) {
    Num largest(-std::numeric_limits<double>::infinity());
    std::int64_t where = 0;
    const Row row = best.row(r);
    for (std::int64_t c = 0; c < kCols; ++c) {
      if (at(row, c) > largest) largest = at(row, c), where = c;
    }
    best.y->set(r, Num(static_cast<double>(where)));
  }
  EXPECT_SAME_WORK(shape(Kind::argmax), best.machine);
}

TEST(WorkRowwise, SumsOfColumnsEqualExecution) {
  Execution run;
  run.x = &run.machine.array(kAll, run.in);
  Array& sums = run.machine.array(kCols, 4);
  for (std::int64_t c = 0; c < kCols; ++c) {
    Num sum = sums[c];
    for (std::int64_t r = 0; r < kRows; ++r) sum += (*run.x)[r * kCols + c];
    sums.set(c, sum);
  }
  EXPECT_SAME_WORK(shape(Kind::sum_columns), run.machine);
}

/// Losses, and where asked their gradients over the logits: a (exp(x - lse) - [the target's]).
void losses(Execution& run, bool forward, bool backward, Array* to) {
  Array& targets = run.machine.array(kRows, 4);
  Array& lse = run.machine.array(kRows, 4);
  Array* loss = forward ? &run.machine.array(kRows, 4) : nullptr;
  for (std::int64_t r = 0; r < kRows; ++r) {
    targets.poke(r, static_cast<double>(r % kCols));
    const std::int64_t target = targets.index(r);
    const Row x = run.row(r);
    if (forward) {
      Num most(-std::numeric_limits<double>::infinity()), sum(0);
      for (Num v : x) most = max(most, v);
      for (Num v : x) sum += exp(v - most);
      lse.set(r, most + log(sum));
      loss->set(r, lse[r] - at(x, target));
    }
    if (!backward) continue;
    const Num whole = lse[r];
    for (std::int64_t c = 0; c < kCols; ++c) {
      const Num p = exp(at(x, c) - whole);
      to->set(r * kCols + c, Num(0.5) * (c == target ? p - Num(1) : p));
    }
  }
}

TEST(WorkRowwise, LossesEqualExecution) {
  for (const Kind kind : {Kind::cross_entropy, Kind::cross_entropy_backward, Kind::cross_entropy_fused}) {
    Execution run;
    run.x = &run.machine.array(kAll, run.in);
    const bool backward = kind != Kind::cross_entropy;
    Array* to = backward ? &run.machine.array(kAll, run.out) : nullptr;
    losses(run, kind != Kind::cross_entropy_backward, backward, to);
    SCOPED_TRACE(name(kind));
    EXPECT_SAME_WORK(shape(kind), run.machine);
  }
}

TEST(WorkRowwise, QuantizeEqualsExecution) {
  Execution run;
  run.out = 1;
  run.start();
  Array& scales = run.machine.array(kRows, 4);
  for (std::int64_t r = 0; r < kRows; ++r) {
    const Row row = run.row(r);
    Num largest(0);
    for (Num v : row) largest = max(largest, abs(v));
    const Num scale = largest * Num(1.0 / 448);
    scales.set(r, scale);
    const Num inverse = reciprocal(scale);
    for (std::int64_t c = 0; c < kCols; ++c) run.put(r, c, at(row, c) * inverse);
  }
  EXPECT_SAME_WORK(shape(Kind::quantize, false, DType::bf16, DType::fp8), run.machine);
}

}  // namespace
}  // namespace plumbline::work_row_reductions_test

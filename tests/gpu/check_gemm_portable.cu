// The portable GEMM against fp64 dot products: every tile of the menu in both orientations, splits, batches, any M, N
// and K. Every element must have been written; small results are compared whole, of large ones a sample.
#include <algorithm>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/gemm/gemm_portable.hpp"
#include "ops/plan/kernel_menu.hpp"
#include "tests/gpu/check_buffers.cuh"
#include "tests/gpu/check_portable.hpp"

namespace plumbline {
namespace {

using checking::bf16;
using checking::Comparison;
using checking::Poisoned;
using checking::PoolOf;

constexpr std::size_t kPool = std::size_t{1} << 21, kMostOutput = std::size_t{1} << 21;
constexpr std::size_t kMostWorkspace = std::size_t{1} << 27;
constexpr std::size_t kSamples = 512;

/// One launch to check: operands are windows of the pool.
struct Case {
  Gemm shape;
  GemmPlan plan;
  std::size_t x = 0, w = 0;
  float scale = 1;
};

std::string text(const Case& c) {
  const auto n = [](std::int64_t v) { return std::to_string(v); };
  return std::string(name(c.shape.precision)) + " M=" + n(c.shape.m) + ";N=" + n(c.shape.n) + ";K=" + n(c.shape.k) +
         ";batch=" + n(c.shape.batch) + " tile " + n(c.plan.tile_m) + "x" + n(c.plan.tile_n) + "x" + n(c.plan.tile_k) +
         (c.plan.swapped ? " swapped" : "") + " splits " + n(c.plan.splits);
}

GemmPlan plan_of(const GemmVariant& v, bool swapped, std::int64_t splits) {
  GemmPlan p;
  p.tile_m = swapped ? v.cols : v.rows;
  p.tile_n = swapped ? v.rows : v.cols;
  p.tile_k = v.step_bytes / 2;
  p.stages = v.stages;
  p.splits = splits;
  p.swapped = swapped;
  p.engine = GemmEngine::mma_sync;
  return p;
}

class Cases {
 public:
  Cases(unsigned seed, const char* type, std::size_t pool)
      : random_(seed), precision_(*parse_precision(type)), pool_(pool) {}

  Case next() {
    const std::span<const GemmVariant> menu = own_gemm_menu(GemmEngine::mma_sync, precision_.math);
    const std::span<const std::int64_t> splits = own_gemm_splits();
    for (;;) {
      Case c;
      c.shape.precision = precision_;
      const auto tile = static_cast<std::size_t>(below(static_cast<std::int64_t>(menu.size())));
      c.plan = plan_of(
          menu[tile], below(2) == 1,
          below(2) == 1 ? 1 : splits[static_cast<std::size_t>(below(static_cast<std::int64_t>(splits.size())))]);
      c.shape.batch = below(3) == 0 ? 1 + below(4) : 1;
      // Multiples of 8, of 2, and odd: the three ways in which rows can lie.
      const std::int64_t grain = std::int64_t{1} << (below(3) == 0 ? below(3) : 3);
      c.shape.m = 1 + below(below(2) == 1 ? 40 : 700);
      c.shape.n = grain * (1 + below(below(2) == 1 ? 10 : 800 / grain));
      c.shape.k = grain * (1 + below(below(2) == 1 ? 9 : 1400 / grain));
      c.scale = below(2) == 1 ? 1.0F : 0.125F;
      if (fits(c)) return c;
    }
  }
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n)); }

 private:
  bool fits(Case& c) {
    const Gemm& s = c.shape;
    if (gemm_portable_refusal(s, c.plan) != nullptr) return false;
    if (gemm_portable_workspace_bytes(s, c.plan) > kMostWorkspace) return false;
    const auto x = static_cast<std::size_t>(s.batch * s.m * s.k), w = static_cast<std::size_t>(s.batch * s.n * s.k);
    if (x > pool_ || w > pool_) return false;
    if (static_cast<std::size_t>(s.batch * s.m * s.n) * sizeof(bf16) > kMostOutput) return false;
    c.x = window(x);
    c.w = window(w);
    return true;
  }
  std::size_t window(std::size_t n) {  // at a multiple of 16 bytes
    return static_cast<std::size_t>(below(static_cast<std::int64_t>((pool_ - n) / 8 + 1))) * 8;
  }
  std::mt19937_64 random_;
  Precision precision_;
  std::size_t pool_;
};

template <class E>
double dot(const PoolOf<E>& pool, const Case& c, std::int64_t entry, std::int64_t row, std::int64_t col) {
  const auto k = static_cast<std::size_t>(c.shape.k);
  const std::size_t x = c.x + static_cast<std::size_t>(entry * c.shape.m + row) * k;
  const std::size_t w = c.w + static_cast<std::size_t>(entry * c.shape.n + col) * k;
  double sum = 0;
  for (std::size_t i = 0; i < k; ++i) sum += pool.at(x + i) * pool.at(w + i);
  return sum * static_cast<double>(c.scale);
}

/// A rounding to bf16, and fp32 sums of K products of normal values: each addition is off by 2^-23 of a sum of sqrt(K)
/// at the most, and there are K / 8 of them (the tensor instruction adds eight at a time, and may truncate).
double bound(const Case& c, double want) {
  const double k = static_cast<double>(c.shape.k);
  return std::abs(want) / 256 + static_cast<double>(c.scale) * std::sqrt(k) * (1e-5 + k / 8 * std::ldexp(1.0, -22));
}

template <class E>
Check compare(const PoolOf<E>& pool, const Case& c, const std::vector<E>& got, Cases& random) {
  Check result{"gemm mma_sync", text(c), 0, checking::kBf16Rounding, ""};
  Comparison all;
  const auto one = [&](std::size_t i) {
    const auto n = static_cast<std::size_t>(c.shape.n), m = static_cast<std::size_t>(c.shape.m);
    const auto entry = static_cast<std::int64_t>(i / (m * n)), row = static_cast<std::int64_t>(i / n % m);
    const double want = dot(pool, c, entry, row, static_cast<std::int64_t>(i % n));
    all.add(static_cast<double>(static_cast<float>(got[i])), want, bound(c, want), "element " + std::to_string(i));
  };
  if (got.size() <= kSamples) {
    for (std::size_t i = 0; i < got.size(); ++i) one(i);
  } else {
    for (std::size_t i = 0; i < kSamples; ++i) {
      one(i == 0 ? got.size() - 1 : static_cast<std::size_t>(random.below(static_cast<std::int64_t>(got.size()))));
    }
  }
  result.error = all.error();
  result.fault = all.fault;
  if (const std::size_t n = checking::not_written(got); n > 0)
    result.fault = std::to_string(n) + " elements not written";
  if (result.fault.empty() && !(result.error <= result.allowed)) result.fault = "relative error too large";
  return result;
}

/// What has no kernel must be refused in words, not launched.
void check_refusals(std::vector<Check>& out) {
  const GemmPlan good = plan_of(own_gemm_menu(GemmEngine::mma_sync, DType::bf16)[0], false, 1);
  Check c{"gemm mma_sync", "refusals", 0, 0, ""};
  const auto expect = [&](bool refused, Gemm s, GemmPlan p) {
    if ((gemm_portable_refusal(s, p) != nullptr) != refused) c.fault = "expected the opposite for a plan";
  };
  Gemm shape{64, 64, 64, 1, {}, false};
  for (const GemmVariant& v : own_gemm_menu(GemmEngine::mma_sync, DType::bf16)) {
    for (const bool swapped : {false, true}) expect(false, shape, plan_of(v, swapped, 1));
  }
  GemmPlan p = good;
  p.tile_m = 17;
  expect(true, shape, p);
  p = good;
  p.splits = 100;
  expect(true, shape, p);
  shape.bias = true;
  expect(true, shape, good);
  shape.bias = false;
  shape.precision = *parse_precision("fp8");
  expect(true, shape, good);
  out.push_back(c);
}

template <class E>
void check_type(const char* type, unsigned seed, int shapes, std::vector<Check>& out) {
  const PoolOf<E> pool(seed, kPool);
  Cases random(seed + 1, type, pool.size());
  Poisoned y(kMostOutput), workspace(kMostWorkspace);
  for (int i = 0; i < shapes; ++i) {
    const Case c = random.next();
    y.prepare(static_cast<std::size_t>(c.shape.batch * c.shape.m * c.shape.n) * sizeof(E));
    workspace.prepare(gemm_portable_workspace_bytes(c.shape, c.plan));
    launch_gemm_portable(c.shape, c.plan, {pool.device(c.x), pool.device(c.w), y.get(), workspace.get(), c.scale},
                         nullptr);
    Check checked = compare(pool, c, y.read<E>(), random);
    if (y.overrun()) checked.fault = "wrote past the end";
    out.push_back(checked);
  }
}

}  // namespace

std::vector<Check> check_gemm_portable(unsigned seed, int shapes) {
  std::vector<Check> out;
  check_refusals(out);
  check_type<bf16>("bf16", seed, shapes, out);
  check_type<__half>("fp16", seed + 2, shapes, out);
  return out;
}

}  // namespace plumbline

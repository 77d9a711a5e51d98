// Grids and blocks as PyTorch 2.11's launches on an H200 have them (data/measurements/h200/pytorch/operators.jsonl.gz);
// cuBLAS is not published. What an SM issues is the limit, or rows whose loads wait for one another, at 0.5 to 3.2 TB/s.
#include "model/stacks/pytorch/plan_gemv.hpp"

#include <cmath>

#include "model/stacks/common/gemm_tiles.hpp"

namespace plumbline {
namespace {

constexpr double kThreads = 128;

double parts(double size, double part) { return std::ceil(size / part); }

/// Weights [N,K]: a row is four threads' or eight threads', each with 16 bytes a load.
struct RowThreads {
  double threads, a_row, loads, cta_clk;
};

/// Four threads a row up to 96 products, which a CTA takes clocks in proportion to; where a row is one line, of which a load
/// takes a half, longer. Rows of 192 products have CTAs of 64 threads. (Clocks: 96 launches of 64 to 96 products and 25 of
/// 192, training shapes.)
RowThreads row_threads(const GemmTask& t, const FamilyScalars& family) {
  constexpr double kLoad = 8, kShort = 96, kHalved = 192, kLine = 64;
  constexpr double kHalvedClk = 449, kShortClk = 7.1, kLineClk = 725;
  if (t.k <= kShort) {
    const double clk = t.k <= kLine ? kLineClk : kShortClk * t.k;
    return {kThreads, 4, parts(t.k, 4 * kLoad), clk};
  }
  const double loads = parts(t.k, 8 * kLoad);
  if (std::abs(loads * 8 * kLoad - kHalved) < 1) return {kThreads / 2, 8, loads, kHalvedClk};
  return {kThreads, 8, loads, family.start_clk + loads * family.step_clk};
}

void by_rows(Demand& d, const GemmTask& t, const FamilyScalars& family) {
  const RowThreads r = row_threads(t, family);
  d.plan.threads = static_cast<std::int64_t>(r.threads);
  d.plan.ctas = static_cast<std::int64_t>(t.batch * parts(t.n, r.threads / r.a_row));
  d.plan.steps = d.plan.longest = r.loads;
  d.issue_clk = r.cta_clk / r.loads;
}

/// How a kernel takes weights [K,N]: a thread has a column, `above` threads share its rows. Clocks a row: of a CTA alone, of
/// the SM, and of what a loop unrolled over `unrolled` rows of a thread leaves over, whose loads wait for one another.
struct Columns {
  double wide, above, ctas_per_sm, row_clk, issue_clk, unrolled, left_clk;
};

/// gemvx has columns enough for its widest CTAs, or narrower ones with more threads above each other; few columns are a
/// kernel's that shares each among 16 threads; short ones (gemv2N, gemvx of 64 threads) and long ones have their own. Limits
/// lie between the nearest launches of 113 training shapes of an H200 (products.jsonl.gz, operators.read.jsonl.gz) and 103 of
/// another (products_second.jsonl.gz); clocks are read off the same.
Columns columns_of(const GemmTask& t) {
  constexpr double kFewProducts = 120, kFew = 12000, kSome = 20000, kMany = 50000, kMost = 200000;
  constexpr double kShort = 35, kMiddle = 500, kDeep = 1100, kLong = 2300, kWide = 192;
  const double columns = t.batch * t.n;
  if (t.batch < kFewProducts || columns < kFew) return {32, 16, 4, 95, 95, 1, 95};
  if (t.k <= kShort) return {128, 1, 10, 100, 40, 1, 100};
  if (t.k >= kLong && columns > kSome) return {64, 8, 4, 400, 150, 1, 400};
  if (t.k < kMiddle && columns > kMany && t.n <= kWide) return {32, 2, 14, 100, 13.4, 1, 100};
  constexpr double kRowClk = 320, kIssueClk = 20, kUnrolled = 64, kLeftClk = 750;
  if (columns < kSome) return {16, 8, 16, kRowClk, kIssueClk, kUnrolled, kLeftClk};
  if (columns < kMany || (t.k > kDeep && columns < kMost)) return {32, 4, 16, kRowClk, kIssueClk, kUnrolled, kLeftClk};
  return {64, 2, 16, kRowClk, kIssueClk, kUnrolled, kLeftClk};
}

/// A row of a thread is a step; what is left over of the unrolled loop counts as many more.
void by_columns(Demand& d, const GemmTask& t, const Rates& m) {
  const Columns c = columns_of(t);
  const double whole = c.unrolled * std::floor(t.k / (c.above * c.unrolled));
  const double left = parts(t.k - c.above * whole, c.above);
  d.plan.threads = static_cast<std::int64_t>(c.wide * c.above);
  d.plan.ctas_per_sm = static_cast<std::int64_t>(c.ctas_per_sm);
  d.plan.ctas = static_cast<std::int64_t>(t.batch * parts(t.n, c.wide));
  d.plan.steps = d.plan.longest = whole + left * c.left_clk / c.row_clk;
  d.issue_clk = c.issue_clk;
  d.step_latency = c.row_clk / m.clock;
}

}  // namespace

bool runs_as_gemv(const GemmTask& t) {
  return t.kind == GemmKind::dense && t.m == 1 && t.batch > 1 && t.input_bytes == 2 && t.weight_bytes == 2 &&
         !gemm::whole_units(t);
}

Demand gemv_demand(const GemmTask& t, const Rates& m, const FamilyScalars& family) {
  Demand d;
  d.plan.threads = static_cast<std::int64_t>(kThreads);
  d.plan.ctas_per_sm = 16;
  if (t.weights_kn) by_columns(d, t, m);
  else by_rows(d, t, family);
  const double elements = t.batch * t.n * t.k;
  const double steps = static_cast<double>(d.plan.ctas) * d.plan.steps;
  d.dram_read = (elements * t.weight_bytes + t.batch * t.k * t.input_bytes) * units::B;
  d.dram_write = t.batch * t.n * t.output_bytes * units::B;
  d.l2 = d.dram_read / steps;
  d.fp32_clk = 2 * elements / steps / m.gpu.sm.fp32_flop_per_clk;
  return d;
}

}  // namespace plumbline

// Grids and blocks as PyTorch 2.11's launches on an H200 have them (data/measurements/h200/pytorch/operators.jsonl.gz);
// cuBLAS is not published. Every CTA has 128 threads, 16 of them fill an SM; waves of 16 take the same time however many
// there are, and a few CTAs alone a fraction of it: what an SM issues is the limit, at 1.5 to 3.2 TB/s.
#include "model/stacks/pytorch/plan_gemv.hpp"

#include <cmath>

#include "model/stacks/common/gemm_tiles.hpp"

namespace plumbline {
namespace {

constexpr double kThreads = 128;

double parts(double size, double part) { return std::ceil(size / part); }

/// Weights [N,K]: 4 or 8 threads a row of K, each 16 bytes a load.
void by_rows(Demand& d, const GemmTask& t, const FamilyScalars& family) {
  constexpr double kLoad = 8;
  const double threads_a_row = t.k <= 64 ? 4 : 8;
  const double loads = parts(t.k, threads_a_row * kLoad);
  d.plan.ctas = static_cast<std::int64_t>(t.batch * parts(t.n, kThreads / threads_a_row));
  d.plan.steps = d.plan.longest = loads;
  d.issue_clk = family.start_clk / loads + family.step_clk;
}

/// Weights [K,N]: a CTA has 64 columns, two of its threads one above the other; 32 and four where CTAs would be fewer than
/// about a thousand. From some length on (2001 rows are not, 8001 are; where it begins is not known) it has eight above
/// each other, 512 threads, and a row takes 1.8 times as long (measured, 64 to 256 columns).
void by_columns(Demand& d, const GemmTask& t, const Rates& m, const FamilyScalars& family) {
  constexpr double kEnough = 1000, kLong = 4096, kSlower = 1.8;
  constexpr double kRowLatency = 100;  // clocks a row of one CTA alone: 8001 rows of 32 products in 16 parts, 30 us
  double columns = 64, above = 2, row_clk = family.merge_clk;
  if (t.k > kLong) {
    above = 8;
    d.plan.threads = 512;
    d.plan.ctas_per_sm = 4;
    row_clk *= kSlower * static_cast<double>(d.plan.threads) / kThreads;
  } else if (t.batch * parts(t.n, columns) < kEnough) {
    columns = 32;
    above = 4;
  }
  d.plan.ctas = static_cast<std::int64_t>(t.batch * parts(t.n, columns));
  d.plan.steps = d.plan.longest = parts(t.k, above);
  d.issue_clk = row_clk;
  d.step_latency = kRowLatency / m.clock;
}

}  // namespace

bool runs_as_gemv(const GemmTask& t) {
  constexpr double kFewColumns = 500 * 64;
  if (t.weights_kn && t.batch * t.n < kFewColumns) return false;
  return t.kind == GemmKind::dense && t.m == 1 && t.batch > 1 && t.input_bytes == 2 && t.weight_bytes == 2 &&
         !gemm::whole_units(t);
}

Demand gemv_demand(const GemmTask& t, const Rates& m, const FamilyScalars& family) {
  Demand d;
  d.plan.threads = static_cast<std::int64_t>(kThreads);
  d.plan.ctas_per_sm = 16;
  if (t.weights_kn) by_columns(d, t, m, family);
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

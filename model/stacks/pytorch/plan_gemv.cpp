// Grids, blocks and registers as PyTorch 2.11's launches on H200s have them (data/measurements/h200/pytorch,
// operators.read, products*.jsonl.gz); cuBLAS is not published. What an SM issues is the limit, or rows whose loads
// wait for one another, at 0.5 to 3.2 TB/s. Clocks are least errors over 1,980 launches of training shapes, all kernels with
// the same time of the family once a launch. Which kernel runs is a table, not a mechanism: nothing published gives its
// limits, each lies between the nearest two of those shapes. These have 16 to 4,083 products; by rows K is 64 to 256 and
// N 17 to 8,101, by columns N is 64 to 256 and K 17 to 8,161. Beyond, the outermost kernel of the table goes on.
#include "model/stacks/pytorch/plan_gemv.hpp"

#include <algorithm>
#include <cmath>

#include "model/stacks/common/gemm_tiles.hpp"

namespace plumbline {
namespace {

double parts(double size, double part) { return std::ceil(size / part); }

/// A kernel for weights [N,K]: a CTA has `rows` of them. `alone_clk`: of a CTA by itself; an SM issues for
/// `start_clk` and for each column of K `column_clk`. Named gemvx<..., 7 or 6 (log2 of threads)> with 4 or 8 threads a
/// row, gemv2T with all 128.
struct RowKernel {
  double rows, threads, ctas_per_sm, alone_clk, start_clk, column_clk;
};
constexpr RowKernel kFourThreads{32, 128, 16, 3800, 94, 6.0}, kFourOfFew{16, 64, 14, 3800, 208, 3.0},
    kEightThreads{16, 128, 16, 2700, 147, 3.5}, kEightOfFew{8, 64, 14, 5400, 54, 2.0},
    kAllThreads{8, 128, 7, 1570, 403, 0.63}, kAllOfFew{8, 128, 10, 1530, 0, 2.1},
    kManyRegisters{16, 64, 6, 300, 0, 4.7}, kManyRegistersDeep{4, 64, 6, 810, 0, 1.7};

/// One turn of the SMs or little more takes kernels of 167 registers a thread or gemv2T, more takes small ones.
const RowKernel& row_kernel(const GemmTask& t) {
  constexpr double kShort = 111, kLine = 88, kMiddle = 157, kHalved = 222;
  constexpr double kFewBatches = 43, kOneTurn = 3500, kOneTurnShort = 7700, kFewTurns = 10000;
  constexpr double kNarrow = 36700, kSome = 90000, kSomeDeep = 206000, kManyDeep = 118000;
  const double rows = t.batch * t.n;
  if (t.k <= kShort) {
    if (rows <= kOneTurnShort) return t.k > kLine && rows <= kOneTurn ? kManyRegistersDeep : kManyRegisters;
    if (rows <= kNarrow) return t.batch <= kFewBatches ? kFourThreads : kEightThreads;
    return rows <= kSome || (t.k > kLine && rows <= kSomeDeep) ? kFourOfFew : kFourThreads;
  }
  if (rows <= kOneTurn) return kManyRegistersDeep;
  if (t.k <= kHalved) {
    if (rows <= kFewTurns) return kAllOfFew;
    return t.k <= kMiddle ? kEightThreads : kEightOfFew;
  }
  return rows <= kManyDeep ? kAllThreads : kEightThreads;
}

void by_rows(Demand& d, const GemmTask& t, const Rates& m) {
  // of a row of one line a load of four threads takes a half: 725 clocks where the rule says 478
  constexpr double kLine = 64, kLineClk = 725;
  const RowKernel& kernel = row_kernel(t);
  d.plan.threads = static_cast<std::int64_t>(kernel.threads);
  d.plan.ctas_per_sm = static_cast<std::int64_t>(kernel.ctas_per_sm);
  d.plan.ctas = static_cast<std::int64_t>(t.batch * parts(t.n, kernel.rows));
  d.plan.steps = d.plan.longest = 1;
  // of more than 111 columns loads of eight threads wait once more (192 launches of 128 and 256 columns: a turn of CTAs is seen to
  // be whole, 34,000 rows take 10 us where 32,000 take 7; no launch has 97 to 127)
  constexpr double kOnce = 111, kTwiceClk = 8000;
  const bool halves = &kernel == &kFourThreads && t.k <= kLine, twice = &kernel == &kEightThreads && t.k > kOnce;
  d.issue_clk = halves ? kLineClk : kernel.start_clk + kernel.column_clk * t.k;
  d.step_latency = (twice ? kTwiceClk : kernel.alone_clk) / m.clock;
}

/// A kernel for weights [K,N]: a thread has a column, `above` threads share its rows. Clocks a row: of a CTA alone, and
/// of the SM; `once`: rows that a CTA's beginning and end count as. Where a loop is unrolled over 64 rows of a thread
/// (as many of the vector lie in shared memory), those that are left over wait for one another.
struct ColumnKernel {
  double wide, above, ctas_per_sm, row_clk, issue_clk, once;
  bool unrolled;

  double threads() const { return wide * above; }
  double steps(double k) const {
    constexpr double kUnrolled = 64, kLeft = 2.1;
    const double whole = unrolled ? kUnrolled * std::floor(k / (above * kUnrolled)) : 0;
    return whole + parts(k - above * whole, above) * (unrolled ? kLeft : 1) + once;
  }
};
/// gemvx by its block; of those with 32 or 51 registers a thread the loop is unrolled.
constexpr ColumnKernel k64x2{64, 2, 16, 270, 18.8, 11.5, true}, k32x4{32, 4, 16, 297, 20, 7.3, true},
    k16x8{16, 8, 16, 327, 11.8, 0, true}, k64x8{64, 8, 2, 286, 119, 0, true}, k32x2{32, 2, 14, 95, 9.3, 32.5, false},
    k16x2{16, 2, 32, 107, 5.1, 31.5, false};
/// With 128 to 167 registers a thread, for one turn of the SMs and little more.
constexpr ColumnKernel kFew32x2{32, 2, 6, 83, 15.3, 25.7, false}, kFew64x2{64, 2, 3, 46, 23.6, 81, false},
    kFew32x4{32, 4, 3, 51, 23.8, 47.6, false}, kFew64x8{64, 8, 1, 55, 81, 45, false},
    kFew32x16{32, 16, 1, 84, 23.8, 48, false}, kFew16x32{16, 32, 1, 100, 29.4, 35.9, false};
/// gemvNSP, a warp's lanes share a column, 8 or 24 warps; gemv2N, a thread has a whole column.
constexpr ColumnKernel kShared{8, 32, 8, 245, 73, 2.6, false}, kSharedWide{24, 32, 2, 312, 188, 4.2, false},
    kWhole{128, 1, 10, 221, 25.9, 9.4, false};

const ColumnKernel& kernel_of_few_columns(double columns, double n, double k) {
  constexpr double kFew = 7330, kShared1 = 424, kShared2 = 2570, kMoreOfFew = 5340, kFewest = 2050, kNarrow = 157;
  if (columns <= kFew) {
    if (k <= kShared1 || (columns > kMoreOfFew && k < kShared2)) return n <= kNarrow ? kShared : kSharedWide;
    return columns <= kFewest ? kFew16x32 : kFew32x16;
  }
  constexpr double kShort = 64, kOneTurnWide = 7860, kOneTurn = 11840, kMiddle = 584, kDeep = 2320, kDeeper = 2820;
  if (k <= kShort) return kFew32x2;
  if (columns <= kOneTurnWide) return kFew64x8;
  if (columns <= kOneTurn) return k <= kDeep ? kFew32x4 : kFew64x8;
  constexpr double kTwoTurns = 21100, kNotWide = 222, kMiddleOfMore = 1530;
  if (k <= kMiddle) return n <= kNotWide ? k16x8 : kFew32x2;
  if (columns > kTwoTurns && k <= kMiddleOfMore) return kFew64x2;
  return k <= kDeeper ? k64x8 : kFew64x8;
}

const ColumnKernel& kernel_of_many_columns(double columns, double n, double k) {
  constexpr double kShort = 34, kLong = 2611, kWide = 160, kNarrow = 100;
  if (k <= kShort) return kWhole;
  if (k > kLong) return k64x8;
  constexpr double kSome = 48300, kMore = 68000, kDeep = 1390, kLine = 64;
  if (n > kWide && k <= kDeep && columns <= kMore) return columns > kSome || k <= kLine ? k64x2 : k32x4;
  constexpr double kMoreNarrow = 60000, kMiddleNarrow = 600, kManyNarrow = 180000, kFewNarrow = 39000, kNarrower = 95;
  if (n <= kNarrow && k > kDeep && columns <= kMoreNarrow) return k64x8;
  if (n <= kNarrow && k <= kMiddleNarrow && columns <= kManyNarrow) {
    if (columns <= kFewNarrow) return k32x4;
    return n < kNarrower || columns < kMoreNarrow ? k16x2 : k32x2;
  }
  constexpr double kMany = 315000, kMost = 370000, kMiddle = 580, kDeeper = 1500;
  if (columns <= kSome) return k32x4;
  if (k <= kMiddle) return columns <= kMany || k <= kLine ? k32x2 : k64x2;
  return k > kDeeper && columns < kMost ? k32x4 : k64x2;
}

/// By how many columns all products have, and by their depth.
const ColumnKernel& column_kernel(const GemmTask& t) {
  constexpr double kMany = 24000;
  const double columns = t.batch * t.n;
  return columns > kMany ? kernel_of_many_columns(columns, t.n, t.k) : kernel_of_few_columns(columns, t.n, t.k);
}

/// gemvNSP takes rows sixteen at a time, what is left of them by fours, the last ones alone, each time behind the others' loads: by
/// 142 launches a remainder of four and more takes 0.45 us, three single rows 0.8 us more than one.
double left_clk(const ColumnKernel& kernel, double k) {
  constexpr double kRows = 16, kSome = 4, kByFoursClk = 900, kSingleClk = 800;
  if (&kernel != &kShared && &kernel != &kSharedWide) return 0;
  const double singles = std::max(std::fmod(k, kSome) - 1, 0.0);
  return (std::fmod(k, kRows) >= kSome ? kByFoursClk : 0) + singles * kSingleClk;
}

/// A row of a thread is a step.
void by_columns(Demand& d, const GemmTask& t, const Rates& m) {
  const ColumnKernel& kernel = column_kernel(t);
  d.plan.threads = static_cast<std::int64_t>(kernel.threads());
  d.plan.ctas_per_sm = static_cast<std::int64_t>(kernel.ctas_per_sm);
  d.plan.ctas = static_cast<std::int64_t>(t.batch * parts(t.n, kernel.wide));
  d.plan.steps = d.plan.longest = kernel.steps(t.k);
  d.issue_clk = kernel.issue_clk;
  d.step_latency = kernel.row_clk / m.clock;
  d.start = left_clk(kernel, t.k) / m.clock;
}

/// One product with one row, as a head over a vocabulary that is not padded has: rows of weights (columns of [K,N])
/// of a CTA, its threads, loads that a thread has on their way. What an SM has on its way is the limit: gemv2T with
/// 66 registers draws 2.6 to 3.0 TB/s in 16 bits, 4.0 in fp32 (45 launches, H200, 2026-11-28). `kFewTall`: gemvx with 159
/// registers.
struct LongRows {
  double rows, threads, ctas_per_sm, loads;
};
constexpr LongRows kTall{8, 128, 7, 8}, kFewTall{4, 128, 3, 32}, kAcross{32, 512, 1, 10};

void by_long_rows(Demand& d, const GemmTask& t, const Rates& m) {
  constexpr double kMostOfFew = 2400;  // between 2004 and 3072
  const LongRows& kernel = t.weights_kn ? kAcross : t.n <= kMostOfFew ? kFewTall : kTall;
  d.plan.threads = static_cast<std::int64_t>(kernel.threads);
  d.plan.ctas_per_sm = static_cast<std::int64_t>(kernel.ctas_per_sm);
  d.plan.ctas = static_cast<std::int64_t>(parts(t.n, kernel.rows));
  d.plan.steps = d.plan.longest = parts(kernel.rows * t.k, kernel.threads * kernel.loads);
  d.step_latency = m.dram_latency;
}

}  // namespace

bool runs_as_gemv(const GemmTask& t) {
  if (t.kind != GemmKind::dense || t.m != 1 || t.weight_bytes != t.input_bytes) return false;
  const bool halves = t.input_bytes == 2 && !gemm::whole_units(t);
  if (t.batch > 1) return halves;
  return t.input_bytes == 4 || (halves && !t.weights_kn);
}

Demand gemv_demand(const GemmTask& t, const Rates& m) {
  Demand d;
  if (t.batch <= 1) by_long_rows(d, t, m);
  else if (t.weights_kn) by_columns(d, t, m);
  else by_rows(d, t, m);
  const double elements = t.batch * t.n * t.k;
  const double steps = static_cast<double>(d.plan.ctas) * d.plan.steps;
  d.dram_read = (elements * t.weight_bytes + t.batch * t.k * t.input_bytes) * units::B;
  d.dram_write = t.batch * t.n * t.output_bytes * units::B;
  d.l2 = d.dram_read / steps;
  d.fp32_clk = 2 * elements / steps / m.gpu.sm.fp32_flop_per_clk;
  return d;
}

}  // namespace plumbline

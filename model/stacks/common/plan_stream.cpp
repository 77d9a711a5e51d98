#include "model/stacks/common/plan_stream.hpp"

#include <algorithm>
#include <cmath>

#include "arch/error.hpp"

namespace plumbline {
namespace {

constexpr double kThreads = 256;
constexpr double kBytesPerThread = 64;  // four 16-byte vectors, in and out together
constexpr double kBytesPerCta = kThreads * kBytesPerThread;
constexpr Bytes kSector = 32.0 * units::B;

/// A grid-wide barrier between passes: write, fence, poll: about four round trips through L2 (gpu-benches: 1.1-1.3 us
/// on Hopper and Ampere, own probe 0.93 us on H200, against L2 latencies of 0.14-0.2 us unloaded;
/// docs/sources.md: streams).
Seconds barrier(const Rates& m) { return 8.0 * m.l2_latency; }

/// Radix selection reads the keys once for each 11 bits of them (RadiK, arXiv 2501.14336): two passes at 16 bits.
double selection_passes(DType type) { return std::ceil(bits(type) / 11.0); }

}  // namespace

double tensor_clk(const Work& w, double ctas, const StreamingMultiprocessor& sm) {
  if (w.tensor <= Flops{}) return 0;
  const double lanes = w.math == DType::fp64 ? sm.fp64_flop_per_clk : sm.fp32_flop_per_clk;
  const double rate = sm.tensor_flop_per_clk[w.math];
  return w.tensor.in(units::FLOP) / ctas / (rate > 0 ? rate : lanes);
}

void spread_arithmetic(Demand& d, const Work& w, const StreamingMultiprocessor& sm) {
  const double ctas = static_cast<double>(d.plan.ctas);
  const double fp32 = w.fp32.in(units::FLOP) / ctas;
  d.fp32_clk = fp32 / sm.fp32_flop_per_clk;
  d.sfu_clk = w.sfu / ctas / sm.sfu_op_per_clk;
  d.issue_clk = (fp32 + w.sfu / ctas) / static_cast<double>(sm.warp_size) / sm.issue_per_clk;
  d.tensor_clk = tensor_clk(w, ctas, sm);
}

void add_arithmetic(Demand& d, const Work& w, const StreamingMultiprocessor& sm) {
  Demand whole;
  whole.plan = d.plan;
  spread_arithmetic(whole, w, sm);
  d.fp32_clk += whole.fp32_clk / d.plan.steps;
  d.sfu_clk += whole.sfu_clk / d.plan.steps;
  d.issue_clk = std::max(d.issue_clk, whole.issue_clk / d.plan.steps);
}

Demand stream_demand(const Work& w, const Rates& m, bool warm) {
  Demand d;
  const Bytes moved = w.bytes();
  const double ctas = std::max(1.0, std::ceil(moved.in(units::B) / kBytesPerCta));
  const StreamingMultiprocessor& sm = m.gpu.sm;
  d.plan.ctas = static_cast<std::int64_t>(ctas);
  d.plan.threads = static_cast<std::int64_t>(kThreads);
  d.plan.ctas_per_sm = std::max<std::int64_t>(1, sm.threads / d.plan.threads);
  spread_arithmetic(d, w, sm);
  d.l2 = moved / ctas;
  d.step_latency = m.dram_latency;
  d.in_flight = std::max(moved / ctas, kSector);
  if (warm && moved <= m.l2_kept) {
    d.step_latency = std::min(2.0 * m.l2_latency, m.dram_latency);
    d.in_flight = Bytes{};
  } else {
    d.dram_read = w.read;
    d.dram_write = w.write;
  }
  return d;
}

void hold_in_l2(Demand& d, Bytes held, const Rates& m) {
  const double ctas = static_cast<double>(d.plan.ctas);
  // what L2 carries beside the operands passes the same ports, however these are found
  const Bytes beside = std::max(Bytes{}, ctas * d.l2 - (d.dram_read + d.dram_write));
  const Bytes of_cta = std::min(d.l2, std::max(Bytes{}, held - beside) / ctas);
  d.dram_read -= held;
  if (d.dram_read <= Bytes{}) d.step_latency = std::min(2.0 * m.l2_latency, m.dram_latency);
  if (d.dram_read + d.dram_write <= Bytes{}) return;
  d.held += held;
  d.l2 -= of_cta;
  d.l2_hidden += of_cta;
}

bool only_streams(const Op& op) {
  if (const auto* custom = std::get_if<CustomOp>(&op)) {
    return custom->chain <= 0 && custom->in_flight <= Bytes{};
  }
  const auto* row = std::get_if<Rowwise>(&op);
  return row != nullptr && !row_of(row->kind).statistic;
}

Demand plan_stream(const Question& q) {
  const Op& op = q.op;
  const Work& w = q.work;
  const Rates& m = q.rates;
  const bool part = q.warmth == Warmth::part;
  Demand d = stream_demand(w, m, q.warmth != Warmth::cold && !part);
  if (part) hold_in_l2(d, q.held * w.read, m);
  d.serial_latency_of = "of grid-wide barriers";
  if (const auto* row = std::get_if<Rowwise>(&op)) {
    // a row's statistics must be known before its first output: one more trip through the row held in registers
    if (row_of(row->kind).statistic) d.serial_latency = 2.0 * m.l2_latency;
    d.serial_latency_of = "until the row's statistics are known";
  } else if (const auto* top = std::get_if<TopK>(&op)) {
    const double extra = selection_passes(top->dtype) - 1;
    const double ctas = static_cast<double>(d.plan.ctas);
    d.l2 += extra * w.read / ctas;
    if (w.read > m.l2_capacity) d.dram_read += extra * w.read;
    d.serial_latency = (extra + 1) * barrier(m);
  } else if (std::holds_alternative<SoftmaxTopK>(op)) {
    // one pass: the row's statistics, then a threshold that few reach, their ranks, and the merge of a row's parts
    d.serial_latency = 2.0 * m.l2_latency + barrier(m);
    d.serial_latency_of = "for the row's statistics and a grid-wide barrier";
  } else if (const auto* scan = std::get_if<Scan>(&op)) {
    // the last CTA of a reduction, or the look-back chain of a single-pass scan
    d.serial_latency = scan->kind == ScanKind::cumsum ? 2.0 * barrier(m) : barrier(m);
  } else if (const auto* table = std::get_if<Embedding>(&op)) {
    const Bytes width = storage(table->dtype, static_cast<double>(table->cols));
    if (width < kSector) d.dram_read += static_cast<double>(table->rows) * (kSector - width);  // a row each, whole
  } else if (const auto* sparse = std::get_if<Spmv>(&op)) {
    // x is gathered: a sector for each non-zero from L2, and from DRAM when x does not fit
    const double nnz = static_cast<double>(sparse->nnz);
    d.l2 += nnz * kSector / static_cast<double>(d.plan.ctas);
    const Bytes x = storage(sparse->dtype, static_cast<double>(sparse->cols));
    if (x > m.l2_capacity) d.dram_read += nnz * kSector * (1.0 - m.l2_capacity / x);
  }
  return d;
}

bool runs_as_stream(const Op& op) {
  return !(std::holds_alternative<Gemm>(op) || std::holds_alternative<GemmSparse24>(op) ||
           std::holds_alternative<GroupedGemm>(op) || std::holds_alternative<AttentionPrefill>(op) ||
           std::holds_alternative<AttentionDecode>(op) || std::holds_alternative<AttentionBackward>(op) ||
           std::holds_alternative<MlaDecode>(op) || std::holds_alternative<Moe>(op) ||
           std::holds_alternative<GemmDynamic>(op) || std::holds_alternative<CustomOp>(op));
}

bool answer_stream(const Question& q, const FamilyScalars& family, StreamPlanner planner, Answer& out) {
  // no kernel of one GPU
  if (std::holds_alternative<Collective>(q.op) || std::holds_alternative<ExpertExchange>(q.op)) return false;
  const auto* transfer = std::get_if<Transfer>(&q.op);
  if (transfer != nullptr && transfer->kind != TransferKind::d2d) return false;
  out.sign(family);
  out.launch("stream", family) = planner(q, family);
  return true;
}

Demand stream_planner(const Question& q, const FamilyScalars&) { return plan_stream(q); }

}  // namespace plumbline

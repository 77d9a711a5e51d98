#include "model/stacks/common/plan_quantize.hpp"

#include <algorithm>
#include <cmath>

#include "model/stacks/common/plan_stream.hpp"
#include "ops/as_double.hpp"

namespace plumbline {
namespace {

constexpr double kNvfp4Block = 16;  // values of a scale

/// TensorRT-LLM's computeFP8QuantizeScale() (cutlass_kernels' quantization.cu): 1024 CTAs of 1024 threads whatever the size, two
/// on an SM; a thread has one value on its way at a time, so that a turn of all threads takes the latency of L2, or of memory.
Demand largest_value(double values, DType type, double held, const Rates& m) {
  constexpr double kCtas = 1024, kThreads = 1024;
  Demand d;
  d.plan.ctas = static_cast<std::int64_t>(kCtas);
  d.plan.threads = static_cast<std::int64_t>(kThreads);
  d.plan.ctas_per_sm = std::max<std::int64_t>(1, m.gpu.sm.threads / d.plan.threads);
  d.plan.steps = d.plan.longest = std::ceil(values / (kCtas * kThreads));
  const Bytes all = storage(type, values);
  d.l2 = all / (kCtas * d.plan.steps);
  d.dram_read = (1 - held) * all;
  d.step_latency = held * m.l2_mean_latency() + (1 - held) * m.gpu.memory.latency;
  return d;
}

/// vLLM's dynamic_per_token_scaled_fp8_quant_kernel_strided() (csrc/quantization/w8a8/fp8/common.cu): a CTA of 256 threads has a
/// row, 16 values a thread and turn: once through it for the largest, and, behind a reduction, again to divide, round and
/// write. Where L2 does not hold the rows that all CTAs are at, the second way reads memory again. Its division is the
/// exact one, so that large rows are limited by issue.
Demand round_tokens(const QuantizeDynamic& s, const FamilyScalars& tokens, const Rates& m) {
  constexpr double kThreads = 256, kTurn = 16 * kThreads;
  const double rows = d(s.rows), cols = d(s.cols);
  Demand out;
  out.plan.ctas = s.rows;
  out.plan.threads = static_cast<std::int64_t>(kThreads);
  out.plan.ctas_per_sm = std::max<std::int64_t>(1, m.gpu.sm.threads / out.plan.threads);
  out.plan.steps = out.plan.longest = std::ceil(cols / kTurn);
  out.issue_clk = (tokens.start_clk + tokens.step_clk * cols / kTurn) / out.plan.steps;
  const Bytes row = storage(s.dtype, cols);
  out.l2 = (2.0 * row + storage(s.output, cols)) / out.plan.steps;
  out.step_latency = 2.0 * m.l2_mean_latency() + tokens.step;
  const double at_once = std::min(rows, m.sm_count * static_cast<double>(out.plan.ctas_per_sm));
  if (at_once * row > m.l2_capacity) out.dram_read = rows * row;
  return out;
}

}  // namespace

/// TensorRT-LLM's scale_1x128_kernel() (fp8_blockscale_gemm): eight CTAs of 256 threads an SM; a warp has 128 columns of a row
/// at a time: four values a thread, a maximum by shuffles, and where they lie by divisions of 64-bit numbers, so that it is
/// issue that limits it.
Demand round_blocks(double rows, double cols, DType type, const FamilyScalars& scales, const Rates& m) {
  constexpr double kCtasPerSm = 8, kWarps = 8, kColumns = 128, kWarpSize = 32;
  const double blocks = rows * std::ceil(cols / kColumns), ctas = kCtasPerSm * m.sm_count;
  Demand d;
  d.plan.ctas = static_cast<std::int64_t>(std::min(ctas, std::ceil(blocks / kWarps)));
  d.plan.threads = static_cast<std::int64_t>(kWarps * kWarpSize);
  d.plan.ctas_per_sm = static_cast<std::int64_t>(kCtasPerSm);
  d.plan.steps = d.plan.longest = std::max(1.0, blocks / (kWarps * static_cast<double>(d.plan.ctas)));
  d.issue_clk = kWarps * scales.step_clk;
  d.l2 = (storage(type, rows * cols) + storage(DType::fp8, rows * cols)) /
         (static_cast<double>(d.plan.ctas) * d.plan.steps);
  d.step_latency = m.gpu.memory.latency;
  return d;
}

void answer_quantize(const QuantizeDynamic& s, double held, const QuantizeFamilies& f, const Question& q, Answer& out) {
  const Rates& m = q.rates;
  const double values = d(s.rows) * d(s.cols);
  Work w;
  w.read = storage(s.dtype, values);
  w.write = storage(s.output, values) + 4 * s.scales() * units::B;
  const double still = w.read <= m.l2_kept ? 1 : 0;
  if (s.block == 0) {
    out.launch("clear the scale", f.rows) = Demand{};
    out.launch("largest value", f.scales) = largest_value(values, s.dtype, held, m);
  }
  const double known = s.block == 0 ? std::max(still, held) : held;
  const bool blocks = s.block > 1, tokens = s.block == 1 && f.tokens.step_clk > 0;
  Demand& d = out.launch("round", blocks ? f.scales : tokens ? f.tokens : f.rows);
  d = blocks   ? round_blocks(static_cast<double>(s.rows), static_cast<double>(s.cols), s.dtype, f.scales, m)
      : tokens ? round_tokens(s, f.tokens, m)
               : stream_demand(w, m, known >= 1 && w.bytes() <= m.l2_kept);
  Work arithmetic;
  arithmetic.fp32 = (2 * values + s.scales()) * units::FLOP;
  arithmetic.sfu = s.scales();
  if (!tokens) add_arithmetic(d, arithmetic, m.gpu.sm);  // else counted with all other instructions
  d.dram_read = (1 - known) * w.read + (tokens ? d.dram_read : Bytes{});
  d.dram_write = w.write > m.l2_kept || held <= 0 ? w.write : Bytes{};
}

void answer_round_to_fp4(std::int64_t rows, std::int64_t cols, DType from, double held, const FamilyScalars& rowwise,
                         const Question& q, Answer& out) {
  const Rates& m = q.rates;
  const double values = d(rows) * d(cols), scales = d(rows) * std::ceil(d(cols) / kNvfp4Block);
  Work w;
  w.read = storage(from, values);
  w.write = storage(DType::fp4, values) + storage(DType::fp8, scales);
  const bool all = held >= 1 && w.bytes() <= m.l2_kept;
  Demand& round = out.launch("round", rowwise) = stream_demand(w, m, all);
  Work arithmetic;
  arithmetic.fp32 = 2 * values * units::FLOP;
  arithmetic.sfu = scales;
  add_arithmetic(round, arithmetic, m.gpu.sm);
  round.dram_read = (1 - held) * w.read;
  round.dram_write = all ? Bytes{} : w.write;
}

}  // namespace plumbline

#include "model/stacks/common/make_gemm_task.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "arch/error.hpp"
#include "model/stacks/common/gemm_cache.hpp"
#include "model/stacks/common/gemm_tiles.hpp"
#include "ops/facts/precision.hpp"
#include "ops/facts/work.hpp"

namespace plumbline {
namespace {

/// Instructions of a lane that make 8 packed weights 16 bits wide, two of them in a register (Marlin, dequant.h, for bf16;
/// TensorRT-LLM's interleaved converters alike): integers of 4 bits 4 lop3, 3 shifts, 4 subtractions; e2m1 8 lop3 and 7
/// shifts; integers of 8 bits 12 byte permutations and 8 subtractions in fp32, to fp16 4 and 4. Then 4 products with scales.
/// The 18 of fp8 (8 lop3, 6 shifts, 4 products) are an estimate: no source was read for it, and no row on file runs it.
double slots_per_weight(const Precision& p) {
  constexpr double kWeights = 8, kScales = 4;
  if (p.weight == DType::int8) return ((p.math == DType::fp16 ? 8 : 20) + kScales) / kWeights;
  if (bits(p.weight) >= 8) return (18 + kScales) / kWeights;
  return ((p.weight == DType::int4 ? 11 : 15) + kScales) / kWeights;
}

GemmTask typed(const Precision& p, const Rates& m) {
  GemmTask t;
  t.math = p.math;
  t.input_bytes = bytes_of(p.input);
  t.weight_bytes = bytes_of(p.weight);
  t.output_bytes = bytes_of(p.output);
  t.tensor_flop_per_clk = matrix_flop_per_clk(p.math, m);
  if (t.tensor_flop_per_clk <= 0) throw BadInput("no " + std::string(name(p.math)) + " path on this GPU");
  // weights stored narrower than the maths are unpacked on ordinary lanes, about one operation each (Marlin's lop3
  // trick; docs/sources.md: matrix products)
  if (bits(p.weight) < bits(p.math) && !takes_narrow_weights(p, m)) {
    t.dequant_per_weight = 1;
    t.slots_per_weight = slots_per_weight(p);
  }
  return t;
}

}  // namespace

/// Tensor units that multiply 4-bit floats take them beside operands of 8 bits, at their rate: copies lay each in a byte of shared
/// memory, or reads of it do. (PTX ISA, kind::mxf8f6f4 of tcgen05.mma and of mma of sm_120; tensor maps of .b4x16_p64, ldmatrix
/// .b8x16.b4x16_p64.)
bool takes_narrow_weights(const Precision& p, const Rates& m) {
  return p.math == DType::fp8 && bits(p.weight) < bits(p.math) && m.gpu.sm.tensor_flop_per_clk[DType::fp4] > 0;
}

double matrix_flop_per_clk(DType math, const Rates& m) {
  const double tensor = m.gpu.sm.tensor_flop_per_clk[math];
  if (tensor > 0) return tensor;
  if (math == DType::fp32) return m.gpu.sm.fp32_flop_per_clk;
  if (math == DType::fp64) return m.gpu.sm.fp64_flop_per_clk;
  return 0;
}

void require_matrix_path(const Precision& precision, const Question& q) {
  if (matrix_flop_per_clk(precision.math, q.rates) > 0) return;
  throw BadInput(q.gpu + " has no " + std::string(name(precision.math)) + " path for dtype " +
                 std::string(name(precision)));
}

void require_scales_of_32(const Question& q, Answer& out) {
  if (q.rates.gpu.sm.tensor_flop_per_clk[DType::fp4] <= 0) {
    throw NotModelled("block=32: the tensor units of " + std::string(q.gpu) + " take no scales of 32 values");
  }
  out.unmeasured = true;
}

/// A byte for each 32 values along K, begun ones too, spread over the row.
void add_scales_of_32(GemmTask& t, const Precision& p) {
  const double each = std::ceil(t.k / kMxBlock) / t.k;
  t.input_bytes += each;
  if (p.weight == DType::fp8) t.weight_bytes += each;
}

GemmTask gemm_task(const Gemm& s, const Rates& m) {
  GemmTask t = typed(s.precision, m);
  t.m = static_cast<double>(s.m);
  t.n = static_cast<double>(s.n);
  t.k = static_cast<double>(s.k);
  t.batch = static_cast<double>(s.batch);
  t.weights_kn = s.layout != WeightLayout::nk;
  t.inputs_km = s.layout == WeightLayout::km;
  t.adds = s.accumulate;
  t.block = s.block;
  if (s.block == kMxBlock) add_scales_of_32(t, s.precision);
  if (s.bias) t.bias_bytes = t.n * t.output_bytes;
  if (s.accumulate) t.bias_bytes += t.m * t.n * t.output_bytes;  // what the product is added to
  return t;
}

namespace {
// Hopper's mma.sync: 2723 of wgmma's 4096 FLOP a clock (own probe on an H200, 2026-11-20)
constexpr double kMmaSyncShare = 2723.0 / 4096.0;

/// On tcgen05 nobody says what is left of mma.sync: as much as Hopper's, whose units are half as fast.
double share_of_mma_sync(const Rates& m) {
  switch (m.path.kind) {
    case TensorPath::Kind::mma_sync: return 1;
    case TensorPath::Kind::wgmma: return kMmaSyncShare;
    case TensorPath::Kind::tcgen05: return 0.5 * kMmaSyncShare;
  }
  return 1;
}
}  // namespace

double mma_sync_flop_per_clk(DType type, const Rates& m) {
  return m.gpu.sm.tensor_flop_per_clk[type] * share_of_mma_sync(m);
}

void run_by_mma_sync(GemmTask& t, const Rates& m) {
  if (m.gpu.sm.tensor_flop_per_clk[t.math] > 0) t.tensor_flop_per_clk *= share_of_mma_sync(m);
}

GemmTask gemm_task(const GemmSparse24& s, const Rates& m) {
  GemmTask t = typed(s.precision, m);
  t.kind = GemmKind::sparse24;
  t.m = static_cast<double>(s.m);
  t.n = static_cast<double>(s.n);
  t.k = static_cast<double>(s.k);
  t.tensor_flop_per_clk *= 2;  // of dense-equivalent FLOPs; the activations' bytes do not shrink
  if (s.bias) t.bias_bytes = t.n * t.output_bytes;
  t.weight_kept = 0.5 + 1.0 / bits(s.precision.weight);  // half the values, 2 bits of position for each kept one
  return t;
}

GemmTask gemm_task(const GroupedGemm& s, const Rates& m) {
  GemmTask t = typed(s.precision, m);
  t.kind = GemmKind::grouped;
  const double touched =
      experts_touched(static_cast<double>(s.experts), static_cast<double>(s.topk), static_cast<double>(s.tokens));
  t.batch = std::max(1.0, std::round(touched));
  t.weights_read = touched / t.batch;
  t.m = static_cast<double>(s.tokens * s.topk) / t.batch;  // the mean of the experts' rows; tiles are whole
  t.n = static_cast<double>(s.n);
  t.k = static_cast<double>(s.k);
  if (!s.wgrad) return t;
  constexpr double kPadded = 16;  // rows of an expert that are multiplied at a time: Transformer Engine pads to as many
  t.batch = std::ceil(touched);
  t.k = kPadded * std::ceil(static_cast<double>(s.tokens * s.topk) / t.batch / kPadded);
  t.m = static_cast<double>(s.n);
  t.n = static_cast<double>(s.k);
  t.weights_read = 1;
  t.weights_kn = t.inputs_km = bits(s.precision.math) >= 16;  // narrower operands were transposed as they were cast
  t.adds = s.accumulate;
  if (s.accumulate) t.bias_bytes = t.m * t.n * t.output_bytes;
  return t;
}

void find_resident(Demand& d, const GemmTask& t, const Rates& m, const Resident& r) {
  const Bytes inputs = t.batch * t.m * t.k * t.input_bytes * units::B;
  const Bytes weights = t.batch * t.n * t.k * t.weight_bytes * t.weight_kept * t.weights_read * units::B;
  d.dram_read = r.inputs >= 1 && r.weights >= 1
                    ? Bytes{}
                    : std::max(Bytes{}, d.dram_read - r.inputs * inputs - r.weights * weights);
  d.dram_write = (1 - r.output) * d.dram_write;
  const double latency = m.l2_mean_latency() / m.dram_latency;
  d.step_latency = d.step_latency * (d.plan.persistent ? 1 : 1 - r.weights * (1 - latency));
  const Seconds cold = gemm::kColdTrips * m.gpu.memory.latency;
  const Seconds first = d.plan.persistent ? std::min(cold, d.serial_latency) : Seconds{};
  d.serial_latency = d.serial_latency - r.weights * (1 - m.l2_mean_latency() / m.gpu.memory.latency) * first;
}

namespace {

/// Of sizes and layout: a forward product and the gradients of other ones may differ in the latter alone.
std::size_t slot_of(const GemmTask& t, std::size_t slots) {
  std::uint64_t hash = (t.weights_kn ? 1U : 0U) + (t.adds ? 2U : 0U) + 4U * static_cast<std::uint64_t>(t.output_bytes) +
                       (t.inputs_km ? 64U : 0U);
  for (const double v : {t.m, t.n, t.k, t.batch}) {  // whole numbers have empty low halves as doubles: fold and mix
    hash = (hash ^ (hash >> 29) ^ (std::bit_cast<std::uint64_t>(v) >> 32)) * 0x9E3779B97F4A7C15U;
  }
  return static_cast<std::size_t>(hash >> 40) % slots;
}

}  // namespace

const GemmChoice& remembered(const GemmTask& t, const Question& q, GemmPlanner plan) {
  std::unique_ptr<GemmCache::State::Answer>& known = q.cache.state().answers[slot_of(t, GemmCache::State::kAnswers)];
  if (!known) known = std::make_unique<GemmCache::State::Answer>();
  if (known->task == t) return known->choice;
  known->task = GemmTask{};
  known->choice = plan(t, q.rates, q.families, q.cache);
  known->task = t;
  return known->choice;
}

}  // namespace plumbline

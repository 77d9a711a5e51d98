// TensorRT-LLM's own products where warps feed the tensor cores.
//
// Integers, of both operands (SmoothQuant) or of the weights alone: CUTLASS's kernels, which a tuner picks from tiles
// that are powers of two (cutlass_heuristic.cpp, get_candidate_tiles()). They do not cut K: the epilogue that scales
// cannot add parts up (int8_gemm_template.h, gemm_with_epilogue_visitor.h); of narrow weights the source would cut K by
// up to seven, but published rows of few tiles and K of 65536 (A100, release 1.0, training side) take what whole K
// does.
//
// Up to eight rows in 8-bit floats where tensor cores are fed by warps (cuda_scaled_mm(): compute capability 8.9 and
// 12.0; tensorrt_llm/_torch/modules/linear.py, cpp/tensorrt_llm/kernels/cudaCoreGemm.cu): ordinary lanes multiply, in
// fp32. Priced by what the source does; nobody measured it here.
#include <array>
#include <cmath>

#include "model/stacks/common/make_gemm_task.hpp"
#include "model/stacks/common/plan_quantize.hpp"
#include "model/stacks/cublas/cp_async.hpp"
#include "ops/as_double.hpp"

namespace plumbline {
namespace {

enum ProductFamily : std::uint8_t {
  kLaneProducts,
  kFewScales,
  kFewTokenScales,
  kMmaProducts,
  kMmaSmall,
  kProductFamilies
};
constexpr auto kProductClasses =
    std::to_array<BandClass>({{Variant::usual, "gemm"}, {Variant::math_8bit, "gemm_8bit"}});
// those of mma.sync as cuBLAS's
constexpr std::array<FamilyDeclaration, kProductFamilies> kProductsDeclared{
    {{.name = "rowwise"},
     kQuantizeFamily,
     kTokenScalesFamily,
     {.name = "gemm_mma",
      .stand_in = "library.gemm",
      .carry = {.fixed_in_cycles = true, .skips_as_rated = true},
      .kind = "matrix",
      .classes = kProductClasses},
     {.name = "gemm_mma_small",
      .stand_in = "library.gemm",
      .carry = {.fixed_in_cycles = true, .skips_as_rated = true, .lost_at_flop_per_clk = 1024},
      .kind = "matrix",
      .classes = kProductClasses}}};
constexpr std::array<std::string_view, 2> kProductOps{"gemm", "gemm_dynamic"};

/// A product of few rows; `slots`: instructions of a thread for `kValues` values of K of all rows and of two columns.
struct LaneTask {
  double rows, n, k, slots;
  DType type;
  Bytes result;
};
constexpr double kLaneValues = 16, kLaneColumns = 2;

/// A CTA of 128 threads has two columns and all rows. A thread takes 16 values of K at a time from either column and
/// from each row (DISPATCH(m, m, 2, 128) of int8SQ.cu, cudaCoreGemmTemplateCaller<1, 2, 128>).
Demand by_lanes(const LaneTask& t, double rows_held, const Resident& held, const Rates& m) {
  constexpr double kCtaThreads = 128, kBeside = 20, kWarps = 4;
  const double turn = kCtaThreads * kLaneValues;
  Demand out;
  out.plan.ctas = static_cast<std::int64_t>(t.n / kLaneColumns);
  out.plan.threads = static_cast<std::int64_t>(kCtaThreads);
  out.plan.ctas_per_sm = std::max<std::int64_t>(1, m.gpu.sm.threads / out.plan.threads);
  out.plan.steps = out.plan.longest = std::ceil(t.k / turn);
  const double share = t.k / turn / out.plan.steps;
  out.issue_clk = share * kWarps * (t.slots + kBeside) / m.gpu.sm.issue_per_clk;
  // CTAs of an SM are at the same values of x, which its first cache holds for them
  out.l2 = share * (kLaneColumns + t.rows / static_cast<double>(out.plan.ctas_per_sm)) * turn * units::B;
  out.in_flight = share * kLaneColumns * turn * units::B;
  out.step_latency = m.dram_latency;
  out.dram_read = (1 - held.weights) * storage(t.type, t.n * t.k) + (1 - rows_held) * storage(t.type, t.rows * t.k);
  out.dram_write = (1 - held.output) * t.result;
  return out;
}

/// 8-bit floats become fp32 first: an instruction for two halves, one for each of these.
double slots_of_floats(double rows) {
  constexpr double kToFloat = 1.5;
  return kLaneValues * (kToFloat * (kLaneColumns + rows) + kLaneColumns * rows);
}
/// Four products of 8-bit integers an instruction.
double slots_of_integers(double rows) { return kLaneValues / 4 * kLaneColumns * rows; }

class Products final : public Provider {
 public:
  std::string_view name() const override { return "trtllm_products"; }
  std::span<const FamilyDeclaration> families() const override { return kProductsDeclared; }
  std::span<const std::string_view> ops() const override { return kProductOps; }

  bool plan(const Question& q, Answer& out) const override {
    GemmDynamic product;
    const auto* rounded = std::get_if<GemmDynamic>(&q.op);
    if (rounded != nullptr) {
      product = *rounded;
    } else if (const auto* s = std::get_if<Gemm>(&q.op)) {
      if (multiplies_integers(*s, q.rates)) return multiply_integers(*s, q, out);
      if (s->batch > 1 || s->bias || s->accumulate || s->layout != WeightLayout::nk) return false;
      product.m = s->m;
      product.n = s->n;
      product.k = s->k;
      product.block = s->block;
      product.precision = s->precision;
    }
    if (!has_kernel(product, q.rates)) return false;
    if (rounded != nullptr) {
      answer_quantize({product.m, product.k, 0, product.precision.output}, q.resident.inputs,
                      {q.families[kFewScales], q.families[kFewTokenScales], q.families[kLaneProducts]}, q, out);
    }
    out.sign(q.families[kLaneProducts]);
    out.unmeasured = true;
    const bool all = q.warmth == Warmth::everything && q.work.bytes() <= q.rates.l2_held();
    const Resident held = all ? Resident{1, 1, 1} : q.resident;
    const LaneTask task{d(product.m), d(product.n),
                        d(product.k), slots_of_floats(d(product.m)),
                        DType::fp8,   storage(product.precision.output, d(product.m) * d(product.n))};
    out.launch("products on lanes", q.families[kLaneProducts]) =
        by_lanes(task, rounded != nullptr ? 1 : held.inputs, held, q.rates);
    return true;
  }

 private:
  static bool multiplies_integers(const Gemm& s, const Rates& m) {
    const Precision& p = s.precision;
    const bool both = p.math == DType::int8 && p.weight == DType::int8;
    const bool weights = bits(p.math) == 16 && (p.weight == DType::int4 || p.weight == DType::int8);
    const bool card = m.path.kind == TensorPath::Kind::mma_sync && m.path.async_copy;
    return (both || weights) && card && s.batch == 1 && s.block == 0 && s.layout == WeightLayout::nk &&
           m.gpu.sm.tensor_flop_per_clk[p.math] > 0;
  }

  static bool multiply_integers(const Gemm& s, const Question& q, Answer& out) {
    constexpr std::int64_t kFewRows = 4;  // smoothQuantGemmPlugin.cpp, enqueue()
    const GemmTask task = gemm_task(s, q.rates);
    if (!gemm::whole_units(task)) return false;
    const bool everything = q.warmth == Warmth::everything && q.work.bytes() <= q.rates.l2_held();
    const Resident held = everything ? Resident{1, 1, 1} : q.resident;
    if (s.precision.math == DType::int8 && s.m <= kFewRows) {
      out.sign(q.families[kLaneProducts]);
      out.launch("products on lanes", q.families[kLaneProducts]) =
          by_lanes({task.m, task.n, task.k, slots_of_integers(task.m), DType::int8,
                    storage(s.precision.output, task.m * task.n)},
                   held.inputs, held, q.rates);
      return true;
    }
    const FamilyScalars& family = q.families[cublas::has_small_sms(q.rates) ? kMmaSmall : kMmaProducts];
    const gemm::Context context(task, q.rates, family, family, q.rates.path, gemm::RowStarts{});
    const GemmChoice choice = cublas::plan_cp_async(context, q.cache, true);
    out.sign(family, s.precision.math == DType::int8 ? Variant::math_8bit : Variant::usual);
    out.gemm_plan = choice.plan;
    Demand& d = out.launch("gemm", family);
    d = choice.main;
    find_resident(d, task, q.rates, held);
    return true;
  }

  static bool has_kernel(const GemmDynamic& s, const Rates& m) {
    constexpr std::int64_t kMostRows = 8, kValues = 16;
    const bool fp8 =
        s.precision.input == DType::fp8 && s.precision.weight == DType::fp8 && bits(s.precision.output) >= 16;
    const bool card =
        m.path.kind == TensorPath::Kind::mma_sync && m.path.async_copy && m.gpu.sm.tensor_flop_per_clk[DType::fp8] > 0;
    return fp8 && card && s.block == 0 && s.m >= 1 && s.m <= kMostRows && s.n % 2 == 0 && s.k % kValues == 0;
  }
};

}  // namespace

const Provider& trtllm_products_provider() {
  static const Products provider;
  return provider;
}

}  // namespace plumbline

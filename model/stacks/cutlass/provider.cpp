// vLLM's products of 8-bit floats with one scale an operand, or one a row: CUTLASS's. Rows in another type are rounded
// first, by a scale that the model file has (CutlassFP8ScaledMMLinearKernel, activation_scheme "static").
#include <array>

#include "model/stacks/common/gemm_tiles.hpp"
#include "model/stacks/common/make_gemm_task.hpp"
#include "model/stacks/common/plan_stream.hpp"
#include "model/stacks/cutlass/scaled_mm.hpp"

namespace plumbline {
namespace {

enum CutlassFamily : std::uint8_t { kScaledProducts, kInTensorMemory, kByMma, kGivenScale, kCutlassFamilies };

constexpr auto kScaledClasses =
    std::to_array<BandClass>({{Variant::usual, "gemm_cutlass"}, {Variant::math_8bit, "gemm_cutlass"}});

constexpr std::array<FamilyDeclaration, kCutlassFamilies> kCutlassDeclared{
    {{.name = "gemm_cutlass",
      .required = false,
      .stand_in = "library.gemm",
      .stand_in_inherits = true,
      .carry = {.fixed_in_cycles = true,
                .in_flight_with_memory = true,
                .skips_as_rated = true,
                .cold_trips = gemm::kColdTrips},
      .kind = "matrix",
      .classes = kScaledClasses},
     // not measured: no warpgroup waits for its products there, so that Hopper's shares are not these kernels'; as
     // cuBLAS's
     {.name = "gemm",
      .carry = {.fixed_in_cycles = true,
                .in_flight_with_memory = true,
                .skips_as_rated = true,
                .cold_trips = gemm::kColdTrips},
      .kind = "matrix",
      .classes = kScaledClasses},
     // Ada and RTX Blackwell: as cuBLAS's kernels of mma.sync there
     {.name = "gemm_mma_small",
      .stand_in = "library.gemm",
      .carry = {.fixed_in_cycles = true, .skips_as_rated = true, .lost_at_flop_per_clk = 1024},
      .kind = "matrix",
      .classes = kScaledClasses},
     {.name = "quantize_given",
      .required = false,
      .stand_in = "library.rowwise",
      .stand_in_inherits = true,
      .carry = {.fixed_in_cycles = true}}}};
constexpr std::array<std::string_view, 2> kCutlassOps{"gemm", "gemm_dynamic"};

class ScaledProducts final : public Provider {
 public:
  std::string_view name() const override { return "vllm_scaled"; }
  std::span<const FamilyDeclaration> families() const override { return kCutlassDeclared; }
  std::span<const std::string_view> ops() const override { return kCutlassOps; }

  bool plan(const Question& q, Answer& out) const override {
    Gemm product;
    const auto* rounded = std::get_if<GemmDynamic>(&q.op);
    if (rounded != nullptr) {
      if (rounded->block != 0) return false;
      product.m = rounded->m;
      product.n = rounded->n;
      product.k = rounded->k;
      product.precision = rounded->precision;
    } else if (const auto* s = std::get_if<Gemm>(&q.op)) {
      product = *s;
    } else {
      return false;
    }
    if (!has_kernel(product, q.rates)) return false;
    if (rounded != nullptr) round(*rounded, q, out);
    multiply(product, q, out);
    return true;
  }

 private:
  /// cutlass_scaled_mm()'s own conditions (vllm/_custom_ops.py: whole sixteens), and a card whose tensor units have the
  /// type.
  static bool has_kernel(const Gemm& s, const Rates& m) {
    constexpr std::int64_t kWhole = 16;
    const Precision& p = s.precision;
    const bool types = p.input == DType::fp8 && p.weight == DType::fp8 && p.math == DType::fp8 && bits(p.output) == 16;
    const bool plain = s.batch == 1 && s.block <= 1 && !s.accumulate && s.layout == WeightLayout::nk;
    const bool card = m.gpu.sm.tensor_flop_per_clk[DType::fp8] > 0 && (m.path.multicast || m.path.async_copy);
    return types && plain && card && s.n % kWhole == 0 && s.k % kWhole == 0;
  }

  static CutlassFamily family_of(const Rates& m) {
    switch (m.path.kind) {
      case TensorPath::Kind::wgmma: return kScaledProducts;
      case TensorPath::Kind::tcgen05: return kInTensorMemory;
      case TensorPath::Kind::mma_sync: break;
    }
    return kByMma;
  }

  static void round(const GemmDynamic& s, const Question& q, Answer& out) {
    const FamilyScalars& family = q.families[kGivenScale];
    Demand& d = out.launch("round", family);
    const auto rows = static_cast<double>(s.m), cols = static_cast<double>(s.k);
    if (family.step_clk > 0) {
      d = cutlass::round_given(rows, cols, s.precision.output, q.resident.inputs, family, q.rates);
      return;
    }
    Work w;
    w.read = storage(s.precision.output, rows * cols);
    w.write = storage(DType::fp8, rows * cols);
    d = stream_demand(w, q.rates, w.bytes() <= q.rates.l2_kept);
  }

  static void multiply(const Gemm& s, const Question& q, Answer& out) {
    GemmTask task = gemm_task(s, q.rates);
    task.block = 0;  // scales meet the sums once, behind the last step
    const FamilyScalars& family = q.families[family_of(q.rates)];
    const GemmChoice choice = cutlass::plan_scaled(task, q.rates, family, q.cache);
    out.sign(family, Variant::math_8bit);
    out.gemm_plan = choice.plan;
    Demand& d = out.launch("gemm", family);
    d = choice.main;
    const bool all = q.warmth == Warmth::everything && q.work.bytes() <= q.rates.l2_held();
    find_resident(d, task, q.rates, all ? Resident{1, 1, 1} : q.resident);
  }
};

}  // namespace

const Provider& vllm_scaled_provider() {
  static const ScaledProducts provider;
  return provider;
}

}  // namespace plumbline

// cuBLAS, cuBLASLt and cuSPARSELt: dense, grouped and 2:4 sparse GEMM.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "arch/error.hpp"
#include "model/stacks/common/gemm_block.hpp"
#include "model/stacks/common/gemm_tiles.hpp"
#include "model/stacks/common/make_gemm_task.hpp"
#include "model/stacks/common/plan_groups.hpp"
#include "model/stacks/common/plan_quantize.hpp"
#include "model/stacks/cublas/other_types.hpp"
#include "model/stacks/cublas/plan_gemm.hpp"
#include "model/stacks/cublas/sparse.hpp"
#include "model/stacks/provider.hpp"
#include "ops/facts/precision.hpp"

namespace plumbline {
namespace {

using cublas::kFamilies;

constexpr auto kDense = std::to_array<BandClass>(
    {{Variant::usual, "gemm"}, {Variant::math_8bit, "gemm_8bit"}, {Variant::sparse, "gemm_sparse24"}});
/// Where lanes are half of what is issued the kernels of fp32 fetch as those of tensor units do.
constexpr auto kByCpAsync = std::to_array<BandClass>({{Variant::usual, "gemm"},
                                                      {Variant::math_8bit, "gemm_8bit"},
                                                      {Variant::sparse, "gemm_sparse24"},
                                                      {Variant::on_lanes, "gemm_lanes"}});
constexpr auto kScaledBlocks =
    std::to_array<BandClass>({{Variant::usual, "gemm_scaled"}, {Variant::math_8bit, "gemm_scaled"}});
constexpr auto kXmmaTiles =
    std::to_array<BandClass>({{Variant::usual, "gemm_xmma"}, {Variant::across, "gemm_xmma_across"}});
constexpr auto kIntegers = std::to_array<BandClass>({{Variant::usual, "gemm_int8"}, {Variant::math_8bit, "gemm_int8"}});
constexpr auto kOnLanes = std::to_array<BandClass>({{Variant::usual, "gemm_lanes"}, {Variant::on_lanes, "gemm_lanes"}});
constexpr auto kSparseTiles =
    std::to_array<BandClass>({{Variant::usual, "gemm_sparse24"}, {Variant::sparse, "gemm_sparse24"}});
constexpr auto kPruned = std::to_array<BandClass>({{Variant::usual, "sparsify24"}});
constexpr auto kGroups = std::to_array<BandClass>({{Variant::usual, "grouped_gemm"}});

/// Of the cards that `gemm_mma_small` was fitted on (RTX A6000).
constexpr double kGa10xFlopPerClk = 1024;

constexpr std::array<FamilyDeclaration, kFamilies> kDeclared{
    {{.name = "gemm",
      .carry = {.fixed_in_cycles = true,
                .in_flight_with_memory = true,
                .skips_as_rated = true,
                .cold_trips = gemm::kColdTrips},
      .kind = "matrix",
      .classes = kDense},
     {.name = "gemm_mma",
      .stand_in = "library.gemm",
      .carry = {.fixed_in_cycles = true, .skips_as_rated = true},
      .kind = "matrix",
      .classes = kByCpAsync},
     {.name = "gemm_mma_small",
      .stand_in = "library.gemm",
      .carry = {.fixed_in_cycles = true, .skips_as_rated = true, .lost_at_flop_per_clk = kGa10xFlopPerClk},
      .kind = "matrix",
      .classes = kByCpAsync},
     // the same main loop over a list of problems: without rows of its own it is priced as one GEMM
     {.name = "grouped_gemm",
      .stand_in = "library.gemm",
      .carry = {.cold_trips = gemm::kColdTrips},
      .kind = "matrix",
      .classes = kGroups},
     {.name = "reduce"},
     {.name = "rowwise"},
     kQuantizeFamily,
     kTokenScalesFamily,
     kGemmBlockFamily,
     {.name = "gemm_scaled",
      .op = "gemm",
      .required = false,
      .stand_in = "library.gemm",
      .stand_in_inherits = true,
      .carry = {.fixed_in_cycles = true, .in_flight_with_memory = true, .cold_trips = gemm::kColdTrips},
      .kind = "matrix",
      .classes = kScaledBlocks},
     {.name = "gemm_xmma",
      .op = "gemm",
      .required = false,
      .stand_in = "library.gemm",
      .stand_in_inherits = true,
      .carry = {.fixed_in_cycles = true, .in_flight_with_memory = true, .cold_trips = gemm::kColdTrips},
      .kind = "matrix",
      .classes = kXmmaTiles},
     {.name = "gemm_int8",
      .op = "gemm",
      .required = false,
      .stand_in = "library.gemm",
      .stand_in_inherits = true,
      .carry = {.fixed_in_cycles = true},
      .kind = "matrix",
      .classes = kIntegers},
     {.name = "gemm_lanes",
      .op = "gemm",
      .required = false,
      .carry = {.fixed_in_cycles = true},
      .kind = "matrix",
      .classes = kOnLanes},
     {.name = "gemm_few_tiles",
      .op = "gemm",
      .required = false,
      .stand_in = "library.gemm",
      .stand_in_inherits = true,
      .carry = {.fixed_in_cycles = true,
                .in_flight_with_memory = true,
                .skips_as_rated = true,
                .cold_trips = gemm::kColdTrips},
      .kind = "matrix",
      .classes = kDense},
     {.name = "gemm_sparse24",
      .op = "gemm_sparse24",
      .required = false,
      .stand_in = "library.gemm",
      .stand_in_inherits = true,
      .carry = {.fixed_in_cycles = true, .in_flight_with_memory = true, .cold_trips = gemm::kColdTrips},
      .kind = "matrix",
      .classes = kSparseTiles},
     {.name = "sparsify24",
      .op = "sparsify24",
      .required = false,
      .stand_in = "library.rowwise",
      .stand_in_inherits = true,
      .carry = {.fixed_in_cycles = true},
      .kind = "matrix",
      .classes = kPruned}}};

constexpr std::array<std::string_view, 5> kOps{"gemm", "grouped_gemm", "gemm_sparse24", "gemm_dynamic", "sparsify24"};

Variant variant_of(const GemmTask& t) {
  if (t.kind == GemmKind::sparse24) return Variant::sparse;
  // other kernels, and scales to apply
  const bool narrow = t.math == DType::fp8 || t.math == DType::int8;
  return t.kind == GemmKind::dense && narrow ? Variant::math_8bit : Variant::usual;
}

/// `earlier`: before the kernels of any tile ("nvjet"), as frameworks of 2023 and 2024 called it: on Hopper tiles are powers of
/// two, so that a shape which fills a turn of the SMs in part takes a whole one.
class Cublas final : public Provider {
 public:
  explicit Cublas(bool earlier) : earlier_(earlier) {}
  std::string_view name() const override { return earlier_ ? "cublas_2023" : "cublas"; }
  std::span<const FamilyDeclaration> families() const override { return kDeclared; }
  std::span<const std::string_view> ops() const override { return kOps; }

  bool plan(const Question& q, Answer& out) const override {
    if (const auto* dense = std::get_if<Gemm>(&q.op)) {
      require_matrix_path(dense->precision, q);
      if (dense->block == kMxBlock) require_scales_of_32(q, out);
      else if (takes_narrow_weights(dense->precision, q.rates)) out.unmeasured = true;
      GemmTask task = gemm_task(*dense, q.rates);
      if (task.weights_kn) require_layout(task, q);
      task.by_mma_sync = unpacks_by_mma_sync(dense->precision, q.rates) || runs_as_small_tf32(task, q);
      if (!gemm::whole_units(task) || runs_as_int8(task, q) || task.by_mma_sync) run_by_mma_sync(task, q.rates);
      return price(quickest(task, q), "gemm", q, out);
    }
    if (const auto* sparse = std::get_if<GemmSparse24>(&q.op)) {
      require_matrix_path(sparse->precision, q);
      return price(gemm_task(*sparse, q.rates), "gemm 2:4", q, out);
    }
    if (const auto* grouped = std::get_if<GroupedGemm>(&q.op)) {
      require_matrix_path(grouped->precision, q);
      return price(gemm_task(*grouped, q.rates), "grouped gemm", q, out);
    }
    if (const auto* pruned = std::get_if<Sparsify24>(&q.op)) {
      const FamilyScalars& family = q.families[cublas::kSparsify];
      out.sign(family, Variant::usual);
      out.launch("prune and compress", family) = cublas::sparsify_demand(*pruned, q.work, family, q.rates);
      return true;
    }
    const auto* dynamic = std::get_if<GemmDynamic>(&q.op);
    return dynamic != nullptr && answer_dynamic(*dynamic, q, out);
  }

 private:
  /// Integer weights of 16-bit products have no kernels for tcgen05: those of Ampere run. (TensorRT-LLM,
  /// fpA_intB_gemm_template.h, dispatch_to_arch(): Sm80 from sm_100 on; vLLM's Marlin is mma.sync everywhere.)
  static bool unpacks_by_mma_sync(const Precision& p, const Rates& m) {
    const bool integers = p.weight == DType::int4 || p.weight == DType::int8;
    return integers && bits(p.math) > 8 && m.path.kind == TensorPath::Kind::tcgen05;
  }

  static bool runs_as_int8(const GemmTask& t, const Question& q) {
    return q.families[cublas::kInt8].on_file && cublas::runs_as_int8(t, q.rates);
  }

  static bool looks_at_all_plans(const Question& q) { return q.priced_alone && q.cutting == Cutting::by_time; }

  /// Where all plans are looked at none of them is taken for its shape.
  static bool runs_as_small_tf32(const GemmTask& t, const Question& q) {
    return !looks_at_all_plans(q) && gemm::whole_units(t) && cublas::runs_as_small_tf32(t, q.rates);
  }

  /// Of two kinds of kernels for one product the quicker one, where all plans are looked at.
  GemmTask quickest(const GemmTask& t, const Question& q) const {
    if (!looks_at_all_plans(q) || !gemm::whole_units(t) || !cublas::runs_as_small_tf32(t, q.rates)) return t;
    GemmTask usual = t;
    usual.few_tiles = earlier_;
    usual.alone_flops = q.work.tensor.in(units::FLOP);
    GemmTask small = usual;
    small.by_mma_sync = true;
    run_by_mma_sync(small, q.rates);
    const Seconds of_usual = remembered(usual, q, plan_cublas_gemm).total;
    return remembered(small, q, plan_cublas_gemm).total < of_usual ? small : t;
  }

  bool answer_dynamic(const GemmDynamic& s, const Question& q, Answer& out) const {
    require_matrix_path(s.precision, q);
    Gemm product;
    product.m = s.m;
    product.n = s.n;
    product.k = s.k;
    product.precision = s.precision;
    if (s.precision.math == DType::fp4) {
      answer_round_to_fp4(s.m, s.k, s.precision.output, q.resident.inputs, q.families[cublas::kRows], q, out);
      return price(gemm_task(product, q.rates), "gemm", q, out);
    }
    const QuantizeDynamic x{s.m, s.k, s.block, s.precision.output};
    answer_quantize(x, q.resident.inputs,
                    {q.families[cublas::kScales], q.families[cublas::kTokenScales], q.families[cublas::kRows]}, q, out);
    if (s.block > 1 && q.rates.path.kind == TensorPath::Kind::wgmma) {
      answer_blocks(gemm_task(product, q.rates), q.families[cublas::kBlock], q, out);
      return true;
    }
    return price(gemm_task(product, q.rates), "gemm", q, out);
  }

  /// Operands of a byte and less are multiplied as "TN" alone: wgmma reads 8-bit operands along K, cuBLASLt asks for that
  /// format on Ada and Hopper, and stored weights narrower than the maths are packed along K (cuBLAS 13.1 documentation,
  /// "cublasLtMatmul", and PTX ISA 9, "wgmma.mma_async").
  static void require_layout(const GemmTask& t, const Question& q) {
    const DType weight = std::get<Gemm>(q.op).precision.weight;
    if (bits(t.math) > 8 && bits(weight) >= bits(t.math)) return;
    throw NotModelled(std::string("layout=") + (t.inputs_km ? "km" : "kn") +
                      ": operands of 8 bits and less are multiplied with weights [N,K] alone; expected nk");
  }

  bool price(GemmTask task, const char* kernel, const Question& q, Answer& out) const {
    const Rates& m = q.rates;
    task.few_tiles = earlier_ && task.kind == GemmKind::dense;
    // cuBLAS itself picks as it would at the boost clock: by the settled one, 897 sustained rows on an H200 were predicted
    // worse (median 3.10 to 3.29 % and 2.82 to 3.06 %)
    if (looks_at_all_plans(q)) task.alone_flops = q.work.tensor.in(units::FLOP);
    const cublas::Family of = cublas::family_of(task, m, q.families);
    const FamilyScalars& family = q.families[of];
    const GemmChoice& choice = remembered(task, q, plan_cublas_gemm);
    const bool across = of == cublas::kXmma && task.weights_kn;
    const bool on_lanes = cublas::is_on_lanes(task, m);
    out.sign(family, across ? Variant::across : on_lanes ? Variant::on_lanes : variant_of(task));
    if (const FamilyScalars& lanes = q.families[cublas::kLanes];
        on_lanes && cublas::has_lanes_for_all(m) && !lanes.on_file)
      out.lack(lanes);
    out.gemm_plan = choice.plan;
    const bool all = q.warmth == Warmth::everything && q.work.bytes() <= m.l2_held();
    const Resident resident = all ? Resident{1, 1, 1} : q.resident;
    Demand& d = out.launch(kernel, family);
    d = choice.main;
    find_resident(d, task, m, resident);
    if (choice.reduces) {
      Demand& sum = out.launch("split-K reduce", q.families[cublas::kReduce]);
      sum = choice.reduce;
      // it is this launch that writes the result; partial sums that L2 does not hold pass through DRAM all the same
      sum.dram_write = sum.partials + (1 - resident.output) * (sum.dram_write - sum.partials);
    }
    return true;
  }

  bool earlier_;
};

}  // namespace

const Provider& cublas_provider() {
  static const Cublas provider(false);
  return provider;
}

const Provider& earlier_cublas_provider() {
  static const Cublas provider(true);
  return provider;
}

}  // namespace plumbline

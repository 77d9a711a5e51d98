// This project's own kernels (kernels/): dense GEMM, prefill and decode attention, everything row by row.
#include <array>
#include <cmath>

#include "model/stacks/common/gemm_tiles.hpp"
#include "model/stacks/common/make_gemm_task.hpp"
#include "model/stacks/common/plan_stream.hpp"
#include "model/stacks/common/warm.hpp"
#include "model/stacks/own/own_kernels.hpp"
#include "model/stacks/own/plan_attention.hpp"
#include "model/stacks/own/plan_backward.hpp"
#include "model/stacks/own/plan_gemm.hpp"
#include "model/stacks/own/plan_peers.hpp"
#include "model/stacks/own/plan_rows.hpp"
#include "model/stacks/provider.hpp"
#include "ops/facts/precision.hpp"

namespace plumbline {
namespace {

constexpr auto kGemmClasses = std::to_array<BandClass>({{Variant::usual, "gemm"},
                                                        {Variant::math_8bit, "gemm_8bit"},
                                                        // boxes that reach beyond the operands
                                                        {Variant::ragged, "gemm_ragged"}});
constexpr auto kPortableClasses = std::to_array<BandClass>({{Variant::usual, "gemm_portable"}});
constexpr auto kPrefillClasses = std::to_array<BandClass>({{Variant::usual, "attention_prefill"}});
constexpr auto kPortablePrefillClasses = std::to_array<BandClass>({{Variant::usual, "attention_portable"}});
constexpr auto kDecodeClasses = std::to_array<BandClass>({{Variant::usual, "attention_decode"}});

constexpr auto kBackwardClasses = std::to_array<BandClass>({{Variant::usual, "attention_backward", false}});
// ragged: parts that are no whole 16 bytes, whose ends go by elements or narrow words
constexpr auto kPeerClasses =
    std::to_array<BandClass>({{Variant::usual, "collective_own"}, {Variant::ragged, "collective_own_ragged", false}});

constexpr std::array<FamilyDeclaration, own::kFamilies> kDeclared{
    {{.name = "gemm",
      .required = false,
      .fitted_in_bursts = true,
      .kind = "matrix",
      .classes = kGemmClasses,
      .noted_when_absent = true},
     {.name = "gemm_portable",
      .required = false,
      .fitted_in_bursts = true,
      .kind = "matrix",
      .classes = kPortableClasses},
     {.name = "reduce", .stand_in = "library.reduce", .fitted_in_bursts = true},
     {.name = "attention_prefill",
      .required = false,
      .fitted_in_bursts = true,
      .kind = "prompts",
      .classes = kPrefillClasses,
      .noted_when_absent = true},
     {.name = "attention_decode",
      .required = false,
      .fitted_in_bursts = true,
      .kind = "decode",
      .classes = kDecodeClasses,
      .noted_when_absent = true},
     {.name = "combine", .stand_in = "library.combine", .fitted_in_bursts = true},
     {.name = "rowwise", .required = false, .fitted_in_bursts = true, .noted_when_absent = true},
     {.name = "peer_one_shot", .required = false, .kind = "collective", .classes = kPeerClasses},
     {.name = "peer_two_shot", .required = false, .kind = "collective", .classes = kPeerClasses},
     {.name = "peer_pull", .required = false, .kind = "collective", .classes = kPeerClasses},
     {.name = "peer_push", .required = false, .kind = "collective", .classes = kPeerClasses},
     {.name = "peer_scatter", .required = false, .kind = "collective", .classes = kPeerClasses},
     {.name = "attention_backward",
      .required = false,
      .fitted_in_bursts = true,
      .kind = "prompts",
      .classes = kBackwardClasses},
     {.name = "attention_portable",
      .required = false,
      .fitted_in_bursts = true,
      .kind = "prompts",
      .classes = kPortablePrefillClasses}}};

bool ends_within_a_step(const Gemm& s) {
  return std::fmod(static_cast<double>(s.k) * bits(s.precision.math) / 8.0, gemm::kStepBytes) != 0;
}

Variant variant_of(const Gemm& s) {
  if (ends_within_a_step(s)) return Variant::ragged;
  return s.precision.math == DType::fp8 ? Variant::math_8bit : Variant::usual;
}

L2State l2_of(const Question& q) {
  if (q.warmth != Warmth::cold) return L2State::operands;
  return q.read_through ? L2State::read_through : L2State::others;
}

Demand row_planner(const Question& q, const FamilyScalars& family) {
  if (!runs_own_rows(q.rates)) return stream_planner(q, family);
  return plan_own_rows(q.op, q.work, q.rates, family, l2_of(q));
}

/// Where a card has wgmma, products and prefill run by it; or, `portable`, by mma.sync as on a card that has nothing newer.
/// A plan that names its kernel is priced as that.
class Own final : public Provider {
 public:
  explicit Own(bool portable) : portable_(portable) {}
  std::string_view name() const override { return portable_ ? "portable" : "own"; }
  KernelSet set() const override { return KernelSet::own; }
  std::span<const FamilyDeclaration> families() const override { return kDeclared; }

  bool plan(const Question& q, Answer& out) const override {
    if (const auto* dense = std::get_if<Gemm>(&q.op)) return gemm(*dense, q, out);
    if (const auto* prefill = std::get_if<AttentionPrefill>(&q.op)) return attention(*prefill, q, out);
    if (const auto* decode = std::get_if<AttentionDecode>(&q.op)) return attention(*decode, q, out);
    if (const auto* backward = std::get_if<AttentionBackward>(&q.op)) return attention(*backward, q, out);
    if (const auto* collective = std::get_if<Collective>(&q.op)) return plan_own_collective(*collective, q, out);
    const FamilyScalars& rowwise = q.families[own::kRowwise];
    const auto* row = std::get_if<Rowwise>(&q.op);
    if (row != nullptr && row->kind == RowwiseKind::cross_entropy_fused && rowwise.on_file && runs_own_rows(q.rates)) {
      return losses(*row, q, rowwise, out);
    }
    return rowwise.on_file && runs_as_stream(q.op) && answer_stream(q, rowwise, row_planner, out);
  }

 private:
  bool gemm(const Gemm& s, const Question& q, Answer& out) const {
    std::optional<GemmEngine> engine = own_gemm_engine(s, q.rates, q.families);
    if (!engine || s.block == kMxBlock) return false;
    const bool named = q.gemm_plan != nullptr && q.gemm_plan->engine == GemmEngine::mma_sync;
    if ((portable_ || named) && runs_portable_gemm(s, q.rates, q.families)) engine = GemmEngine::mma_sync;
    require_matrix_path(s.precision, q);
    const Rates& m = q.rates;
    GemmTask task = gemm_task(s, m);
    task.engine = engine;
    if (q.priced_alone) task.alone_flops = q.work.tensor.in(units::FLOP);
    if (engine == GemmEngine::mma_sync) run_by_mma_sync(task, m);
    const FamilyScalars& family = q.families[engine == GemmEngine::wgmma ? own::kGemm : own::kGemmPortable];
    out.sign(family, variant_of(s));
    std::optional<GemmChoice> as_cut;
    if (q.gemm_plan) as_cut = price_own_plan(task, *q.gemm_plan, m, q.families, q.cache);
    const GemmChoice& choice = as_cut ? *as_cut : remembered(task, q, plan_own_gemm);
    out.gemm_plan = choice.plan;
    launch_as_found(out, q, "gemm", choice.main, family, m.l2_latency / m.dram_latency);
    if (choice.reduces) launch_as_found(out, q, "split-K reduce", choice.reduce, q.families[own::kReduce]);
    return true;
  }

  /// The loss of each row, their gradients over the logits, and the sum of the losses.
  static bool losses(const Rowwise& s, const Question& q, const FamilyScalars& family, Answer& out) {
    out.sign(family);
    const auto launch = [&](const char* kernel, const Op& op) {
      out.launch(kernel, family) = plan_own_rows(op, work(op), q.rates, family, l2_of(q));
    };
    launch("cross entropy", Rowwise{RowwiseKind::cross_entropy, s.rows, s.cols, false, s.input, s.input});
    launch("its gradient", Rowwise{RowwiseKind::cross_entropy_backward, s.rows, s.cols, false, s.input, s.output});
    launch("sum of losses", Scan{ScanKind::sum_all, s.rows, DType::fp32});
    return true;
  }

  bool attention(const AttentionPrefill& s, const Question& q, Answer& out) const {
    if (appends(s, q)) return false;
    const PrefillVariant* variant = own_prefill_kernel(s, q.rates, q.families);
    const bool named = q.attention_plan != nullptr && q.attention_plan->stages > 0;
    if ((portable_ || named || variant == nullptr) && runs_portable_prefill(s, q.rates, q.families)) {
      require_tensor_path(s.dtype, q);
      const FamilyScalars& family = q.families[own::kPrefillPortable];
      const AttentionChoice choice = plan_portable_prefill(s, q.rates, family, q.attention_plan, key_cutting(q));
      answer_attention(choice, "attention", Variant::usual, q, out);
      return true;
    }
    if (variant == nullptr) return false;
    require_tensor_path(s.dtype, q);
    const AttentionChoice choice = plan_own_prefill(s, *variant, q.rates, q.families[own::kPrefill]);
    answer_attention(choice, "attention", Variant::usual, q, out);
    return true;
  }

  static bool attention(const AttentionDecode& s, const Question& q, Answer& out) {
    const DecodeVariant* variant = own_decode_kernel(s, q.rates, q.families);
    if (variant == nullptr) return false;
    require_tensor_path(s.dtype, q);
    const AttentionChoice choice = plan_own_decode(s, *variant, q.rates, q.families, q.attention_plan, key_cutting(q));
    answer_attention(choice, "split-KV attention", Variant::usual, q, out);
    return true;
  }

  static bool attention(const AttentionBackward& s, const Question& q, Answer& out) {
    const BackwardVariant* variant = own_backward_kernel(s, q.rates, q.families);
    if (variant == nullptr) return false;
    require_tensor_path(s.dtype, q);
    answer_own_backward(s, *variant, q.families[own::kBackward], q.families[own::kRowwise], q, out);
    return true;
  }

  bool portable_;
};

}  // namespace

const Provider& own_provider() {
  static const Own provider(false);
  return provider;
}

const Provider& portable_provider() {
  static const Own provider(true);
  return provider;
}

}  // namespace plumbline

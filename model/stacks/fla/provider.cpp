// Linear attention: Flash Linear Attention's kernels in Triton (the gated delta rule, Kimi delta attention, lightning
// attention; prompts and steps of one token), mamba_ssm's (Mamba-2, and Mamba-1's prompts), FlashInfer's for Hopper (prompts of
// the gated delta rule); steps of Mamba-1, which move their states, go to the stack's next provider. And the convolutions before
// them.
#include <array>

#include "model/stacks/fla/plan_chunks.hpp"
#include "model/stacks/fla/plan_conv.hpp"
#include "model/stacks/fla/plan_selective.hpp"
#include "model/stacks/fla/plan_states.hpp"

namespace plumbline {
namespace {

/// In the order in which they are declared.
enum FlaFamily : std::size_t { kChunks, kScan, kRows, kChannels, kGla, kDeltaStep, kGlaStep, kFlaFamilies };
enum SsdFamily : std::size_t { kSsdScan, kSsdState, kSsdStep, kSsdRows, kSelective, kSsdFamilies };

constexpr std::array<std::string_view, 1> kOps{"recurrence"};
constexpr auto kChunkClasses = std::to_array<BandClass>({{Variant::usual, "linear_chunk"}});
constexpr auto kWalkClasses = std::to_array<BandClass>({{Variant::usual, "linear_flashinfer"}});
constexpr auto kChannelClasses = std::to_array<BandClass>({{Variant::usual, "linear_kda"}});
constexpr auto kGlaClasses = std::to_array<BandClass>({{Variant::usual, "linear_gla"}});
constexpr auto kSsdClasses = std::to_array<BandClass>({{Variant::usual, "linear_ssd"}});
constexpr auto kSelectiveClasses = std::to_array<BandClass>({{Variant::usual, "linear_selective", false}});
constexpr auto kStepClasses = std::to_array<BandClass>({{Variant::usual, "linear_step"}});
constexpr FamilyDeclaration family_of(const char* name, std::span<const BandClass> classes) {
  return {.name = name,
          .op = "recurrence",
          .required = false,
          .carry = {.fixed_in_cycles = true},
          .kind = "attention",
          .classes = classes};
}
constexpr FamilyDeclaration kRowsFamily{.name = "rowwise", .op = "recurrence"};
constexpr std::array<FamilyDeclaration, kFlaFamilies> kDeclared{
    {{.name = "linear_chunk",
      .op = "recurrence",
      .required = false,
      .carry = {.fixed_in_cycles = true},
      .kind = "attention",
      .classes = kChunkClasses},
     {.name = "linear_scan", .op = "recurrence", .required = false, .carry = {.fixed_in_cycles = true}},
     kRowsFamily,
     family_of("linear_kda", kChannelClasses),
     family_of("linear_gla", kGlaClasses),
     family_of("linear_step_delta", kStepClasses),
     family_of("linear_step_gla", kStepClasses)}};
constexpr std::array<FamilyDeclaration, kSsdFamilies> kSsdDeclared{
    {family_of("linear_ssd", kSsdClasses), family_of("linear_ssd_state", kSsdClasses),
     family_of("linear_step_ssd", kStepClasses), kRowsFamily, family_of("linear_selective", kSelectiveClasses)}};
constexpr std::array<FamilyDeclaration, 2> kFlashInferDeclared{{{.name = "linear_flashinfer",
                                                                 .op = "recurrence",
                                                                 .required = false,
                                                                 .carry = {.fixed_in_cycles = true},
                                                                 .kind = "attention",
                                                                 .classes = kWalkClasses},
                                                                kRowsFamily}};

constexpr std::array<std::string_view, 1> kConvOps{"causal_conv"};
constexpr auto kConvClasses = std::to_array<BandClass>({{Variant::usual, "linear_conv"}});
constexpr auto kConvStepClasses = std::to_array<BandClass>({{Variant::usual, "linear_conv_step"}});
constexpr std::array<FamilyDeclaration, 2> kConvDeclared{{{.name = "linear_conv",
                                                           .op = "causal_conv",
                                                           .required = false,
                                                           .carry = {.fixed_in_cycles = true},
                                                           .kind = "attention",
                                                           .classes = kConvClasses},
                                                          {.name = "linear_conv_step",
                                                           .op = "causal_conv",
                                                           .required = false,
                                                           .carry = {.fixed_in_cycles = true},
                                                           .kind = "attention",
                                                           .classes = kConvStepClasses}}};

/// Chunks are multiplied in 32 bits at most.
bool has_kernels(DType type) { return bits(type) <= 32; }

class FlashLinearAttention final : public Provider {
 public:
  std::string_view name() const override { return "fla"; }
  std::span<const FamilyDeclaration> families() const override { return kDeclared; }
  std::span<const std::string_view> ops() const override { return kOps; }
  bool plan(const Question& q, Answer& out) const override {
    const auto* shape = std::get_if<Recurrence>(&q.op);
    if (shape == nullptr || !has_kernels(shape->dtype)) return false;
    const auto family = [&](FlaFamily number) { return &q.families[number]; };
    const FamilyScalars& rows = q.families[kRows];
    if (runs_in_chunks(*shape)) {
      const FamilyScalars* chunks = family(shape->channel_decay && family(kChannels)->on_file ? kChannels : kChunks);
      if (!chunks->on_file) return false;
      answer_chunks(*shape, {*chunks, *family(kScan), rows}, q, out);
      return true;
    }
    // of Mamba-2's kind with keys and queries a head: lightning attention and its like
    const bool delta = shape->kind == RecurrentKind::gated_delta_net;
    if (!delta && !(shape->kind == RecurrentKind::mamba2 && shape->groups == shape->heads)) return false;
    const FamilyScalars* scalars = family(shape->seq > 1 ? kGla : delta ? kDeltaStep : kGlaStep);
    if (!scalars->on_file) return false;
    if (shape->seq > 1) answer_gla(*shape, *scalars, q, out);
    else answer_state_step(*shape, delta ? StepKernel::delta : StepKernel::gla, *scalars, rows, q, out);
    return true;
  }
};

class MambaSsm final : public Provider {
 public:
  std::string_view name() const override { return "mamba_ssm"; }
  std::span<const FamilyDeclaration> families() const override { return kSsdDeclared; }
  std::span<const std::string_view> ops() const override { return kOps; }
  bool plan(const Question& q, Answer& out) const override {
    const auto* shape = std::get_if<Recurrence>(&q.op);
    if (shape == nullptr || !has_kernels(shape->dtype)) return false;
    if (is_selective_scan(*shape)) {
      if (!q.families[kSelective].on_file) return false;
      answer_selective_scan(*shape, q.families[kSelective], q, out);
      return true;
    }
    if (shape->kind != RecurrentKind::mamba2) return false;
    if (!q.families[shape->seq > 1 ? kSsdScan : kSsdStep].on_file) return false;
    const FamilyScalars& rows = q.families[kSsdRows];
    if (shape->seq > 1) answer_ssd(*shape, {q.families[kSsdScan], q.families[kSsdState], rows}, q, out);
    else answer_state_step(*shape, StepKernel::mamba, q.families[kSsdStep], rows, q, out);
    return true;
  }
};

class FlashInferGdn final : public Provider {
 public:
  std::string_view name() const override { return "flashinfer_gdn"; }
  std::span<const FamilyDeclaration> families() const override { return kFlashInferDeclared; }
  std::span<const std::string_view> ops() const override { return kOps; }
  bool plan(const Question& q, Answer& out) const override {
    const auto* shape = std::get_if<Recurrence>(&q.op);
    if (shape == nullptr || !runs_in_chunks(*shape) || shape->channel_decay ||
        q.rates.path.kind != TensorPath::Kind::wgmma || bits(shape->dtype) != 16)
      return false;
    if (!q.families[0].on_file) {
      out.lack(q.families[0]);
      return false;
    }
    answer_walk(*shape, q.families[0], q.families[1], q, out);
    return true;
  }
};

/// Kernels of 2 to 4 taps are all that it has.
class CausalConv1d final : public Provider {
 public:
  std::string_view name() const override { return "causal_conv1d"; }
  std::span<const FamilyDeclaration> families() const override { return kConvDeclared; }
  std::span<const std::string_view> ops() const override { return kConvOps; }
  bool plan(const Question& q, Answer& out) const override {
    const auto* shape = std::get_if<CausalConv>(&q.op);
    if (shape == nullptr || shape->width < 2 || shape->width > 4) return false;
    if (!q.families[shape->seq == 1 ? 1 : 0].on_file) return false;
    answer_conv(*shape, {q.families[0], q.families[1]}, q, out);
    return true;
  }
};

}  // namespace

const Provider& causal_conv1d_provider() {
  static const CausalConv1d provider;
  return provider;
}

const Provider& mamba_ssm_provider() {
  static const MambaSsm provider;
  return provider;
}

const Provider& fla_provider() {
  static const FlashLinearAttention provider;
  return provider;
}

const Provider& flashinfer_gdn_provider() {
  static const FlashInferGdn provider;
  return provider;
}

}  // namespace plumbline

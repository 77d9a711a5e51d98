// SGLang's attention in Triton, which runs on every card: its users' choice by a flag, and its own where it has no
// other kernel.
#include <array>

#include "model/stacks/provider.hpp"
#include "model/stacks/triton/plan_attention.hpp"

namespace plumbline {
namespace {

constexpr auto kPrefillClasses = std::to_array<BandClass>({{Variant::usual, "triton_prefill", false}});
constexpr auto kDecodeClasses = std::to_array<BandClass>({{Variant::usual, "triton_decode", false}});

/// FlashAttention-2's scalars stand in, which says nothing of how well Triton compiles the loops.
constexpr std::array<FamilyDeclaration, triton::kFamilies> kDeclared{
    {{.name = "triton_prefill",
      .op = "attention_prefill",
      .stand_in = "library.flash_prefill_mma",
      .stand_in_inherits = true,
      .carry = {.fixed_in_cycles = true},
      .kind = "prompts",
      .classes = kPrefillClasses},
     {.name = "triton_decode",
      .op = "attention_decode",
      .stand_in = "library.flash_decode_mma",
      .stand_in_inherits = true,
      .carry = {.fixed_in_cycles = true},
      .kind = "decode",
      .classes = kDecodeClasses},
     {.name = "combine", .op = "attention_decode"},
     {.name = "flash_cache_write", .op = "attention_prefill", .required = false, .stand_in = "library.flash_append"}}};

constexpr std::array<std::string_view, 2> kOps{"attention_prefill", "attention_decode"};

constexpr Rule kDecodeRule{"SGLang", "split of the keys",
                           "get_num_kv_splits_triton(), sglang/srt/layers/attention/triton_ops/metadata.py"};

class Triton final : public Provider {
 public:
  std::string_view name() const override { return "triton_attention"; }
  std::string_view word() const override { return "triton"; }
  std::span<const FamilyDeclaration> families() const override { return kDeclared; }
  std::span<const std::string_view> ops() const override { return kOps; }
  std::string_view assumption() const override {
    return "attention: SGLang's Triton kernels with FlashAttention-2's scalars; nobody measured them";
  }
  const Rule* rule(const Op& op) const override {
    return std::holds_alternative<AttentionDecode>(op) ? &kDecodeRule : nullptr;
  }

  bool plan(const Question& q, Answer& out) const override {
    if (const auto* prefill = std::get_if<AttentionPrefill>(&q.op)) {
      require_tensor_path(prefill->dtype, q);
      answer_attention(plan_triton_prefill(*prefill, appends(*prefill, q), q.rates, q.families), "attention",
                       Variant::usual, q, out);
      return true;
    }
    if (const auto* decode = std::get_if<AttentionDecode>(&q.op)) {
      require_tensor_path(decode->dtype, q);
      answer_attention(plan_triton_decode(*decode, q.rates, q.families, key_cutting(q)), "split-KV attention",
                       Variant::usual, q, out);
      return true;
    }
    return false;
  }
};

}  // namespace

const Provider& triton_attention_provider() {
  static const Triton provider;
  return provider;
}

}  // namespace plumbline

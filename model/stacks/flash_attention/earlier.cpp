// FlashAttention's earlier versions as stacks name them that ran before, or beside, those of the card's own generation:
// the second, whose kernels are mma.sync's on any card (PyTorch's scaled_dot_product_attention), and the first.
#include <array>

#include "model/stacks/flash_attention/plan_backward.hpp"
#include "model/stacks/flash_attention/plan_first.hpp"
#include "model/stacks/flash_attention/second.hpp"
#include "model/stacks/flash_attention/second_families.hpp"
#include "model/stacks/provider.hpp"

namespace plumbline {
namespace {

enum Second : std::size_t { kSecondForward, kSecondBackward, kSecondStreams, kSecondMerge };
constexpr std::array<FamilyDeclaration, 4> kSecondDeclared{flash_attention::kSecondFamily,
                                                           flash_attention::kSecondBackwardFamily,
                                                           {.name = "flash_append", .op = "attention_backward"},
                                                           {.name = "combine", .op = "attention_prefill"}};

enum First : std::size_t { kFirst, kFirstStreams };
constexpr std::array<FamilyDeclaration, 2> kFirstDeclared{{{.name = "flash_first",
                                                            .op = "attention_backward",
                                                            .required = false,
                                                            .carry = {.fixed_in_cycles = true},
                                                            .kind = "prompts",
                                                            .classes = flash_attention::kSecondBackwardClasses},
                                                           {.name = "flash_append", .op = "attention_backward"}}};

constexpr std::array<std::string_view, 2> kEarlierOps{"attention_prefill", "attention_backward"};

class SecondFlashAttention final : public Provider {
 public:
  std::string_view name() const override { return "flash_attention_2"; }
  std::span<const FamilyDeclaration> families() const override { return kSecondDeclared; }
  std::span<const std::string_view> ops() const override { return kEarlierOps; }
  std::string_view assumption() const override {
    return "attention by FlashAttention-2, whose products are mma.sync's on every card";
  }

  bool plan(const Question& q, Answer& out) const override {
    if (const auto* prefill = std::get_if<AttentionPrefill>(&q.op)) {
      require_tensor_path(prefill->dtype, q);
      answer_attention(plan_second_prefill(*prefill, q.rates, q.families[kSecondForward], q.families[kSecondMerge]),
                       "attention", attention_variant(q.op), q, out);
      return true;
    }
    if (const auto* backward = std::get_if<AttentionBackward>(&q.op)) {
      require_tensor_path(backward->dtype, q);
      answer_backward(*backward, q.families[kSecondBackward], q.families[kSecondStreams], q, out,
                      BackwardKernels::flash2);
      return true;
    }
    return false;
  }
};

class FirstFlashAttention final : public Provider {
 public:
  std::string_view name() const override { return "flash_attention_1"; }
  std::span<const FamilyDeclaration> families() const override { return kFirstDeclared; }
  std::span<const std::string_view> ops() const override { return kEarlierOps; }
  std::string_view assumption() const override {
    return "attention by FlashAttention's first algorithm (Triton, 2022): one scalar, fitted to sums of both passes";
  }

  bool plan(const Question& q, Answer& out) const override {
    if (!q.families[kFirst].on_file) return false;
    if (const auto* prefill = std::get_if<AttentionPrefill>(&q.op)) {
      require_tensor_path(prefill->dtype, q);
      answer_first_forward(*prefill, q.families[kFirst], q, out);
      return true;
    }
    if (const auto* backward = std::get_if<AttentionBackward>(&q.op)) {
      require_tensor_path(backward->dtype, q);
      answer_first_backward(*backward, q.families[kFirst], q.families[kFirstStreams], q, out);
      return true;
    }
    return false;
  }
};

}  // namespace

const Provider& flash_attention_2_provider() {
  static const SecondFlashAttention provider;
  return provider;
}

const Provider& flash_attention_1_provider() {
  static const FirstFlashAttention provider;
  return provider;
}

}  // namespace plumbline

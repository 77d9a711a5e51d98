// PyTorch's memory-efficient attention as a provider: forward and backward, in 16 bits and fp32.
#include <array>

#include "model/stacks/common/plan_attention.hpp"
#include "model/stacks/efficient_attention/families.hpp"
#include "model/stacks/efficient_attention/plan_efficient.hpp"
#include "model/stacks/provider.hpp"

namespace plumbline {
namespace {

enum Families : std::size_t { kForward, kBackward, kBackward32, kStreams };
constexpr std::array<FamilyDeclaration, 4> kDeclared{efficient_attention::kForwardFamily,
                                                     efficient_attention::kBackwardFamily,
                                                     efficient_attention::kBackward32Family,
                                                     {.name = "flash_append", .op = "attention_backward"}};
constexpr std::array<std::string_view, 2> kOps{"attention_prefill", "attention_backward"};

class EfficientAttention final : public Provider {
 public:
  std::string_view name() const override { return "efficient_attention"; }
  std::span<const FamilyDeclaration> families() const override { return kDeclared; }
  std::span<const std::string_view> ops() const override { return kOps; }
  std::string_view assumption() const override {
    return "attention by PyTorch's memory-efficient kernels, of mma.sync on every card, as counted on an H200";
  }
  bool plan(const Question& q, Answer& out) const override {
    if (!q.families[kForward].on_file || !q.families[kBackward].on_file) return false;
    if (const auto* prefill = std::get_if<AttentionPrefill>(&q.op)) {
      if (efficient_attention::forward_kernel(prefill->dtype, std::max(prefill->qk_dim, prefill->v_dim)) == nullptr) {
        return false;
      }
      efficient_attention::answer_forward(*prefill, q.families[kForward], q, out);
      return true;
    }
    const auto* backward = std::get_if<AttentionBackward>(&q.op);
    if (backward == nullptr) return false;
    if (efficient_attention::backward_kernel(backward->dtype, std::max(backward->qk_dim, backward->v_dim)) == nullptr) {
      return false;
    }
    const Families family = bits(backward->dtype) == 32 ? kBackward32 : kBackward;
    efficient_attention::answer_backward(*backward, q.families[family], q.families[kStreams], q, out);
    return true;
  }
};

}  // namespace

const Provider& efficient_attention_provider() {
  static const EfficientAttention provider;
  return provider;
}

}  // namespace plumbline

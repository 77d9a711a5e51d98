// PyTorch: what torch.nn.functional and transformers call that is no library's of its own. Grouped products by CUTLASS,
// attention by the kernels that scaled_dot_product_attention takes on the card (sdpa.hpp).
#include <algorithm>
#include <array>

#include "model/stacks/common/gemm_tiles.hpp"
#include "model/stacks/common/make_gemm_task.hpp"
#include "model/stacks/efficient_attention/families.hpp"
#include "model/stacks/efficient_attention/plan_efficient.hpp"
#include "model/stacks/flash_attention/plan_attention.hpp"
#include "model/stacks/flash_attention/plan_backward.hpp"
#include "model/stacks/flash_attention/second.hpp"
#include "model/stacks/flash_attention/second_families.hpp"
#include "model/stacks/provider.hpp"
#include "model/stacks/pytorch/plan_gemv.hpp"
#include "model/stacks/pytorch/plan_grouped.hpp"
#include "model/stacks/pytorch/sdpa.hpp"

namespace plumbline {
namespace {

/// In the order in which they are declared. The attention families stand where FlashAttention's do, whose planner cuts
/// for cuDNN too: cuDNN is not published.
enum PyTorchFamily : std::size_t {
  kGroupedMm = flash_attention::kFamilies,
  kGemv,
  kCudnnBackward,
  kCudnnRows,
  kSecond,
  kSecondBackward,
  kEfficient,
  kEfficientBackward,
  kEfficientBackward32,
  kPyTorchFamilies
};

constexpr auto kPrefill =
    std::to_array<BandClass>({{Variant::usual, "cudnn_prefill"}, {Variant::encoder, "cudnn_encoder"}});
constexpr auto kDecode = std::to_array<BandClass>({{Variant::usual, "cudnn_decode"}});
constexpr auto kBackward = std::to_array<BandClass>({{Variant::usual, "cudnn_backward", false}});
constexpr auto kOneRow = std::to_array<BandClass>({{Variant::usual, "gemv"}});
constexpr auto kGrouped = std::to_array<BandClass>({{Variant::usual, "grouped_mm"}});

constexpr std::array<FamilyDeclaration, kPyTorchFamilies> kDeclared{
    {{.name = "cudnn_prefill",
      .op = "attention_prefill",
      .required = false,
      .stand_in = "library.flash_prefill",
      .stand_in_inherits = true,
      .kind = "prompts",
      .classes = kPrefill},
     {.name = "cudnn_decode",
      .op = "attention_decode",
      .required = false,
      .stand_in = "library.flash_decode",
      .stand_in_inherits = true,
      .kind = "decode",
      .classes = kDecode},
     {.name = "cudnn_combine", .op = "attention_decode", .required = false, .stand_in = "library.combine"},
     {.name = "flash_append", .op = "attention_prefill"},
     {.name = "grouped_mm",
      .op = "grouped_gemm",
      .required = false,
      .stand_in = "library.gemm",
      .stand_in_inherits = true,
      .carry = {.cold_trips = gemm::kColdTrips},
      .kind = "matrix",
      .classes = kGrouped},
     {.name = "gemv",
      .op = "gemm",
      .required = false,
      .stand_in = "library.gemm",
      .stand_in_inherits = true,
      .kind = "matrix",
      .classes = kOneRow},
     {.name = "cudnn_backward",
      .op = "attention_backward",
      .required = false,
      .stand_in = "library.flash_prefill",
      .stand_in_inherits = true,
      .kind = "prompts",
      .classes = kBackward},
     // its passes over rows: sums of dO O, dQ from its fp32 sums, dK and dV over query heads
     {.name = "cudnn_rows", .op = "attention_backward", .required = false, .stand_in = "library.flash_append"},
     // where FlashAttention-2 runs (flash_attention/earlier.cpp, flash_attention/provider.cpp) or memory-efficient kernels do
     flash_attention::kSecondFamily,
     flash_attention::kSecondBackwardFamily,
     efficient_attention::kForwardFamily,
     efficient_attention::kBackwardFamily,
     efficient_attention::kBackward32Family}};

/// Tiles of a causal mask in the order of their queries: long ones come late, so that 1024 queries of 32 heads, 256 tiles,
/// take 32.6 us with the mask and 32.5 without (H200, 2026-11-23).
/// Heads of 80 and 96 columns run the kernels of 128: by name, and in their time (H200, 2026-11-24); those of 192 have their own,
/// by name (64x128x192, H200, 2026-11-29).
constexpr PrefillCut kCudnn{
    .packs_heads = false, .longest_first = false, .tiles_by_mask = false, .widths_in_64s = true, .dealt = true};
/// By its grids (H200, 2026-11-23): 8 parts of the keys of 32 heads, none of 128 heads nor of 129 keys; two halves of 256
/// columns.
constexpr DecodeCut kCudnnDecode{2, 128, true};

constexpr std::array<std::string_view, 5> kOps{"attention_prefill", "attention_decode", "attention_backward",
                                               "grouped_gemm", "gemm"};

class PyTorch final : public Provider {
 public:
  std::string_view name() const override { return "pytorch"; }
  std::span<const FamilyDeclaration> families() const override { return kDeclared; }
  std::span<const std::string_view> ops() const override { return kOps; }

  std::string_view assumption() const override {
    return "attention of PyTorch: on Hopper and B200 cuDNN's kernels, which are not published, cut as their launches "
           "were seen "
           "to be; elsewhere FlashAttention-2's, or memory-efficient ones where those can't run";
  }

  bool plan(const Question& q, Answer& out) const override {
    if (const auto* prefill = std::get_if<AttentionPrefill>(&q.op)) return answer_prefill(*prefill, q, out);
    if (const auto* decode = std::get_if<AttentionDecode>(&q.op)) return answer_decode(*decode, q, out);
    if (const auto* backward = std::get_if<AttentionBackward>(&q.op)) return answer_gradients(*backward, q, out);
    if (const auto* gemm = std::get_if<Gemm>(&q.op)) return answer_gemv(*gemm, q, out);
    const auto* grouped = std::get_if<GroupedGemm>(&q.op);
    return grouped != nullptr && answer_grouped(*grouped, q, out);
  }

 private:
  static bool answer_prefill(const AttentionPrefill& s, const Question& q, Answer& out) {
    const Variant variant = attention_variant(q.op);
    const SdpaKernel kernel = sdpa_kernel(s, q.rates);
    if (kernel == SdpaKernel::efficient && runs_efficient(s.dtype, std::max(s.qk_dim, s.v_dim), q)) {
      efficient_attention::answer_forward(s, q.families[kEfficient], q, out);
      out.unmeasured = !runs_sm80_kernels(q.rates);
      return true;
    }
    require_tensor_path(s.dtype, q);
    const bool second = kernel == SdpaKernel::flash2;
    answer_attention(second
                         ? plan_second_prefill(s, q.rates, q.families[kSecond], q.families[flash_attention::kCombine])
                         : plan_flash_prefill(s, false, q.rates, q.families, kCudnn),
                     second ? "attention" : "cuDNN attention", variant, q, out);
    return true;
  }

  static bool answer_decode(const AttentionDecode& s, const Question& q, Answer& out) {
    const Variant variant = attention_variant(q.op);
    const SdpaKernel kernel = sdpa_kernel(s, q.rates);
    if (kernel == SdpaKernel::efficient && runs_efficient(s.dtype, std::max(s.qk_dim, s.v_dim), q)) {
      efficient_attention::answer_forward(prompt_of(s), q.families[kEfficient], q, out);
      out.unmeasured = !runs_sm80_kernels(q.rates);
      return true;
    }
    require_tensor_path(s.dtype, q);
    const bool second = kernel == SdpaKernel::flash2;
    answer_attention(second ? plan_second_prefill(prompt_of_groups(s), q.rates, q.families[kSecond],
                                                  q.families[flash_attention::kCombine])
                            : plan_flash_decode(s, q.rates, q.families, key_cutting(q), kCudnnDecode),
                     second ? "split-KV attention" : "cuDNN split-KV attention", second ? Variant::usual : variant, q,
                     out);
    return true;
  }

  static bool answer_gradients(const AttentionBackward& s, const Question& q, Answer& out) {
    const SdpaKernel kernel = sdpa_kernel(s, q.rates);
    if (kernel == SdpaKernel::efficient && runs_efficient(s.dtype, std::max(s.qk_dim, s.v_dim), q)) {
      const PyTorchFamily family = bits(s.dtype) == 32 ? kEfficientBackward32 : kEfficientBackward;
      efficient_attention::answer_backward(s, q.families[family], q.families[flash_attention::kAppend], q, out);
      out.unmeasured = !runs_sm80_kernels(q.rates);
      return true;
    }
    require_tensor_path(s.dtype, q);
    if (kernel == SdpaKernel::flash2) {
      answer_backward(s, q.families[kSecondBackward], q.families[flash_attention::kAppend], q, out,
                      BackwardKernels::flash2);
    } else {
      answer_backward(s, q.families[kCudnnBackward], q.families[kCudnnRows], q, out, BackwardKernels::cudnn);
    }
    return true;
  }

  static bool runs_efficient(DType type, std::int64_t width, const Question& q) {
    return q.families[kEfficient].on_file && efficient_attention::forward_kernel(type, width) != nullptr;
  }

  /// Products of one row; all others are cuBLAS's, and so are these where no card was measured.
  static bool answer_gemv(const Gemm& shape, const Question& q, Answer& out) {
    const FamilyScalars& family = q.families[kGemv];
    if (!family.on_file || matrix_flop_per_clk(shape.precision.math, q.rates) <= 0) return false;
    const GemmTask task = gemm_task(shape, q.rates);
    if (!runs_as_gemv(task)) return false;
    out.sign(family);
    out.launch("gemvx", family) = gemv_demand(task, q.rates);
    return true;
  }

  static bool answer_grouped(const GroupedGemm& shape, const Question& q, Answer& out) {
    const GroupedMm task = grouped_mm_task(shape, q.rates);
    if (shape.accumulate || !has_grouped_mm(task, q.rates)) return false;
    const FamilyScalars& family = q.families[kGroupedMm];
    const GemmChoice choice = plan_grouped_mm(task, q.rates, family, q.cache);
    out.sign(family);
    out.gemm_plan = choice.plan;
    out.launch("_grouped_mm", family) = choice.main;
    return true;
  }
};

}  // namespace

const Provider& pytorch_provider() {
  static const PyTorch provider;
  return provider;
}

}  // namespace plumbline

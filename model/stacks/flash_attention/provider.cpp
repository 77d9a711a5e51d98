// FlashAttention as vLLM and PyTorch call it.
#include <array>

#include "model/stacks/flash_attention/mma_paged.hpp"
#include "model/stacks/flash_attention/plan_attention.hpp"
#include "model/stacks/flash_attention/plan_backward.hpp"
#include "model/stacks/flash_attention/third_mma.hpp"
#include "model/stacks/provider.hpp"

namespace plumbline {
namespace {

constexpr auto kPrefillClasses = std::to_array<BandClass>({{Variant::usual, "flash_prefill"},
                                                           {Variant::cache_8bit, "flash_prefill_8bit", false},
                                                           {Variant::math_8bit, "attention_prefill_fp8", false},
                                                           {Variant::encoder, "flash_encoder", false},
                                                           {Variant::latent, "mla_prefill", false}});
constexpr auto kDecodeClasses = std::to_array<BandClass>({{Variant::usual, "flash_decode"},
                                                          {Variant::cache_8bit, "flash_decode_8bit", false},
                                                          {Variant::wide_groups, "flash_decode_wide", false},
                                                          {Variant::few_keys, "flash_decode_short", false}});

constexpr auto kBackwardClasses = std::to_array<BandClass>({{Variant::usual, "flash_backward", false}});

constexpr std::array<FamilyDeclaration, flash_attention::kAllFamilies> kDeclared{
    {{.name = "flash_prefill", .op = "attention_prefill", .kind = "prompts", .classes = kPrefillClasses},
     {.name = "flash_decode", .op = "attention_decode", .kind = "decode", .classes = kDecodeClasses},
     {.name = "combine", .op = "attention_decode"},
     {.name = "flash_append", .op = "attention_prefill"},
     {.name = "flash_backward",
      .op = "attention_backward",
      .required = false,
      .stand_in = "library.flash_prefill",
      .stand_in_inherits = true,
      .kind = "prompts",
      .classes = kBackwardClasses},
     // FA2, on cards without wgmma: other tiles, and warps that wait for their own products; what a call takes at least goes
     // over in cycles, as a product's
     {.name = "flash_prefill_mma",
      .op = "attention_prefill",
      .required = false,
      .stand_in = "library.flash_prefill",
      .carry = {.fixed_in_cycles = true},
      .kind = "prompts",
      .classes = kPrefillClasses},
     {.name = "flash_decode_mma",
      .op = "attention_decode",
      .required = false,
      .stand_in = "library.flash_decode",
      .carry = {.fixed_in_cycles = true},
      .kind = "decode",
      .classes = kDecodeClasses},
     // FA3 where all operands have 8 bits: values are transposed on their way
     {.name = "flash_prefill_8bit",
      .op = "attention_prefill",
      .required = false,
      .stand_in = "library.flash_prefill",
      .kind = "prompts",
      .classes = kPrefillClasses},
     {.name = "flash_decode_8bit",
      .op = "attention_decode",
      .required = false,
      .stand_in = "library.flash_decode",
      .kind = "decode",
      .classes = kDecodeClasses},
     // FA3 over caches in pages, and the launch that writes them
     {.name = "flash_prefill_paged",
      .op = "attention_prefill",
      .required = false,
      .stand_in = "library.flash_prefill",
      .kind = "prompts",
      .classes = kPrefillClasses},
     {.name = "flash_decode_paged",
      .op = "attention_decode",
      .required = false,
      .stand_in = "library.flash_decode",
      .kind = "decode",
      .classes = kDecodeClasses},
     {.name = "flash_cache_write", .op = "attention_prefill", .required = false, .stand_in = "library.flash_append"},
     // FA2 over caches in pages; on SMs of 100 KB, which hold one of its CTAs (fitted on an RTX A6000); and copies that it makes
     // of queries and results where heads of a group share a tile
     {.name = "flash_prefill_mma_paged",
      .op = "attention_prefill",
      .required = false,
      .stand_in = "library.flash_prefill_mma",
      .carry = {.fixed_in_cycles = true},
      .kind = "prompts",
      .classes = kPrefillClasses},
     {.name = "flash_prefill_mma_small",
      .op = "attention_prefill",
      .required = false,
      .stand_in = "library.flash_prefill_mma_paged",
      .carry = {.fixed_in_cycles = true},
      .kind = "prompts",
      .classes = kPrefillClasses},
     {.name = "flash_decode_mma_small",
      .op = "attention_decode",
      .required = false,
      .stand_in = "library.flash_decode_mma",
      .carry = {.fixed_in_cycles = true},
      .kind = "decode",
      .classes = kDecodeClasses},
     {.name = "flash_transpose",
      .op = "attention_decode",
      .required = false,
      .stand_in = "library.flash_append",
      .carry = {.fixed_in_cycles = true}},
     {.name = "rowwise"},
     {.name = "flash_merge_mma",
      .op = "attention_decode",
      .required = false,
      .stand_in = "library.combine",
      .carry = {.fixed_in_cycles = true}},
     // steps of FlashAttention-2 where keys lie one behind the other, by what they ask of an SM: FA3's on mma.sync too
     {.name = "flash_second", .op = "attention_prefill", .required = false, .carry = {.fixed_in_cycles = true}}}};

constexpr std::array<std::string_view, 3> kOps{"attention_prefill", "attention_decode", "attention_backward"};
constexpr std::array<std::string_view, 2> kTrained{"attention_prefill", "attention_backward"};

constexpr Rule kDecodeRule{"FlashAttention", "num_splits_heuristic()",
                           "hopper/heuristics.h and csrc/flash_attn/flash_api.cpp: one part where four fifths of the "
                           "SMs have a CTA"};

constexpr flash_attention::MmaPagedFamilies kPrefillPages{flash_attention::kPrefillMmaPaged,
                                                          flash_attention::kPrefillMmaSmall,
                                                          flash_attention::kCacheWrite,
                                                          flash_attention::kTranspose,
                                                          flash_attention::kCopy,
                                                          flash_attention::kMergeMma};
constexpr flash_attention::MmaPagedFamilies kDecodePages{flash_attention::kDecodeMma,  flash_attention::kDecodeMmaSmall,
                                                         flash_attention::kCacheWrite, flash_attention::kTranspose,
                                                         flash_attention::kCopy,       flash_attention::kMergeMma};

bool by_mma_sync(const Question& q) { return q.rates.path.kind == TensorPath::Kind::mma_sync; }

class FlashAttention final : public Provider {
 public:
  /// `contiguous`: of training, whose keys and values lie in no cache. `hopper`: FA3 alone, of servers that take
  /// another library's kernels on other cards; `named`: FA3 wherever it has kernels, for who asks for it; and what is asked of
  /// training, on all.
  enum class Kind { usual, contiguous, hopper, named };
  explicit FlashAttention(Kind kind) : kind_(kind), contiguous_(kind == Kind::contiguous) {}

  std::string_view name() const override {
    if (kind_ == Kind::hopper) return "flash_attention_3";
    if (kind_ == Kind::named) return "flash_attention_3_named";
    return contiguous_ ? "flash_attention_contiguous" : "flash_attention";
  }
  std::string_view word() const override {
    if (kind_ == Kind::named) return "flash-attention-3";
    return kind_ == Kind::usual ? "flash-attention" : "";
  }
  bool hands_on() const override { return kind_ == Kind::hopper; }
  std::span<const FamilyDeclaration> families() const override { return kDeclared; }
  std::span<const std::string_view> ops() const override {
    return contiguous_ ? std::span<const std::string_view>(kTrained) : kOps;
  }
  std::string_view assumption() const override {
    if (kind_ == Kind::hopper) return "";
    if (kind_ == Kind::named) {
      return "attention by FlashAttention-3; its kernels for mma.sync were never measured: FlashAttention-2's scalars";
    }
    return "attention of the library: FlashAttention as vLLM and PyTorch call it";
  }

  const Rule* rule(const Op& op) const override {
    return std::holds_alternative<AttentionDecode>(op) ? &kDecodeRule : nullptr;
  }

  bool plan(const Question& q, Answer& out) const override {
    const bool forward = !std::holds_alternative<AttentionBackward>(q.op);
    if (kind_ == Kind::hopper && forward && q.rates.path.kind != TensorPath::Kind::wgmma) return false;
    const Variant variant = attention_variant(q.op);
    if (kind_ == Kind::named && forward && flash_attention::runs_third_on_mma(q.rates)) {
      return plan_third_on_mma(q, variant, out);
    }
    if (const auto* prefill = std::get_if<AttentionPrefill>(&q.op)) {
      require_tensor_path(prefill->dtype, q);
      const bool append = appends(*prefill, q);
      PrefillCut cut{.narrow_family = flash_attention::kPrefill8bit,
                     .paged_family = contiguous_ ? std::size_t{0} : std::size_t{flash_attention::kPrefillPaged},
                     .write_family = flash_attention::kCacheWrite,
                     .contiguous = contiguous_};
      if (by_mma_sync(q)) cut.family = flash_attention::kPrefillMma;
      const bool pages =
          by_mma_sync(q) && q.appends && prefill->causal && flash_attention::prices_mma_paged(*prefill, q.rates);
      const AttentionChoice choice = pages
                                         ? plan_mma_paged_prefill(*prefill, append, q.rates, q.families, kPrefillPages)
                                         : plan_flash_prefill(*prefill, append, q.rates, q.families, cut);
      out.math = choice.math;
      answer_attention(choice, "attention", variant, q, out);
      return true;
    }
    if (const auto* decode = std::get_if<AttentionDecode>(&q.op)) {
      require_tensor_path(decode->dtype, q);
      const DecodeCut cut{.narrow_family = flash_attention::kDecode8bit,
                          .paged_family = flash_attention::kDecodePaged,
                          .write_family = flash_attention::kCacheWrite,
                          .whole_tiles = true};
      const AttentionChoice choice =
          by_mma_sync(q)
              ? plan_mma_paged_decode(*decode, decode->append != 0, q.rates, q.families, key_cutting(q), kDecodePages)
              : plan_flash_decode(*decode, q.rates, q.families, key_cutting(q), cut);
      answer_attention(choice, "split-KV attention", variant, q, out);
      return true;
    }
    if (const auto* backward = std::get_if<AttentionBackward>(&q.op)) {
      require_tensor_path(backward->dtype, q);
      answer_backward(*backward, q.families[flash_attention::kBackward], q.families[flash_attention::kAppend], q, out);
      return true;
    }
    return false;
  }

 private:
  static bool plan_third_on_mma(const Question& q, Variant variant, Answer& out) {
    out.unmeasured = true;
    if (const auto* prefill = std::get_if<AttentionPrefill>(&q.op)) {
      require_tensor_path(prefill->dtype, q);
      answer_attention(plan_third_mma_prefill(*prefill, appends(*prefill, q), q.rates, q.families, kPrefillPages),
                       "attention", variant, q, out);
    } else if (const auto* decode = std::get_if<AttentionDecode>(&q.op)) {
      require_tensor_path(decode->dtype, q);
      answer_attention(plan_third_mma_decode(*decode, q.rates, q.families, key_cutting(q), kDecodePages),
                       "split-KV attention", variant, q, out);
    }
    return true;
  }

  Kind kind_;
  bool contiguous_;
};

}  // namespace

const Provider& flash_attention_provider() {
  static const FlashAttention provider(FlashAttention::Kind::usual);
  return provider;
}

const Provider& flash_attention_3_provider() {
  static const FlashAttention provider(FlashAttention::Kind::hopper);
  return provider;
}

const Provider& flash_attention_3_named_provider() {
  static const FlashAttention provider(FlashAttention::Kind::named);
  return provider;
}

const Provider& flash_attention_contiguous_provider() {
  static const FlashAttention provider(FlashAttention::Kind::contiguous);
  return provider;
}

}  // namespace plumbline

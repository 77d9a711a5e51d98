// TensorRT-LLM's attention kernels.
#include <array>

#include "model/stacks/provider.hpp"
#include "model/stacks/trtllm/plan_attention.hpp"

namespace plumbline {
namespace {

constexpr auto kPrefillClasses = std::to_array<BandClass>({{Variant::usual, "attention_prefill"},
                                                           {Variant::alone, "attention_prefill_alone"},
                                                           {Variant::cache_8bit, "attention_prefill_8bit"},
                                                           {Variant::math_8bit, "attention_prefill_fp8", false},
                                                           {Variant::encoder, "attention_encoder", false},
                                                           {Variant::latent, "mla_prefill", false}});
constexpr auto kDecodeClasses = std::to_array<BandClass>({{Variant::usual, "attention_decode"},
                                                          {Variant::cache_8bit, "attention_decode_8bit"},
                                                          {Variant::wide_groups, "attention_decode_wide", false},
                                                          {Variant::few_keys, "attention_decode_short", false}});
constexpr auto kSingleClasses = std::to_array<BandClass>({{Variant::usual, "attention_decode_single"},
                                                          {Variant::cache_8bit, "attention_decode_single_8bit", false},
                                                          {Variant::wide_groups, "attention_decode_wide", false},
                                                          {Variant::few_keys, "attention_decode_short", false}});
constexpr auto k8bitClasses = std::to_array<BandClass>({{Variant::usual, "attention_decode_8bit"},
                                                        {Variant::wide_groups, "attention_decode_wide", false},
                                                        {Variant::few_keys, "attention_decode_short", false}});
constexpr auto kMlaClasses =
    std::to_array<BandClass>({{Variant::usual, "mla_decode"}, {Variant::cache_8bit, "mla_decode_8bit", false}});

/// Decode of 8-bit caches walks its keys by chains of loads, latent decode too. (The grouped kernel of 16 bits has the same rings
/// on all cards, mha.cu: nbKBuffers, nbVBuffers; its links go over in cycles.)
constexpr CarryOver kDeep{.chain_with_memory = true};

/// Latent decode: what Hopper's tensor units lose between products are cycles that units of a quarter of the rate (H20) hide.
constexpr CarryOver kLatent{.chain_with_memory = true, .lost_at_flop_per_clk = 4096};

/// The kernel without tensor units: fitted apart, A100 and Hopper give the same clocks for all that it does, the launch too.
constexpr CarryOver kInCycles{.fixed_in_cycles = true};

constexpr std::array<FamilyDeclaration, trtllm::kFamilies> kDeclared{
    {{.name = "attention_prefill",
      .op = "attention_prefill",
      .carry = {.skips_as_rated = true},
      .kind = "prompts",
      .classes = kPrefillClasses},
     {.name = "attention_prefill_mma",
      .op = "attention_prefill",
      .required = false,
      .stand_in = "library.attention_prefill",
      .kind = "prompts",
      .classes = kPrefillClasses},
     {.name = "attention_decode", .op = "attention_decode", .kind = "decode", .classes = kDecodeClasses},
     {.name = "attention_decode_single",
      .op = "attention_decode",
      .carry = kInCycles,
      .kind = "decode",
      .classes = kSingleClasses},
     {.name = "attention_decode_8bit",
      .op = "attention_decode",
      .required = false,
      .carry = kDeep,
      .kind = "decode",
      .classes = k8bitClasses},
     {.name = "mla_decode", .op = "mla_decode", .carry = kLatent, .kind = "decode", .classes = kMlaClasses},
     {.name = "attention_prepare", .op = "attention_prefill"},
     {.name = "combine"},
     {.name = "attention_prefill_8bit",
      .op = "attention_prefill",
      .required = false,
      .kind = "prompts",
      .classes = kPrefillClasses},
     {.name = "attention_prepare_8bit",
      .op = "attention_prefill",
      .required = false,
      .stand_in = "library.attention_prepare"},
     // on wgmma, which wants 8-bit values transposed
     {.name = "mla_decode_8bit",
      .op = "mla_decode",
      .required = false,
      .stand_in = "library.mla_decode",
      .carry = kLatent,
      .kind = "decode",
      .classes = kMlaClasses},
     {.name = "mla_decode_mma",
      .op = "mla_decode",
      .required = false,
      .carry = kInCycles,
      .kind = "decode",
      .classes = kMlaClasses},
     {.name = "mla_decode_triton",
      .op = "mla_decode",
      .required = false,
      .carry = kInCycles,
      .kind = "decode",
      .classes = kMlaClasses}}};

/// As servers of another make call the kernels for tensor memory: the cache is written by their own launch, and a prompt's
/// call takes what FlashAttention's does there. Where a calibration has no decode of the library's, the next provider takes it.
constexpr std::array<FamilyDeclaration, trtllm::kServedFamilies> kServed = [] {
  std::array<FamilyDeclaration, trtllm::kServedFamilies> families{};
  for (std::size_t i = 0; i < trtllm::kFamilies; ++i) families[i] = kDeclared[i];
  for (const std::size_t each : {trtllm::kPrefill, trtllm::kDecode, trtllm::kSingle}) families[each].required = false;
  families[trtllm::kPrepare] = {.name = "flash_cache_write", .required = false, .stand_in = "library.flash_append"};
  families[trtllm::kServedPrefill] = {.name = "flash_prefill_paged",
                                      .op = "attention_prefill",
                                      .required = false,
                                      .stand_in = "library.flash_prefill",
                                      .kind = "prompts",
                                      .classes = kPrefillClasses};
  return families;
}();

constexpr std::array<std::string_view, 3> kOps{"attention_prefill", "attention_decode", "mla_decode"};

constexpr Rule kDecodeRule{"TensorRT-LLM", "choice of the decode kernel and its splits",
                           "DecoderXQAImplJIT::mayHavePerfGain() and computeMultiBlockCount(), decoderXQAImplJIT.cpp; "
                           "multi_block_grid_setup(), decoderMaskedMultiheadAttentionLaunch.h"};
constexpr Rule kMlaRule{"TensorRT-LLM", "splits of latent decode",
                        "FlashMLA, get_mla_metadata(): twice the SMs; on tcgen05 fmhaKernels.h, computeNumCtas()"};

constexpr Rule kPlainRule{"TensorRT-LLM", "splits of the plain decode kernel",
                          "multi_block_grid_setup(), decoderMaskedMultiheadAttentionLaunch.h"};

/// `plain`: before the grouped-query kernel (0.5 and 0.6): decode is a CTA for each query head, and heads that share keys each
/// walk through them by themselves, by way of L2. `generated`: where tensor units have memory of their own, the kernels that
/// FlashInfer hands on (trtllm-gen), vLLM's first choice there; elsewhere latent decode alone. (vllm/platforms/cuda.py:
/// FLASHINFER before FLASH_ATTN on compute capability 10; vllm/utils/flashinfer.py, use_trtllm_attention(); of prompts causal
/// ones: vllm/v1/attention/backends/flashinfer.py, prefill_use_trtllm. SGLang: its trtllm_mha backend.)
class TrtLlm final : public Provider {
 public:
  enum class Kind { usual, plain, generated };
  explicit TrtLlm(Kind kind) : kind_(kind), plain_(kind == Kind::plain) {}
  std::string_view name() const override {
    return kind_ == Kind::generated ? "trtllm_gen" : plain_ ? "trtllm_plain" : "trtllm";
  }
  std::string_view word() const override {
    return kind_ == Kind::generated ? "trtllm-gen" : plain_ ? "tensorrt-llm-plain" : "tensorrt-llm";
  }
  std::span<const FamilyDeclaration> families() const override {
    if (kind_ == Kind::generated) return kServed;
    return kDeclared;
  }
  bool hands_on() const override { return kind_ == Kind::generated; }
  std::span<const std::string_view> ops() const override { return kOps; }

  const Rule* rule(const Op& op) const override {
    if (std::holds_alternative<AttentionDecode>(op)) return plain_ ? &kPlainRule : &kDecodeRule;
    return std::holds_alternative<MlaDecode>(op) ? &kMlaRule : nullptr;
  }

  bool plan(const Question& q, Answer& out) const override {
    if (kind_ == Kind::generated && !generated(q)) return false;
    Variant variant = attention_variant(q.op);
    if (const auto* prefill = std::get_if<AttentionPrefill>(&q.op)) {
      require_tensor_path(prefill->dtype, q);
      const auto plan = kind_ == Kind::generated ? plan_served_prefill : plan_trtllm_prefill;
      const AttentionChoice choice = plan(*prefill, appends(*prefill, q), q.rates, q.families);
      // the scalars are of launches that rotate and append too
      if (variant == Variant::usual && !choice.prepares) variant = Variant::alone;
      out.math = choice.math;
      answer_attention(choice, "attention", variant, q, out);
      return true;
    }
    if (const auto* decode = std::get_if<AttentionDecode>(&q.op)) {
      require_tensor_path(decode->dtype, q);
      const auto plan = plain_                     ? plan_trtllm_plain_decode
                        : kind_ == Kind::generated ? plan_served_decode
                                                   : plan_trtllm_decode;
      answer_attention(plan(*decode, q.rates, q.families, key_cutting(q)), "split-KV attention", variant, q, out);
      return true;
    }
    if (const auto* latent = std::get_if<MlaDecode>(&q.op)) {
      require_tensor_path(latent->dtype, q);
      const AttentionChoice choice = latent_choice(*latent, q);
      if (q.rates.path.kind == TensorPath::Kind::tcgen05) out.math = choice.math;
      answer_attention(choice, "latent attention", variant, q, out);
      return true;
    }
    return false;
  }

 private:
  /// vLLM's way there (`generated`) ends at Triton's kernel where none of the others runs (platforms/cuda.py). TensorRT-LLM's
  /// splits 8-bit caches where mma.sync is fed by bulk copies (sm_120: mla_sm120.cu), priced as FlashMLA.
  AttentionChoice latent_choice(const MlaDecode& s, const Question& q) const {
    const bool served = kind_ == Kind::generated;
    if (q.rates.path.kind == TensorPath::Kind::tcgen05) {
      return plan_mla_tensor_memory(s, !served, q.rates, q.families, key_cutting(q));
    }
    const bool on_file = q.families[served ? trtllm::kMlaTriton : trtllm::kMlaMma].on_file;
    const bool splits = q.rates.gpu.sm.async_copy == AsyncCopy::tma && attention_variant(q.op) == Variant::cache_8bit;
    const bool mma = q.rates.path.kind == TensorPath::Kind::mma_sync && on_file;
    if (mma && served) return plan_mla_triton(s, q.rates, q.families, key_cutting(q));
    if (mma && !splits) return plan_mla_unsplit(s, q.rates, q.families, key_cutting(q));
    return (served ? plan_mla_decode : plan_mla_prepared)(s, q.rates, q.families, key_cutting(q));
  }

  static bool generated(const Question& q) {
    if (std::holds_alternative<MlaDecode>(q.op)) return true;
    if (const auto* prefill = std::get_if<AttentionPrefill>(&q.op)) {
      return trtllm::serves_tensor_memory(*prefill, q.rates);
    }
    const auto* decode = std::get_if<AttentionDecode>(&q.op);
    return decode != nullptr && q.families[trtllm::kDecode].on_file && trtllm::takes_tensor_memory(*decode, q.rates);
  }

  Kind kind_;
  bool plain_;
};

}  // namespace

const Provider& trtllm_provider() {
  static const TrtLlm provider(TrtLlm::Kind::usual);
  return provider;
}

const Provider& trtllm_plain_provider() {
  static const TrtLlm provider(TrtLlm::Kind::plain);
  return provider;
}

const Provider& trtllm_gen_provider() {
  static const TrtLlm provider(TrtLlm::Kind::generated);
  return provider;
}

}  // namespace plumbline

// What a `model_type` implies without saying it in the file: tied head, norms, biases, which reader understands it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

enum class Layout { decoder, mamba, nemotron_h, bert, t5, seq2seq, vit, diffusion };

/// Defaults that no key of the file states (hf_config notes, sections 2 to 4; Hugging Face transformers' modelling
/// code).
enum FamilyFlag : unsigned {
  kTied = 1u << 0,          ///< class default of tie_word_embeddings is true
  kLayerNorm = 1u << 1,     ///< LayerNorm with bias, else RMSNorm
  kNormNoBias = 1u << 2,    ///< LayerNorm without bias
  kNormNoWeight = 1u << 3,  ///< LayerNorm without parameters
  kPlainFfn = 1u << 4,      ///< two matrices
  kQkvBias = 1u << 5,
  kOutBias = 1u << 6,
  kFfnBias = 1u << 7,
  kQkNormHead = 1u << 8,  ///< RMSNorm of Q and K, per head
  kQkNormAll = 1u << 9,   ///< over all heads
  kParallel = 1u << 10,   ///< attention and FFN share one norm
  kFourNorms = 1u << 11,  ///< norms before and after each part
  kPositions = 1u << 12,  ///< learned positions
  kHeadBias = 1u << 13,
  kSinks = 1u << 14,
  kOutputGate = 1u << 15,
  kRouterBias = 1u << 16,
  kSharedExpert = 1u << 17,  ///< one shared expert of the expert width without a key
  kNoRope = 1u << 18,        ///< ALiBi, learned or no positions
  kGelu = 1u << 19,          ///< activation when no key names it
  kQkvBiasOnly = 1u << 20,   ///< attention_bias does not reach the output projection
  kSharedGate = 1u << 21,
  kQkNormFree = 1u << 22,  ///< use_qk_norm is a norm without weights (Llama-4)
  kWindow = 1u << 23,      ///< sliding_window alone makes every layer slide
  kEvenSlide = 1u << 24,   ///< layers 0, 2, ... slide (Gemma 2, gpt-oss)
  kDeltaNet = 1u << 25,    ///< linear_attention layers are gated DeltaNet
  kMultiQuery = 1u << 26,  ///< one KV head unless the file says otherwise
  kNope4 = 1u << 27,       ///< every 4th layer full and without RoPE (Llama-4)
  kSilentDims = 1u << 28,  ///< class default dimensions apply when the file has none (Llama-7B)
};

struct Family {
  std::string_view type;
  Layout layout = Layout::decoder;
  unsigned flags = 0;
  int pattern = 0;  ///< class default of sliding_window_pattern
  bool has(unsigned flag) const { return (flags & flag) != 0; }
};

/// The family of a model_type, or null.
const Family* find_family(std::string_view model_type);
/// "Qwen2MoeForCausalLM" -> the family "qwen2_moe", or null.
const Family* family_of_architecture(std::string_view architecture);
std::vector<std::string> family_names();

}  // namespace plumbline

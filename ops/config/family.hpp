// What a `model_type` implies without saying it in the file: tied head, norms, biases, which reader understands it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

/// `table`: read by data/families/graphs.json.
enum class Layout { table, decoder, mamba, zamba, nemotron_h, bert, t5, seq2seq, vit, diffusion };

/// Defaults that no key of the file states (docs/sources.md: models; Hugging Face transformers' modelling
/// code).
enum FamilyFlag : std::uint64_t {
  kTied = 1ull << 0,          ///< class default of tie_word_embeddings is true
  kLayerNorm = 1ull << 1,     ///< LayerNorm with bias, else RMSNorm
  kNormNoBias = 1ull << 2,    ///< LayerNorm without bias
  kNormNoWeight = 1ull << 3,  ///< LayerNorm without parameters
  kPlainFfn = 1ull << 4,      ///< two matrices
  kQkvBias = 1ull << 5,
  kOutBias = 1ull << 6,
  kFfnBias = 1ull << 7,
  kQkNormHead = 1ull << 8,  ///< RMSNorm of Q and K, per head
  kQkNormAll = 1ull << 9,   ///< over all heads
  kParallel = 1ull << 10,   ///< attention and FFN share one norm
  kFourNorms = 1ull << 11,  ///< norms before and after each part
  kPositions = 1ull << 12,  ///< learned positions
  kHeadBias = 1ull << 13,
  kSinks = 1ull << 14,
  kOutputGate = 1ull << 15,
  kRouterBias = 1ull << 16,
  kSharedExpert = 1ull << 17,  ///< one shared expert of the expert width without a key
  kNoRope = 1ull << 18,        ///< ALiBi, learned or no positions
  kGelu = 1ull << 19,          ///< activation when no key names it
  kQkvBiasOnly = 1ull << 20,   ///< attention_bias does not reach the output projection
  kSharedGate = 1ull << 21,
  kQkNormFree = 1ull << 22,      ///< use_qk_norm is a norm without weights (Llama-4)
  kWindow = 1ull << 23,          ///< sliding_window alone makes every layer slide
  kEvenSlide = 1ull << 24,       ///< layers 0, 2, ... slide (Gemma 2, gpt-oss)
  kDeltaNet = 1ull << 25,        ///< linear_attention layers are gated DeltaNet
  kMultiQuery = 1ull << 26,      ///< one KV head unless the file says otherwise
  kNope4 = 1ull << 27,           ///< every 4th layer full and without RoPE (Llama-4)
  kSilentDims = 1ull << 28,      ///< class default dimensions apply when the file has none (Llama-7B)
  kQkNormBias = 1ull << 29,      ///< Q and K are normed by a LayerNorm with bias (Persimmon)
  kQkNormNoWeight = 1ull << 30,  ///< or by a norm without weights that is a kernel all the same (NanoChat)
  kSubNorms = 1ull << 31,        ///< norms in front of the output and down projections too (BitNet)
  kNoFinalNorm = 1ull << 32,     ///< the head reads the last layer's output
  kNeverTied = 1ull << 34,       ///< the class ties nothing, whatever the file says
  kFlooredHeads = 1ull << 33,    ///< without head_dim: hidden / heads rounded down, whatever is left over
};

struct Family {
  std::string_view type;
  Layout layout = Layout::decoder;
  std::uint64_t flags = 0;
  int pattern = 0;  ///< class default of sliding_window_pattern
  bool has(std::uint64_t flag) const { return (flags & flag) != 0; }
};

/// The family of a model_type, or null.
const Family* find_family(std::string_view model_type);
/// "Qwen2MoeForCausalLM" -> the family "qwen2_moe", or null.
const Family* family_of_architecture(std::string_view architecture);
/// Kinds of model that no reader here understands, whatever their keys look like.
bool is_unread_type(std::string_view model_type);
std::vector<std::string> family_names();

}  // namespace plumbline

// A transformer (or hybrid, or diffusion transformer) as its config.json describes it. Knows no machine and no
// workload.
//
// Layers that are alike are stored once: a Stack has `kinds` and, in order, which kind each layer is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arch/dtype.hpp"
#include "ops/mixer/mixer.hpp"
#include "ops/shape/rowwise.hpp"

namespace plumbline {

enum class Activation { silu, gelu, relu, relu2 };

/// Feed-forward part of one layer.
struct FfnSpec {
  bool gated = true, bias = false;
  Activation activation = Activation::silu;
  std::int64_t width = 0;  ///< dense width (0 when the layer is MoE only)
  std::int64_t experts = 0, topk = 0, expert_width = 0;
  std::int64_t shared_width = 0;  ///< total width of the shared experts
  std::int64_t latent = 0;        ///< experts work at this width (0: hidden)
  bool router_bias = false;       ///< one correction (or plain) bias an expert
  bool shared_gate = false;       ///< shared experts weighted by a gate hidden -> 1 (Qwen MoE)
  bool expert_bias = false;       ///< of the routed experts' matrices (gpt-oss)
  bool inner_norm = false;        ///< RMSNorm in front of the down projection (BitNet)
  /// Choices of the router that hand a token on as it is (LongCat-Flash): columns of the router, no weights. Of `topk`
  /// choices, `topk` x experts / (experts + identities) fall on experts when they fall evenly.
  std::int64_t identities = 0;
  std::int64_t router_width = 0;  ///< the router chooses by this width, which narrow parts beside it make (0: hidden)
  /// The experts of a token are in `top_groups` of `groups` groups of them (DeepSeek); 0: in any.
  std::int64_t groups = 0, top_groups = 0;
  bool is_moe() const { return experts > 0; }
  bool operator==(const FfnSpec&) const = default;
};

/// What a layer has beside mixer and feed-forward part: narrow projections of the residual stream (low-rank residuals,
/// inputs of its own a layer, mixing of several residual streams), whole on every tensor rank.
struct BesideSpec {
  struct Matrix {
    std::int64_t in = 0, out = 0;
    bool operator==(const Matrix&) const = default;
  };
  std::vector<Matrix> matrices;
  std::int64_t vectors = 0;  ///< parameters of norms, scales, small convolutions
  std::int64_t streams =
      0;  ///< copies of the residual stream that the layer reads and writes twice (0: one, not apart)
  bool operator==(const BesideSpec&) const = default;
};

/// A layer is any of: a mixer of tokens, cross attention, feed-forward; each present part has its norms.
struct LayerSpec {
  LayerMixer mixer;
  LayerMixer cross;  ///< encoder-decoder: attention over the encoder's tokens
  std::optional<FfnSpec> ffn;
  LayerMixer feed;  ///< a feed-forward part that a graph file writes out, in place of `ffn`
  BesideSpec beside;
  NormKind norm = NormKind::rms;
  int norms = 2;                      ///< norms over the hidden width a layer
  int norm_vectors = 1;               ///< parameters an element of a norm: 2 with bias, 0 without weights
  bool written_out = false;           ///< `mixer` is all of the layer: no norms, no residual adds around it
  bool parallel_block = false;        ///< attention and FFN read the same norm
  bool drops = false;                 ///< training drops elements though the norms are RMS, inside the FFN too (T5)
  bool keeps_all = false;             ///< its config switches off what training of such layers drops
  bool drops_scores = false;          ///< training of such layers drops some of attention's scores
  bool drops_inner = false;           ///< and, by a share of its own, of what the FFN's last product reads (BART)
  double rotary = 1;                  ///< share of a head's columns that rotary positions turn
  std::int64_t modulation_width = 0;  ///< DiT: adaLN projection hidden -> this width, a step (0: none)
  /// MMDiT double-stream layer: a second set of QKV, output and FFN weights of the same shape for the other stream.
  bool double_stream = false;
  bool second_stream_ends = false;  ///< of the second stream only QKV is left (last layer of SD3)
  /// Weight elements, and those a token uses; exact, norms and biases included.
  double params = 0, active_params = 0;
  /// Of `params`: weights of the routed experts (they may have their own storage type).
  double expert_params = 0;
  bool operator==(const LayerSpec&) const = default;
};

struct StackSpec {
  enum class Role { decoder, encoder, vision, diffusion };
  Role role = Role::decoder;
  std::int64_t hidden = 0;
  std::vector<LayerSpec> kinds;
  std::vector<int> order;         ///< kind of layer i; its length is the layer count
  double other_params = 0;        ///< final norm, learned positions, patch and time embeddings, projectors
  double passes = 1;              ///< times that a step runs through each set of weights (HRM's two modules)
  bool shared_weights = false;    ///< layers of one kind share one set of weights (ALBERT)
  std::int64_t text_tokens = 0;   ///< MMDiT: tokens of the second stream, beside `fixed_tokens`
  std::int64_t cross_tokens = 0;  ///< diffusion: tokens of the text that cross attention reads
  std::int64_t fixed_tokens = 0;  ///< tokens the stack always sees (ViT patches, Whisper frames); 0: the prompt
};

/// Storage of the weights as published.
struct Quantization {
  DType linear = DType::bf16;  ///< attention and dense FFN weights
  DType experts = DType::bf16;
  DType activation = DType::bf16;  ///< what the quantized products read (fp8 for W8A8); parts left in 16 bits read 16
  DType kv = DType::bf16;
  std::string method = "none";  ///< "fp8", "mxfp4", "nvfp4", "gptq", ...
  /// Rows and columns of weights of 8 bits that share a scale, and values of a row that they are multiplied with, which are
  /// rounded as they come; 0: one scale each.
  std::int64_t block = 0;
};

struct Llm {
  std::string name, model_type, file;
  std::string activation;         ///< of its feed-forward parts, as ops/config/activation_names.hpp has it
  std::vector<StackSpec> stacks;  ///< the main one (decoder if there is one) first
  std::int64_t hidden = 0, vocab = 0, max_context = 0;
  bool tied_embeddings = false;
  bool has_head = true;       ///< produces logits over the vocabulary
  DType dtype = DType::bf16;  ///< compute type of the file
  Quantization quantization;
  double embedding_params = 0, head_params = 0;  ///< head 0 when tied
  double params = 0;                             ///< all, without MTP layers and towers
  double active_params = 0;                      ///< used by one token, both embeddings counted
  /// As published tables count it: `active_params` less the input embedding when experts make "active" differ from
  /// `params` and the head is not tied to it; else `active_params`.
  double active_params_no_input_embedding = 0;
  double mtp_params = 0;
  /// Towers for pictures and sound and their projectors, beside `params`: in no step of text, and not in its memory. A tower
  /// that runs is a stack.
  double tower_params = 0;
  /// Room that the framework's module makes and no checkpoint fills, beside `params`: in no step and not in its memory.
  double unfilled_params = 0;
  /// KV cache of one more token with no window applied, 16 bits an element (docs/sources.md: models).
  double kv_elements_per_token = 0;
  double index_elements_per_token = 0;  ///< indexer keys (DSA) of one more token, beside the KV cache
  /// What must be said above the numbers: the model was read on a guess, or its checkpoint has other weights.
  std::vector<std::string> warnings;
  /// Keys of the config that nothing reads: they change no operator and no weight, or switch something off.
  std::vector<std::string> ignored_keys;
  bool guessed = false;                  ///< the kind of model is not known: bands are wider
  std::vector<std::string> assumptions;  ///< every default taken, unknown shape-like key met, and what it means

  const StackSpec& main() const { return stacks.front(); }
};

/// By name under data/models ("llama-3.1-8b") or path of a config.json. A sibling `hf_quant_config.json` (or
/// `quant/<name>.hf_quant_config.json`) is read too, a sibling `model.safetensors.index.json` held against it. Throws BadInput: unreadable, not understood (naming the key).
Llm load_llm(const std::string& name_or_path);
/// `quant_json` may be empty. `place` stands in front of messages.
Llm parse_llm(const std::string& config_json, const std::string& quant_json, const std::string& place);
std::vector<std::string> llm_names();

}  // namespace plumbline

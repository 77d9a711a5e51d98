// The readers behind parse_llm: each turns keys of a config into one part of a layer, a stack, or a whole model.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ops/config/config.hpp"
#include "ops/llm/llm.hpp"
#include "ops/mixer/attention.hpp"

namespace plumbline {

/// What the file calls the mixer of each layer (words of ops/mixer/table.hpp), from the first source that it has
/// (docs/sources.md: models, order of authority).
std::vector<std::string_view> layer_words(const LlmConfig& config, std::int64_t layers);

/// The dense FFN and the MoE of the model; `moe_layer` says which layers have which.
FfnSpec read_dense_ffn(const LlmConfig& config, std::int64_t hidden);
FfnSpec read_moe_ffn(const LlmConfig& config);
bool has_experts(const LlmConfig& config);
std::vector<bool> moe_layers(const LlmConfig& config, std::int64_t layers);
Activation read_activation(const LlmConfig& config, Activation fallback);

/// What of the file must be rewritten before the readers understand it: a JSON object to merge over it, or "". Throws
/// BadInput.
std::string translation(const JsonValue& file, const Family& family);

/// The first of "architectures", or "".
std::string first_architecture(const JsonValue& object);

/// Counts the layer and appends it: an equal kind is stored once.
void append_layer(StackSpec& stack, LayerSpec layer);
/// Sums stacks, embedding and head into the totals, and the cache of the main stack.
void finish_totals(Llm& llm);
/// hidden, vocabulary, context, tying, compute dtype; `tied_default` when no key says.
void read_common(const LlmConfig& config, Llm& llm, bool tied_default);
/// The compute type of the file; bf16 with a note where it names none.
void read_dtype(const LlmConfig& config, Llm& llm);
int norm_vectors(const LlmConfig& config);
/// Learned positions, norms and projections at the ends of a decoder (the final norm among them). May set the size of the
/// embedding where it is narrower than the layers.
double params_outside_layers(const LlmConfig& config, Llm& llm, std::int64_t layers);
/// What a layer has beside mixer and feed-forward part.
struct BesidePlace {
  std::int64_t layer = 0;
  bool moe = false, sliding = false;
};
BesideSpec read_beside(const LlmConfig& config, std::int64_t hidden, const BesidePlace& place);

/// Attention as BERT's generation has it: as many keys as queries, no rotation, biases everywhere or nowhere.
AttentionSpec plain_attention(const LlmConfig& config, std::int64_t heads, std::int64_t width, bool causal, bool bias);
/// hidden / heads, which must leave nothing over.
std::int64_t divided(const LlmConfig& config, std::int64_t hidden, std::int64_t heads);

void build_decoder(const LlmConfig& config, Llm& llm);
void build_mamba(const LlmConfig& config, Llm& llm);
void build_zamba(const LlmConfig& config, Llm& llm);
void build_nemotron_h(const LlmConfig& config, Llm& llm);
void build_bert(const LlmConfig& config, Llm& llm);
void build_modernbert(const LlmConfig& config, Llm& llm);
void build_t5(const LlmConfig& config, Llm& llm);
void build_t5gemma(const LlmConfig& config, Llm& llm);
void build_seq2seq(const LlmConfig& config, Llm& llm);
void build_vit(const LlmConfig& config, Llm& llm);
void build_diffusion(const LlmConfig& config, Llm& llm);
/// A tower of a multimodal file: a stack when it runs (CLIP with an MLP projector), parameters when its sizes are known;
/// else says it is left out.
void add_tower(const LlmConfig& config, const std::string& key, const JsonValue& vision, Llm& llm);
/// All towers of a file, those too that the class of the model around the text model makes where the file lacks them.
void add_towers(const JsonValue& root, const LlmConfig& config, Llm& llm);
/// Parameters of a tower with its projector to `hidden`; nothing when its sizes are not known.
/// As `tower_params`, for towers of pictures around Qwen, Llama 3.2, Mistral, Kimi and InternVL.
std::optional<double> picture_tower_params(const LlmConfig& config, const LlmConfig& tower, std::int64_t hidden);
std::optional<double> tower_params(const LlmConfig& config, const LlmConfig& tower, std::int64_t hidden);

/// `quant` is the root of hf_quant_config.json, if any.
void read_quantization(const LlmConfig& config, const std::optional<JsonValue>& quant, Llm& llm);

}  // namespace plumbline

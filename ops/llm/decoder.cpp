#include <algorithm>
#include <map>
#include <utility>

#include "arch/printable.hpp"
#include "ops/as_double.hpp"
#include "ops/llm/layer_configs.hpp"
#include "ops/llm/params.hpp"
#include "ops/llm/parts.hpp"
#include "ops/mixer/attention.hpp"
#include "ops/mixer/table.hpp"

namespace plumbline {
namespace {

/// Norms a layer and whether attention and FFN read the same one.
void read_norms(const LlmConfig& config, LayerSpec& layer) {
  const Family& family = config.family();
  layer.norm = family.has(kLayerNorm) ? NormKind::layer : NormKind::rms;
  layer.norm_vectors = norm_vectors(config);
  layer.norms = family.has(kParallel) ? 1 : (family.has(kFourNorms) ? 4 : 2);
  if (config.flag_or({"use_post_norm"}, false)) layer.norms = 4;
  if (config.is("arctic") && config.flag_or({"parallel_attn_mlp_res"}, false)) layer.norms = 3;
  layer.parallel_block = family.has(kParallel);
  if (config.is("falcon")) {
    // FalconDecoderLayer: the new architecture norms twice (num_ln_in_parallel_attn, 2 by default), the old one once.
    layer.parallel_block = config.flag_or({"parallel_attn"}, true);
    const bool fresh = config.flag_or({"new_decoder_architecture"}, false);
    const std::int64_t parallel_norms = config.dim_or({"num_ln_in_parallel_attn"}, fresh ? 2 : 1);
    layer.norms = layer.parallel_block ? static_cast<int>(std::min<std::int64_t>(parallel_norms, 2)) : 2;
  }
  if (config.is("gpt_neox")) layer.parallel_block = config.flag_or({"use_parallel_residual"}, true);
  if (config.is("stablelm") && config.flag_or({"use_parallel_residual"}, false)) {
    layer.parallel_block = true;
    layer.norms = 1;
  }
}

/// Multi-token prediction: n modules, each one more layer like the last, two norms, a final norm, and a projection from
/// 2h to h (DeepSeek-V3 report section 2.2); embedding and head are shared, so not counted again.
double mtp_params(const LlmConfig& config, const StackSpec& stack) {
  const std::int64_t modules =
      config.count_or({"num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules"}, 0);
  const double h = static_cast<double>(stack.hidden);
  const double layer = stack.kinds[static_cast<std::size_t>(stack.order.back())].params;
  return static_cast<double>(modules) * (layer + 2.0 * h * h + 3.0 * h);
}

/// One a layer. A mixer that several layers have alike is held once.
std::vector<LayerMixer> read_mixers(const LayerConfigs& configs, std::int64_t hidden,
                                    const std::vector<std::string_view>& words) {
  std::vector<LayerMixer> mixers;
  const auto layers = static_cast<std::int64_t>(words.size());
  for (std::int64_t i = 0; i < layers; ++i) {
    LayerMixer mixer = read_mixer(configs.of(i), {words[static_cast<std::size_t>(i)], hidden, i, layers});
    const auto same = std::find(mixers.begin(), mixers.end(), mixer);
    mixers.push_back(same == mixers.end() ? std::move(mixer) : *same);
  }
  return mixers;
}

/// The feed-forward part of each layer, read once for layers that share a config.
class FfnReader {
 public:
  FfnReader(const LayerConfigs& configs, std::int64_t hidden) : configs_(configs), hidden_(hidden) {}

  const FfnSpec& of(std::int64_t layer, bool moe) {
    const LlmConfig& config = configs_.of(layer);
    auto [found, fresh] = read_.try_emplace({&config, moe});
    if (fresh) found->second = moe ? read_moe_ffn(config) : read_dense_ffn(config, hidden_);
    return found->second;
  }

 private:
  const LayerConfigs& configs_;
  std::int64_t hidden_;
  std::map<std::pair<const LlmConfig*, bool>, FfnSpec> read_;
};

/// Keys of kinds of model that have no reader: better a refusal than a wrong count.
void refuse_unread(const LlmConfig& config) {
  for (const char* key : {"block_configs", "ffn_config", "layers_num_heads"}) {
    const auto value = config.inner().find(key);
    if (value && value->kind() != JsonValue::Kind::boolean && value->size() > 0) {
      value->fail("a layer kind that is not understood");
    }
  }
  if (config.flag_or({"is_encoder_decoder"}, false)) {
    config.find({"is_encoder_decoder"})->fail("an encoder-decoder of this model_type is not understood");
  }
}

}  // namespace

int norm_vectors(const LlmConfig& config) {
  const Family& family = config.family();
  if (family.has(kNormNoWeight)) return 0;
  if (!family.has(kLayerNorm)) return 1;
  if (config.is("modernbert-decoder")) return config.flag_or({"norm_bias"}, false) ? 2 : 1;
  if (family.has(kNormNoBias)) return 1;
  if (config.is("mpt")) return config.flag_or({"no_bias"}, false) ? 1 : 2;
  if (config.is("opt")) return config.flag_or({"layer_norm_elementwise_affine"}, true) ? 2 : 0;
  return 2;
}

namespace {

/// HRM: two modules of `num_layers_per_stack` layers, run H_cycles x (L_cycles + 1) times in all. Files of transformers
/// 5.17 write all passes into num_hidden_layers, others one module's layers.
struct Passes {
  std::int64_t layers = 0;
  double each = 1;
};

Passes hrm_passes(const LlmConfig& config, std::int64_t layers) {
  const std::int64_t runs =
      config.product(config.dim_or({"H_cycles"}, 2), config.dim_or({"L_cycles"}, 3) + 1, "H_cycles");
  const auto module = config.maybe_dim({"num_layers_per_stack"});
  config.find({"L_bp_cycles"});
  config.flag_or({"prefix_lm"}, true);
  Passes passes{module ? layers : config.product(layers, runs, "num_hidden_layers")};
  if (passes.layers > LlmConfig::kMostLayers) config.inner().fail("more than 10000 layers in all cycles");
  passes.each = static_cast<double>(passes.layers) / static_cast<double>(2 * module.value_or(layers));
  return passes;
}

/// LongCat-Flash writes layers of two blocks (`num_layers`, half of transformers' num_hidden_layers); here each block is a
/// layer of its own, the first with the experts beside its feed-forward part.
Passes layer_count(const LlmConfig& config) {
  if (config.is("longcat_flash")) {
    config.find({"num_hidden_layers"});
    return {2 * config.layers({"num_layers"})};
  }
  if (config.is("xlstm")) {
    config.find({"num_hidden_layers"});
    return {config.layers({"num_blocks", "num_hidden_layers"})};
  }
  const std::int64_t layers = config.layers({"num_hidden_layers", "n_layer", "n_layers", "num_layers"});
  return config.is("hrm_text") ? hrm_passes(config, layers) : Passes{layers};
}

/// Keys of kinds of model whose attention is costed as if they were not there, or that lie beside the text model.
void know_other_keys(const LlmConfig& config) {
  if (config.is("phi3small")) {
    for (const char* key : {"blocksparse_homo_head_pattern", "gegelu_pad_to_256", "mup_use_scaling"}) {
      config.flag_or({key}, false);
    }
    for (const char* key : {"blocksparse_block_size", "blocksparse_num_local_blocks", "blocksparse_vert_stride",
                            "blocksparse_triton_kernel_block_size", "dense_attention_every_n_layers",
                            "pad_sequence_to_multiple_of_64", "mup_width_multiplier", "mup_embedding_multiplier"}) {
      config.find({key});
    }
    config.assume("Phi-3-small's block-sparse attention is costed as full attention");
  }
  if (config.is("jais")) config.flag_or({"scale_qk_dot_by_d"}, false);
  if (config.is("chameleon")) {
    config.flag_or({"swin_norm"}, false);
    config.find({"model_parallel_size"});
    config.assume("Chameleon's tokenizer of pictures (a VQ-VAE) is left out");
  }
  if (config.outer().find_string("model_type").value_or("") == "phi3_v") config.find({"img_processor", "embd_layer"});
}

/// Sizes of mixers that a list of layers may leave out altogether.
void know_mixer_keys(const LlmConfig& config) {
  for (const char* key : {"num_attention_heads",
                          "num_key_value_heads",
                          "head_dim",
                          "attention_bias",
                          "mamba_n_heads",
                          "mamba_d_head",
                          "mamba_n_groups",
                          "mamba_d_state",
                          "mamba_d_conv",
                          "mamba_expand",
                          "mamba_num_heads",
                          "mamba_head_dim",
                          "linear_num_value_heads",
                          "linear_num_key_heads",
                          "linear_key_head_dim",
                          "linear_value_head_dim",
                          "linear_conv_kernel_dim",
                          "linear_num_heads",
                          "linear_head_dim",
                          "global_head_dim",
                          "num_global_key_value_heads",
                          "kv_lora_rank",
                          "q_lora_rank",
                          "qk_nope_head_dim",
                          "qk_rope_head_dim",
                          "v_head_dim"}) {
    config.find({key});
  }
  for (const char* key : {"swa_num_attention_heads", "swa_num_key_value_heads", "swa_head_dim"}) config.find({key});
  if (config.is("minimax_m3_vl_text")) {
    for (const char* key : {"index_n_heads", "index_head_dim", "index_block_size"}) config.find({key});
  }
}

/// Sizes of parts that no layer of this list has.
void know_feed_forward_keys(const LlmConfig& config, const std::vector<bool>& moe) {
  for (const char* key : {"intermediate_size", "dense_intermediate_size", "prefix_dense_intermediate_size",
                          "moe_intermediate_size", "shared_expert_intermediate_size"}) {
    config.find({key});
  }
  if (std::find(moe.begin(), moe.end(), true) != moe.end()) return;
  // Every layer is among the dense ones in front of the experts.
  for (const char* key : {"n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts",
                          "moe_shared_expert_intermediate_size", "expert_ffn_hidden_size", "moe_latent_size"}) {
    config.find({key});
  }
}

/// Parts that layers lack (Nemotron-NAS), by the number of the layer.
std::vector<bool> lacking(const LlmConfig& config, std::string_view key, std::int64_t layers) {
  std::vector<bool> absent(static_cast<std::size_t>(layers), false);
  if (const auto list = config.find({key})) {
    for (const JsonValue& value : list->elements()) {
      absent[static_cast<std::size_t>(integer_within(value, 0, layers - 1))] = true;
    }
  }
  return absent;
}

/// Llama 3.2 Vision: layers that attend to a picture and nothing else; a prompt of text passes them by.
std::vector<bool> cross_layers(const LlmConfig& config, std::int64_t layers) {
  std::vector<bool> crossing(static_cast<std::size_t>(layers), false);
  if (!config.is("mllama_text_model")) return crossing;
  const auto list = config.find({"cross_attention_layers"});
  if (!list) return crossing;
  for (const JsonValue& value : list->elements()) {
    // The class looks each layer up in the list: numbers beyond the last layer are of a longer model.
    const std::int64_t layer = integer_within(value, 0, LlmConfig::kMostLayers);
    if (layer < layers) crossing[static_cast<std::size_t>(layer)] = true;
  }
  config.assume("cross-attention layers are in the parameters and in no step: without a picture they are passed by");
  return crossing;
}

/// Per-head norms of queries and keys, and a gate of one number for each part, beside a layer's own weights.
double cross_layer_params(LayerSpec layer, std::int64_t hidden) {
  AttentionSpec& attention = layer.mixer.edit<AttentionSpec>();
  attention.qk_norm = 1;
  count_layer(layer, hidden);
  return layer.params + 2.0;
}

}  // namespace

namespace {

/// LongCat-Flash in the form that transformers' class writes (which counts all layers): its module makes room for gate and
/// up matrices of the identities too (LongcatFlashExperts of transformers 5.17).
double unfilled_params(const LlmConfig& config, const StackSpec& stack) {
  if (!config.is("longcat_flash") || !config.inner().has("num_hidden_layers")) return 0;
  double room = 0;
  for (const int kind : stack.order) {
    const auto& ffn = stack.kinds[static_cast<std::size_t>(kind)].ffn;
    if (ffn) room += 2.0 * d(ffn->identities) * d(ffn->expert_width) * d(stack.hidden);
  }
  if (room > 0)
    config.assume("transformers' module makes room for matrices of the identities, which no checkpoint fills");
  return room;
}

}  // namespace

void build_decoder(const LlmConfig& config, Llm& llm) {
  refuse_unread(config);
  know_other_keys(config);
  read_common(config, llm, config.family().has(kTied));
  if (const std::string whole = first_architecture(config.inner());
      config.inner().is_same_as(config.outer()) && whole.ends_with("Model") && !whole.ends_with("LMModel") &&
      !whole.ends_with("LMHeadModel") && !config.is("dream")) {
    llm.has_head = false;  // "MistralModel", as embedding models have it; not "ChatGLMModel"
    config.assume("'" + printable(whole) + "' has no head");
  }
  const Passes passes = layer_count(config);
  const std::int64_t layers = passes.layers;
  const std::vector<std::string_view> words = layer_words(config, layers);
  const std::vector<bool> moe = moe_layers(config, layers);
  const LayerConfigs configs(config, words);
  const std::vector<LayerMixer> mixers = read_mixers(configs, llm.hidden, words);
  FfnReader ffns(configs, llm.hidden);
  LayerSpec plain;
  read_norms(config, plain);
  StackSpec stack;
  stack.hidden = llm.hidden;
  const std::vector<bool> crossing = cross_layers(config, layers);
  const std::vector<bool> no_mixer = lacking(config, "layers_without_attention", layers),
                          no_ffn = lacking(config, "layers_without_ffn", layers);
  double crossing_params = 0;
  for (std::size_t i = 0; i < mixers.size(); ++i) {
    LayerSpec layer = plain;
    if (!no_mixer[i]) layer.mixer = mixers[i];
    if (!no_ffn[i]) layer.ffn = ffns.of(static_cast<std::int64_t>(i), moe[i]);
    layer.norms -= (no_mixer[i] ? 1 : 0) + (no_ffn[i] ? 1 : 0);
    layer.beside =
        read_beside(config, llm.hidden, {static_cast<std::int64_t>(i), moe[i], words[i] == kSlidingAttention});
    if (crossing[i]) {
      crossing_params += cross_layer_params(layer, llm.hidden);
      continue;
    }
    append_layer(stack, layer);
  }
  if (stack.kinds.empty()) config.inner().fail("no layer is left that reads text");
  configs.report_keys();
  know_feed_forward_keys(config, moe);
  if (config.has({"layer_types", "layers_block_type", "attn_layer_period"}) || config.is("bamba") ||
      config.is("kimi_linear") || config.is("inkling") || config.is("recurrent_gemma"))
    know_mixer_keys(config);
  stack.passes = passes.each;
  stack.other_params = params_outside_layers(config, llm, layers) + crossing_params;
  llm.mtp_params = mtp_params(config, stack);
  llm.unfilled_params = unfilled_params(config, stack);
  if (config.flag_or({"lm_head_bias"}, config.family().has(kHeadBias)))
    llm.head_params = static_cast<double>(llm.vocab);
  llm.stacks.push_back(std::move(stack));
}

}  // namespace plumbline

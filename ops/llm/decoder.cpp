#include <algorithm>
#include <utility>

#include "ops/llm/params.hpp"
#include "ops/llm/parts.hpp"
#include "ops/mixer/table.hpp"

namespace plumbline {
namespace {

/// Norms a layer and whether attention and FFN read the same one.
void read_norms(const LlmConfig& config, LayerSpec& layer) {
  const Family& family = config.family();
  layer.norm = family.has(kLayerNorm) ? NormKind::layer : NormKind::rms;
  layer.norm_vectors = norm_vectors(config);
  layer.norms = family.has(kParallel) ? 1 : (family.has(kFourNorms) ? 4 : 2);
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

/// MPT has learned positions where neither ALiBi nor RoPE says where a token stands (llm-foundry, MPTConfig: both set
/// learned_pos_emb to false; MptAttentionConfig of transformers: ALiBi by default).
bool learned_positions(const LlmConfig& config) {
  if (!config.is("mpt")) return config.family().has(kPositions);
  const bool learned = config.flag_or({"learned_pos_emb"}, true);
  const auto attention = config.find_object({"attn_config"});
  if (!attention) return false;
  const bool rope = attention->find_bool("rope").value_or(false);
  if (rope) config.assume("MPT with RoPE: the rotation of Q and K is not counted");
  return learned && !rope && !attention->find_bool("alibi").value_or(true);
}

/// Learned positions, embedding norms and projections, the final norm.
double other_params(const LlmConfig& config, Llm& llm) {
  const double h = static_cast<double>(llm.hidden), norm = norm_vectors(config) * h;
  double count = norm;
  if (learned_positions(config)) {
    // OPTLearnedPositionalEmbedding keeps two rows more than there are positions.
    const std::int64_t rows =
        config.dim({"n_positions", "max_position_embeddings", "n_ctx", "max_seq_len"}, "learned positions");
    count += static_cast<double>(rows + (config.is("opt") ? 2 : 0)) * h;
  }
  if (config.is("bloom")) count += norm;  // word_embeddings_layernorm
  if (config.is("opt")) {
    if (!config.flag_or({"do_layer_norm_before"}, true)) count -= norm;
    const std::int64_t width = config.dim_or({"word_embed_proj_dim"}, llm.hidden);
    if (width != llm.hidden) {
      llm.embedding_params = static_cast<double>(llm.vocab) * static_cast<double>(width);
      count += 2.0 * static_cast<double>(width) * h;
    }
  }
  return count;
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
std::vector<LayerMixer> read_mixers(const LlmConfig& config, std::int64_t hidden,
                                    const std::vector<std::string_view>& words) {
  std::vector<LayerMixer> mixers;
  const auto layers = static_cast<std::int64_t>(words.size());
  for (std::int64_t i = 0; i < layers; ++i) {
    LayerMixer mixer = read_mixer(config, {words[static_cast<std::size_t>(i)], hidden, i, layers});
    const auto same = std::find(mixers.begin(), mixers.end(), mixer);
    mixers.push_back(same == mixers.end() ? std::move(mixer) : *same);
  }
  return mixers;
}

struct FfnParts {
  std::optional<FfnSpec> dense, moe;
};

FfnParts read_ffns(const LlmConfig& config, std::int64_t hidden, const std::vector<bool>& moe) {
  FfnParts parts;
  if (std::find(moe.begin(), moe.end(), true) != moe.end()) parts.moe = read_moe_ffn(config);
  if (std::find(moe.begin(), moe.end(), false) != moe.end()) parts.dense = read_dense_ffn(config, hidden);
  config.find({"intermediate_size"});
  return parts;
}

/// Keys of kinds of model that have no reader: better a refusal than a wrong count.
void refuse_unread(const LlmConfig& config) {
  for (const char* key : {"block_configs", "ffn_config", "cross_attention_layers", "kda_layers", "linear_attn_config",
                          "layers_num_heads", "altup_num_inputs", "mamba_d_ssm"}) {
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
  if (!family.has(kLayerNorm)) return 1;
  if (family.has(kNormNoWeight)) return 0;
  if (family.has(kNormNoBias)) return 1;
  if (config.is("mpt")) return config.flag_or({"no_bias"}, false) ? 1 : 2;
  return 2;
}

void build_decoder(const LlmConfig& config, Llm& llm) {
  refuse_unread(config);
  read_common(config, llm, config.family().has(kTied));
  const std::int64_t layers = config.layers({"num_hidden_layers", "n_layer", "n_layers", "num_layers"});
  const std::vector<std::string_view> words = layer_words(config, layers);
  const std::vector<bool> moe = moe_layers(config, layers);
  const std::vector<LayerMixer> mixers = read_mixers(config, llm.hidden, words);
  const FfnParts ffns = read_ffns(config, llm.hidden, moe);
  LayerSpec plain;
  read_norms(config, plain);
  StackSpec stack;
  stack.hidden = llm.hidden;
  for (std::size_t i = 0; i < mixers.size(); ++i) {
    LayerSpec layer = plain;
    layer.mixer = mixers[i];
    layer.ffn = moe[i] ? ffns.moe : ffns.dense;
    append_layer(stack, layer);
  }
  stack.other_params = other_params(config, llm);
  llm.mtp_params = mtp_params(config, stack);
  if (config.flag_or({"lm_head_bias"}, config.family().has(kHeadBias)))
    llm.head_params = static_cast<double>(llm.vocab);
  llm.stacks.push_back(std::move(stack));
}

}  // namespace plumbline

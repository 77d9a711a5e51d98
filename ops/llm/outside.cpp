// What a decoder has outside mixer and feed-forward part: positions, norms and projections at its ends, and narrow parts
// beside each layer. Sources: modeling_<type>.py of Hugging Face transformers 5.17.
#include <utility>

#include "ops/as_double.hpp"
#include "ops/llm/parts.hpp"

namespace plumbline {
namespace {

/// MptModel of transformers has ALiBi whatever the file says; llm-foundry's has learned positions where neither ALiBi nor
/// RoPE says where a token stands.
bool learned_positions(const LlmConfig& config) {
  if (!config.is("mpt")) return config.family().has(kPositions);
  const bool learned = config.flag_or({"learned_pos_emb"}, true);
  const auto attention = config.find_object({"attn_config"});
  if (!attention || attention->find_bool("alibi").value_or(true)) return false;
  if (attention->find_bool("rope").value_or(false)) {
    config.assume("MPT with RoPE: the rotation of Q and K is not counted");
  } else if (learned) {
    config.assume(
        "MPT without ALiBi: learned positions, which llm-foundry's code has and transformers' has not, are not "
        "counted");
  }
  return false;
}

double position_params(const LlmConfig& config, double h) {
  if (!learned_positions(config)) return 0;
  // OPTLearnedPositionalEmbedding and BioGPT's keep two rows more than there are positions.
  const std::int64_t rows =
      config.dim({"n_positions", "max_position_embeddings", "n_ctx", "max_seq_len"}, "learned positions");
  return d(rows + (config.is("opt") || config.is("biogpt") ? 2 : 0)) * h;
}

double opt_params(const LlmConfig& config, Llm& llm, double norm) {
  if (!config.is("opt")) return 0;
  double count = 0;
  if (!config.flag_or({"do_layer_norm_before"}, true)) count -= norm;
  const std::int64_t width = config.dim_or({"word_embed_proj_dim"}, llm.hidden);
  if (width == llm.hidden) return count;
  llm.embedding_params = d(llm.vocab) * d(width);
  return count + 2.0 * d(width) * d(llm.hidden);
}

/// CPM-Ant: rows for prompts beside the vocabulary's, segments, buckets of the position bias with a row a pair of
/// segments, all heads wide.
double cpmant_params(const LlmConfig& config, double h) {
  if (!config.is("cpmant")) return 0;
  const double segments = d(config.dim_or({"segment_types"}, 32));
  const double prompts = d(config.dim_or({"prompt_types"}, 32)) * d(config.dim_or({"prompt_length"}, 32));
  const double buckets = d(config.dim_or({"position_bias_num_buckets"}, 512)) + segments * segments;
  config.find({"position_bias_max_distance"});
  return (segments + prompts) * h + buckets * d(config.dim({"num_attention_heads"}, "attention heads"));
}

/// Gemma 3n and 4: a second, narrow embedding a layer and the norm of what is added to it.
double gemma_params(const LlmConfig& config, std::int64_t layers) {
  double count = 0;
  if (const std::int64_t width = config.count_or({"hidden_size_per_layer_input"}, 0); width > 0) {
    const double all = d(layers) * d(width);
    count += d(config.dim({"vocab_size_per_layer_input"}, "vocabulary of the layers' inputs")) * all + d(width);
  }
  return count;
}

/// The head of ModernBERT: a dense layer, its norm, a bias a word; and the embedding's norm. Its first layer has no norm in
/// front of attention.
double modernbert_params(const LlmConfig& config, const Llm& llm, double norm) {
  if (!config.is("modernbert-decoder")) return 0;
  const double h = d(llm.hidden);
  double count = h * h + norm;  // the embedding's norm stands for the one that the first layer has not
  if (config.flag_or({"classifier_bias"}, false)) count += h;
  if (config.flag_or({"decoder_bias"}, true)) count += d(llm.vocab);
  return count;
}

/// Not in DeepSeek-V4's own form of the file, whose compressors' weights no key of it gives either.
std::int64_t residual_streams(const LlmConfig& config) {
  const std::int64_t streams = config.count_or({"hc_mult"}, 0);
  return config.has({"compress_ratios"}) ? 0 : streams;
}

/// Manifold-constrained hyper-connections (DeepSeek-V4, Hunyuan 4): the streams are joined in front of the final norm.
double stream_head_params(const LlmConfig& config, double h) {
  const std::int64_t streams = residual_streams(config);
  return streams > 1 ? d(streams) * d(streams) * h + d(streams) + 1.0 : 0.0;
}

/// The model projects its embedding to all layers' narrow inputs in one product: each layer has its part. AltUp's
/// projections into the other residual streams and out of them stand with the first layer.
void read_gemma_beside(const LlmConfig& config, std::int64_t hidden, const BesidePlace& place, BesideSpec& beside) {
  if (const std::int64_t width = config.count_or({"hidden_size_per_layer_input"}, 0); width > 0) {
    beside.matrices.push_back({hidden, width});
    beside.matrices.push_back({hidden, width});
    beside.matrices.push_back({width, hidden});
    beside.vectors += hidden;
  }
  if (const std::int64_t rank = config.count_or({"laurel_rank"}, 0); rank > 0) {
    beside.matrices.push_back({hidden, rank});
    beside.matrices.push_back({rank, hidden});
    beside.vectors += hidden;
  }
  const std::int64_t streams = config.count_or({"altup_num_inputs"}, 0);
  if (streams > 64) config.find({"altup_num_inputs"})->fail("expected at most 64 residual streams");
  if (streams > 1) {
    beside.streams = streams;
    beside.matrices.push_back({hidden, streams});             // modality router
    beside.matrices.push_back({streams, streams});            // correction
    beside.matrices.push_back({streams, streams * streams});  // prediction
    beside.vectors += hidden;                                 // the router's norm
    if (config.flag_or({"altup_correct_scale"}, true)) beside.vectors += hidden;
    config.find({"altup_active_idx", "altup_coef_clip"});
    for (std::int64_t i = 0; place.layer == 0 && i < 2 * (streams - 1); ++i)
      beside.matrices.push_back({hidden, hidden});
  }
}

/// Zaya (arXiv 2510.04476): queries and keys pass a depthwise and a grouped convolution, a scale a KV head follows; both
/// residual adds have scales and biases; the router is a small network over a state that the layer before hands on.
void read_zaya_beside(const LlmConfig& config, std::int64_t hidden, const BesidePlace& place, BesideSpec& beside) {
  const std::int64_t heads = config.dim({"num_attention_heads"}, "query heads");
  const std::int64_t kv = config.dim_or({"num_key_value_heads"}, 2), width = config.dim_or({"head_dim"}, 128);
  const std::int64_t channels = config.product(heads + kv, width, "head_dim");
  const std::int64_t taps = config.dim_or({"cca_time0"}, 2), grouped = config.dim_or({"cca_time1"}, 2);
  const std::int64_t router = config.dim_or({"router_hidden_size"}, 256);
  beside.matrices.push_back({config.product(width, grouped, "cca_time1"), channels});
  beside.matrices.push_back({hidden, router});
  beside.matrices.push_back({router, router});
  beside.matrices.push_back({router, router});
  beside.vectors += channels * (taps + 2) + kv + 8 * hidden;
  beside.vectors += 4 * router + (place.layer > 0 ? router : 0);  // biases, a norm, the scale of the state before
}

/// Inkling: short convolutions over keys, values and the results of both parts; logits by relative position; a scale of the
/// feed-forward part; columns of the router for the shared experts.
void read_inkling_beside(const LlmConfig& config, std::int64_t hidden, const BesidePlace& place, BesideSpec& beside) {
  std::int64_t heads = config.dim({"num_attention_heads"}, "query heads");
  std::int64_t kv = config.dim_or({"num_key_value_heads"}, heads), width = config.dim_or({"head_dim"}, 128);
  std::int64_t extent = config.dim_or({"rel_extent"}, 1024);
  if (place.sliding) {
    heads = config.dim_or({"swa_num_attention_heads"}, heads);
    kv = config.dim_or({"swa_num_key_value_heads"}, kv);
    width = config.dim_or({"swa_head_dim"}, width);
    extent = config.dim_or({"sliding_window_size", "sliding_window"}, 512);
  }
  const std::int64_t taps = config.dim_or({"conv_kernel_size", "sconv_kernel_size"}, 4);
  const std::int64_t relative = config.dim_or({"d_rel"}, 16);
  beside.matrices.push_back({hidden, config.product(heads, relative, "d_rel")});
  beside.vectors += taps * (2 * config.product(kv, width, "head_dim") + 2 * hidden) + relative * extent + 1;
  if (place.moe && config.flag_or({"shared_expert_sink"}, true)) {
    if (const std::int64_t shared = config.count_or({"n_shared_experts"}, 0); shared > 0) {
      beside.matrices.push_back({hidden, shared});
    }
  }
  config.find({"unpadded_vocab_size", "log_scaling_n_floor", "logits_mup_width_multiplier"});
  config.find({"mtp_hidden_states_first", "mtp_local_layer_ids", "chain_hidden_post_norm"});
  if (config.count_or({"num_mtp_layers"}, 0) > 0) config.assume("Inkling's multi-token prediction layers are left out");
  config.assume(
      "Inkling's short convolutions and logits by relative position are in the parameters and in no operator");
}

/// Fuyu projects patches by one linear layer.
double patch_params(const LlmConfig& config, double h) {
  const JsonValue& outer = config.outer();
  if (outer.find_string("model_type").value_or("") != "fuyu") return 0;
  const auto size = [&](const char* key, std::int64_t fallback) {
    const auto value = outer.find(key);
    return d(value ? integer_within(*value, 1, 1 << 20) : fallback);
  };
  const double patch = size("patch_size", 30);
  // The linear layer is as wide as the file around the text model says.
  const double width = outer.find("hidden_size") ? size("hidden_size", 0) : h;
  return patch * patch * size("num_channels", 3) * width + width;
}

}  // namespace

double params_outside_layers(const LlmConfig& config, Llm& llm, std::int64_t layers) {
  const double h = d(llm.hidden), norm = norm_vectors(config) * h;
  double count = config.family().has(kNoFinalNorm) ? 0.0 : norm;
  count += position_params(config, h);
  if (config.is("bloom")) count += norm;  // word_embeddings_layernorm
  count += opt_params(config, llm, norm);
  count += cpmant_params(config, h);
  count += gemma_params(config, layers);
  count += modernbert_params(config, llm, norm);
  count += stream_head_params(config, h);
  count += patch_params(config, h);
  if (config.family().type.starts_with("rwkv")) count += norm;  // the embedding's norm, which stands in the first block
  if (config.is("hrm_text")) count += h;                        // where the lower module begins
  if (config.is("mllama_text_model")) count += 8.0 * h;         // rows for pictures, which the head has not
  if (config.is("zaya")) count += 2.0 * h;                      // scale and bias of what the layers read
  if (config.is("inkling")) count += h;                         // a norm of the embedding
  if (config.is("moshi")) count += h;                           // a row for the token that stands for no text
  if (config.is("gpt_neox_japanese")) count += h;               // the bias of attention in the last layer alone
  return count;
}

BesideSpec read_beside(const LlmConfig& config, std::int64_t hidden, const BesidePlace& place) {
  BesideSpec beside;
  if (config.is("zaya")) read_zaya_beside(config, hidden, place, beside);
  if (config.is("inkling")) read_inkling_beside(config, hidden, place, beside);
  read_gemma_beside(config, hidden, place, beside);
  if (const std::int64_t streams = residual_streams(config); streams > 1) {
    if (streams > 64) config.find({"hc_mult"})->fail("expected at most 64 residual streams");
    // DeepSeek-V4 mixes the streams among each other too (Sinkhorn); Hunyuan 4 reads and writes them only.
    const bool mixes = config.is("deepseek_v4");
    const std::int64_t out = 2 * streams + (mixes ? streams * streams : 0);
    beside.streams = streams;
    for (int part = 0; part < 2; ++part) beside.matrices.push_back({streams * hidden, out});
    beside.vectors += 2 * (out + (mixes ? 3 : 2));
  }
  if (config.is("doge")) beside.vectors += 2 * hidden;  // the residuals' scales
  if (config.is("jetmoe")) beside.vectors += hidden;    // a bias behind the experts
  if (config.is("rwkv7")) beside.vectors += hidden;
  if (config.is("rwkv") || config.is("rwkv5") || config.is("rwkv6")) {
    beside.matrices.push_back({hidden, hidden});  // receptance of the feed-forward part
    beside.vectors += 2 * hidden;
  }
  if (config.flag_or({"enable_moe_block"}, false)) {
    // Gemma 4: three more norms around the experts, scales of the router's input and of each expert.
    beside.vectors += 4 * hidden + config.count_or({"num_experts"}, 0);
  }
  if (const std::int64_t rank = config.count_or({"gated_norm_rank"}, 0); rank > 0) {
    // A.X-K2: a norm is scaled by a low-rank gate, the one in front of a dense feed-forward part is not.
    for (int norm = 0; norm < (place.moe ? 2 : 1); ++norm) {
      beside.matrices.push_back({hidden, rank});
      beside.matrices.push_back({rank, hidden});
    }
  }
  return beside;
}

}  // namespace plumbline

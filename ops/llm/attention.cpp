#include <algorithm>

#include "ops/llm/parts.hpp"

namespace plumbline {
namespace {

/// KV heads under their many names; multi-query flags alone mean one.
std::int64_t kv_heads(const LlmConfig& config, std::int64_t q_heads) {
  if (config.is("falcon")) {
    // FalconConfig: num_kv_heads counts only in the new decoder architecture; else multi_query (default true) means
    // one.
    if (config.flag_or({"new_decoder_architecture"}, false)) return config.dim_or({"num_kv_heads"}, q_heads);
    return config.flag_or({"multi_query"}, true) ? 1 : q_heads;
  }
  if (config.is("chatglm") && !config.flag_or({"multi_query_attention"}, false)) return q_heads;
  if (const auto heads = config.maybe_dim({"num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num",
                                           "num_attention_groups", "num_query_groups"})) {
    return *heads;
  }
  if (const auto nested = config.find({"attn_config"}); nested && nested->is_object()) {
    if (const auto heads = nested->find("kv_n_heads")) return integer_within(*heads, 1, LlmConfig::kLargestDim);
  }
  return config.flag_or({"multi_query"}, config.family().has(kMultiQuery)) ? 1 : q_heads;
}

void read_biases(const LlmConfig& config, AttentionSpec& a) {
  const Family& family = config.family();
  a.qkv_bias = family.has(kQkvBias);
  a.out_bias = family.has(kOutBias);
  const bool both = !family.has(kQkvBiasOnly);
  if (config.has({"use_bias", "bias"})) a.qkv_bias = a.out_bias = config.flag_or({"use_bias", "bias"}, false);
  if (config.has({"no_bias"})) {
    if (!config.is("qwen")) a.qkv_bias = a.out_bias = !config.flag_or({"no_bias"}, true);
  } else if (config.is("mpt")) {
    a.qkv_bias = a.out_bias = true;
  }
  if (config.has({"enable_bias"})) a.qkv_bias = a.out_bias = config.flag_or({"enable_bias"}, true);
  if (config.has({"add_bias_linear"})) a.qkv_bias = a.out_bias = config.flag_or({"add_bias_linear"}, false);
  if (config.has({"attention_bias"})) {
    a.qkv_bias = config.flag_or({"attention_bias"}, false);
    a.out_bias = a.qkv_bias && both;
  }
  a.qkv_bias = config.flag_or({"qkv_bias", "add_qkv_bias", "use_qkv_bias"}, a.qkv_bias);
  a.out_bias = config.flag_or({"attention_out_bias"}, a.out_bias);
}

int read_qk_norm(const LlmConfig& config) {
  const Family& family = config.family();
  const bool all_heads = family.has(kQkNormAll) || config.is("cohere") || config.is("cohere2") || config.is("stablelm");
  bool on = family.has(kQkNormHead) || family.has(kQkNormAll);
  on = config.flag_or({"use_qk_norm", "qk_layernorm"}, on);
  if (const auto nested = config.find({"attn_config"}); nested && nested->is_object()) {
    if (const auto flag = nested->find("qk_ln"); flag && flag->is_boolean()) on = flag->as_bool();
  }
  if (!on || family.has(kQkNormFree)) return 0;
  return all_heads ? 2 : 1;
}

void read_indexer(const LlmConfig& config, AttentionSpec& a) {
  a.index_topk = config.count_or({"index_topk"}, 0);
  if (a.index_topk == 0) return;
  a.index_heads = config.dim({"index_n_heads"}, "indexer heads");
  a.index_dim = config.dim({"index_head_dim"}, "indexer head width");
}

/// MLA: `head_dim` and `num_key_value_heads` mean nothing here (hf_config notes, section 3).
void read_mla(const LlmConfig& config, AttentionSpec& a) {
  a.kind = AttentionSpec::Kind::mla;
  config.find({"head_dim", "num_key_value_heads", "qk_head_dim"});
  a.q_lora_rank = config.count_or({"q_lora_rank"}, 0);
  a.kv_lora_rank = config.dim({"kv_lora_rank"}, "MLA latent width");
  a.rope_dim = config.dim({"qk_rope_head_dim"}, "MLA RoPE width");
  a.nope_dim = config.dim({"qk_nope_head_dim"}, "MLA head width without RoPE");
  a.qk_dim = a.nope_dim + a.rope_dim;
  a.v_dim = config.dim({"v_head_dim"}, "MLA value width");
  a.kv_heads = a.q_heads;
  if (config.has({"attention_bias"})) a.qkv_bias = a.out_bias = config.flag_or({"attention_bias"}, false);
  read_indexer(config, a);
}

/// DeepSeek-V4: one head of `head_dim` is K and V at once, queries of low rank, grouped output projection.
void read_shared_kv(const LlmConfig& config, AttentionSpec& a) {
  a.shared_kv = true;
  a.q_lora_rank = config.count_or({"q_lora_rank"}, 0);
  a.rope_dim = config.count_or({"qk_rope_head_dim"}, 0);
  a.out_groups = config.count_or({"o_groups"}, 0);
  a.out_lora_rank = config.count_or({"o_lora_rank"}, 0);
  if (a.out_groups > 0 && a.out_lora_rank == 0) config.dim({"o_lora_rank"}, "rank of the grouped output projection");
  a.qk_norm = 0;
  config.assume(
      "DeepSeek-V4: the weights of KV compressors, indexer and hyper-connections are not in the parameter count (no "
      "published formula in the file's keys)");
}

std::int64_t head_width(const LlmConfig& config, std::int64_t hidden, std::int64_t heads) {
  if (const auto width = config.maybe_dim({"head_dim", "attention_head_dim", "kv_channels", "d_kv"})) return *width;
  if (hidden % heads != 0) {
    config.inner().fail("the hidden width " + std::to_string(hidden) + " is no multiple of the " +
                        std::to_string(heads) + " query heads and there is no 'head_dim'");
  }
  return hidden / heads;
}

}  // namespace

AttentionSpec read_attention(const LlmConfig& config, std::int64_t hidden) {
  AttentionSpec a;
  a.q_heads = config.dim({"num_attention_heads", "n_head", "n_heads", "num_heads"}, "query heads");
  a.rope = !config.family().has(kNoRope) && !config.flag_or({"alibi"}, false);
  if (config.has({"kv_lora_rank"})) {
    read_mla(config, a);
    config.product(a.q_heads, std::max(a.qk_dim, a.v_dim), "num_attention_heads");
    return a;
  }
  a.kv_heads = kv_heads(config, a.q_heads);
  if (a.q_heads % a.kv_heads != 0) {
    config.inner().fail("expected the query heads (" + std::to_string(a.q_heads) +
                        ") to be a multiple of the KV heads, found " + std::to_string(a.kv_heads) + " KV heads");
  }
  a.qk_dim = a.v_dim = head_width(config, hidden, a.q_heads);
  config.product(a.q_heads, a.qk_dim, "num_attention_heads");
  read_biases(config, a);
  a.qk_norm = read_qk_norm(config);
  a.sinks = config.family().has(kSinks);
  a.output_gate = config.flag_or({"attn_output_gate"}, config.family().has(kOutputGate));
  if (config.has({"compress_ratios"})) read_shared_kv(config, a);
  return a;
}

std::vector<std::int64_t> compress_ratios(const LlmConfig& config) {
  std::vector<std::int64_t> ratios;
  if (const auto list = config.find({"compress_ratios"})) {
    for (const JsonValue& value : list->elements()) {
      ratios.push_back(integer_within(value, 0, LlmConfig::kLargestDim));
    }
  }
  return ratios;
}

AttentionSpec attention_of_layer(const LlmConfig& config, AttentionSpec base, Mixer mixer, std::int64_t layer,
                                 const std::vector<std::int64_t>& ratios) {
  if (mixer == Mixer::sliding) base.window = sliding_window(config);
  if (mixer == Mixer::chunked) {
    base.window = config.dim({"attention_chunk_size"}, "attention chunk");
    base.chunked = true;
  }
  // Llama-4 and SmolLM3: every 4th layer (i mod 4 = 3) has no RoPE.
  if ((config.family().has(kNope4) || config.is("smollm3")) && layer % 4 == 3) base.rope = false;
  if (!base.shared_kv) return base;
  base.compress_ratio = ratios[static_cast<std::size_t>(layer)];
  base.window = sliding_window(config);
  // Ratios differ by layer; the light indexer picks blocks where the stream is shortened least.
  const std::int64_t least = *std::min_element(
      ratios.begin(), ratios.end(), [](std::int64_t x, std::int64_t y) { return x > 0 && (y == 0 || x < y); });
  if (base.compress_ratio > 0 && base.compress_ratio == least) {
    read_indexer(config, base);
    if (base.index_topk > 0)
      config.assume("DeepSeek-V4: only layers of the smallest compress_ratios select by index_topk");
  }
  return base;
}

}  // namespace plumbline

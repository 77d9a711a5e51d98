#include "ops/mixer/attention.hpp"

#include <algorithm>
#include <array>

#include "ops/as_double.hpp"
#include "ops/mixer/attention_memory.hpp"
#include "ops/mixer/table.hpp"
#include "ops/step/types.hpp"

namespace plumbline {
namespace {

/// KV heads under their many names; multi-query flags alone mean one.
std::int64_t kv_heads(const LlmConfig& config, std::int64_t q_heads) {
  if (config.is("falcon")) {
    // FalconConfig: num_kv_heads counts only in the new decoder architecture; else multi_query (default true) means
    // one.
    const bool one = config.flag_or({"multi_query"}, true);
    config.find({"num_kv_heads"});
    if (config.flag_or({"new_decoder_architecture"}, false)) return config.dim_or({"num_kv_heads"}, q_heads);
    return one ? 1 : q_heads;
  }
  if (config.is("gpt_bigcode")) {  // GPTBigCodeAttention looks at the flag alone
    config.find({"num_key_value_heads"});
    return config.flag_or({"multi_query"}, true) ? 1 : q_heads;
  }
  if (const auto kind = config.find({"attention_head_type"})) {  // SantaCoder's GPT-2
    const std::string text = kind->as_string();
    if (text == "multiquery") return 1;
    if (text != "multihead") kind->fail("expected multiquery or multihead, found '" + text + "'");
  }
  if (config.is("chatglm") && !config.flag_or({"multi_query_attention"}, false)) return q_heads;
  if (const auto heads = config.maybe_dim({"num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num",
                                           "num_attention_groups", "num_query_groups"})) {
    return *heads;
  }
  if (const auto nested = config.find_object({"attn_config"})) {
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
    a.out_bias = (a.qkv_bias && both) || config.is("recurrent_gemma");
  }
  a.qkv_bias = config.flag_or({"qkv_bias", "add_qkv_bias", "use_qkv_bias"}, a.qkv_bias);
  a.out_bias = config.flag_or({"attention_out_bias"}, a.out_bias);
}

int read_qk_norm(const LlmConfig& config) {
  const Family& family = config.family();
  const bool all_heads = family.has(kQkNormAll) || config.is("cohere") || config.is("cohere2") || config.is("stablelm");
  bool on = family.has(kQkNormHead) || family.has(kQkNormAll);
  on = config.flag_or({"use_qk_norm", "qk_layernorm", "qk_norm"}, on);
  if (const auto nested = config.find_object({"attn_config"})) on = nested->find_bool("qk_ln").value_or(on);
  if (!on || family.has(kQkNormFree)) return 0;
  return all_heads ? 2 : 1;
}

std::int64_t head_width(const LlmConfig& config, std::int64_t hidden, std::int64_t heads) {
  if (const auto width = config.maybe_dim({"head_dim", "attention_head_dim", "kv_channels", "d_kv", "dim_head"}))
    return *width;
  if (hidden % heads != 0 && !config.family().has(kFlooredHeads)) {
    config.inner().fail("the hidden width " + std::to_string(hidden) + " is no multiple of the " +
                        std::to_string(heads) + " query heads and there is no 'head_dim'");
  }
  return std::max<std::int64_t>(1, hidden / heads);
}

void check_heads(const LlmConfig& config, const AttentionSpec& a) {
  if (a.q_heads % a.kv_heads != 0) {
    config.inner().fail("expected the query heads (" + std::to_string(a.q_heads) +
                        ") to be a multiple of the KV heads, found " + std::to_string(a.kv_heads) + " KV heads");
  }
  config.product(a.q_heads, std::max(a.qk_dim, a.v_dim), "num_attention_heads");
}

constexpr std::array kAttentionWords{kFullAttention, kSlidingAttention, kChunkedAttention};

/// Sizes of sliding layers apart from the others' (MiMo-V2, Inkling).
void read_sliding(const LlmConfig& config, AttentionSpec& a) {
  a.window = sliding_window(config);
  a.q_heads = config.dim_or({"swa_num_attention_heads"}, a.q_heads);
  // MiMoV2FlashAttention of transformers: twice the KV heads, with sinks.
  const bool mimo = config.is("mimo_v2_flash");
  a.kv_heads = config.dim_or({"swa_num_key_value_heads"}, mimo ? 2 * a.kv_heads : a.kv_heads);
  a.qk_dim = config.dim_or({"swa_head_dim"}, a.qk_dim);
  a.v_dim = config.dim_or({"swa_v_head_dim"},
                          config.has({"swa_head_dim"}) && !config.has({"v_head_dim"}) ? a.qk_dim : a.v_dim);
  a.sinks = config.flag_or({"add_swa_attention_sink_bias"}, a.sinks || mimo);
  check_heads(config, a);
}

/// The last layers read keys and values of earlier ones (Gemma 3n, Gemma 4).
bool reads_other_cache(const LlmConfig& config, const LayerPlace& place) {
  if (config.flag_or({"use_cla"}, false)) {
    // Hunyuan-Large: of each group of layers the first makes keys and values (cross-layer attention, arXiv 2405.12981).
    return place.layer % config.dim_or({"cla_share_factor"}, 2) != 0;
  }
  config.find({"cla_share_factor"});
  const std::int64_t shared = config.count_or({"num_kv_shared_layers"}, 0);
  if (shared >= place.layers && shared > 0) {
    config.find({"num_kv_shared_layers"})->fail("expected fewer than all " + std::to_string(place.layers) + " layers");
  }
  return place.layer >= place.layers - shared;
}

/// Llama-4 and SmolLM3: of every 4 layers (or as many as the file says) the last has no RoPE; a list says 1 of the others.
/// Cohere 2, AFMoE and, where it has a window, EXAONE 4: layers with the window alone have it.
bool rotates(const LlmConfig& config, const LayerPlace& place) {
  const bool windows_alone = config.is("cohere2") || config.is("cohere2_moe") || config.is("afmoe") ||
                             (config.is("exaone4") && sliding_window(config) > 0);
  if (windows_alone) return place.word != kFullAttention;
  if (!config.family().has(kNope4) && !config.is("smollm3")) return true;
  const std::int64_t interval = config.dim_or({"no_rope_layer_interval"}, 4);
  const auto list = config.find({"no_rope_layers"});
  if (!list || list->size() == 0) return (place.layer + 1) % interval != 0;
  const auto values = list->elements();
  if (static_cast<std::int64_t>(values.size()) < place.layers) list->fail("expected one entry a layer");
  return integer_within(values[static_cast<std::size_t>(place.layer)], 0, 1) == 1;
}

LayerMixer read_attention(const LlmConfig& config, const LayerPlace& place) {
  AttentionSpec a = read_attention(config, place.hidden);
  if (place.word == kSlidingAttention) read_sliding(config, a);
  a.reads_other_cache = reads_other_cache(config, place);
  a.values_are_keys = config.flag_or({"attention_k_eq_v"}, false) && place.word == kFullAttention;
  if (place.word == kChunkedAttention) {
    a.window = config.dim({"attention_chunk_size"}, "attention chunk");
    a.chunked = true;
  }
  if (!rotates(config, place)) a.rope = false;
  return a;
}

AttentionWidths widths(const AttentionSpec& a, double tensor) {
  AttentionWidths n;
  n.heads = d(a.q_heads) / tensor;
  n.q = n.heads * d(a.qk_dim) * (a.output_gate ? 2 : 1);
  n.out = n.heads * d(a.v_dim);
  n.kv = d(a.kv_heads) * d(a.qk_dim + a.v_dim) / tensor;
  return n;
}

}  // namespace

MixerKind attention_mixer() {
  return {.words = kAttentionWords, .read = read_attention, .fresh = fresh_mixer<AttentionSpec>};
}

std::int64_t read_query_heads(const LlmConfig& config) {
  return config.dim({"num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads"}, "query heads");
}

std::int64_t sliding_window(const LlmConfig& config) {
  const bool may = config.is("qwen2") || config.is("qwen2_moe") || config.is("qwen3") || config.is("qwen3_moe");
  if (!config.flag_or({"use_sliding_window"}, !may)) {
    config.find({"sliding_window", "sliding_window_size"});
    return 0;
  }
  if (const auto window = config.find({"sliding_window", "sliding_window_size", "attention_window_size"})) {
    // -1 and 0 are no window.
    return std::max<std::int64_t>(0, integer_within(*window, -1, LlmConfig::kLargestDim));
  }
  if (config.is("modernbert-decoder"))
    return config.count_or({"local_attention"}, 128) / 2;  // on both sides of a token
  return config.is("gpt_neo") ? config.dim_or({"window_size"}, 256) : 0;
}

AttentionSpec read_attention(const LlmConfig& config, std::int64_t hidden) {
  AttentionSpec a;
  a.q_heads = read_query_heads(config);
  a.rope = !config.family().has(kNoRope) && !config.flag_or({"alibi"}, false);
  a.kv_heads = kv_heads(config, a.q_heads);
  a.qk_dim = head_width(config, hidden, a.q_heads);
  a.v_dim = config.dim_or({"v_head_dim"}, a.qk_dim);
  if (config.is("helium") && a.q_heads * a.qk_dim != hidden) {
    config.inner().fail(
        "expected 'head_dim' times the query heads to be the hidden width, which Helium's output "
        "projection reads");
  }
  check_heads(config, a);
  // "vision": of pictures alone.
  const auto both_sides = config.find({"use_bidirectional_attention"});
  if (both_sides && !both_sides->is_string() && config.flag_or({"use_bidirectional_attention"}, false)) {
    a.causal = false;
    config.assume("attention sees tokens on both sides: prefill is costed so");
  }
  a.query_rank = config.count_or({"share_q_dim"}, 0);
  read_biases(config, a);
  a.qk_norm = read_qk_norm(config);
  if (config.family().has(kQkNormBias)) a.qk_norm_vectors = 2;
  if (config.family().has(kQkNormNoWeight)) a.qk_norm_vectors = 0;
  a.output_norm = config.family().has(kSubNorms);
  if (config.is("diffllama")) a.head_vectors = 4;
  if (config.is("doge")) {
    a.value_mask = true;
    config.find({"keep_window_size"});
    config.assume("Doge's dynamic mask: attention is costed over all keys, of which keep_window_size count");
  }
  a.sinks = config.family().has(kSinks);
  a.output_gate = config.flag_or({"attn_output_gate"}, config.family().has(kOutputGate));
  if (const auto gating = config.find({"gating"})) {
    // Laguna: true or "per-head" is one gate a head, anything else one an element.
    a.head_gates = gating->is_string() ? gating->as_string() == "per-head" : gating->as_bool();
    a.output_gate = !a.head_gates;
  }
  return a;
}

/// mha, gqa or mqa, and what it sees of the tokens behind it.
std::string AttentionSpec::kind() const {
  std::string text = kv_heads == q_heads ? "mha" : (kv_heads == 1 ? "mqa" : "gqa");
  std::string seen = window > 0 ? (chunked ? "chunk " : "window ") + std::to_string(window) : "";
  if (reads_other_cache) seen += (seen.empty() ? "" : ", ") + std::string("cache of another layer");
  return seen.empty() ? text : text + "(" + seen + ")";
}

/// Projections, biases, QK norms, sinks.
ParamCount AttentionSpec::params(std::int64_t hidden) const {
  const double h = d(hidden), q = d(q_heads), kv = d(kv_heads), qk = d(qk_dim), v = d(v_dim);
  const double gate = output_gate ? 2.0 : 1.0;
  const double keys = reads_other_cache ? 0.0 : kv, values = values_are_keys ? 0.0 : keys;
  const double queries = query_rank > 0 ? d(query_rank) * (h + gate * q * qk) : gate * h * q * qk;
  ParamCount count{queries + h * (keys * qk + values * v) + q * v * h, 0};
  count.vectors += d(query_rank);  // its norm
  if (value_mask) count += {kv * kv * v, kv};
  if (head_gates) count.matrices += h * q;
  if (qkv_bias) count.vectors += gate * q * qk + values * v + (key_bias ? keys * qk : 0.0);
  const double norm = static_cast<double>(qk_norm_vectors);
  if (qk_norm == 1) count.vectors += norm * (reads_other_cache ? 1.0 : 2.0) * qk;
  if (qk_norm == 2) count.vectors += norm * (q + keys) * qk;
  if (output_norm) count.vectors += q * v;
  count.vectors += d(head_vectors) * qk;
  if (out_bias) count.vectors += h;
  if (sinks) count.vectors += q;
  return count;
}

double AttentionSpec::kv_elements() const { return reads_other_cache ? 0.0 : d(kv_heads) * d(qk_dim + v_dim); }

/// Keys and values of the heads of this rank. Windows and chunks cap the tokens.
Bytes AttentionSpec::cache(const CacheQuery& query) const {
  if (reads_other_cache) return Bytes();
  const double kept = window > 0 ? std::min(query.tokens, d(window)) : query.tokens;
  return storage(query.kv, kept * d(lowering::ceil_div(kv_heads, query.tensor)) * d(qk_dim + v_dim));
}

namespace {

/// Eager attention of fp32 with shared key heads keeps scores (attention_core.cpp, writes_scores()).
MixerLoad as_it_runs(const AttentionSpec& spec, MixerLoad load) {
  if (load.eager && load.element > 2 && spec.kv_heads < spec.q_heads) load.flash = false;
  return load;
}

}  // namespace

/// Beside those, the norms of queries and keys as an eager framework keeps them: their input in fp32, the normalized rows,
/// a number a head. For a window that is no longer than the prompt transformers hands over a mask, which becomes numbers in
/// each layer, and for its sake keys and values of each query head.
double AttentionSpec::stored(const MixerLoad& asked) const {
  const MixerLoad load = as_it_runs(*this, asked);
  double bytes = stored_attention(widths(*this, load.tensor), load);
  if (!load.eager) return bytes;
  // keys and values that a mask, or scores written out, need once for each query head; those of a single head are a view,
  // which batched products of several sequences copy
  const double repeated = kv_heads == 1 ? 0 : d(q_heads - kv_heads) / load.tensor * d(qk_dim + v_dim);
  if (load.flash && window > 0 && !chunked && load.kv_len >= d(window)) {
    bytes += load.element * (load.tokens * load.kv_len + load.kv_tokens * repeated);
  } else if (!load.flash && kv_heads == 1 && load.kv_tokens <= load.kv_len) {
    bytes -= load.element * load.kv_tokens * d(q_heads - 1) / load.tensor * d(qk_dim + v_dim);
  }
  if (qk_norm == 0) return bytes;
  const double heads = d(q_heads + kv_heads) / load.tensor;
  return bytes + load.tokens * heads * (d(qk_dim) * (4 + load.normalized) + 4);
}

double AttentionSpec::live(const MixerLoad& load) const {
  return live_attention(widths(*this, load.tensor), as_it_runs(*this, load));
}

Bytes AttentionSpec::partials(double sequences, std::int64_t tensor) const {
  return split_partials(sequences, d(lowering::ceil_div(q_heads, tensor)), v_dim);
}

/// Beside its own part, the encoder's output that keys and values are made from; autograd keeps it once for all layers.
double CrossAttentionSpec::stored(const MixerLoad& load) const {
  return attention.stored(load) + (load.eager ? 0 : load.kv_tokens * load.element * load.hidden);
}

SegmentNames AttentionSpec::segment() const {
  if (window > 0) return {"window_layer", "window_moe_layer"};
  return {};
}

void AttentionSpec::sizes(MixerSizes& to) {
  to.whole("q_heads", q_heads);
  to.whole("kv_heads", kv_heads);
  to.whole("qk_dim", qk_dim);
  to.whole("v_dim", v_dim);
  to.flag("causal", causal);
  to.flag("rope", rope);
  to.flag("qkv_bias", qkv_bias);
  to.flag("out_bias", out_bias);
  to.flag("sinks", sinks);
  to.flag("key_bias", key_bias);
  to.flag("output_gate", output_gate);
  to.whole("qk_norm", qk_norm);
  to.whole("qk_norm_vectors", qk_norm_vectors);
  to.flag("head_gates", head_gates);
  to.flag("output_norm", output_norm);
  to.whole("head_vectors", head_vectors);
  to.flag("reads_other_cache", reads_other_cache);
  to.flag("value_mask", value_mask);
  to.flag("values_are_keys", values_are_keys);
  to.whole("window", window);
  to.flag("chunked", chunked);
  to.whole("query_rank", query_rank);
}

}  // namespace plumbline

// Sizes of latent attention: read, counted, kept. Its operators are in mla_lower.cpp.
#include "ops/mixer/mla.hpp"

#include <algorithm>
#include <array>

#include "ops/as_double.hpp"
#include "ops/mixer/attention.hpp"
#include "ops/mixer/attention_memory.hpp"
#include "ops/mixer/table.hpp"

namespace plumbline {
namespace {

constexpr std::array kMlaWords{kFullAttention, kSlidingAttention, kChunkedAttention};
constexpr std::array<std::string_view, 1> kSparseWords{"deepseek_sparse_attention"};

bool meant_mla(const LlmConfig& config) { return config.has({"kv_lora_rank"}); }

/// LongCat-Flash's class cuts each query and key of `qk_head_dim` into the part without RoPE and the part with it
/// (LongcatFlashMLA of transformers 5.17); other classes work the sum out and never read the key.
void check_head_width(const LlmConfig& config, const MlaSpec& a) {
  const auto whole = config.find({"qk_head_dim"});
  if (!whole || !config.is("longcat_flash")) return;
  if (integer_within(*whole, 1, LlmConfig::kLargestDim) == a.qk_dim()) return;
  whole->fail("expected qk_nope_head_dim + qk_rope_head_dim = " + std::to_string(a.qk_dim()) + ", found " +
              whole->dump());
}

/// `head_dim` and `num_key_value_heads` mean nothing here (docs/sources.md: models).
LayerMixer read_mla(const LlmConfig& config, const LayerPlace& place) {
  MlaSpec a;
  a.heads = read_query_heads(config);
  config.flag_or({"alibi"}, false);
  config.find({"head_dim", "num_key_value_heads"});
  a.q_lora_rank = config.count_or({"q_lora_rank"}, 0);
  a.kv_lora_rank = config.dim({"kv_lora_rank"}, "MLA latent width");
  a.rope_dim = config.dim({"qk_rope_head_dim"}, "MLA RoPE width");
  a.nope_dim = config.dim({"qk_nope_head_dim"}, "MLA head width without RoPE");
  a.v_dim = config.dim({"v_head_dim"}, "MLA value width");
  check_head_width(config, a);
  if (config.has({"attention_bias"})) a.qkv_bias = a.out_bias = config.flag_or({"attention_bias"}, false);
  a.index = read_indexer(config, place.layer);
  a.gate = a.sinks = config.is("hy_v4");
  a.latent_gate = config.is("axk2");
  if (a.latent_gate && a.q_lora_rank == 0) config.dim({"q_lora_rank"}, "rank of the query");
  config.product(a.heads, std::max(a.qk_dim(), a.v_dim), "num_attention_heads");
  return a;
}

AttentionWidths widths(const MlaSpec& a, double tensor) {
  AttentionWidths n;
  n.heads = d(a.heads) / tensor;
  n.q = n.heads * d(a.qk_dim());
  n.out = n.heads * d(a.v_dim);
  n.kv = n.heads * d(a.qk_dim() + a.v_dim);                                // expanded
  n.extra = 2 * d(a.q_lora_rank) + 2 * d(a.kv_lora_rank) + d(a.rope_dim);  // latents before and after their norm
  return n;
}

}  // namespace

MixerKind mla_mixer() {
  return {.words = kMlaWords, .meant = meant_mla, .read = read_mla, .fresh = fresh_mixer<MlaSpec>};
}

MixerKind sparse_mla_mixer() {
  const auto fresh = []() -> std::shared_ptr<Mixer> {
    auto sparse = std::make_shared<MlaSpec>();
    sparse->index.topk = 1;  // what makes it one
    return sparse;
  };
  return {.words = kSparseWords, .read = read_mla, .fresh = fresh};
}

std::string MlaSpec::kind() const {
  if (index.topk == 0) return "mla";
  return "mla(top " + std::to_string(index.topk) + (index.heads > 0 ? ", indexer)" : ")");
}

/// DeepSeek-V2 paper section 2.1: Q through a latent (or direct), K and V from a latent beside one shared RoPE key; both
/// latents are normed. Biases as DeepseekV3Attention has them: on the down projections and `o`.
ParamCount MlaSpec::params(std::int64_t hidden) const {
  const double h = d(hidden), q = d(heads), rq = d(q_lora_rank), rkv = d(kv_lora_rank);
  const double rope = d(rope_dim), nope = d(nope_dim), v = d(v_dim);
  ParamCount count;
  count.matrices = rq > 0 ? h * rq + rq * q * (nope + rope) : h * q * (nope + rope);
  if (gate) count.matrices += h * q * v;
  if (latent_gate) count.matrices += rq * q * (nope + rope) + 2.0 * rq * q * v;
  if (sinks) count.vectors += q;
  count.matrices += h * (rkv + rope) + rkv * q * (nope + v) + q * v * h;
  count.vectors = rq + rkv;
  if (qkv_bias) count.vectors += rq + rkv + rope;
  if (index.heads > 0) count += indexer_params(index, hidden, q_lora_rank > 0 ? q_lora_rank : hidden);
  if (out_bias) count.vectors += h;
  return count;
}

double MlaSpec::kv_elements() const { return d(kv_lora_rank + rope_dim); }

double MlaSpec::index_elements() const { return index.heads > 0 ? d(index.dim) : 0; }

/// The latent once, whatever the degree of tensor parallelism.
Bytes MlaSpec::cache(const CacheQuery& query) const {
  const double keys = index.heads > 0 ? d(index.dim) : 0;
  return storage(query.kv, query.tokens * (d(kv_lora_rank + rope_dim) + keys));
}

/// In eager code a latent's norm keeps its input in fp32 and the normalized rows beside what the product behind it reads; the
/// values are a view of what keys and values are expanded to, all of which stays with them; and queries that were joined of two
/// parts lie head by head, as attention's result then does, of which the output's product keeps a copy by tokens.
double MlaSpec::stored(const MixerLoad& load) const {
  const AttentionWidths n = widths(*this, load.tensor);
  const double bytes = stored_attention(n, load);
  if (!load.eager || !load.flash) return bytes;
  const double norms = 4 + load.normalized - load.element;  // both sides of a norm are counted in the narrow type
  return bytes + load.tokens * (norms * d(q_lora_rank + kv_lora_rank) - load.element * d(rope_dim)) +
         load.element * (load.kv_tokens * n.heads * d(nope_dim) + load.tokens * n.out);
}

double MlaSpec::live(const MixerLoad& load) const {
  AttentionWidths n = widths(*this, load.tensor);
  if (load.decode) n.kv = 0;  // absorbed: no keys are made
  // in prefill those of cached tokens are made again
  return live_attention(n, load) + (load.kv_tokens - load.tokens) * n.kv;
}

Bytes MlaSpec::partials(double sequences, std::int64_t tensor) const {
  return split_partials(sequences, d(lowering::ceil_div(heads, tensor)), kv_lora_rank);
}

SegmentNames MlaSpec::segment() const {
  if (index.heads > 0) return {"indexed_layer", "indexed_moe_layer"};
  return {};
}

void MlaSpec::sizes(MixerSizes& to) {
  to.whole("heads", heads);
  to.whole("q_lora_rank", q_lora_rank);
  to.whole("kv_lora_rank", kv_lora_rank);
  to.whole("nope_dim", nope_dim);
  to.whole("rope_dim", rope_dim);
  to.whole("v_dim", v_dim);
  to.flag("causal", causal);
  to.flag("qkv_bias", qkv_bias);
  to.flag("out_bias", out_bias);
  to.flag("gate", gate);
  to.flag("latent_gate", latent_gate);
  to.flag("sinks", sinks);
  to.whole("index_heads", index.heads);
  to.whole("index_dim", index.dim);
  to.whole("index_topk", index.topk);
}

}  // namespace plumbline

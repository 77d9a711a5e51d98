// Sizes of attention over a pooled stream: read, counted, kept. Its operators are in compressed_lower.cpp.
#include "ops/mixer/compressed.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "ops/as_double.hpp"
#include "ops/mixer/attention.hpp"
#include "ops/mixer/attention_memory.hpp"
#include "ops/mixer/table.hpp"

namespace plumbline {
namespace {

constexpr std::array kWords{kFullAttention, kSlidingAttention, kChunkedAttention};

bool meant(const LlmConfig& config) { return config.has({"compress_ratios"}); }

std::vector<std::int64_t> read_ratios(const LlmConfig& config, std::int64_t layers) {
  const auto list = config.find({"compress_ratios"});
  std::vector<std::int64_t> ratios;
  for (const JsonValue& value : list->elements()) ratios.push_back(integer_within(value, 0, LlmConfig::kLargestDim));
  if (static_cast<std::int64_t>(ratios.size()) < layers) {
    list->fail("expected one entry a layer (" + std::to_string(layers) + "), found " + std::to_string(ratios.size()));
  }
  return ratios;
}

LayerMixer read(const LlmConfig& config, const LayerPlace& place) {
  const AttentionSpec base = read_attention(config, place.hidden);
  CompressedSpec a;
  a.heads = base.q_heads;
  a.kv_heads = base.kv_heads;
  a.dim = base.qk_dim;
  a.out_bias = base.out_bias;
  a.window = sliding_window(config);
  a.q_lora_rank = config.count_or({"q_lora_rank"}, 0);
  a.rope_dim = config.count_or({"qk_rope_head_dim"}, 0);
  a.out_groups = config.count_or({"o_groups"}, 0);
  a.out_lora_rank = config.count_or({"o_lora_rank"}, 0);
  if (a.out_groups > 0 && a.out_lora_rank == 0) config.dim({"o_lora_rank"}, "rank of the grouped output projection");
  config.assume(
      "DeepSeek-V4: the weights of KV compressors, indexer and hyper-connections are not in the parameter count (no "
      "published formula in the file's keys)");
  // Ratios differ by layer; the light indexer picks blocks where the stream is shortened least.
  const std::vector<std::int64_t> ratios = read_ratios(config, place.layers);
  a.ratio = ratios[static_cast<std::size_t>(place.layer)];
  const std::int64_t least = *std::min_element(
      ratios.begin(), ratios.end(), [](std::int64_t x, std::int64_t y) { return x > 0 && (y == 0 || x < y); });
  if (a.ratio == 0 || a.ratio != least) return a;
  a.index = read_indexer(config);
  if (a.index.topk > 0) config.assume("DeepSeek-V4: only layers of the smallest compress_ratios select by index_topk");
  return a;
}

AttentionWidths widths(const CompressedSpec& a, double tensor) {
  AttentionWidths n;
  n.heads = d(a.heads) / tensor;
  n.q = n.out = n.heads * d(a.dim);
  n.kv = d(a.kv_heads) * d(2 * a.dim) / tensor;
  return n;
}

}  // namespace

MixerKind compressed_mixer() { return {.words = kWords, .meant = meant, .read = read}; }

/// The compressors and the indexer are not in this count; the reader says so.
ParamCount CompressedSpec::params(std::int64_t hidden) const {
  const double h = d(hidden), qd = d(heads) * d(dim), rq = d(q_lora_rank);
  double matrices = rq > 0 ? h * rq + rq * qd : h * qd;
  matrices += h * d(kv_heads) * d(dim);
  matrices += out_groups > 0 ? qd * d(out_lora_rank) + d(out_groups) * d(out_lora_rank) * h : qd * h;
  return {matrices, out_bias ? h : 0};
}

double CompressedSpec::kv_elements() const { return d(kv_heads) * d(dim) / (ratio > 0 ? d(ratio) : 1.0); }

double CompressedSpec::index_elements() const { return index.topk > 0 ? d(index.dim) : 0; }

/// Keys are values, so each is kept once.
Bytes CompressedSpec::cache(const CacheQuery& query) const {
  const double kept = window > 0 ? std::min(query.tokens, d(window)) : query.tokens;
  const double pooled = ratio > 0 ? query.tokens / d(ratio) : 0;
  return storage(query.kv, (kept + pooled) * d(dim) + pooled * (index.heads > 0 ? d(index.dim) : 0));
}

double CompressedSpec::stored(const MixerLoad& load) const {
  return stored_attention(widths(*this, load.tensor), load);
}

double CompressedSpec::live(const MixerLoad& load) const { return live_attention(widths(*this, load.tensor), load); }

Bytes CompressedSpec::partials(double sequences, std::int64_t tensor) const {
  return split_partials(sequences, d(lowering::ceil_div(heads, tensor)), dim);
}

SegmentNames CompressedSpec::segment() const {
  if (index.heads > 0) return {"indexed_layer", "indexed_moe_layer"};
  if (window > 0) return {"window_layer", "window_moe_layer"};
  return {};
}

}  // namespace plumbline

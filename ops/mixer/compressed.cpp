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

constexpr std::array kCompressedWords{kFullAttention, kSlidingAttention, kChunkedAttention};

bool meant_compressed(const LlmConfig& config) { return config.has({"compress_ratios"}); }

std::vector<std::int64_t> read_ratios(const LlmConfig& config, std::int64_t layers) {
  const auto list = config.find({"compress_ratios"});
  std::vector<std::int64_t> ratios;
  for (const JsonValue& value : list->elements()) ratios.push_back(integer_within(value, 0, LlmConfig::kLargestDim));
  if (static_cast<std::int64_t>(ratios.size()) < layers) {
    list->fail("expected one entry a layer (" + std::to_string(layers) + "), found " + std::to_string(ratios.size()));
  }
  return ratios;
}

LayerMixer read_compressed(const LlmConfig& config, const LayerPlace& place) {
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

}  // namespace

std::string CompressedSpec::kind() const {
  std::string seen = window > 0 ? "window " + std::to_string(window) : "";
  if (ratio > 0) seen += (seen.empty() ? "" : ", ") + std::string("1 of ") + std::to_string(ratio);
  return seen.empty() ? "shared kv" : "shared kv(" + seen + ")";
}

namespace {

constexpr std::string_view kSparse = "compressed_sparse_attention", kHeavy = "heavily_compressed_attention";
constexpr std::array kPooledWords{kHeavy, kSparse};
constexpr std::array<std::string_view, 1> kWindowWords{kSlidingAttention};

/// transformers' form of the file names the layers and gives each kind its rate.
bool meant_by_layers(const LlmConfig& config) { return config.is("deepseek_v4") && config.has({"compress_rates"}); }

LayerMixer read_by_layers(const LlmConfig& config, const LayerPlace& place) {
  const AttentionSpec base = read_attention(config, place.hidden);
  CompressedSpec a;
  a.whole = true;
  a.heads = base.q_heads;
  a.dim = base.qk_dim;
  if (base.kv_heads != 1) config.inner().fail("expected one KV head in 'num_key_value_heads'");
  a.window = sliding_window(config);
  a.q_lora_rank = config.dim({"q_lora_rank"}, "rank of the query");
  a.rope_dim = config.count_or({"qk_rope_head_dim"}, 0);
  a.out_groups = config.dim({"o_groups"}, "groups of the output projection");
  a.out_lora_rank = config.dim({"o_lora_rank"}, "rank of the grouped output projection");
  const Indexer index = read_indexer(config);
  const auto rates = config.find_object({"compress_rates"});
  if (place.word == kSlidingAttention) return a;
  if (!rates) config.inner().fail("missing 'compress_rates', the tokens that are pooled to one");
  a.ratio = integer_within(rates->at(place.word), 1, LlmConfig::kLargestDim);
  if (place.word == kSparse) a.index = index;
  if (place.word == kSparse && index.heads == 0) config.dim({"index_topk"}, "tokens that the indexer picks");
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

MixerKind compressed_mixer() {
  return {.words = kCompressedWords,
          .meant = meant_compressed,
          .read = read_compressed,
          .fresh = fresh_mixer<CompressedSpec>};
}

MixerKind compressed_layers_mixer() { return {.words = kPooledWords, .read = read_by_layers}; }

MixerKind compressed_window_mixer() {
  return {.words = kWindowWords, .meant = meant_by_layers, .read = read_by_layers};
}

/// DeepseekV4Attention of transformers 5.17: compressors of values and gates, twice as wide where windows overlap (the sparse
/// kind), and an indexer with a compressor of its own. Without `whole` these are not in the count; the reader says so.
ParamCount CompressedSpec::params(std::int64_t hidden) const {
  const double h = d(hidden), qd = d(heads) * d(dim), rq = d(q_lora_rank);
  double matrices = rq > 0 ? h * rq + rq * qd : h * qd;
  matrices += h * d(kv_heads) * d(dim);
  matrices += out_groups > 0 ? qd * d(out_lora_rank) + d(out_groups) * d(out_lora_rank) * h : qd * h;
  if (!whole) return {matrices, out_bias ? h : 0};
  const double width = d(compressor_width()), index_width = index.heads > 0 ? 2 * d(index.dim) : 0;
  double vectors = d(heads) + rq + d(dim) + (ratio > 0 ? d(ratio) * width + d(dim) : 0);
  matrices += 2 * h * width + 2 * h * index_width;
  if (index.heads > 0) {
    matrices += rq * d(index.heads) * d(index.dim) + h * d(index.heads);
    vectors += d(ratio) * index_width + d(index.dim);
  }
  return {matrices, vectors};
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

void CompressedSpec::sizes(MixerSizes& to) {
  to.whole("heads", heads);
  to.whole("kv_heads", kv_heads);
  to.whole("dim", dim);
  to.whole("window", window);
  to.whole("ratio", ratio);
  to.whole("q_lora_rank", q_lora_rank);
  to.whole("rope_dim", rope_dim);
  to.whole("out_groups", out_groups);
  to.whole("out_lora_rank", out_lora_rank);
  to.flag("out_bias", out_bias);
  to.flag("whole", whole);
  to.whole("index_heads", index.heads);
  to.whole("index_dim", index.dim);
  to.whole("index_topk", index.topk);
}

}  // namespace plumbline

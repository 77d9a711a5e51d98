#include "ops/mixer/indexer.hpp"

#include <algorithm>

namespace plumbline {

namespace {

/// GlmMoeDsaConfig of transformers 5.17: a list of "full" and "shared", letters F and S, or every `freq`-th layer; HYV4Config: without a
/// list the first and every fourth layer behind it.
bool chooses(const LlmConfig& config, std::int64_t layer) {
  const auto at = static_cast<std::size_t>(layer);
  const std::int64_t freq = config.dim_or({"index_topk_freq"}, 1),
                     offset = config.count_or({"index_skip_topk_offset"}, 2);
  const auto pattern = config.find({"index_topk_pattern"});
  if (const auto list = config.find({"indexer_types"})) {
    const auto words = list->elements();
    if (at >= words.size()) list->fail("expected one entry a layer");
    const std::string word = words[at].as_string();
    if (word != "full" && word != "shared") words[at].fail("expected 'full' or 'shared', found '" + word + "'");
    return word == "full";
  }
  if (pattern && pattern->is_string()) {
    const std::string letters = pattern->as_string();
    if (at >= letters.size()) pattern->fail("expected one letter a layer");
    if (letters[at] != 'F' && letters[at] != 'S') pattern->fail("expected letters F and S");
    return letters[at] == 'F';
  }
  if (config.is("hy_v4")) return layer == 0 || (layer - 1) % 4 == 0;
  return std::max<std::int64_t>(layer - offset + 1, 0) % freq == 0;
}

}  // namespace

Indexer read_indexer(const LlmConfig& config, std::int64_t layer) {
  Indexer indexer;
  indexer.topk = config.count_or({"index_topk"}, 0);
  if (indexer.topk == 0) return indexer;
  if (!chooses(config, layer)) {
    config.find({"index_n_heads", "index_head_dim"});
    config.find({"index_head_dim"});
    return indexer;
  }
  indexer.heads = config.dim({"index_n_heads"}, "indexer heads");
  indexer.dim = config.dim({"index_head_dim"}, "indexer head width");
  return indexer;
}

ParamCount indexer_params(const Indexer& a, std::int64_t hidden, std::int64_t query_in) {
  const double heads = static_cast<double>(a.heads), d = static_cast<double>(a.dim), h = static_cast<double>(hidden);
  return {static_cast<double>(query_in) * heads * d + h * d + h * heads, 2.0 * d};
}

namespace lowering {

void indexer(Step& s, const Indexer& a, std::int64_t rope_dim, std::int64_t query_in, std::int64_t keys) {
  const std::int64_t heads = a.heads, dim = a.dim;
  s.linear("index_q_proj"_node, s.tokens, heads * dim, query_in);
  s.linear("index_k_proj"_node, s.tokens, dim, s.hidden);
  s.norm("index_k_norm"_node, NormKind::layer, s.tokens, dim);
  s.gemm("index_weights_proj"_node, s.tokens, heads, s.hidden, s.types.plain);
  if (!s.max()) s.add("index_rope"_node, Rope{s.tokens, heads + 1, rope_dim, s.types.base});
  if (s.cache && !s.max()) s.copy("index_append"_node, s.tokens, dim);
  const DType score = s.types.linear.input;
  if (s.decode) {
    // A GEMM of all heads against the cached keys. The kernel sums the heads before it writes, so the result type is
    // the narrowest there is: head scores must not weigh as much as the keys.
    s.gemm("index_scores"_node.as(NodeRole::scores), heads, keys, dim, {score, score, DType::fp4, s.types.linear.math},
           false, s.batch);
  } else {
    // Causal: of the new tokens a query sees half on average. Summing over heads makes heads x dim the inner width, which leaves
    // FLOPs and the result exact.
    const std::int64_t seen = std::max<std::int64_t>(1, s.mean_seen(keys));
    s.gemm("index_scores"_node.as(NodeRole::scores), s.q_len, seen, heads * dim,
           {score, score, s.types.base, s.types.linear.math}, false, s.batch);
  }
  s.add("index_topk"_node, TopK{s.tokens, keys, std::min(a.topk, keys), DType::fp32});
}

}  // namespace lowering
}  // namespace plumbline

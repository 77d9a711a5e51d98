// The indexer of sparse attention (DSA, DeepSeek-V3.2): light queries choose which keys the attention reads.
#pragma once

#include <cstdint>

#include "ops/config/config.hpp"
#include "ops/mixer/mixer.hpp"
#include "ops/step/step.hpp"

namespace plumbline {

struct Indexer {
  std::int64_t heads = 0, dim = 0, topk = 0;  ///< 0: none; `topk` alone: the choice of an earlier layer is used again
  bool operator==(const Indexer&) const = default;
};

/// Of one layer: `indexer_types`, or the older pattern and period, say which layers choose for themselves.
Indexer read_indexer(const LlmConfig& config, std::int64_t layer = 0);
/// DeepSeek-V3.2-Exp report: queries from `query_in` wide vectors, one key a token with LayerNorm, head weights.
ParamCount indexer_params(const Indexer& indexer, std::int64_t hidden, std::int64_t query_in);

namespace lowering {

/// index_heads light queries score every past token against one shared key, ReLU, weighted sum over heads, the top k
/// stay (DeepSeek-V3.2 technical report, equation 1). Scores are in the linear layers' format (fp8 as published).
void indexer(Step& s, const Indexer& a, std::int64_t rope_dim, std::int64_t query_in, std::int64_t keys);

}  // namespace lowering
}  // namespace plumbline

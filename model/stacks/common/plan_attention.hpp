// Planners of softmax attention: prefill (flash attention forward), paged decode (split KV) and absorbed MLA decode.
#pragma once

#include "model/engine/rates.hpp"
#include "ops/op/shapes.hpp"

namespace plumbline {

struct AttentionChoice {
  AttentionPlan plan;
  const FamilyScalars* family = nullptr;          ///< of the main launch
  const FamilyScalars* combine_family = nullptr;  ///< of the merge
  Demand main;
  Demand prepare;  ///< rotate Q and K, append K and V to the cache, when the operator includes it
  Demand combine;  ///< merge the splits' partial results
  bool prepares = false, combines = false;
};

AttentionChoice plan_prefill(const AttentionPrefill& shape, const Rates& rates);
/// `as_cut`: a plan whose splits our own kernel takes as they are, in place of the cheapest. May be null.
AttentionChoice plan_decode(const AttentionDecode& shape, const Rates& rates, const AttentionPlan* as_cut = nullptr);
AttentionChoice plan_mla_decode(const MlaDecode& shape, const Rates& rates);

/// Key blocks of width `kv_tile` that the query tiles of one head visit, summed over its tiles; blocks that the mask
/// empties wholly are skipped, as the kernels do. `longest`: those of the longest tile.
struct BlockCount {
  double total = 0, longest = 0, tiles = 0;
};
BlockCount visited_blocks(const AttentionPrefill& shape, double q_tile, double kv_tile);

}  // namespace plumbline

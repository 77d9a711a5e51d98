// How FlashMLA deals latent decode out to SMs, and TensorRT-LLM's launch before it.
#pragma once

#include "model/stacks/common/plan_attention.hpp"

namespace plumbline {

/// Of the CTA that has most: blocks of keys, and pieces of sequences that they belong to.
struct MlaDeal {
  double ctas = 0;  ///< with something to do, of one tile of heads
  double blocks = 0, pieces = 1;
  double splits = 1;  ///< parts of a sequence's keys, that a second launch merges
};

/// `sequences` of `blocks` each, by as many CTAs as there are SMs for each of `tiles` of 64 heads.
MlaDeal deal_latent(double sequences, double blocks, double tiles, double sms);

/// FlashMLA's merge of `splits` parts of each head, which is launched where there is but one, too.
Demand mla_merge_demand(const DecodeTask& task, DType dtype, double splits, const Rates& rates);

/// The launch before: queries and the new key are rotated, the cache is written, and for caches of 8 bits queries are
/// rounded.
Demand mla_prepare_demand(const MlaDecode& shape, const Rates& rates);

}  // namespace plumbline

// What the planners of attention share: our own kernels' (plan_attention.cpp, own/plan_decode.cpp) and the libraries'
// (trtllm/plan_attention.cpp, flash_attention/plan_attention.cpp).
#pragma once

#include <algorithm>
#include <cmath>

#include "model/stacks/common/plan_attention.hpp"
#include "ops/plan/kernel_menu.hpp"

namespace plumbline {

inline double ceil_div(double a, double b) { return std::ceil(a / b); }
inline double bytes_of(DType type) { return bits(type) / 8.0; }
/// Narrow inputs are answered in bf16 (ops/op/work.cpp counts the same).
inline double output_bytes_of(DType type) { return std::max(2.0, bytes_of(type)); }

/// Ordinary-lane operations a score element takes in online softmax: scale-subtract, max, sum, convert, and its share
/// of rescaling the output (modeling notes, section 5: n_fp 6-8).
inline constexpr double kSoftmaxOps = 7;

/// Softmax and score work of one (query tile, key block) pair: everything but shared memory and what stays exposed.
void score_demand(Demand& demand, double rows, double keys, double qk_dim, double v_dim, double flop_per_clk,
                  double kv_bytes, const Rates& rates);

/// Decode of `rows` packed query rows a CTA against a stream of keys.
struct DecodeTask {
  double ctas_unsplit = 0;  ///< (sequence, KV head or head tile) pairs
  double rows = 0;          ///< packed query rows a CTA
  double context = 0;       ///< keys
  double qk_dim = 0, v_dim = 0;
  double key_bytes = 0;    ///< of one key and its value, as stored
  double out_rows = 0;     ///< query rows in all
  double kv_sets = 0;      ///< distinct key streams: what DRAM carries once
  double cached = 0;       ///< keys in the cache of one stream, whether a window hides them or not
  double table_bytes = 0;  ///< page-table entries (int32) of the pages that hold visible keys
};

/// Whether the launch that reads the keys writes the results, or a second launch that merges its partial ones does.
enum class ResultsLeave { here, by_the_merge };

/// What a launch of decode attention moves between DRAM and L2: queries, keys, values and the page table in; results
/// out, each of them by one launch only.
void decode_traffic(Demand& demand, const DecodeTask& task, DType dtype, ResultsLeave results);

/// The merge of `splits` partial (O, log-sum-exp) per query head, in fp32. They stay in L2, or go through DRAM where
/// all of them are more than it holds.
Demand combine_demand(double rows, double v_dim, double splits, double out_bytes, const Rates& rates);

/// One pass over the new tokens: read their fused QKV, write rotated Q and the cache.
Demand prepare_demand(const AttentionPrefill& shape, const Rates& rates);
/// FlashAttention's callers': new keys and values to the cache, a CTA for each token.
Demand append_demand(const AttentionPrefill& shape, const Rates& rates);

/// Key blocks of a tile of `queries` in which the mask cuts: those that the diagonal crosses, and those where a window
/// begins; no more than the tile visits.
double masked_blocks(const AttentionPrefill& shape, double queries, double keys, double visited);
/// Clocks of one SM to mask a block of so many scores.
double mask_clk(double scores, const Rates& rates);

AttentionChoice plan_flash_prefill(const AttentionPrefill& shape, const Rates& rates);
AttentionChoice plan_flash_decode(const AttentionDecode& shape, const DecodeTask& task, const Rates& rates);
/// `as_cut`: see plan_decode.
AttentionChoice plan_own_decode(const AttentionDecode& shape, const DecodeTask& task, const DecodeVariant& variant,
                                const Rates& rates, const AttentionPlan* as_cut);
AttentionChoice plan_library_prefill(const AttentionPrefill& shape, const Rates& rates);
AttentionChoice plan_library_decode(const AttentionDecode& shape, const DecodeTask& task, const Rates& rates);

}  // namespace plumbline

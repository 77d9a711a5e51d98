// What planners of softmax attention share, whoever wrote the kernels: prefill (flash attention forward) and paged decode
// (split KV).
#pragma once

#include <algorithm>
#include <cmath>

#include "model/stacks/provider.hpp"

namespace plumbline {

struct AttentionChoice {
  AttentionPlan plan;
  const FamilyScalars* family = nullptr;          ///< of the main launch
  const FamilyScalars* prepare_family = nullptr;  ///< of the pass before it
  const FamilyScalars* combine_family = nullptr;  ///< of the merge
  const FamilyScalars* copy_family = nullptr;     ///< of copies to another layout
  Demand main;
  Demand prepare;   ///< rotate Q and K, append K and V to the cache, when the operator includes it
  Demand quantize;  ///< operands in the type of the products, by a launch after `prepare`, of its family
  Demand combine;   ///< merge the splits' partial results
  Demand copy;      ///< queries to another layout, or results from it
  bool prepares = false, quantizes = false, combines = false;
  int copies = 0;            ///< the last one behind all other launches
  DType math = DType::bf16;  ///< of prefill's products
};

/// How keys are cut.
struct KeyCutting {
  Cutting cutting = Cutting::by_rule;
  /// Times are compared as the operator is priced alone, at the clock that its power leaves: FLOPs that count for power; 0:
  /// at the clock of the rates.
  Flops alone{};
  DType math = DType::bf16;
};
inline KeyCutting key_cutting(const Question& q) {
  return {q.cutting, q.priced_alone && q.rates.power ? q.work.tensor : Flops{}, q.work.math};
}

/// Of the choice's launches and the gaps between them, by which cuts are compared.
Seconds time_of(const AttentionChoice& choice, const Rates& rates, const KeyCutting& how = {});

/// Parts that keys are cut into where they are cut by time: the same on every machine, so that one with more SMs has
/// every cut that one with fewer has.
inline constexpr double kSplitsTried[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128};

/// Cuts the keys of `choice` into `by_rule` parts, or into the cheapest number that is no more than `most`.
/// `cut(main, splits)` writes what of a launch goes with the number of parts.
template <class Cut>
void cut_keys(AttentionChoice& choice, const KeyCutting& how, double by_rule, double most, const Rates& rates,
              const Cut& cut) {
  double best = by_rule;
  if (how.cutting == Cutting::by_time) {
    Seconds least;
    for (const double splits : kSplitsTried) {
      if (splits > std::max(1.0, most)) break;
      cut(choice.main, splits);
      const Seconds time = time_of(choice, rates, how);
      if (splits > 1 && time >= least) continue;
      least = time;
      best = splits;
    }
  }
  cut(choice.main, best);
  choice.plan.splits = static_cast<std::int64_t>(best);
}

/// The choice as an answer: its launches, as their operands are found.
void answer_attention(const AttentionChoice& choice, const char* kernel, Variant variant, const Question& question,
                      Answer& answer);
/// Which shapes the scalars of a library's attention are not fitted to, as the fits have it (tools/fit_calibration.sh).
Variant attention_variant(const Op& op);
/// Whether prefill rotates and appends: as the operator says, else as the stack does.
inline bool appends(const AttentionPrefill& s, const Question& q) {
  return s.append == 1 || (s.append < 0 && q.appends);
}
/// Throws BadInput, naming the GPU, where its tensor units do not take the format.
void require_tensor_path(DType type, const Question& question);

/// Key blocks of width `kv_tile` that the query tiles of one head visit, summed over its tiles; blocks that the mask
/// empties wholly are skipped, as the kernels do. `longest`: those of the longest tile.
struct BlockCount {
  double total = 0, longest = 0, tiles = 0;
};
/// Where tiles begin to read behind a window: at the block of their own first key, or all of them as many blocks back as the
/// tile that lies worst to them; or blocks are counted from a tile's own first key.
enum class WindowBegin { own_block, worst_tile, own_key };
BlockCount visited_blocks(const AttentionPrefill& shape, double q_tile, double kv_tile,
                          WindowBegin begin = WindowBegin::own_block);

inline double ceil_div(double a, double b) { return std::ceil(a / b); }
/// Narrow inputs are answered in bf16 (ops/op/attention_math.cpp counts the same).
inline double output_bytes_of(DType type) { return std::max(2.0, bytes_of(type)); }

/// Ordinary-lane operations a score element takes in online softmax: scale-subtract, max, sum, convert, and its share
/// of rescaling the output (docs/sources.md: attention; six to eight).
inline constexpr double kSoftmaxOps = 7;

/// What a score takes in a softmax beside its exponential: ordinary-lane operations, and instructions of a thread.
struct SoftmaxCost {
  double lanes = 0, instructions = 0;
};
/// Where tensor memory holds the scores a thread has a row for itself, so that nothing is exchanged, and sm_100 has instructions
/// for two numbers at a time: a maximum, and half an instruction each to scale and subtract, to sum and to convert; results
/// are rescaled apart, by threads of their own. (CUTLASS, example 77, sm100_fmha_fwd_mainloop_tma_warpspecialized.hpp,
/// softmax_step(): fmax, cute::fma and cute::add of float2, a converter of two; PTX ISA, fma.f32x2: sm_100.)
SoftmaxCost softmax_cost(const Rates& rates);
/// Of kernels that take mma.sync wherever they run.
inline constexpr SoftmaxCost kPlainSoftmax{kSoftmaxOps, kSoftmaxOps};

/// A query tile against a block of keys, each key and its value so many columns wide.
struct ScoredTile {
  double rows = 0, keys = 0, qk_dim = 0, v_dim = 0;
};

/// Softmax and score work of one (query tile, key block) pair: everything but shared memory and what stays exposed.
void score_demand(Demand& demand, const ScoredTile& tile, double flop_per_clk, double kv_bytes, const Rates& rates,
                  const SoftmaxCost& softmax);
inline void score_demand(Demand& demand, const ScoredTile& tile, double flop_per_clk, double kv_bytes,
                         const Rates& rates) {
  score_demand(demand, tile, flop_per_clk, kv_bytes, rates, softmax_cost(rates));
}

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

DecodeTask decode_task(const AttentionDecode& shape);

/// Whether the launch that reads the keys writes the results, or a second launch that merges its partial ones does.
enum class ResultsLeave { here, by_the_merge };

/// What a launch of decode attention moves between DRAM and L2: queries, keys, values and the page table in; results
/// out, each of them by one launch only.
void decode_traffic(Demand& demand, const DecodeTask& task, DType dtype, ResultsLeave results);

/// The merge of `splits` partial (O, log-sum-exp) per query head, in fp32. They stay in L2, or go through DRAM where
/// all of them are more than it holds.
Demand combine_demand(double rows, double v_dim, double splits, double out_bytes, const Rates& rates);

/// Whether a prefill kernel for tcgen05 has two tiles of 128 query rows that take turns: tensor memory, 512 columns of it,
/// holds the scores of `keys` keys and the results of both, and there are rows for both. (FlashAttention-4, forward
/// pipeline; CUTLASS's FMHA for Blackwell.)
inline constexpr double kTensorMemoryColumns = 512;
inline bool two_tiles_in_tensor_memory(double keys, double v_dim, double rows) {
  constexpr double kTile = 128;
  return 2 * (keys + v_dim) <= kTensorMemoryColumns && rows > kTile;
}

/// Where heads are too wide for two tiles: scores of two blocks beside one tile's results. The products of the next block's
/// scores and of the last one's values are what hides a softmax then. Two SMs share such a tile's keys and values, each of
/// which fetches half of them. (FlashAttention-4, sm100_hd256_2cta_fmha_forward.py: qk_acc_stage = 2, scores from column 0,
/// results from 256, instructions of two SMs.)
inline bool two_blocks_in_tensor_memory(double keys, double v_dim) {
  constexpr double kNarrow = 128;
  return v_dim > kNarrow && 2 * keys + v_dim <= kTensorMemoryColumns;
}

/// The bytes of prefill's results, as wide as `attention_output` of the operator's data type.
Bytes prefill_results(const AttentionPrefill& shape);

/// What prefill moves between DRAM and L2, each of queries, visible keys and values, and results once.
void prefill_traffic(Demand& demand, const AttentionPrefill& shape);

/// Key blocks of a tile of `queries` in which the mask cuts: those that the diagonal crosses, and those where a window
/// begins; no more than the tile visits.
double masked_blocks(const AttentionPrefill& shape, double queries, double keys, double visited);
/// Clocks of one SM to mask a block of so many scores.
double mask_clk(double scores, const Rates& rates);
/// cuDNN holds each column against the end of the keys in every step, not in the last one alone, where they do not fill their last
/// block: a compare and a select a score, hidden behind nothing. Forward passes with a causal mask do not, by their times: there
/// the diagonal's mask cuts the same columns off. (H200, training rows of such lengths: 19 of forward passes without a mask, 36 of
/// gradients of either kind.) 0 where keys fill whole blocks.
double end_check_clk(std::int64_t kv_len, double keys_of_step, double scores, const Rates& rates);

}  // namespace plumbline

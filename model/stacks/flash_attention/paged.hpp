// How FlashAttention-3 cuts attention over a cache in pages, as vLLM's copy of it does (hopper/tile_size.h,
// flash_api.cpp, heuristics.h, flash_prepare_scheduler.cu).
#pragma once

#include "model/stacks/common/plan_attention.hpp"

namespace plumbline::flash_attention {

/// A tile of scores: query rows (query heads of a KV head side by side) x keys.
struct PagedTile {
  double rows = 0, keys = 0;
  bool one_warpgroup = false;  ///< of 64 rows, where all queries of a KV head fit and no window hides keys
};

struct PagedQuestion {
  double width = 0, v_width = 0;  ///< of heads, as compiled
  double queries = 0;             ///< of a KV head: query heads x tokens
  bool windowed = false;          ///< a window hides keys
  bool narrow = false;            ///< operands of 8 bits
};

PagedTile paged_tile(const PagedQuestion& question);

/// What the number of parts goes by that keys are cut into.
struct PagedWork {
  double sequences = 0, kv_heads = 0;
  double row_tiles = 0;       ///< of a sequence and KV head
  double blocks = 0;          ///< of keys in a sequence
  double blocks_loaded = 0;   ///< ... at most, where a window hides the others
  double tokens = 0;          ///< of queries, over all sequences
  double queries_a_step = 0;  ///< of a sequence
};

/// Parts of each sequence's keys: as many as give every SM as many blocks, and no more than the caller allows (steps of one
/// token that a CUDA graph holds) or num_splits_heuristic() does for one sequence.
double paged_parts(const PagedWork& work, double sm_count);

/// Sequences up to which a launch before deals out parts; of more, none are cut (flash_prepare_scheduler.cu: one CTA of 32
/// warps, 31 sequences each).
inline constexpr double kMostPrepared = 992;

/// A CTA finds its next tile by walking over the sequences, 31 at a time: each step waits for L2 (a length; where a launch
/// before has sorted the sequences, the place in that order first), and sums up over a warp. (hopper/tile_scheduler.hpp,
/// VarlenDynamicPersistentTileScheduler::tile_idx_to_work_tile().)
Seconds walk_over_sequences(double sequences, const Rates& rates);

/// Keys that a token sees which follows `cached` others.
double keys_seen(double cached, double window);
/// The same in blocks of `keys`, which begin at the first key of a window (n_offset of hopper/block.h).
double visible_blocks(double cached, double window, double keys);

/// Widths of heads that kernels are compiled for.
double compiled_width(std::int64_t width);
/// The same where widths are compiled in steps of 64.
double width_in_64s(std::int64_t width);
inline bool is_narrow(DType type) { return bits(type) <= 8; }
/// What FA3 multiplies: operands of one type, the cache's; its callers round queries before they call. (hopper/flash_api.cpp:
/// "query and key must have the same dtype"; vLLM's attention layer, query_quant.) FA2 has no such kernel, nor FA4, which
/// wider operands are priced for.
DType multiplied(DType type, DType kv_type, const Rates& rates);

/// Clocks of a block in kernels that do not begin the next scores while the last ones are in work (IntraWGOverlap): of 8-bit
/// operands of wider heads, which leave no registers for that, products of queries and keys, and their softmax, are hidden
/// behind nothing; behind windows (in 16 bits heads of 64 alone) behind the other warpgroups' in part.
double not_overlapped_clk(const Demand& demand, const PagedQuestion& question);

/// What a tile of 8-bit heads of 128 takes once, whatever its length, beside those of 64, 192 and 256: read off training rows of
/// prompts of an H200 and an H100; nobody has seen why.
double crowded_clk(const PagedTile& tile, const PagedQuestion& question);

/// Clocks of a tile for the blocks in which the mask cuts: those that the diagonal of its `queries` tokens crosses, and as many
/// where a window begins.
double masked_clk(double queries, const PagedTile& tile, const PagedQuestion& question, double visited,
                  const Rates& rates);

/// The chain of a block: a warpgroup looks up pages, copies keys and values row by row (cp.async), and of 8-bit operands
/// transposes the values in shared memory. `step_clk` is that of 32 KiB in 8 bits, of 64 KiB in 16. `filled`: the share of
/// rows that hold a key; others are not copied, but transposed (a third of what a byte takes, by training rows of up to 31
/// keys of an H200).
double paged_chain_clk(double keys, double qk_dim, double v_dim, bool narrow, double step_clk, double filled = 1);

/// Bytes of a block of keys and values in shared memory: 8-bit rows of 192 bytes lie in 256.
double block_bytes(double keys, double qk_dim, double v_dim, double element_bytes);

}  // namespace plumbline::flash_attention

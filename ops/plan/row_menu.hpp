// How our row-wise kernels hold a row: the tiles that are compiled, and which of them a shape takes. The launchers
// dispatch on these menus and the planner prices them, so that the plan that was priced is the plan that runs. Of the
// machine only the count of its SMs counts.
//
// What was measured for each menu: docs/lab/rowwise.md and docs/lab/topk.md.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/plan/plans.hpp"
#include "ops/shape/shapes.hpp"

namespace plumbline {

inline constexpr std::int64_t kRowVector = 8;  ///< bf16 elements in 16 bytes
inline constexpr int kRowWarp = 32;
inline constexpr int kMostRowCtas = 8;  ///< of a cluster: the most that every GPU with clusters takes
inline constexpr int kRowsPerCta = 8;   ///< of the warp-per-row variant

/// One compiled kernel's share of a row: `vecs` vectors of 8 elements in each of `threads` threads, of one CTA or of each of a cluster; or
/// (`walks`) of a CTA that goes through its row so much at a time, which only a reduction can.
struct RowTile {
  int threads = 0, vecs = 0;
  bool clustered = false, walks = false;
};

/// An entry of a menu (-1: none is wide enough), the CTAs a row, and the rows a CTA.
struct TileChoice {
  int entry = -1, cluster = 1, rows = 1;
};

constexpr bool whole_rows(std::int64_t cols) { return cols % kRowVector == 0; }

/// The narrowest entry from `menu` (ascending in what it holds, cluster entries last) that holds the row; a cluster
/// entry takes as few CTAs as it can, but at least `least`.
TileChoice choose(std::span<const RowTile> menu, std::int64_t cols, int least = 1);

KernelPlan plan_of(const RowTile& tile, const TileChoice& choice, std::int64_t rows);

// --- norms, softmax, sum and argmax of rows, quantize ----------------------------------------------------------------

/// Many rows: as few threads a row as give each a vector or two (or four, in wide rows), so that many rows are on an SM
/// and one's loads hide another's reduction.
inline constexpr RowTile kRowsMany[] = {{32, 1},  {32, 2},  {64, 2},  {128, 2},  {256, 2},       {192, 4},
                                        {224, 4}, {512, 2}, {512, 4}, {1024, 4}, {512, 8, true}, {1024, 8, true}};
/// Layernorm and quantize, whose arithmetic is longer.
inline constexpr RowTile kRowsHeavy[] = {{32, 1},  {32, 2},  {64, 2},  {128, 2},  {128, 4},       {192, 4},
                                         {224, 4}, {256, 4}, {512, 4}, {1024, 4}, {512, 8, true}, {1024, 8, true}};
/// Softmax, which has no registers left to hold eight vectors well.
inline constexpr RowTile kRowsSoftmax[] = {{32, 1},        {32, 2},        {64, 2},        {128, 2}, {128, 4},
                                           {192, 4},       {224, 4},       {256, 4},       {512, 4}, {1024, 4},
                                           {512, 4, true}, {512, 8, true}, {1024, 8, true}};
/// Nothing to write: more in flight, fewer threads to agree. The last entry walks.
inline constexpr RowTile kRowsReductions[] = {{32, 1},
                                              {32, 2},
                                              {32, 4},
                                              {128, 2},
                                              {128, 4},
                                              {192, 4},
                                              {256, 4},
                                              {512, 4},
                                              {1024, 4},
                                              {1024, 8, true},
                                              {512, 4, false, true}};
/// Few rows, whose latency counts: a vector or two a thread, and parameters loaded before the reduction.
inline constexpr RowTile kRowsFew[] = {{32, 1},  {64, 1},  {128, 1},  {256, 1},
                                       {256, 2}, {512, 2}, {1024, 2}, {1024, 2, true}};

enum class RowMenu { many, heavy, softmax, reductions, few };

constexpr std::span<const RowTile> entries(RowMenu menu) {
  switch (menu) {
    case RowMenu::many: return kRowsMany;
    case RowMenu::heavy: return kRowsHeavy;
    case RowMenu::softmax: return kRowsSoftmax;
    case RowMenu::reductions: return kRowsReductions;
    case RowMenu::few: break;
  }
  return kRowsFew;
}

constexpr RowMenu row_menu_of(RowwiseKind kind) {
  if (kind == RowwiseKind::softmax) return RowMenu::softmax;
  if (kind == RowwiseKind::layernorm || kind == RowwiseKind::quantize) return RowMenu::heavy;
  return kind == RowwiseKind::sum_rows || kind == RowwiseKind::argmax ? RowMenu::reductions : RowMenu::many;
}

/// CTAs that must fit an SM together: the register limit that a kernel is compiled for.
constexpr int min_ctas_per_sm(const RowTile& h) {
  constexpr int kWalking = 3;
  if (h.walks) return kWalking;
  const int threads = h.threads == kRowWarp ? kRowWarp * kRowsPerCta : h.threads;
  const int want = h.vecs <= 2 ? (threads <= 128 ? 2048 : 1536) : 1024;
  return std::max(1, want / threads);
}

/// Which menu and which entry of it.
struct RowChoice {
  RowMenu menu = RowMenu::few;
  TileChoice choice;

  const RowTile& tile() const { return entries(menu)[static_cast<std::size_t>(choice.entry)]; }
};

/// What an operator that needs whole rows takes on a GPU of `sms` SMs; no entry where no kernel holds the row.
RowChoice choose_row_tile(const Rowwise& shape, std::int64_t sms);

// --- top-k -----------------------------------------------------------------------------------------------------------

inline constexpr RowTile kTopKMenu[] = {{32, 1},  {32, 2},  {32, 4},  {128, 1},       {128, 2},       {256, 2},
                                        {256, 4}, {512, 4}, {512, 8}, {512, 4, true}, {512, 8, true}, {1024, 8, true}};

/// Few rows are spread over clusters, and a warp a row serves where k trips over it are cheap.
TileChoice choose_topk(std::int64_t rows, std::int64_t cols, std::int64_t k);

// --- the training attention chain (kernels/chain/attention_chain.cu)
// -------------------------------------------------------

/// Rows as fp32 in the registers of `lanes` neighbouring threads, `groups` groups of 8 columns each.
struct ChainTile {
  int lanes = 0, groups = 0;
};
inline constexpr ChainTile kChainMenu[] = {{8, 1},   {8, 2},   {8, 4},   {16, 3},  {16, 4},  {32, 4},
                                           {128, 2}, {128, 4}, {256, 4}, {512, 4}, {1024, 4}};
/// Rows wider than all of these are walked by a CTA each.
inline constexpr int kChainWalkThreads = 1024;

/// The kernels that hold rows so: scale_mask_softmax_dropout, its backward, softmax_backward, rmsnorm_backward.
enum class ChainOp { forward, fused_backward, softmax_backward, norm_backward };
/// How a row fits its lanes: not whole groups of 8 columns, whole groups, or whole groups that fill the lanes, so that
/// no bounds are checked and the groups of a thread are worked on side by side.
enum class ChainFit { ragged, whole, full };
/// Whether rows that fill such lanes have a kernel of their own: where it is the faster one.
constexpr bool chain_fills(ChainOp op, int lanes, int groups) {
  if (op == ChainOp::forward) return groups < 4;
  return lanes <= kRowWarp || (lanes == 128 && groups == 4) || (lanes == 1024 && op != ChainOp::fused_backward);
}

/// Threads of a CTA, a variable because device code reads it too: rows that take a warp or less share one of 256.
template <int kLanes>
inline constexpr int kChainThreads = kLanes > kRowWarp ? kLanes : 256;
constexpr int chain_threads(int lanes) { return lanes > kRowWarp ? lanes : kChainThreads<kRowWarp>; }

/// The first entry wide enough, or lanes = 0 when the row must be walked.
ChainTile chain_tile(std::int64_t cols);
/// How a row of `cols` fits the tile that chain_tile() gives it.
constexpr ChainFit chain_fit(ChainOp op, std::int64_t cols, const ChainTile& tile) {
  if (!whole_rows(cols)) return ChainFit::ragged;
  const bool full = cols == kRowVector * tile.lanes * tile.groups && chain_fills(op, tile.lanes, tile.groups);
  return full ? ChainFit::full : ChainFit::whole;
}
/// Whether a group of lanes takes several rows, the next one on its way while it works on one. Two rows of two inputs
/// (backward) take so many registers that short rows, of which an SM holds many, are faster without.
template <bool kForward, int kLanes>
inline constexpr bool kChainPrefetches = kForward || kLanes == 256 || kLanes == 512;
/// Rows that a group of lanes takes one after the other: one without prefetch, else as many as leave each of `sms` SMs
/// some CTAs to even out.
std::int64_t chain_rows_each(bool forward, std::int64_t rows, int lanes, std::int64_t sms);
std::int64_t chain_ctas(std::int64_t rows, int lanes, std::int64_t each);

}  // namespace plumbline

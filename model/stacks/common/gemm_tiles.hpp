// What the GEMM planners of all providers share: what a tile costs a step, a tile laid over the operands, how tiles are
// dealt to CTAs, and the launch that follows. What a kernel does differently, its own planner adds.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "model/engine/tensor_path.hpp"
#include "model/engine/timing.hpp"
#include "model/stacks/common/gemm_task.hpp"

namespace plumbline::gemm {

/// Rows and columns of the tensor instruction's side: either operand may take the rows ("swapped": weights fill the rows
/// when there are few tokens).
struct Tile {
  std::int16_t rows, cols;
};

/// One main-loop step covers 128 bytes of K (a swizzle span): 64 bf16, 128 fp8.
constexpr double kStepBytes = 128;
/// Elements of K of such a step, of the wider operand; 16 at least.
inline double step_of(const GemmTask& t) {
  return std::max(16.0, kStepBytes / std::max(t.input_bytes, t.weight_bytes));
}

/// A fill takes little of the port that operands are read through: beside 15 bytes a clock of it, reads sank from
/// 127.8 to 125.1 (own probe on an H200, 2026-11-20).
constexpr double kFillShare = 0.18;

/// Clocks of a row of 128 bytes of a box outside the tensor, which copies by tensor maps write as zeros: steps that wait for
/// their loads take so much longer (2.8 to 4, tiles with 16 to 88 such rows, H200, 2026-11-20).
inline constexpr double kOutsideRowClk = 2.8;

/// Rows of 128 bytes outside a tensor that L2 answers a clock, to all SMs together (outside_clk).
inline constexpr double kOutsideRowsPerClk = 10.5;

/// Clocks of a CTA's step that L2 is busy with `rows` of 128 bytes outside a tensor: a box's rows outside are asked for all the
/// same, at one place of the tensor's own. L2 answers so many a clock, and where more ask at once merges them, so that a step of
/// all CTAs takes 870 clocks more at the most. For one CTA, or eight, they are free; 128 CTAs with 31 to 127 of them a step take
/// 590 to 1080 clocks where whole boxes take 450. Of many tensors less is left: experts' rows in serving stacks are priced by
/// `kOutsideRowClk` still, which their training rows ask for.
/// (Own probe of rings that tensor maps fill, tools/rows_outside.cu, three H200 and an H100 alike, 2026-11-24:
/// data/measurements/{h200,h100}/probe/outside.csv.
/// Which lines they are was not found.)
inline double outside_clk(double rows, double ctas_at_once) {
  constexpr double kMostClk = 870;
  return std::min(rows / kOutsideRowsPerClk, kMostClk / std::max(1.0, ctas_at_once));
}

/// Dependent ways to memory before a library's first product, when nothing of the kernel is in L2: code and launch
/// parameters, tensor map, operands. (Fitted between cold recordings and published rows whose weights stay in L2: 3.7.
/// The same row-wise kernel takes 1.2 us longer cold than warm: docs/measuring.md.)
inline constexpr double kColdTrips = 4;

/// Bytes of a value in its row: scales of narrow operands lie in an array of their own, so that what a value takes beside its
/// whole bits is not there.
inline double bytes_in_row(double bytes_with_scales) { return std::floor(8 * bytes_with_scales) / 8; }

/// Whether rows of the operands and of the result are whole 16-byte units, as the strides of a tensor map must be.
inline bool whole_units(const GemmTask& t) {
  constexpr double kUnit = 16;
  return std::fmod(t.k * bytes_in_row(t.input_bytes), kUnit) == 0 &&
         std::fmod(t.k * bytes_in_row(t.weight_bytes), kUnit) == 0 && std::fmod(t.n * t.output_bytes, kUnit) == 0;
}

/// Where rows of K begin.
struct RowStarts {
  double lines = 1;           ///< of 128 bytes that 128 bytes of a row touch, mean over rows
  bool whole_sectors = true;  ///< of 32 bytes
  double inside = 0;          ///< share of rows that begin inside one of DRAM's accesses of 64 bytes
};
RowStarts row_starts(const GemmTask& task);

/// What every candidate of one task shares.
struct Context {
  const GemmTask& task;
  const Rates& rates;
  const FamilyScalars& family;
  const FamilyScalars& reduce;
  const TensorPath path;  ///< that the kernel takes
  const RowStarts starts;
  double a_bytes, w_bytes, out_bytes;  ///< whole operands of one batch entry
  double smem, smem_port, l2_port;     ///< bytes, bytes a clock
  Seconds clk;                         ///< one SM clock

  Context(const GemmTask& task, const Rates& rates, const FamilyScalars& family, const FamilyScalars& reduce,
          const TensorPath& path, const RowStarts& starts);
};

/// What a tile costs a step, whatever the sizes of the operands: worked out once a machine and precision.
struct TileCosts {
  Tile tile{};
  bool swapped = false;
  double tile_m = 0, tile_n = 0, tile_k = 0;
  double cluster = 1;       ///< CTAs that fetch the operand they share once (TMA multicast)
  double cluster_cols = 1;  ///< of them side by side along N, where a kernel's clusters are known
  bool persistent = false;
  bool paired = false;  ///< two SMs multiply as one (share_by_pair)
  double resident = 1, stages = 2, stage_bytes = 0, a = 0, w = 0;
  double tensor_clk = 0, fp32_clk = 0, smem_clk = 0, once_clk = 0, serial_clk = 0;
  double issue_clk = 0;
  double chain_clk = 0;  ///< as Demand's
  Seconds step_latency;

  double row_side() const { return swapped ? w : a; }  ///< bytes a step
  double col_side() const { return swapped ? a : w; }
};
TileCosts tile_costs(const Context& c, Tile tile, double tile_k, bool swapped);

/// Rings have two stages at least. (64 KiB of Turing do not hold two of the largest tiles.)
inline bool fits(const TileCosts& e, double smem) { return e.resident * e.stages * e.stage_bytes <= smem; }
/// A tile much wider than the operand only wastes tensor work, and its narrower neighbour is in the menu.
inline bool oversized(double tile, double size) { return tile > 64 && tile >= 2 * size; }

/// A tile laid over the operands.
struct TileLayout {
  const TileCosts* costs = nullptr;
  double tiles_m = 0, tiles_n = 0, tiles = 0, k_steps = 0;
  double l2_bytes = 0;  ///< of a step
  double smem_clk = 0;
  double pieces_clk = 0;  ///< of a step: what rows that do not begin at whole 16 bytes cost the port beside their bytes
  Seconds step_latency;
  double lookups = 0;        ///< of a step, in bytes (Demand::lookups)
  double delivered = 0;      ///< of a step, in bytes (Demand::delivered)
  double edge_fill_clk = 0;  ///< of a step: rows of its boxes that the operands do not have
  double port_fill_clk = 0;  ///< of a step: the same, where it takes the port alone (Demand::port_fill_clk)
  double outside_clk = 0;    ///< of a step: the same, where all CTAs ask for rows outside at once (Demand::outside_clk)

  TileLayout(const Context& c, const TileCosts& costs);
  /// Tiles on the row side fill whole clusters.
  void fill_clusters(const Context& c);
};

/// tcgen05 with two SMs: an instruction of 256 rows takes half of the columns' operand from either SM, so that each fetches,
/// keeps and reads half of it. (PTX ISA, tcgen05.mma, cta_group::2.) The ring's stages are the tile's to say.
void share_by_pair(TileLayout& layout, const Context& c);

/// How the tiles of a layout are dealt to CTAs: `ctas` times `steps` each; clocks as in Demand, a CTA.
struct WorkSplit {
  double splits = 1;  ///< as in GemmPlan
  double ctas = 0, steps = 0;
  double cluster_rows = 1, cluster_cols = 1;  ///< CTAs of a cluster along M and N, where it goes with the split
  double serial_clk = 0, once_clk = 0;
  double meet_clk = 0;         ///< until the last part of a tile has taken the others' sums
  bool second_launch = false;  ///< partial results are added up by a launch of their own
};
/// `splits` CTAs a tile, each with its share of K.
WorkSplit tiled(const TileLayout& layout, double splits);
/// Splits worth a look: the slots are not filled twice by them, and each has two steps of K.
bool worth_splitting(const TileLayout& layout, const Rates& rates, double splits);

/// CTAs of a launch that run at a time.
double ctas_at_once(const Context& c, const TileLayout& layout, const WorkSplit& split);
/// Which bytes of the operands cross the DRAM interface: each once, as a lower bound that costs nothing, or as the order
/// of the tiles has it.
enum class Traffic { compulsory, counted };
/// The launch as it follows from the tiles, for any kernel. `twice`: share of what DRAM is asked for that crosses again.
Demand launch_demand(const Context& c, const TileLayout& layout, const WorkSplit& split, Traffic traffic,
                     double twice = 0);
GemmPlan plan_of(const TileLayout& layout, const WorkSplit& split);

/// The second launch of a split-K GEMM: `splits` fp32 partials through L2 (DRAM when they do not fit) to one result.
Demand reduction_demand(const GemmTask& task, const Rates& rates, double splits);

}  // namespace plumbline::gemm

// Planner of our products by mma.sync: what a tile of the portable kernel costs a step, its splits and their reduction.
#pragma once

#include <algorithm>
#include <cmath>

#include "model/stacks/own/gemm_engines.hpp"
#include "model/stacks/own/gemm_traffic.hpp"
#include "model/stacks/own/single_elements.hpp"

namespace plumbline::own_gemm {

/// The portable kernel: a ring filled by cp.async, steps of fragments, products and a barrier.
class MmaPlanner {
 public:
  static constexpr GemmEngine kEngine = GemmEngine::mma_sync;
  explicit MmaPlanner(const Context& context) : c(context) {}

  TileCosts costs(const GemmVariant& v, bool swapped) const {
    TileCosts e = own_costs(c, v, swapped);
    // as many CTAs as the kernel leaves registers for, or fewer: their rings beside each other are more than SMs of 100 KB have
    e.resident = std::clamp(std::floor(c.smem / (e.stages * e.stage_bytes)), 1.0, e.resident);
    const double reads = fragments_clk(e);
    e.smem_clk = reads + e.stage_bytes / c.smem_port;
    // The warps of a CTA go in step: copies, fragments, products and barrier come one after the other. Two warps a quarter
    // of the SM hide each other's fragments.
    constexpr double kSubstepBytes = 32, kCopyBytes = 16;
    const double quarters = c.rates.gpu.sm.issue_per_clk * static_cast<double>(c.rates.gpu.sm.warp_size);
    const double waits = static_cast<double>(v.step_bytes) / kSubstepBytes * own::kFragmentClk +
                         e.stage_bytes / kCopyBytes / threads(e) * own::kCopyClk;
    // Fragments of a substep are read under the products of the one before, but for these: tiles of 128 x 128, 64 x 64 and
    // 64 x 16 alone on their SMs take 581, 519 and 317 clocks a step (sweeps of forced tiles on an H200, 2026-11-24).
    constexpr double kSeenReads = 0.8;
    const double chain =
        threads(e) > quarters ? std::max(e.tensor_clk, reads) : e.tensor_clk + kSeenReads * reads + waits;
    const double substeps = static_cast<double>(v.step_bytes) / kSubstepBytes;
    // A copy is asked for in the first substep, stages - 1 steps ahead, and waited for in the last substep before its step.
    const double ahead = e.stages - 1 - 1 / substeps;
    e.step_latency = c.rates.dram_latency / ahead;
    e.chain_clk = chain + c.family.step * c.rates.clock;
    return e;
  }

  void adapt(TileLayout& t) const {
    ask_l2(t, c, false);
    if (!c.starts.whole_sectors) t.l2_bytes *= kPiecesAsked * (1 + kSector / piece_of(*t.costs));
    add_pieces(t);
  }

  WorkSplit split(const TileLayout& t, double splits) const {
    WorkSplit s = gemm::tiled(t, splits);
    // CTAs of a wave end together: what leaves queues for the SM's ports and for L2's
    const double queue = beside(*t.costs, s);
    if (splits > 1) s.serial_clk = std::max(queue * parts_clk(t), parts_through_l2_clk(t, s));
    else s.serial_clk = queue * (s.serial_clk + c.family.exposed * staging_clk(*t.costs));
    // CTAs that began together store single elements together, side by side: nobody's steps go on meanwhile.
    if (splits <= 1) s.once_clk += single_elements_clk(t) / queue;
    return s;
  }
  Demand demand(const TileLayout& t, const WorkSplit& split, Traffic traffic) const {
    const TileCosts& e = *t.costs;
    const double piece = piece_of(e);
    Demand d = own_demand(c, t, split, traffic, again(piece));
    d.dealt_once = true;
    d.chain_clk = e.chain_clk;
    if (piece < kLine && t.k_steps > 1) d.dram_share = c.family.half_lines;
    // all CTAs ask for their first step at once
    const double at_once = gemm::ctas_at_once(c, t, split);
    const double share = c.family.dram_share * d.dram_share;
    d.start = std::max(d.dram_read * (at_once / split.ctas) / split.steps / (c.rates.dram_read * share),
                       at_once * d.l2 / c.rates.l2);
    if (single_elements()) load_singles(d, t, split);
    // CTAs of a launch of one wave end together: nobody loads or multiplies while they leave their results.
    if (split.ctas <= c.rates.sm_count * e.resident) {
      d.once_clk += d.serial_clk / beside(e, split);
      d.serial_clk = 0;
    }
    return d;
  }
  GemmPlan plan(const TileLayout& t, const WorkSplit& split) const { return own_plan(t, split, kEngine); }

  /// Four elements a thread, by 256 threads: loads of four parts at a time, then of those left over one by one, each an answer of L2.
  /// The instructions are a division of 64 bits for the row (72), and 28 a part (44 launches of training rows of
  /// data/studies/portable.csv, an H200: 4 % in the median, by one general rule 28).
  Demand reduction(double splits) const {
    constexpr double kParts = 4, kThreads = 256, kElements = 4 * kThreads, kInstructions = 72, kOfAPart = 28;
    Demand d = gemm::reduction_demand(c.task, c.rates, splits);
    const double warps = kThreads / static_cast<double>(c.rates.gpu.sm.warp_size);
    d.plan.ctas = static_cast<std::int64_t>(
        std::ceil(c.task.batch * c.task.m * std::ceil(c.task.n / kParts) * kParts / kElements));
    d.issue_clk = warps * (kInstructions + kOfAPart * splits) / c.rates.gpu.sm.issue_per_clk;
    d.step_latency = (std::floor(splits / kParts) + std::fmod(splits, kParts)) * c.rates.l2_mean_latency();
    return d;
  }

 private:
  static constexpr double kSector = 32, kLine = 128, kUnit = 16, kWarp = 32;
  /// Rows that begin within a sector: each piece of a row touches one more, and answers for parts of lines come so much slower
  /// (launches of the same tiles with K of whole lines and 8 elements more, an H200, 2026-11-24: 1.2 to 1.7 of the time).
  static constexpr double kPiecesAsked = 1.45;

  /// CTAs of the launch that run side by side on an SM.
  double beside(const TileCosts& e, const WorkSplit& s) const {
    return std::clamp(std::ceil(s.ctas / c.rates.sm_count), 1.0, e.resident);
  }

  /// Bytes of a row in a step.
  double piece_of(const TileCosts& e) const { return e.tile_k * c.task.input_bytes; }

  /// Rows that begin inside an access of DRAM's: each piece touches one sector more, which the next step asks for again; four
  /// tenths of them cross DRAM's interface again (the same sweeps).
  double again(double piece) const {
    constexpr double kCrosses = 0.41;
    return c.starts.inside > 0 ? kCrosses * kSector / piece : 0;
  }

  /// Parts leave the registers as pairs of fp32, of which a store of a warp has 32 bytes of each of eight rows (swapped: 32
  /// bytes of each of four, one value a lane): a row a clock. Of rows that do not begin at whole sectors half touch two.
  /// (`kAgainstReads` and `kOfReads` by 241 training rows of portable.{json,train2,pieces,pieces2}, an H200, 2026-11-30; 1.9 and
  /// 3 had stood in for what they leave behind all else.)
  double parts_clk(const TileLayout& t) const {
    constexpr double kFloat = 4, kTwoSectors = 1.5, kAgainstReads = 1.6;  // stores wait for each other at the port
    const TileCosts& e = *t.costs;
    const double width = std::ceil(c.task.n / 4) * 4;
    const double sectors = std::fmod(width * kFloat, kSector) == 0 ? 1 : kTwoSectors;
    return kAgainstReads * sectors * std::min(e.tile_m, c.task.m) * std::min(e.tile_n, c.task.n) * kFloat / kSector;
  }

  /// ... of all CTAs of a wave, through L2, which takes stores at half of the rate at which it gives.
  double parts_through_l2_clk(const TileLayout& t, const WorkSplit& s) const {
    constexpr double kFloat = 4, kOfReads = 2;
    const TileCosts& e = *t.costs;
    const double part = std::min(e.tile_m, c.task.m) * std::min(e.tile_n, c.task.n) * kFloat;
    return kOfReads * gemm::ctas_at_once(c, t, s) * part * units::B / c.rates.l2 / c.clk;
  }

  /// A result is scaled and rounded on ordinary lanes, laid into shared memory and read from there.
  double staging_clk(const TileCosts& e) const {
    constexpr double kLaneOperations = 1.5;  // of an element: a multiplication, half of a conversion of two
    const double elements = e.tile_m * e.tile_n;
    return 2 * elements * c.task.output_bytes / c.smem_port + kLaneOperations * elements / (0.5 * sm_lanes(c));
  }

  /// Threads of a CTA: the largest tile has twice those of the others.
  static double threads(const TileCosts& e) {
    constexpr double kLargeTile = 128.0 * 256.0;
    return e.tile_m * e.tile_n >= kLargeTile ? 256 : 128;
  }

  /// Clocks of shared memory for a step's fragments: warps lie two by two, two by four in the largest tile, and four by one
  /// in the narrowest; each reads its own rows and columns.
  double fragments_clk(const TileCosts& e) const {
    constexpr double kNarrow = 16;
    const bool narrow = static_cast<double>(e.tile.cols) <= kNarrow;
    const double by_rows = narrow ? 4 : 2, by_cols = threads(e) / kWarp / by_rows;
    return (e.row_side() * by_cols + e.col_side() * by_rows) / c.smem_port;
  }

  /// Rows of a result that are not whole 16-byte units leave element by element, each read from shared memory and stored
  /// before the next: some 140 clocks (N = 326 and 2001 in a first run of data/studies/portable.csv on an H200, 2026-11-24,
  /// which is not on file).
  double single_elements_clk(const TileLayout& t) const {
    constexpr double kElementClk = 140;
    if (std::fmod(c.task.n * c.task.output_bytes, kUnit) == 0) return 0;
    const double of_a_tile = c.task.batch * c.task.m * c.task.n / t.tiles;
    return kElementClk * of_a_tile / threads(*t.costs);
  }

  bool single_elements() const { return static_cast<std::int64_t>(c.task.k) % 2 != 0; }
  bool in_pieces() const { return std::fmod(c.task.k * c.task.input_bytes, kUnit) != 0; }

  /// Rows that are not whole 16-byte units. Even K: pairs of elements by cp.async. Odd K: single elements through
  /// registers, 16 bytes a thread at a time (SingleElements).
  void add_pieces(TileLayout& t) const {
    constexpr double kPair = 4;
    const TileCosts& e = *t.costs;
    const auto k = static_cast<std::int64_t>(c.task.k);
    if (!in_pieces()) return;
    const double piece = k % 2 == 0 ? kPair : c.task.input_bytes;
    // The 32 lanes of one instruction have a piece each of 32 different units, 16 sectors of 32 bytes: 7 clocks a load
    // (sweeps of the menu at K = 1001 and 2049, H200, 2026-11-20). Of a cp.async in pairs 4 clocks are the write into
    // shared memory, whose lanes lie 16 bytes apart, four to a bank; 4.4 the read of rows that are there, zeros need
    // none (training rows of portable.pieces.json and clipped.ab.csv, H200, 2026-11-24; with single elements stored
    // side by side 6.1 -> 4.2 % in the median of 137).
    constexpr double kPairWriteClk = 4, kPairReadClk = 4.4, kSingleClk = 7;
    const double there = (c.task.m / t.tiles_m + c.task.n / t.tiles_n) / (e.tile_m + e.tile_n);
    const double asked = there * filled(t);
    const double clk = k % 2 == 0 ? kPairWriteClk + kPairReadClk * asked : kSingleClk * asked;
    t.pieces_clk += e.stage_bytes / piece / kWarp * clk;
  }

  /// The share of all steps' K that is there: of the last step lanes beyond it ask for nothing.
  double filled(const TileLayout& t) const { return c.task.k / (t.k_steps * t.costs->tile_k); }

  /// Odd K: what single elements are waited for, and in one sum all that CTAs, one wave after the other, do meanwhile.
  void load_singles(Demand& d, const TileLayout& t, const WorkSplit& split) const {
    const TileCosts& e = *t.costs;
    const double products = std::max(e.tensor_clk, fragments_clk(e));
    const Bytes once = d.dram_read / (1 + again(piece_of(e)));
    const SingleLoads loads = SingleElements(c, t, split, threads(e) / kWarp, once).loads(products);
    d.step_latency = loads.trips;
    d.chain_clk = 0;
    d.dealt_clk = std::ceil(split.ctas / (c.rates.sm_count * e.resident)) * split.steps * loads.clocks;
    // they are waited for where they are asked for: the first step's way is in its turns
    d.start = std::max(Seconds{}, d.start - loads.trips - loads.clocks * c.clk);
  }

  const Context& c;
};

}  // namespace plumbline::own_gemm

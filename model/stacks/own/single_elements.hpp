// Loads of single elements by our kernel of mma.sync: rows of K that are an odd number of elements. Read off the kernel's code
// (kernels/gemm/gemm_portable.cuh) and its machine code for sm_90a.
#pragma once

#include <algorithm>
#include <cmath>

#include "model/stacks/own/gemm_engines.hpp"

namespace plumbline::own_gemm {

/// The loads of a CTA, mean of its steps. A warp's turn is eight loads of each thread, which wait where they are asked for;
/// packing, one store into shared memory, the next turn.
struct SingleLoads {
  Seconds trips;      ///< of a step: what a warp waits for memory and L2
  double clocks = 0;  ///< of a step: instructions, lookups and products, SM clocks
};

class SingleElements {
 public:
  /// `warps` of a CTA; `dram_read`: of the launch, what crosses DRAM's interface twice for rows that begin within its accesses left out.
  SingleElements(const Context& context, const TileLayout& layout, const WorkSplit& split, double warps,
                 Bytes dram_read)
      : c(context), t(layout), e(*layout.costs), s(split), warps_(warps), piece_(e.tile_k * c.task.input_bytes) {
    trips_ = of_both(dram_read.in(units::B) / (c.task.batch * (c.a_bytes + c.w_bytes)));
  }

  /// Loads run `stages` - 1 steps ahead. Nothing stands between the first ones, which are asked for before any product: warps
  /// begin together once. Behind each of the others stand fragments, products and a barrier in a warp's code; behind them all the
  /// products of as many steps as had been loaded before.
  SingleLoads loads(double products_clk) const {
    const double ahead = std::min(s.steps, e.stages - 1), behind = s.steps - ahead,
                 chain = behind > 0 ? e.chain_clk : 0;
    const Loads early = with(trips_, 1, 0), whole = with(trips_, 1, chain),
                last = s.splits > 1 ? whole : last_step(chain);
    double clocks = together(early * (ahead - 1) + (behind > 0 ? early : last)) + ahead * products_clk + behind * chain;
    if (behind > 0) clocks += (behind - 1) * together(whole) + together(last);
    return {(trips_ * (s.steps - 1) + last.trips) / s.steps, clocks / s.steps};
  }

 private:
  static constexpr double kUnit = 16, kLine = 128, kWarp = 32;
  /// Of one step, or of several between two barriers.
  struct Loads {
    Seconds trips;           ///< that a warp waits for
    double warp_clk = 0;     ///< of a warp beside them: instructions, its own lookups
    double lookups_clk = 0;  ///< of all warps
    Loads operator*(double k) const { return {k * trips, k * warp_clk, k * lookups_clk}; }
    Loads operator+(const Loads& o) const {
      return {trips + o.trips, warp_clk + o.warp_clk, lookups_clk + o.lookups_clk};
    }
  };

  double rows_at_once() const { return warps_ * kWarp * kUnit / piece_; }
  double turns_of(double rows) const { return std::ceil(rows / rows_at_once()); }
  double rows_m() const { return c.task.m / t.tiles_m; }
  double rows_n() const { return c.task.n / t.tiles_n; }
  double turns() const { return turns_of(rows_m()) + turns_of(rows_n()); }

  /// A warp waits for the farthest of its eight lines and more. Of an operand that several tiles share one brings a line from
  /// memory, the others find it in L2; behind the first wave of CTAs, which left a copy in either half, in no farther than the mean.
  /// `times`: how often the operands come from memory.
  Seconds of_both(double times) const {
    const Rates& m = c.rates;
    const Seconds far = m.gpu.l2.far_latency_ratio * m.l2_latency;
    const Seconds memory = m.gpu.memory.latency + far - m.l2_mean_latency();
    const Seconds held = s.ctas > c.rates.sm_count * e.resident ? m.l2_mean_latency() : far;
    const auto of_one = [&](double rows, double tiles) {
      const double first = std::min(1.0, times / tiles);
      return turns_of(rows) * (first * memory + (1 - first) * held);
    };
    return of_one(rows_m(), t.tiles_n) + of_one(rows_n(), t.tiles_m);
  }

  /// Instructions of all turns, those without rows too: the loop is walked. Most are of integers, for which a quarter of the SM
  /// has 16 lanes. (Machine code of sm_90a: 39 to 48 a turn; 100 to 111 where registers are full, and each load works out its
  /// address: both operands of 128 x 128, the row side of 128 x 256.)
  double instructions_clk() const {
    constexpr double kTurn = 45, kFull = 105, kIntegerClk = 2, kLarge = 128;
    const bool large = e.tile.rows >= kLarge && e.tile.cols >= kLarge, wide = e.tile.cols > kLarge;
    const double row_turns = turns_of(e.swapped ? e.tile_n : e.tile_m),
                 col_turns = turns_of(e.swapped ? e.tile_m : e.tile_n);
    return kIntegerClk * (row_turns * (large ? kFull : kTurn) + col_turns * (large && !wide ? kFull : kTurn));
  }

  double instructions_of_a_turn() const { return instructions_clk() / (turns_of(e.tile_m) + turns_of(e.tile_n)); }

  /// Of one warp's turn, a line a clock.
  double looked_up() const {
    constexpr double kLoads = 8;
    return kLoads * kWarp * kUnit / piece_ * (1 + (piece_ - kUnit) / kLine);
  }

  /// A step of which this share of the lanes is there, with so many clocks of products and fragments behind its loads.
  Loads with(Seconds trips, double lanes, double chain) const {
    const double own = turns() * looked_up() * lanes;
    return {trips, instructions_clk() + own + trips / trips_ * others_clk(chain), warps_ * own};
  }

  /// CTAs side by side on an SM.
  double beside() const { return std::clamp(std::ceil(s.ctas / c.rates.sm_count), 1.0, e.resident); }

  /// Warps of another CTA look up one behind the other what each of a turn asks for: who comes meanwhile waits for half of that in
  /// the mean, and that is as often as they are at it. (Forced tiles of 64 x 64 on an H200, all rows of X and W there: two CTAs
  /// an SM take 3 % longer than one, three 7; this says 4 and 7, data/measurements/h200/probe/single_turns.csv.)
  double others_clk(double chain) const {
    const double block = warps_ * looked_up();
    const double step = trips_ / c.clk + instructions_clk() + turns() * looked_up() + chain;
    return turns() * (beside() - 1) * (turns() * block / step) * block / 2;
  }

  /// Beside its trips, until the last warp has ended: warps begin together, behind a barrier, and drift apart, so that one's way
  /// is hidden behind others' lookups.
  double together(const Loads& of) const {
    const double trips = of.trips / c.clk, turn = trips_ / turns() / c.clk + instructions_of_a_turn();
    return std::max(of.warp_clk + (warps_ - 1) * looked_up(), of.lookups_clk + turn - trips);
  }

  /// K ends within the last step: lanes beyond ask for nothing. Rows lie end to end, so that what is left of one, where it is
  /// less than a sector or two, is in sectors that its step before and the next row's first step have brought, if L1 still
  /// holds all that CTAs of the SM have asked for.
  Loads last_step(double chain) const {
    constexpr double kElements = 8, kSector = 32;
    const double left = c.task.k - (t.k_steps - 1) * e.tile_k;
    const double lanes = std::min(1.0, std::ceil(left / kElements) * kElements / e.tile_k);
    const double asked = beside() * (rows_m() + rows_n()) * c.task.k * c.task.input_bytes;
    const double l1 = c.rates.gpu.sm.l1_and_smem.in(units::B)-e.resident * e.stages * e.stage_bytes;
    if (t.k_steps < 2 || asked > l1) return with(trips_, lanes, chain);
    const double of_a_row = std::clamp(left * c.task.input_bytes / kSector - 1, 0.0, 1.0);
    const double missing = 1 - std::pow(1 - of_a_row, kWarp * kUnit / piece_);  // of a warp's rows of a turn
    return with(missing * trips_, lanes, chain);
  }

  const Context& c;
  const TileLayout& t;
  const TileCosts& e;
  const WorkSplit& s;
  double warps_, piece_;
  Seconds trips_;  ///< of a whole step
};

}  // namespace plumbline::own_gemm

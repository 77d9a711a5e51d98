// What our row-wise kernels do, kernel by kernel: how a shape is split over CTAs, how many instructions a CTA executes,
// and the dependent steps in it that nothing else of the CTA hides. The counts are data (ops/plan/kernel_counts.hpp).
#pragma once

#include <cstdint>

#include "arch/gpu/gpu.hpp"
#include "ops/facts/work.hpp"
#include "ops/plan/kernel_counts.hpp"
#include "ops/plan/plans.hpp"
#include "ops/shape/shapes.hpp"

namespace plumbline {

/// A kernel as its CTAs see it.
struct RowKernel {
  KernelPlan plan;
  double instructions = 0;  ///< of all warps of a CTA, in slots of a scheduler
  double sfu = 0;           ///< of these, in the special-function unit
  double wide_slots = 0;    ///< further slots that wide multiplications, or comparisons, keep their unit for
  // what a CTA waits for on the way from its loads to its stores:
  double chain_clk = 0;    ///< SM clocks: shuffles, barriers, passes through shared memory
  double l2_trips = 0;     ///< loads from L2 and atomics, one after the other
  double loads = 0;        ///< further trips as long as the first load's
  double start_loads = 0;  ///< trips before the first load, of every launch's start
  double tail_trips = 0;   ///< through L2, at the end of the launch
  double tail_clk = 0;     ///< SM clocks a CTA at the end of the launch: atomics on one address
  bool holds = false;      ///< a CTA reads what it has, agrees on something, then writes
  bool lockstep = false;   ///< CTAs that share an SM are of one cluster and in step: nothing of theirs overlaps
  bool drifts = false;     ///< ... in whole waves of clusters, which drift apart one from another
  bool chained = false;    ///< CTAs wait for those before them: memory and arithmetic take turns
  double chained_clk = 0;  ///< ... at least so many SM clocks from one CTA of an SM to the next
  double beside_clk = 0;   ///< ... SM clocks of the last CTA, beside the launch's bytes: what is longer is seen
  bool in_lanes = false;   ///< rows lie in the lanes of few warps
  bool selects = false;    ///< phases between barriers, of different warps
  int phases = 1;          ///< agreements one after the other that writing waits for; 0: hardly anything is written
  /// Share of DRAM time more for opening pages of which little is read or written: tiles, rows gathered at random (and
  /// marked as used once). Training cases of 0.1 to 1 GB.
  double scattered = 0;
  double stores = 1;  ///< requests that L2 takes for each sector that is written: results stored element by element
  /// Bytes a thread that its registers do not hold: stored and loaded again through L2; of these evicted to DRAM.
  double spilled = 0, evicted = 0;
  // of training's kernels:
  double overlap = 0;         ///< p of the p-norm, where the kernel's own is on file; 0: it is not
  double rounds = 0;          ///< waves of CTAs that are alike and in step, `round_clk` of each of which is seen
  double round_clk = 0;       ///< ... SM clocks beside its bytes
  double stretch = 1;         ///< of DRAM time, for a last wave that does not fill the SMs
  double stay_turns = 0;      ///< CTAs stay and take so many rows in turn; `chain_clk` and `l2_trips` are of one
  double turn_loads = 0;      ///< ... and these trips to memory; of `rounds`: of each but for the first
  double scattered_adds = 0;  ///< fp32 values that are added to memory where rows lie at random
  double end_adds = 0;        ///< ... at the end of the launch, to the same places by all CTAs
  double end_adds_clk = 0;    ///< ... SM clocks that these take at least
  double read_before = 0;     ///< share of what is written that has been read
  int launches = 1;           ///< one after the other, the others tiny
  int turns = 1;              ///< rows a CTA takes, the next one on its way
};

/// On `gpu`, by whose SMs some kernels size their grids, and whose registers and shared memory say how many CTAs fit.
RowKernel row_kernel(const Op& op, const Work& work, const KernelCounts& counts, const GpuNumbers& gpu);

}  // namespace plumbline

// Planner of products of several groups of rows, each with weights of its own, of kernels that do not cut K: CUTLASS's grouped
// product, DeepGEMM's.
#pragma once

#include <span>

#include "model/engine/rates.hpp"
#include "model/stacks/common/gemm_task.hpp"
#include "model/stacks/common/gemm_tiles.hpp"
#include "ops/shape/moe.hpp"

namespace plumbline {

struct GroupTile {
  gemm::Tile tile;
  bool swapped = false;         ///< weights are on the row side
  double warp = 64;             ///< side of the square that a warp of mma.sync multiplies
  double cluster = 1;           ///< CTAs side by side along N that fetch their tokens once (multicast)
  bool alone = false;           ///< by one SM where tcgen05 multiplies with two (clusters of 1 x 1 x 1)
  double instruction_rows = 0;  ///< of the tile's that one instruction of tcgen05 multiplies; 0: all, up to 128
};

/// `task`: of the mean group; its batch is the number of groups with rows. `block_sums`: sums of 128 of K are multiplied by
/// scales and added up on ordinary lanes. `held`: operands' bytes that L2 has when the launch begins.
struct Groups {
  const GemmTask& task;
  const ExpertRows& rows;
  bool block_sums = false;
  std::span<const GroupTile> menu;
  Bytes held{};
  bool results_stay = false;  ///< in L2 for the next launch, where it keeps that much
  /// Weights of 4 bits are unpacked in registers for mma.sync, and the steps of all tiles are dealt out evenly, whatever tile
  /// they are of (Marlin).
  bool striped = false;
  /// Rows are fetched by threads, each from its own place, and those that are not there by none (Triton); `block_sums` wait
  /// for the product and are added up before the next one begins.
  bool by_threads = false;
  /// `block_sums` come between a warpgroup's products, and tiles wait for each other's results (`gemm_block`; the experts' own
  /// family was fitted without, and holds both in its scalars).
  bool sums_wait = false;
  /// Rows of a tile's result lie apart, and warps write them, a row at a time (DeepGEMM's batches: StridedBatched).
  bool rows_apart = false;
  /// Dependent ways to memory before the first product; of kernels whose code is there, those of maps and operands.
  double first_trips = gemm::kColdTrips;
};

/// The cheapest tile of the menu. Where copies fill shared memory by tensor maps the launch is persistent; a group's maps are
/// written before its first tile (`per_cta`).
GemmChoice plan_groups(const Groups& groups, const Rates& rates, const FamilyScalars& family, GemmCache& cache);

}  // namespace plumbline

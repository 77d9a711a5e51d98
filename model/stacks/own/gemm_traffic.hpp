// What of its operands our Hopper GEMM reads from memory: by the walk that the kernel takes (kernels/gemm/gemm_sm90_work.cuh).
#pragma once

namespace plumbline::own {

/// One product, its tiles counted on the row and the column side of wgmma, bytes of all of K.
struct GemmWalk {
  double row_tiles = 1, col_tiles = 1;
  double row_bytes = 0, col_bytes = 0;  ///< operand of one row of tiles, of one column of them
  double tile_bytes = 0;                ///< result of a tile
  double at_once = 1;                   ///< tiles in flight: a turn
  double band = 1;                      ///< rows of tiles that are walked together
};

/// Bytes of both operands that cross the DRAM interface. Tiles go down a band of rows of tiles, then on to the next column;
/// what is in flight at a time is a turn. A turn reads its rows and its columns; the next one reads the band's rows again,
/// and the next band all columns, unless L2 still holds them. `l2`: what L2 keeps; `copies`: partitions, each of which
/// has a line of its own where SMs of both ask for it.
///
/// L2 holds all that comes back before as much has passed as it keeps, nothing of what takes twice that, and between
/// them the square of what is left. Bytes read by 49 products of 250 rows and more (data/kernels/profiled_h200.train.csv,
/// ncu, an H200, 2026-11-22): of the 23 whose turns pass twice L2 and more none is off by more than 1 % if nothing is
/// held (8192^3: 1421 MB, 268 of them distinct).
double walked_bytes(const GemmWalk& walk, double l2, double copies);

}  // namespace plumbline::own

// What cuBLAS's kernels that fetch by tensor maps read from memory. Internal to its planners.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "model/stacks/common/gemm_tiles.hpp"

namespace plumbline::cublas {

/// Bytes of the operands that cross the DRAM interface. Tiles are walked in super-rows of some 1024 rows of one operand,
/// each of which sweeps the other one, which L2 keeps from one sweep to the next where both partitions can hold a copy of
/// it. (Eight products of 4096 x 6400 x 1600 to 8192 x 128256 x 4096, DRAM reads by ncu on an H200, 2026-11-23: 1.25 GB
/// of 8192^3, where this says 1.21; the others within 15 %, but for one of 51 MB where it says 34. Walks in squares of the
/// tiles that run at once would read 0.67.)
inline double walked_bytes(const gemm::Context& c) {
  constexpr double kSuperRow = 1024;
  const auto partitions = static_cast<double>(std::max<std::int64_t>(1, c.rates.gpu.l2.partitions));
  const double held = c.rates.l2_capacity.in(units::B) / partitions;
  const auto walk = [held](double stays, double rows, double swept) {
    const double sweeps = std::max(1.0, rows / kSuperRow);
    return stays + (swept + stays / sweeps <= held ? swept : swept * sweeps);
  };
  return std::min(walk(c.a_bytes, c.task.m, c.w_bytes), walk(c.w_bytes, c.task.n, c.a_bytes));
}

/// Clocks of a step whose CTA asks for `x` and `w` bytes of either operand, for pieces of 128 bytes that begin inside a sector, as
/// those of every second row do where rows are no whole sectors: an SM takes some two more for each. It shows where L2 keeps what
/// several CTAs ask for. (484 batches of training shapes in 16 bits with the tiles that ran, from 10 us on: mean of errors 6.38 %
/// without it, 6.29, 6.20 and 6.34 with 1, 2 and 3 clocks.)
inline double inside_sectors_clk(const gemm::Context& c, double x, double w) {
  constexpr double kSector = 32, kPiece = 128, kMoreClk = 2;
  const auto inside = [](double row) { return std::fmod(row, kSector) != 0; };
  const double row_of_w = (c.task.weights_kn ? c.task.n : c.task.k) * gemm::bytes_in_row(c.task.weight_bytes);
  const double row_of_x = c.task.k * gemm::bytes_in_row(c.task.input_bytes);
  return kMoreClk / kPiece * ((inside(row_of_x) ? x : 0) + (inside(row_of_w) ? w : 0));
}

/// What SMs have outstanding waits in queues that all of them share: where fewer ask at once, each waits less, and its own
/// port limits it. (Products with one row of 70 to 92 tiles draw 4.2 TB/s from memory on an H200, as those with 120 do.)
inline void wait_in_shared_queues(Demand& d, const gemm::Context& c, double ctas_at_once) {
  const double busy = std::min(1.0, ctas_at_once / c.rates.sm_count);
  const Bytes not_in_queues = (1 - busy) * d.l2;
  d.l2 -= not_in_queues;
  d.l2_hidden += not_in_queues;
  d.port_fill_clk += not_in_queues.in(units::B) / c.l2_port;
}

}  // namespace plumbline::cublas

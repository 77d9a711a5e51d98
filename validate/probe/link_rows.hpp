// What the measurements of links write: one CSV line a case, on disk before the next case begins.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arch/units.hpp"
#include "kernels/common/records.hpp"
#include "ops/shape/shapes.hpp"

namespace plumbline {

/// A line; the columns are those of data/measurements, and behind them ours.
struct LinkRow {
  std::string op, dtype, shape;   ///< shape: `key=value;...`
  std::optional<Spread> seconds;  ///< of one call; empty: `status` says why
  std::string cache = "warm", clock = "burst", stack = "own", kernel, plan;
  int gpus = 1;
  Bytes counted;                ///< over the time gives GB_per_s; of a collective what nccl-tests calls bus bandwidth
  std::optional<double> watts;  ///< a GPU, mean
  std::string status = "ok";
};

/// The header and the lines of the file, with their line ends.
std::string link_header();
std::string link_line(const LinkRow& row);

/// "bytes=8192;gpus=2".
std::string collective_shape_text(const Collective& shape);
/// What nccl-tests divides by the time: 2 (n - 1) / n of an all_reduce's bytes, (n - 1) / n of the others'.
Bytes bus_bytes(const Collective& shape);

/// 512 B to `most` in powers of two, and `random` sizes drawn log-uniformly between, multiples of `unit`; sorted, none
/// twice. Sizes that `unit` does not divide are rounded up.
std::vector<std::int64_t> link_sizes(std::int64_t most, int random, unsigned seed, std::int64_t unit);

/// How many calls one graph holds: enough that the graph lasts about 2 ms, 2 to 20.
int calls_in_graph(Seconds expected);

/// (seconds - floor) / calls, of each.
std::vector<double> per_call(const std::vector<double>& seconds, double floor, int calls);

}  // namespace plumbline

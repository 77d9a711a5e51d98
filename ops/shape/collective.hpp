#pragma once

#include "ops/shape/shape.hpp"

namespace plumbline {

enum class CollectiveKind { all_reduce, all_gather, reduce_scatter, all_to_all, broadcast };
std::string_view name(CollectiveKind kind);

/// bytes = the larger buffer of one rank (nccl-tests' `size`).
struct Collective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::int64_t bytes = 0, gpus = 1;
  DType dtype = DType::bf16;
  bool multicast = true;  ///< switches that copy and add may do so; false: as where a machine does not let them
  /// all_to_all: percent by which the busiest rank sends or receives more than their mean, whose buffers `bytes` says.
  double skew = 0;
  std::int64_t stride = 1;  ///< members of the group are every stride-th rank: 1 for neighbours
  /// Neighbouring ranks from the first member to the last.
  std::int64_t span() const { return (gpus - 1) * stride + 1; }
  bool operator==(const Collective&) const = default;
  static const Facts<Collective>& facts();
};

}  // namespace plumbline

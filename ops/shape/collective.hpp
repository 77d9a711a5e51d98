#pragma once

#include "ops/shape/shape.hpp"

namespace plumbline {

enum class CollectiveKind { all_reduce, all_gather, reduce_scatter, all_to_all };
std::string_view name(CollectiveKind kind);

/// bytes = the larger buffer of one rank (nccl-tests' `size`).
struct Collective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::int64_t bytes = 0, gpus = 1;
  DType dtype = DType::bf16;
  bool multicast = true;  ///< switches that copy and add may do so; false: as where a machine does not let them
  bool operator==(const Collective&) const = default;
  static const Facts<Collective>& facts();
};

}  // namespace plumbline

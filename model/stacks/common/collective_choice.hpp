// Of which collectives an algorithm is that a user can name.
#pragma once

#include "model/types.hpp"
#include "ops/shape/collective.hpp"

namespace plumbline {

/// Whether the library that has the algorithm runs this collective by it anywhere. NCCL: src/graph/tuning.cc
/// (ncclTopoTuneModel). One and two shots are kernels of stacks for all-reduces.
constexpr bool is_algorithm_of(CollectiveChoice choice, CollectiveKind kind) {
  const bool gathers = kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter;
  switch (choice) {
    case CollectiveChoice::automatic: return true;
    case CollectiveChoice::ring: return kind != CollectiveKind::all_to_all;
    case CollectiveChoice::nvls:
    case CollectiveChoice::collnet_direct: return gathers || kind == CollectiveKind::all_reduce;
    case CollectiveChoice::pat: return gathers;
    case CollectiveChoice::tree:
    case CollectiveChoice::nvls_tree:
    case CollectiveChoice::collnet_chain:
    case CollectiveChoice::one_shot:
    case CollectiveChoice::two_shot: break;
  }
  return kind == CollectiveKind::all_reduce;
}

}  // namespace plumbline

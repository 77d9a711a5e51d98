// Of which collectives an algorithm is that a user can name.
#pragma once

#include "model/types.hpp"
#include "ops/shape/collective.hpp"

namespace plumbline {

/// Whether a user has said how collectives go.
constexpr bool is_forced(CollectiveChoice choice, CollectiveProtocol protocol) {
  return choice != CollectiveChoice::automatic || protocol != CollectiveProtocol::automatic;
}

/// Whether the library that has the algorithm runs this collective by it anywhere. NCCL: src/graph/tuning.cc
/// (ncclTopoTuneModel). One and two shots are kernels of stacks for all-reduces. In levels callers lay out all but all-to-alls
/// of its calls; along rails go its messages of an all-to-all alone, as its rings and trees do by themselves.
constexpr bool is_algorithm_of(CollectiveChoice choice, CollectiveKind kind) {
  const bool gathers = kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter;
  switch (choice) {
    case CollectiveChoice::automatic: return true;
    case CollectiveChoice::ring: return kind != CollectiveKind::all_to_all;
    case CollectiveChoice::nvls:
    case CollectiveChoice::collnet_direct: return gathers || kind == CollectiveKind::all_reduce;
    case CollectiveChoice::pat: return gathers;
    case CollectiveChoice::hierarchical: return kind != CollectiveKind::all_to_all;
    case CollectiveChoice::rail_aligned: return kind == CollectiveKind::all_to_all;
    case CollectiveChoice::tree:
    case CollectiveChoice::nvls_tree:
    case CollectiveChoice::collnet_chain:
    case CollectiveChoice::one_shot:
    case CollectiveChoice::two_shot: break;
  }
  return kind == CollectiveKind::all_reduce;
}

/// Whether a protocol of NCCL's can be asked for together with the algorithm: rings and trees have all three, what leaves
/// the adding to switches and PAT have Simple alone, kernels that reach into peers' memory have none, and calls in levels or
/// messages along rails each choose theirs.
constexpr bool has_protocol(CollectiveChoice choice, CollectiveProtocol protocol) {
  switch (choice) {
    case CollectiveChoice::hierarchical:
    case CollectiveChoice::rail_aligned:
    case CollectiveChoice::one_shot:
    case CollectiveChoice::two_shot: return false;
    default: break;
  }
  const bool any =
      choice == CollectiveChoice::automatic || choice == CollectiveChoice::ring || choice == CollectiveChoice::tree;
  return any || protocol == CollectiveProtocol::simple;
}

/// Whether this collective goes as a user said: by that algorithm, and by that protocol, which exchanges of messages
/// choose by their lengths (NCCL: src/enqueue.cc, addP2pToPlan).
constexpr bool goes_as_said(CollectiveChoice choice, CollectiveProtocol protocol, CollectiveKind kind) {
  return is_algorithm_of(choice, kind) &&
         (protocol == CollectiveProtocol::automatic || kind != CollectiveKind::all_to_all);
}

}  // namespace plumbline

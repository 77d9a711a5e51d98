#include "model/stacks/nccl/hierarchy.hpp"

#include <string>

#include "arch/error.hpp"

namespace plumbline::nccl {

std::vector<Collective> calls_in_levels(const Collective& whole, std::int64_t per_node) {
  const std::int64_t of_a_node = per_node / whole.stride;
  if (whole.span() <= per_node || of_a_node <= 1) return {};
  if (whole.gpus % of_a_node != 0 || per_node % whole.stride != 0) {
    throw BadInput("--collective hierarchical: expected as many ranks in each node of " + std::to_string(per_node) +
                   " GPUs; found " + std::to_string(whole.gpus) + ", every " + std::to_string(whole.stride) +
                   " GPUs one");
  }
  Collective inside = whole, rail = whole;
  inside.gpus = of_a_node;
  rail.gpus = whole.gpus / of_a_node;
  rail.stride = per_node;
  const bool all_bytes = whole.kind == CollectiveKind::broadcast;
  rail.bytes = all_bytes ? whole.bytes : (whole.bytes + of_a_node - 1) / of_a_node;
  switch (whole.kind) {
    case CollectiveKind::all_gather:
    case CollectiveKind::broadcast: return {rail, inside};
    case CollectiveKind::reduce_scatter: return {inside, rail};
    default: break;
  }
  Collective scatter = inside, gather = inside;
  scatter.kind = CollectiveKind::reduce_scatter;
  gather.kind = CollectiveKind::all_gather;
  return {scatter, rail, gather};
}

}  // namespace plumbline::nccl

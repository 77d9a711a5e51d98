#include "model/load_time.hpp"

#include <algorithm>

#include "arch/fabric/cluster.hpp"

namespace plumbline {

LoadTime load_time(Predictor& predictor, const Machine& machine, const ParallelPlan& plan, Bytes weights, Bytes model,
                   std::optional<Bandwidth> storage) {
  const Cluster& cluster = *machine.rates().fabric;
  const auto gpus = static_cast<double>(std::min(plan.ranks(), cluster.gpus_per_node()));
  Transfer copy;
  copy.kind = TransferKind::h2d;
  constexpr double kMost = 1099511627776.0;  // of one operator; longer copies are that one several times
  const double bytes = std::max(1.0, weights.in(units::B)), copies = std::max(1.0, bytes / kMost);
  copy.bytes = static_cast<std::int64_t>(bytes / copies);
  LoadTime load;
  const double in_turn = std::min(gpus, static_cast<double>(cluster.host.gpus_a_port));
  load.host = in_turn * copies * predictor.predict(copy, machine).time;
  if (!storage) {
    for (const Storage& each : cluster.storage) storage = std::max(storage.value_or(Bandwidth{}), each.read_per_node);
  }
  if (storage) load.storage = std::min(gpus * weights, model) / *storage;
  return load;
}

}  // namespace plumbline

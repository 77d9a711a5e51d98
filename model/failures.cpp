#include "model/failures.hpp"

#include <algorithm>
#include <cmath>

#include "arch/error.hpp"
#include "arch/format.hpp"
#include "ops/memory/memory.hpp"

namespace plumbline {
namespace {

Bytes in_checkpoint(const Llm& llm, const Workload& w) {
  const MemoryNeed need = memory_need(llm, w);
  return need.weights + optimizer_states(llm, w);
}

Bandwidth storage_of(const Cluster& cluster, std::optional<Bandwidth> asked) {
  Bandwidth most = asked.value_or(Bandwidth{});
  if (!asked) {
    for (const Storage& each : cluster.storage) most = std::max(most, each.read_per_node);
  }
  if (most > Bandwidth{}) return most;
  throw BadInput("mtbf: how fast the nodes of " + cluster.name +
                 " write checkpoints is not on file; expected --storage with it");
}

}  // namespace

Failures failures_of(const Llm& llm, const Workload& workload, const Cluster& cluster, const FailureRates& rates,
                     std::optional<Bandwidth> storage) {
  const auto ranks = static_cast<double>(workload.parallel.ranks());
  const auto a_node = std::min(ranks, static_cast<double>(cluster.gpus_per_node()));
  const Bandwidth rate = storage_of(cluster, storage);
  Workload alone = workload;
  alone.parallel = ParallelPlan{};
  alone.training.schedule = PipelineSchedule::one_f_one_b;
  const Bytes model = in_checkpoint(llm, alone);
  Failures f;
  f.between = rates.of_gpu / ranks;
  f.checkpoint = model / (std::ceil(ranks / a_node) * rate);
  f.interval = std::sqrt(2 * (f.checkpoint / f.between)) * f.between;
  f.restart = rates.restart + std::min(model, a_node * in_checkpoint(llm, workload)) / rate;
  f.trains = 1 - f.checkpoint / f.interval - (0.5 * f.interval + f.restart) / f.between;
  if (f.trains > 0) return f;
  throw BadInput("mtbf: the run fails every " + format(f.between) + ", a checkpoint takes " + format(f.checkpoint) +
                 " and a restart " + format(f.restart) + ": nothing is left to train; expected failures further apart");
}

}  // namespace plumbline

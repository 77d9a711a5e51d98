// Workloads of training as an eager framework runs it, and how often a step executes what.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "model/machines.hpp"
#include "model/predict.hpp"

namespace plumbline::testing_support {

/// An iteration of hf-sdpa.
inline Workload training(std::int64_t batch, std::int64_t prompt) {
  Workload w;
  w.phase = Phase::train;
  w.batch = batch;
  w.prompt = prompt;
  w.fusion = Fusion::none;
  w.fused_attention = true;
  return w;
}

/// The first layers of a model with one kind of them.
inline Llm cut(const std::string& model, std::size_t layers) {
  Llm llm = load_llm(model);
  StackSpec& stack = llm.stacks.front();
  const double whole = static_cast<double>(stack.order.size());
  stack.order.resize(std::min(layers, stack.order.size()));
  llm.params -= (whole - static_cast<double>(stack.order.size())) * stack.kinds.front().params;
  return llm;
}

/// By name, how often the step runs it.
inline std::map<std::string, double> executions(const StepPrediction& step) {
  std::map<std::string, double> found;
  for (const NodePrediction& n : step.nodes) found[n.node->name] += static_cast<double>(n.node->count);
  return found;
}

/// Of `replicas` `batch` sequences each, sharded as `zero` says (0: DistributedDataParallel, 2 and 3: FSDP).
inline Workload on_several(std::int64_t replicas, std::int64_t batch, std::int64_t prompt, int zero) {
  Workload w = training(replicas * batch, prompt);
  w.parallel.data = replicas;
  w.parallel.zero = zero;
  train_eagerly(w);
  return w;
}

inline Workload on_two(std::int64_t batch, std::int64_t prompt, int zero) { return on_several(2, batch, prompt, zero); }

}  // namespace plumbline::testing_support

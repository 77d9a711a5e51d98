// What tests ask of models: a prefill, a decode step.
#pragma once

#include <cstdint>

#include "ops/graph/workload.hpp"

namespace plumbline::testing_support {

inline Workload prefill(std::int64_t batch, std::int64_t prompt, Fusion fusion = Fusion::typical) {
  Workload w;
  w.phase = Phase::prefill;
  w.batch = batch;
  w.prompt = prompt;
  w.fusion = fusion;
  return w;
}

inline Workload decode(std::int64_t batch, std::int64_t context, Fusion fusion = Fusion::typical) {
  Workload w;
  w.phase = Phase::decode;
  w.batch = batch;
  w.context = context;
  w.fusion = fusion;
  return w;
}

}  // namespace plumbline::testing_support

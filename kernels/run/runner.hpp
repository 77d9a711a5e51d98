// One operator, ready to run: its operands laid out in device memory, many times over, and its launch. No CUDA type in
// here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "kernels/common/launch.hpp"
#include "kernels/run/arena.hpp"
#include "ops/plan/plans.hpp"
#include "ops/shape/shapes.hpp"

namespace plumbline {

/// The plans that the model priced; unused ones stay zero.
struct RunnerPlans {
  GemmPlan gemm;
  AttentionPlan attention;
};

/// A slot is one set of operands, outputs included. Slots don't overlap, so turns over slots of more than three times
/// the L2 find it cold. Tables that a model has once (an embedding) are shared by the slots, as is the workspace, which
/// launches on one stream reuse in turn.
struct Runner {
  std::string plan;                                               ///< the plan as text; "" when the library decides
  std::size_t slot_bytes = 0;                                     ///< of one slot, all regions together
  std::int64_t max_slots = 0;                                     ///< that the arena has room for; at least 1
  std::function<void(std::int64_t slots, StreamHandle)> prepare;  ///< once, before launches: indices, page tables
  std::function<void(std::int64_t slot, StreamHandle)> enqueue;   ///< one execution; can be captured in a graph
};

/// With our own kernels. Throws NotModelled when there is none for the operator, its type or its plan, or when the
/// arena is too small for one slot. `stream` is where the arena fills regions that are used for the first time.
Runner make_own_runner(const Op& op, const RunnerPlans& plans, Arena& arena, StreamHandle stream);
/// With NVIDIA's library: cuBLASLt for matrix products, nothing else.
Runner make_library_runner(const Op& op, Arena& arena, StreamHandle stream);

std::string plan_text(const KernelPlan& plan);

}  // namespace plumbline

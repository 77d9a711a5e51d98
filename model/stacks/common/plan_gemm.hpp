// Planner of dense GEMM (batched, quantized, 2:4 sparse): shape -> how a kernel set cuts it -> Demand.
#pragma once

#include <optional>

#include "model/engine/machine.hpp"
#include "ops/op/shapes.hpp"

namespace plumbline {

/// y[M,N] = x[M,K] W[N,K]^T as the planner needs it: sizes plus bytes per element of each operand.
struct GemmTask {
  DType math = DType::bf16;
  std::optional<GemmEngine> own;  ///< cut from our own kernels' menu of that engine; empty: from a library's
  double m = 0, n = 0, k = 0, batch = 1;
  double input_bytes = 2, weight_bytes = 2, output_bytes = 2;
  double tensor_flop_per_clk = 0;  ///< of one SM, for the maths format
  double dequant_per_weight = 0;   ///< fp32-pipe operations to unpack one weight (W4A16)
  double weight_kept = 1;   ///< bytes of the weight operand / dense (2:4 sparse: 0.5625 with metadata at 16 bits)
  double weights_read = 1;  ///< weight operands that DRAM carries / batch (experts expected, not a whole number)
  double bias_bytes = 0;    ///< of one batch entry

  bool operator==(const GemmTask&) const = default;
};

struct GemmChoice {
  GemmPlan plan;
  Demand main;
  Demand reduce;  ///< the split-K reduction, if it is a launch of its own
  bool reduces = false;
  Seconds total;
};

/// The scalars that a GEMM of the task is priced with, and those of its split-K reduction.
const FamilyScalars& gemm_family(const GemmTask& task, const Machine& machine);
const FamilyScalars& reduce_family(const GemmTask& task, const Machine& machine);

/// The cheapest cut in the kernel set's menu, priced with the family's scalars (dense, or grouped). The answer stays
/// until this thread's next call.
const GemmChoice& plan_gemm(const GemmTask& task, const Machine& machine, const FamilyScalars& family);

/// What one plan of our own menu costs, or nothing when it is not in there.
std::optional<GemmChoice> price_own_plan(const GemmTask& task, const GemmPlan& plan, const Machine& machine);

/// The task that a shape asks for. Throws BadInput when the GPU has no path for the maths format.
GemmTask gemm_task(const Gemm& shape, const Machine& machine);
GemmTask gemm_task(const GemmSparse24& shape, const Machine& machine);
/// One GEMM an expert that has tokens: all experts that are expected to be touched, each with the mean load of those.
GemmTask gemm_task(const GroupedGemm& shape, const Machine& machine);

}  // namespace plumbline

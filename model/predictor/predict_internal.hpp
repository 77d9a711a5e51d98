// What the parts of the predictor share.
#pragma once

#include "model/engine/rates.hpp"
#include "model/predict.hpp"
#include "model/stacks/common/gemm_task.hpp"
#include "model/stacks/provider.hpp"

namespace plumbline {

/// What L2 holds of an operator's operands; of Warmth::part, which share.
struct Held {
  Warmth how = Warmth::cold;
  double share = 1;
};

/// Prices at the boost clock, whatever the cap, and leaves conclude() to whoever settles the clock. Of the options, the plans
/// count. `priced_alone`: it is no part of a step.
void predict_op(const Op& op, const Machine& machine, GemmCache& cache, const Held& held, OpPrediction& out,
                const PredictOptions& options = {}, bool priced_alone = false);

/// A collective, or a message to another rank, of a node whose GPUs NVLink joins.
bool sends_to_peers(const Op& op);
bool copies_to_or_from_host(const Op& op);
bool sends_by_nvlink(const Op& op, const Rates& rates);

/// What binds the op and how wide its band is, from its launches' times; nothing where it has none.
void conclude(OpPrediction& op, const Machine& machine);

/// One step: of a model, or of the operators that `out.graph` holds.
void predict_step(const Llm& llm, const Workload& workload, const Machine& machine, GemmCache& cache,
                  const RunOptions& options, StepPrediction& out);
/// `fused_as_stack`: fusions are the stack's own and nothing overlaps, as its whole steps were recorded. `phase`: of a pipeline, whether the
/// next step follows at once.
void predict_graph(const Machine& machine, GemmCache& cache, const RunOptions& options, StepPrediction& out,
                   bool fused_as_stack = true, Phase phase = Phase::prefill);

}  // namespace plumbline

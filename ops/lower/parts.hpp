// Inside of lowering: the parts of a layer that are not its mixer, and the walk over a model.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/graph/graph.hpp"
#include "ops/llm/llm.hpp"
#include "ops/step/step.hpp"

namespace plumbline::lowering {

/// Names that tell apart the dense FFNs of a layer.
struct FfnNames {
  NodeTag quantize, gate_up, gate, up, act, mul, down_quantize, down, reduce, scatter;
};
extern const FfnNames kFfnNames, kSharedNames, kTextNames;
/// Each leaves the part's output (rows x hidden) behind.
void dense_ffn(Step& s, const FfnSpec& f, std::int64_t width, const FfnNames& names);
void ffn(Step& s, const FfnSpec& f);

void layer(Step& s, const LayerSpec& l);
void double_stream_layer(Step& s, const LayerSpec& l);

/// How the norms of a layer over the hidden width spread over its parts.
struct NormPlan {
  int parts = 0;
  bool pre = true;    ///< every part has a norm in front of it (or, which costs the same, behind)
  bool post = false;  ///< and another one behind it (Gemma 2/3)
};
NormPlan norm_plan(const LayerSpec& l);

/// Appends the backward pass of all nodes so far, segments in reverse order (backward.cpp).
void backward(Step& s, const Llm& llm);

/// Ranks that hold the same parameters: replicas, and those that share a sequence.
inline std::int64_t copies(const ParallelPlan& plan) { return plan.data * plan.context; }
/// Tensors that hold the parameters of the layers.
std::int64_t tensors_of_layers(const Step& s, const Llm& llm);
/// Appends what replicas of an eager framework exchange, and counts what its host has hooks for (replicas.cpp).
void exchange_eagerly(Step& s, const Llm& llm, double params);
/// Appends what follows the last backward pass of an iteration (update.cpp), of a rank of that stage.
void update(Step& s, const Llm& llm, std::int64_t stage);
/// Of it the optimizer (optimizers.cpp): `share` of the stage's parameters, which so many replicas divide; those of experts
/// others than the rest; of all in the mean.
struct Updated {
  std::int64_t stage = 0;
  double share = 0;
  std::int64_t replicas = 1, expert_replicas = 1;
  double divided_by = 1;
};
void optimizer(Step& s, const Llm& llm, const Updated& updated);

/// Pipelines (stages.cpp). What a stage hands on behind its last layer; stages whose updates differ: the first, one in
/// between that stands for the others, the last; and how often each stage runs each segment.
void hand_over(Step& s);
std::vector<std::int64_t> updating_stages(const Workload& workload);
void divide_among_stages(Step& s, const Llm& llm);

/// `lower` without `check`: shapes of one rank of a parallel plan, with its collectives.
void lower_any(const Llm& llm, const Workload& workload, Graph& graph);

}  // namespace plumbline::lowering

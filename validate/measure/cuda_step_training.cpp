#include "validate/measure/cuda_step_training.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "arch/error.hpp"
#include "kernels/common/cuda_check.hpp"
#include "kernels/run/iteration.hpp"

namespace plumbline {
namespace {

constexpr double kClipNorm = 1;
constexpr float kSigma = 0.02F;  // of the weights, as Llama's configs say
constexpr std::uint64_t kSeed = 1;

[[noreturn]] void refuse_training(const std::string& what) {
  throw NotModelled("step: training: our kernels take " + what);
}

/// The nodes of the forward pass that say the model's sizes.
TrainedModel trained_model(const Graph& graph) {
  TrainedModel m;
  bool gated = false;
  for (const Node& node : graph.nodes) {
    if (node.pass != Pass::forward) continue;
    if (const auto* s = std::get_if<Embedding>(&node.op)) m.hidden = s->cols;
    if (const auto* s = std::get_if<Gemm>(&node.op)) m.vocabulary = s->n;  // the last one's
    if (const auto* s = std::get_if<AttentionPrefill>(&node.op)) {
      m.layers += node.count;
      m.q_heads = s->q_heads;
      m.kv_heads = s->kv_heads;
      m.head_dim = s->qk_dim;
    }
    if (const auto* s = std::get_if<Rowwise>(&node.op); s != nullptr && s->kind == RowwiseKind::swiglu) {
      gated = true;
      m.intermediate = s->cols;
    }
  }
  if (m.hidden == 0 || m.q_heads == 0 || !gated) refuse_training("dense decoders of grouped attention and swiglu");
  return m;
}

TrainingPlans plans_of(const StepPrediction& priced) {
  TrainingPlans plans;
  const auto node_of = [&priced](const Op& op) -> const NodePrediction& {
    for (const NodePrediction& node : priced.nodes) {
      if (node.node->op == op) return node;
    }
    refuse_training("operators as the graph has them, and it has none of an iteration's products");
  };
  plans.gemm = [node_of](const Gemm& s) { return node_of(s).op.gemm_plan; };
  plans.attention = [node_of](const AttentionPrefill& s) { return node_of(s).op.attention_plan; };
  plans.backward = [node_of](const AttentionBackward& s) { return node_of(s).op.attention_plan; };
  return plans;
}

/// The node that a launch is counted with.
int node_of(const Graph& graph, const TrainingLaunch& launch) {
  std::string name = launch.name;
  if (name == "adamw step") name = "adamw";
  if (name == "loss (bwd)" || name == "loss sum") name = "loss";
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (step_node_name(graph.nodes[i]) == name) return static_cast<int>(i);
  }
  refuse_training("graphs that have '" + name + "'");
}

/// Everything that the graph has must be among the launches.
void need_all(const Graph& graph, const std::vector<StepLaunch>& launches) {
  std::vector<std::int64_t> counts(graph.nodes.size(), 0);
  for (const StepLaunch& launch : launches) ++counts[static_cast<std::size_t>(launch.node)];
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] < graph.nodes[i].count) {
      refuse_training("models without '" + step_node_name(graph.nodes[i]) + "' " +
                      std::to_string(graph.nodes[i].count) + " times");
    }
  }
}

}  // namespace

LoadedTraining::LoadedTraining(const StepTask& task, int rank, StreamHandle stream) {
  const Graph& graph = task.priced->graph;
  const Workload& w = task.what.workload;
  if (graph.ranks != w.parallel.data) refuse_training("one GPU, or replicas");
  if (w.parallel.zero > 0 || w.batch % w.parallel.data != 0) {
    refuse_training("replicas that share nothing but gradients (zero 0), each of as many sequences");
  }
  const TrainedModel model = trained_model(graph);
  const double weights = graph.memory.weights.in(units::B), ours = 2.0 * static_cast<double>(model.parameter_count());
  if (std::abs(weights - ours) > 1e-6 * ours) {
    refuse_training("models whose parameters are norms, projections and one table of embeddings, without biases");
  }
  const TrainingBatch batch{w.batch / w.parallel.data, w.prompt, w.parallel.data};
  iteration_ = std::make_unique<TrainingIteration>(model, batch, AdamwSettings{}, kClipNorm, plans_of(*task.priced));
  for (const TrainingLaunch& launch : iteration_->launches()) {
    StepLaunch& out = program_.launches.emplace_back();
    out.node = node_of(graph, launch);
    out.layer = std::max<std::int64_t>(0, launch.layer);
    out.op = graph.nodes[static_cast<std::size_t>(out.node)].op;
  }
  need_all(graph, program_.launches);
  program_.bytes = iteration_->bytes();
  iteration_->start(kSigma, kSeed, stream);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(batch.tokens()));
  std::minstd_rand random(static_cast<unsigned>(rank) + 1);
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random() % static_cast<unsigned>(model.vocabulary));
  iteration_->set_tokens(ids, stream);
  PLUMBLINE_CUDA_CHECK(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)));
}
LoadedTraining::~LoadedTraining() = default;

void LoadedTraining::enqueue(std::size_t launch, StreamHandle stream) const {
  iteration_->launches()[launch].enqueue(stream);
}

void* LoadedTraining::gradients() const { return const_cast<float*>(iteration_->gradients()); }

float LoadedTraining::norm(StreamHandle stream) const {
  float norm = 0;
  PLUMBLINE_CUDA_CHECK(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)));
  PLUMBLINE_CUDA_CHECK(cudaMemcpy(&norm, iteration_->norm(), sizeof norm, cudaMemcpyDeviceToHost));
  return norm;
}

std::string LoadedTraining::complaint(StreamHandle stream) const {
  const float norm = this->norm(stream);
  float loss = 0;
  PLUMBLINE_CUDA_CHECK(cudaMemcpy(&loss, iteration_->loss_sum(), sizeof loss, cudaMemcpyDeviceToHost));
  if (!std::isfinite(loss) || !(loss > 0)) return "the iteration's loss is " + std::to_string(loss);
  return std::isfinite(norm) && norm > 0 ? "" : "the norm of the iteration's gradients is " + std::to_string(norm);
}

}  // namespace plumbline

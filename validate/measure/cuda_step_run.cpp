#include "validate/measure/cuda_step_run.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>

#include "arch/format.hpp"
#include "kernels/attention/attention.hpp"
#include "kernels/common/measure.cuh"
#include "kernels/gemm/gemm.hpp"
#include "kernels/run/arena.hpp"
#include "kernels/run/step.hpp"
#include "ops/plan/text.hpp"
#include "ops/table/text.hpp"
#include "validate/measure/cuda_step_values.hpp"

namespace plumbline {
namespace {

constexpr double kShareOfFree = 0.985;  // the rest is for the driver's own
constexpr double kRopeBase = 500000;    // Llama 3; the angles change no work

cudaStream_t stream_of(StreamHandle stream) { return static_cast<cudaStream_t>(stream); }

StepProgram program_of(const StepTask& task, int rank) {
  const StepScratch scratch{&gemm_workspace_bytes, &decode_workspace_bytes};
  return step_program(*task.priced, task.what.workload, scratch, rank);
}

std::size_t free_memory() {
  std::size_t available = 0, total = 0;
  PLUMBLINE_CUDA_CHECK(cudaMemGetInfo(&available, &total));
  return available;
}

void need_room(std::size_t bytes) {
  const double room = kShareOfFree * static_cast<double>(free_memory());
  if (static_cast<double>(bytes) <= room) return;
  throw NotModelled("step: needs " + format_exact(std::round(static_cast<double>(bytes) / 1e8) / 10) +
                    " GB; the card has " + format_exact(std::round(room / 1e8) / 10) + " GB free");
}

}  // namespace

struct LoadedStep::Memory {
  DeviceBuffer block;
  explicit Memory(std::size_t bytes) : block(bytes) {}
};

LoadedStep::LoadedStep(const StepTask& task, int rank, StreamHandle stream) : rank_(rank), sms_(sm_count()) {
  if (task.what.workload.phase == Phase::train) {
    training_ = std::make_unique<LoadedTraining>(task, rank, stream);
    return;
  }
  program_ = program_of(task, rank);
  for (const NodePrediction& node : task.priced->nodes) {
    gemm_plans_.push_back(node.op.gemm_plan);
    attention_plans_.push_back(node.op.attention_plan);
  }
  need_room(program_.bytes);
  memory_ = std::make_unique<Memory>(program_.bytes);
  constexpr std::uint64_t kSeedsOfRank = 65536;  // more than a program has buffers
  std::uint64_t number = 0;
  for (const StepBuffer& buffer : program_.buffers) {
    char* data = memory_->block.as() + buffer.offset;
    const std::uint64_t seed = ++number + (buffer.replicated ? 0 : kSeedsOfRank * static_cast<std::uint64_t>(rank));
    switch (buffer.fill) {
      case StepFill::nothing:
      case StepFill::zeros: clear(data, buffer.bytes, stream); break;
      case StepFill::normal:
        fill_normal(data, buffer.bytes, buffer.type, buffer.mean, buffer.sigma, seed, stream);
        break;
      case StepFill::integers: upload(data, buffer.integers.data(), buffer.bytes, stream); break;
      case StepFill::inverse_frequency:
        fill_inverse_frequency(reinterpret_cast<float*>(data), static_cast<std::int64_t>(buffer.bytes / 2),
                               static_cast<float>(kRopeBase), stream);
        break;
    }
    if (buffer.zeros_behind > 0) clear(data + buffer.bytes - buffer.zeros_behind, buffer.zeros_behind, stream);
  }
  PLUMBLINE_CUDA_CHECK(cudaStreamSynchronize(stream_of(stream)));
}
LoadedStep::~LoadedStep() = default;

void LoadedStep::join(const PeerGroup& group, std::vector<const LoadedStep*> ranks) {
  group_ = &group;
  ranks_ = std::move(ranks);
}

/// As the plan says that the model prices too.
void LoadedStep::join_ranks(const Collective& shape, const StepLaunch& launch, StreamHandle stream) const {
  if (group_ == nullptr) throw NotModelled("step: a collective on one GPU");
  PeerBuffers buffers;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const LoadedStep& other = *ranks_[r];
    buffers.in[r] = other.training_ ? other.training_->gradients() : other.at(launch.x);
    buffers.out[r] = other.training_ ? other.training_->gradients() : other.at(launch.y);
  }
  group_->launch(shape, peer_plan(shape, sms_), rank_, buffers, stream);
}

std::string LoadedStep::key(const StepTask& task) {
  StepCase what = task.what;
  what.clock = ClockMode::steady;
  std::string key = step_text(what);
  for (const NodePrediction& node : task.priced->nodes) {
    if (std::holds_alternative<Gemm>(node.node->op)) key += "|" + plan_text(node.op.gemm_plan);
    else if (node.op.attention_plan.kv_tile > 0) key += "|" + plan_text(node.op.attention_plan);
  }
  return key;
}

char* LoadedStep::at(const StepOperand& operand) const {
  if (!operand.there()) return nullptr;
  return memory_->block.as() + program_.buffers[static_cast<std::size_t>(operand.buffer)].offset + operand.offset;
}

void LoadedStep::enqueue(StreamHandle stream) const {
  for (const StepLaunch& launch : program().launches) enqueue(launch, stream);
}

namespace {

/// Launches an operator on its buffers.
struct Enqueue {
  const LoadedStep& step;
  const StepLaunch& l;
  const GemmPlan& gemm_plan;
  const AttentionPlan& attention_plan;
  StreamHandle stream;

  void operator()(const Gemm& s) const {
    if (const char* refusal = gemm_refusal(s, gemm_plan); refusal != nullptr && *refusal != '\0') {
      throw NotModelled(std::string("step: gemm: ") + refusal);
    }
    launch_gemm(s, gemm_plan, {step.at(l.x), step.at(l.weight), step.at(l.y), step.at(l.workspace), l.gemm_scale},
                stream);
  }
  void operator()(const AttentionPrefill& s) const {
    launch_attention_prefill(s, attention_plan, {step.at(l.x), step.at(l.k), step.at(l.v), step.at(l.y)}, stream);
  }
  void operator()(const AttentionDecode& s) const {
    DecodeBuffers b;
    b.q = step.at(l.x);
    b.k_pages = step.at(l.k);
    b.v_pages = step.at(l.v);
    b.page_table = index(l.table);
    b.o = step.at(l.y);
    b.workspace = step.at(l.workspace);
    launch_attention_decode(s, attention_plan, b, stream);
  }
  void operator()(const Rowwise& s) const {
    RowwiseBuffers b;
    b.x = step.at(l.x);
    b.second = step.at(l.second);
    b.weight = step.at(l.weight);
    b.bias = step.at(l.bias);
    b.y = step.at(l.y);
    b.sum = step.at(l.sum);
    b.scale = reinterpret_cast<float*>(step.at(l.scale));
    launch_rowwise(s, b, stream);
  }
  void operator()(const Rope& s) const {
    RopeAppend b;
    b.qkv = step.at(l.x);
    b.q = step.at(l.y);
    b.k = step.at(l.k);
    b.v = step.at(l.v);
    b.rows = index(l.rows);
    b.positions = index(l.positions);
    b.inverse_frequency = reinterpret_cast<const float*>(step.at(l.frequency));
    b.q_heads = l.q_heads;
    launch_rope_append(s, b, stream);
  }
  void operator()(const Embedding& s) const {
    launch_embedding(s, step.at(l.weight), index(l.x), step.at(l.y), stream);
  }
  template <class Other>
  void operator()(const Other& s) const {
    throw NotModelled("step: no kernel of ours for " + std::string(op_name(s)));
  }

 private:
  const std::int32_t* index(const StepOperand& operand) const {
    return reinterpret_cast<const std::int32_t*>(step.at(operand));
  }
};

}  // namespace

void LoadedStep::enqueue(const StepLaunch& launch, StreamHandle stream) const {
  if (const auto* shape = std::get_if<Collective>(&launch.op)) return join_ranks(*shape, launch, stream);
  if (training_) return training_->enqueue(static_cast<std::size_t>(&launch - program().launches.data()), stream);
  const auto node = static_cast<std::size_t>(launch.node);
  std::visit(Enqueue{*this, launch, gemm_plans_[node], attention_plans_[node], stream}, launch.op);
}

std::string LoadedStep::complaint(StreamHandle stream) const {
  if (training_) return training_->complaint(stream);
  if (!program_.logits.there()) return "the step has no logits";
  const StepBuffer& buffer = program_.buffers[static_cast<std::size_t>(program_.logits.buffer)];
  std::vector<std::uint16_t> bits(std::min<std::size_t>(buffer.bytes / 2, std::size_t{1} << 20));
  PLUMBLINE_CUDA_CHECK(cudaStreamSynchronize(stream_of(stream)));
  PLUMBLINE_CUDA_CHECK(cudaMemcpy(bits.data(), at(program_.logits), bits.size() * 2, cudaMemcpyDeviceToHost));
  double sum = 0, square = 0;
  for (const std::uint16_t b : bits) {
    const double value = value16(program_.type, b);
    if (!std::isfinite(value)) return "the step's logits are not finite";
    sum += value;
    square += value * value;
  }
  const auto n = static_cast<double>(bits.size());
  const double variance = square / n - sum / n * (sum / n);
  return variance > 1e-6 ? "" : "the step's logits are all the same";
}

}  // namespace plumbline

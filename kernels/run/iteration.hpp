// A whole training iteration of a dense decoder (rmsnorm, rotated grouped attention, swiglu, embedding and head tied) on
// our kernels: forward, loss, backward, gradient norm, clipping and AdamW, as a list of launches for one CUDA graph.
//
// Weights and activations are bf16, gradients of weights, moments and master weights fp32. What the backward pass needs
// of a layer is kept, nothing is computed again but the statistics of norms. Gradients of weights are added to an array
// that each iteration clears. In plain C++; the rules of launch.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/common/launch.hpp"
#include "kernels/rows/adamw.hpp"
#include "ops/plan/plans.hpp"
#include "ops/shape/shapes.hpp"

namespace plumbline {

struct TrainedModel {
  std::int64_t layers = 0, hidden = 0, q_heads = 0, kv_heads = 0, head_dim = 0, intermediate = 0, vocabulary = 0;
  double rope_base = 500000;

  std::int64_t heads() const { return q_heads + 2 * kv_heads; }
  /// Elements of the array that holds all parameters, in the order of `parameters`.
  std::int64_t parameter_count() const;
};

struct TrainingBatch {
  std::int64_t sequences = 0, length = 0;  ///< of this replica
  std::int64_t replicas = 1;               ///< whose gradients are added up, before their norm
  std::int64_t tokens() const { return sequences * length; }
};

/// Which plan runs a product; attention's kernels have one each.
struct TrainingPlans {
  std::function<GemmPlan(const Gemm&)> gemm;
  std::function<AttentionPlan(const AttentionPrefill&)> attention;
  std::function<AttentionPlan(const AttentionBackward&)> backward;
};

/// One operator of the iteration, `name` as the lowered graph has it, gradients with " (bwd)" behind it. Three are in no
/// graph: "loss (bwd)", "loss sum", "adamw step".
struct TrainingLaunch {
  std::string name;
  std::int64_t layer = -1;                    ///< -1: of no layer
  std::optional<Op> op;                       ///< of products and attention: must be what the graph has
  std::function<void(StreamHandle)> enqueue;  ///< null of "grad_all_reduce", which reaches other GPUs: the caller's
};

class TrainingIteration {
 public:
  /// Allocates everything. Throws NotModelled where a kernel does not take a shape.
  TrainingIteration(const TrainedModel& model, const TrainingBatch& batch, const AdamwSettings& settings,
                    double clip_norm, const TrainingPlans& plans);
  ~TrainingIteration();
  TrainingIteration(const TrainingIteration&) = delete;
  TrainingIteration& operator=(const TrainingIteration&) = delete;

  /// Weights normal of standard deviation `sigma`, norms 1; state of the optimizer zero.
  void start(float sigma, std::uint64_t seed, StreamHandle stream);
  /// Tokens [sequences, length]; each is to be predicted from those before it. The last one's target is none.
  void set_tokens(const std::vector<std::int32_t>& ids, StreamHandle stream);

  const std::vector<TrainingLaunch>& launches() const { return launches_; }
  void enqueue(StreamHandle stream) const;
  std::size_t bytes() const { return bytes_; }

  const void* weights() const;     ///< bf16 [parameter_count()]
  const float* gradients() const;  ///< fp32, of the last iteration, not clipped
  const float* loss_sum() const;   ///< over the tokens that have a target
  const float* norm() const;       ///< of all gradients
  std::int64_t targets() const;    ///< tokens that have one

 private:
  struct Memory;
  struct Builder;
  TrainedModel model_;
  TrainingBatch batch_;
  std::unique_ptr<Memory> memory_;
  std::vector<TrainingLaunch> launches_;
  std::size_t bytes_ = 0;
};

}  // namespace plumbline

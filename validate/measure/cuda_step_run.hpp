// A step in the card's memory: its buffers, filled, and its launches. No CUDA type in here.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/collective/peer_group.hpp"
#include "kernels/common/launch.hpp"
#include "validate/measure/cuda_step_training.hpp"
#include "validate/record/step.hpp"
#include "validate/step/step_program.hpp"

namespace plumbline {

class LoadedStep {
 public:
  /// Allocates and fills one rank's share on the current card. Throws NotModelled for a step that our kernels do not run
  /// or the card has no room for.
  LoadedStep(const StepTask& task, int rank, StreamHandle stream);
  ~LoadedStep();
  LoadedStep(const LoadedStep&) = delete;
  LoadedStep& operator=(const LoadedStep&) = delete;

  /// Lets its collectives reach the other ranks' buffers: `ranks` are those of the group, this one among them. To be
  /// called before the first launch where there are several.
  void join(const PeerGroup& group, std::vector<const LoadedStep*> ranks);

  const StepProgram& program() const { return training_ ? training_->program() : program_; }
  /// All operators in order, or one of them; can be captured in a graph. The current card must be this rank's.
  void enqueue(StreamHandle stream) const;
  void enqueue(const StepLaunch& launch, StreamHandle stream) const;
  char* at(const StepOperand& operand) const;
  /// Empty, or what is wrong with the last logits: not finite, or all the same; of training with the loss.
  std::string complaint(StreamHandle stream) const;

  /// Of training: the norm of the last gradients, which replicas have in common; else 0.
  float gradient_norm(StreamHandle stream) const { return training_ ? training_->norm(stream) : 0; }

  /// Whether a task is the one that is loaded, plans included.
  static std::string key(const StepTask& task);

 private:
  struct Memory;
  void join_ranks(const Collective& shape, const StepLaunch& launch, StreamHandle stream) const;

  int rank_ = 0, sms_ = 0;
  const PeerGroup* group_ = nullptr;
  std::vector<const LoadedStep*> ranks_;  ///< of the group
  StepProgram program_;
  std::vector<GemmPlan> gemm_plans_;  ///< by node
  std::vector<AttentionPlan> attention_plans_;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<LoadedTraining> training_;  ///< null but for a training iteration, which is all of the step
};

}  // namespace plumbline

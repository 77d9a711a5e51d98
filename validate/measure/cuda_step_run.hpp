// A step in the card's memory: its buffers, filled, and its launches. No CUDA type in here.
#pragma once

#include <memory>
#include <string>

#include "kernels/common/launch.hpp"
#include "validate/measure/step_program.hpp"
#include "validate/record/step.hpp"

namespace plumbline {

class LoadedStep {
 public:
  /// Allocates and fills. Throws NotModelled for a step that our kernels do not run or the card has no room for.
  LoadedStep(const StepTask& task, StreamHandle stream);
  ~LoadedStep();
  LoadedStep(const LoadedStep&) = delete;
  LoadedStep& operator=(const LoadedStep&) = delete;

  const StepProgram& program() const { return program_; }
  /// All operators in order, or one of them; can be captured in a graph.
  void enqueue(StreamHandle stream) const;
  void enqueue(const StepLaunch& launch, StreamHandle stream) const;
  char* at(const StepOperand& operand) const;
  /// Empty, or what is wrong with the last logits: not finite, or all the same.
  std::string complaint(StreamHandle stream) const;

  /// Whether a task is the one that is loaded, plans included.
  static std::string key(const StepTask& task);

 private:
  struct Memory;
  StepProgram program_;
  std::vector<GemmPlan> gemm_plans_;  ///< by node
  std::vector<AttentionPlan> attention_plans_;
  std::unique_ptr<Memory> memory_;
};

}  // namespace plumbline

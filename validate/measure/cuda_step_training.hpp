// A training iteration in the card's memory, as a step to be measured. No CUDA type in here.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "kernels/common/launch.hpp"
#include "validate/record/step.hpp"
#include "validate/step/step_program.hpp"

namespace plumbline {

class TrainingIteration;

class LoadedTraining {
 public:
  /// Builds one replica of the iteration of the task's graph: random weights, the same on all of them, and random tokens of
  /// its own. Throws NotModelled for a model that
  /// our kernels do not train: other than dense decoders of rotated grouped attention, rmsnorm and swiglu whose embedding
  /// and head are one table.
  LoadedTraining(const StepTask& task, int rank, StreamHandle stream);
  ~LoadedTraining();
  LoadedTraining(const LoadedTraining&) = delete;
  LoadedTraining& operator=(const LoadedTraining&) = delete;

  /// Its launches and their nodes, without operands: what is in no graph counts as the optimizer's or the loss's.
  const StepProgram& program() const { return program_; }
  void enqueue(std::size_t launch, StreamHandle stream) const;
  /// What replicas add up in place, where `program` has a collective.
  void* gradients() const;
  /// Of the last iteration's gradients, summed over replicas.
  float norm(StreamHandle stream) const;
  /// Empty, or what is wrong with the last loss or the gradients' norm.
  std::string complaint(StreamHandle stream) const;

 private:
  std::unique_ptr<TrainingIteration> iteration_;
  StepProgram program_;
};

}  // namespace plumbline

// One point of a study, answered.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "arch/gpu/number.hpp"
#include "model/generate.hpp"
#include "model/question/question.hpp"

namespace plumbline {

/// What all threads of a study read: models, descriptors and their overrides, each read once.
class StudyInputs {
 public:
  const Llm& llm(const std::string& name);
  const GpuChanges& gpu(const std::string& name);
  const GpuChanges::Alone& alone(const std::string& gpu, const Override& change);

 private:
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<const Llm>> llms_;
  std::map<std::string, std::unique_ptr<const GpuChanges>> gpus_;
  std::map<std::tuple<std::string, std::string, std::string>, std::unique_ptr<const GpuChanges::Alone>> alone_;
};

/// Answers questions one after another, and keeps what the next one may need. One a thread.
class Asker {
 public:
  explicit Asker(StudyInputs& inputs) : inputs_(inputs) {}

  /// Throws what llm and op throw for the question.
  void ask(const Inquiry& question);
  /// The same on a machine that is given, whatever the question's.
  void ask(const Inquiry& question, const Machine& machine);
  Machine machine_of(const MachineKey& key);
  /// That of a question: training has a stack of its own where none is given.
  Machine machine_of(const Inquiry& question);

  // Of the last question.
  bool of_op() const { return of_op_; }
  const Machine& machine() const { return *machine_; }
  /// Of a whole answer its prefill.
  const StepPrediction& step() const { return whole_ ? whole_->prefill : step_; }
  /// Null but of --phase generate.
  const GeneratePrediction* whole() const { return whole_ ? &*whole_ : nullptr; }
  const OpPrediction& op() const { return op_; }
  const Op& shape() const { return shape_; }
  const Workload& workload() const { return workload_; }
  const Llm& llm() const { return *llm_; }
  bool fits() const { return fits_; }
  double gpus() const;

 private:
  void ask_llm(const LlmQuestion& question, const StackChoice& stack, const Machine& machine);
  void ask_op(const OpQuestion& question, const StackChoice& stack, const Machine& machine);
  Machine changed(const MachineKey& key, const Machine& plain);

  StudyInputs& inputs_;
  Predictor predictor_;
  std::optional<Machine> machine_, plain_, changed_;
  MachineKey plain_key_, changed_key_;
  std::string llm_name_;
  const Llm* llm_ = nullptr;
  bool of_op_ = false, fits_ = true;
  Workload workload_;
  StepPrediction step_;
  std::optional<GeneratePrediction> whole_;
  OpPrediction op_;
  Op shape_;
};

}  // namespace plumbline

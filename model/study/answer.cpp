#include "model/study/answer.hpp"

#include <algorithm>

#include "model/engine/rates.hpp"
#include "model/question/words.hpp"
#include "model/report/ops_batch_row.hpp"
#include "model/stacks/stack.hpp"
#include "ops/memory/memory.hpp"

namespace plumbline {
namespace {

bool same_machine(const MachineKey& a, const MachineKey& b) { return !(a < b) && !(b < a); }

/// What `plain` of a key would be: without overrides.
void copy_plain(const MachineKey& from, MachineKey& to) {
  to.gpu = from.gpu;
  to.options = from.options;
  to.calibration_file = from.calibration_file;
}

bool same_plain(const MachineKey& a, const MachineKey& b) {
  return a.gpu == b.gpu && a.calibration_file == b.calibration_file && a.options.stack == b.options.stack &&
         a.options.clock == b.options.clock && a.options.power_cap == b.options.power_cap &&
         a.options.data == b.options.data && a.options.sm_clock == b.options.sm_clock &&
         a.options.cluster == b.options.cluster;
}

}  // namespace

const Llm& StudyInputs::llm(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  std::unique_ptr<const Llm>& known = llms_[name];
  if (!known) known = std::make_unique<const Llm>(load_llm(name));
  return *known;
}

const GpuChanges& StudyInputs::gpu(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  std::unique_ptr<const GpuChanges>& known = gpus_[name];
  if (!known) known = std::make_unique<const GpuChanges>(name);
  return *known;
}

const GpuChanges::Alone& StudyInputs::alone(const std::string& gpu, const Override& change) {
  const GpuChanges& changes = this->gpu(gpu);
  const std::scoped_lock lock(mutex_);
  std::unique_ptr<const GpuChanges::Alone>& known = alone_[std::tuple(gpu, change.path, change.value)];
  if (!known) known = std::make_unique<const GpuChanges::Alone>(changes.alone(change));
  return *known;
}

Machine Asker::changed(const MachineKey& key, const Machine& plain) {
  std::vector<const GpuChanges::Alone*> all;
  for (const Override& each : key.overrides) all.push_back(&inputs_.alone(key.gpu, each));
  const std::optional<GpuNumbers> numbers = inputs_.gpu(key.gpu).together(all);
  return numbers ? plain.with(*numbers) : machines().once(key);
}

Machine Asker::machine_of(const MachineKey& key) {
  if (!plain_ || !same_plain(plain_key_, key)) {
    plain_.reset();
    copy_plain(key, plain_key_);
    plain_ = machines().get(plain_key_);
  }
  if (key.overrides.empty()) return *plain_;
  if (!changed_ || !same_machine(changed_key_, key)) {
    changed_.reset();
    changed_key_ = key;
    changed_ = changed(key, *plain_);
  }
  return *changed_;
}

double Asker::gpus() const { return of_op_ ? 1 : static_cast<double>(workload_.parallel.ranks()); }

void Asker::ask(const Inquiry& question) { ask(question, machine_of(question)); }

Machine Asker::machine_of(const Inquiry& question) {
  if (!question.trains_by_default()) return machine_of(question.machine);
  MachineKey key = question.machine;
  key.options.stack.name = kTrainingStack;
  return machine_of(key);
}

void Asker::ask(const Inquiry& question, const Machine& machine) {
  machine_ = machine;
  of_op_ = question.of_op;
  whole_.reset();
  if (of_op_) ask_op(question.op, question.machine.options.stack, machine);
  else ask_llm(question.llm, question.machine.options.stack, machine);
}

void Asker::ask_op(const OpQuestion& question, const StackChoice& stack, const Machine& machine) {
  shape_ = question.shape();
  PredictOptions options;
  options.warm = question.warm;
  check_warm(shape_, options);
  predictor_.predict(shape_, machine, op_, options);
  fits_ = true;
  if (!stack.attention.empty()) refuse_idle_attention(stack, {op_.provider}, question.op);
  refuse_idle_collective(stack, has_said_way(stack, shape_), question.op);
}

void Asker::ask_llm(const LlmQuestion& question, const StackChoice& stack, const Machine& machine) {
  workload_ = settled_sizes(question, machine.stack());
  if (llm_ == nullptr || llm_name_ != question.model) {
    llm_ = &inputs_.llm(question.model);
    llm_name_ = question.model;
  }
  settle_attention(*llm_, machine.stack(), workload_);
  workload_.overlap = settle_overlap(question.parallel.overlap, *llm_, workload_, machine.stack());
  refuse_idle_lengths(question, *llm_);
  const RunOptions run{question.runtime.value_or(machine.stack().runtime)};
  const Bytes capacity = machine.numbers().memory.usable_capacity();
  const Bytes room = capacity - reserve_of(question.reserve, capacity);
  if (question.phase == AskedPhase::generate) {
    whole_ = predict_generate(predictor_, *llm_, workload_, question.output, machine, run);
  } else {
    predictor_.predict(*llm_, workload_, machine, run, step_);
  }
  refuse_idle_choices(stack, step());
  fits_ = memory_need(*llm_, workload_).total() <= room;
  if (whole_ && whole_->steps > 0) {
    fits_ = fits_ && memory_need(*llm_, decode_step(*llm_, workload_, whole_->steps - 1)).total() <= room;
  }
}

}  // namespace plumbline

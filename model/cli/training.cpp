#include "model/cli/training.hpp"

#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "arch/printable.hpp"
#include "model/question/training.hpp"
#include "model/stacks/own/own_kernels.hpp"
#include "model/words.hpp"
#include "ops/rewrite/rewrite.hpp"

namespace plumbline::cli {
namespace {

/// "1e12", "300B" (10^9) or "15T" (10^12).
double tokens_of(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, value);
  const std::string unit(after, end);
  if (unit == "T") value *= 1e12;
  else if (unit == "B") value *= 1e9;
  else if (unit == "M") value *= 1e6;
  else if (!unit.empty()) value = 0;
  if (error != std::errc() || !(value >= 1 && value <= 1e18)) {
    throw BadInput("--tokens: expected a count such as 1e12, 300B or 15T; found '" + text + "'");
  }
  return value;
}

/// "36h", "20 min", "90s" or "30 d".
Seconds time_of(const std::string& flag, const std::string& text) {
  constexpr std::array<std::pair<std::string_view, double>, 4> kUnits{
      {{"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}}};
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, value);
  std::string_view unit(after, static_cast<std::size_t>(end - after));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  for (const auto& [word, seconds] : kUnits) {
    if (error == std::errc() && unit == word && value > 0 && value < 1e12) return value * seconds * units::s;
  }
  throw BadInput(flag + ": expected a time above 0 in s, min, h or d, such as 36h; found '" + text + "'");
}

/// Each names itself where it is refused.
class TrainingOptions {
 public:
  TrainingOptions(const Command& app, LlmQuestion& asked) : app_(app), asked_(asked) {}
  template <class Set>
  void operator()(const char* flag, const char* shape, Set set) const {
    app_.value(flag, shape, "", [flag, set, &asked = asked_](const std::string& text) { set(asked, flag, text); })
        .hidden();
  }

 private:
  const Command& app_;
  LlmQuestion& asked_;
};

}  // namespace

void add_training_flags(const Command& app, LlmQuestion& asked) {
  const TrainingOptions add(app, asked);
  add("--micro-batch", "N", set_micro_batch);
  add("--optimizer", "WORD", set_optimizer);
  add("--grad-dtype", "TYPE", set_gradient);
  add("--clip", "WORD", set_clipping);
  add("--offload", "WORD", set_offload);
  add("--fp8-recipe", "WORD", set_fp8_recipe);
  add("--sparse24", "WORD", set_sparse_weights);
  add("--recompute", "WORD", set_recompute);
  add("--recompute-layers", "N", set_recomputed_layers);
  add("--schedule", "WORD", set_schedule);
  add("--vp", "N", set_chunks);
  add("--zero", "0..3", set_zero);
  add("--fsdp", "1|2", set_fsdp);
}

void add_whole_training_flags(const Command& app, TrainingFlags& flags, LlmQuestion& asked) {
  const TrainingOptions add(app, asked);
  add("--tokens", "T", [&flags](LlmQuestion& q, const std::string& flag, const std::string& text) {
    if (q.training_given.empty()) q.training_given = flag;
    flags.tokens = tokens_of(text);
  });
  add("--mtbf", "TIME", [&flags](LlmQuestion& q, const std::string& flag, const std::string& text) {
    if (q.training_given.empty()) q.training_given = flag;
    flags.failures.of_gpu = time_of(flag, text);
  });
  add("--restart", "TIME", [&flags](LlmQuestion& q, const std::string& flag, const std::string& text) {
    if (q.training_given.empty()) q.training_given = flag;
    flags.failures.restart = time_of(flag, text);
  });
}

namespace {

/// Of an eager framework: its parameters as they are, and of which families nobody knows what it launches.
void add_eager_remarks(const Workload& workload, const Llm& llm, const Rewrites& launches,
                       std::vector<std::string>& remarks) {
  const Training& training = workload.training;
  const DType base = workload.precision_given ? workload.precision.output : DType::bf16;
  remarks.push_back(
      "Training: eager; parameters and gradients are " + std::string(name(training.gradient)) +
      ", without master weights of " + std::string(word_of(kOptimizerWords, training.optimizer)) +
      " beside them; gradients' norm is " + (training.clips() ? "taken once" : "not taken") +
      ". Data loading takes no time, nor do checkpoints and failures where --mtbf does not say how often a "
      "GPU fails.");
  const bool casts = training.autocast(base);
  if (casts && !launches.held.empty() && !launches.casts_of(llm.model_type)) {
    remarks.push_back("autocast: which casts layers of '" + printable(llm.model_type) +
                      "' run is not on file: they take memory here, and no time");
  }
  if (!launches.is_held(llm.model_type)) {
    remarks.push_back("what the framework launches to train '" + printable(llm.model_type) +
                      "' was held against nothing that ran: each operator goes by what it is in other families");
  }
}

}  // namespace

std::vector<std::string> training_remarks(const Workload& workload, const Llm& llm, const Machine& machine) {
  const Rewrites* launches = machine.stack().training.get();
  const Training& training = workload.training;
  std::vector<std::string> remarks;
  if (training.eager && launches != nullptr) {
    add_eager_remarks(workload, llm, *launches, remarks);
  } else {
    remarks = {
        "Training: gradients are added up in " + std::string(name(training.gradient)) +
        " by the products that make them, their norm is " + (training.clips() ? "taken once" : "not taken") + ", and " +
        std::string(word_of(kOptimizerWords, training.optimizer)) +
        " keeps fp32 master weights. Data loading takes no time, nor do checkpoints and failures where --mtbf does "
        "not say "
        "how often a GPU fails."};
    if (machine.kernels() == KernelSet::own && runs_own_kernels(machine.rates())) {
      remarks.emplace_back(
          "Backward kernels are this project's, timed by themselves on an H200; what another provider runs says so "
          "in its provenance.");
    } else {
      remarks.emplace_back(
          "Backward kernels were never timed by themselves: they are priced by the bytes and FLOPs that they move, "
          "with "
          "the "
          "coefficients of their forward kin, and their bands are those of operators that nobody measured.");
    }
    if (training.optimizer == Optimizer::adam8bit) {
      remarks.emplace_back("adam8bit: bitsandbytes' kernel over all of a rank's parameters at once");
    }
  }
  if (training.offload != Offload::none) {
    remarks.emplace_back(
        "Copies to and from the host's memory go beside the passes, a layer at a time; GPUs on one port of the host "
        "share it.");
  }
  if (workload.parallel.zero > 0 && workload.parallel.data == 1) {
    remarks.emplace_back(
        "--zero " + std::to_string(workload.parallel.zero) +
        " shares nothing here: there is one replica. --dp N makes more; what --gpus leaves goes to --tp.");
  }
  if (workload.parallel.data > 1 && !training.eager && !replicas_beside(workload.overlap)) {
    remarks.emplace_back("Gradients travel between replicas behind the last backward pass; nothing hides them.");
  }
  return remarks;
}

}  // namespace plumbline::cli

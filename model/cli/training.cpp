#include "model/cli/training.hpp"

#include <charconv>

#include "model/words.hpp"

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

DType gradient_of(const std::string& text) {
  const std::optional<DType> type = parse_dtype(text);
  if (type && (*type == DType::fp32 || *type == DType::bf16 || *type == DType::fp16)) return *type;
  throw BadInput("--grad-dtype: expected fp32, bf16 or fp16; found '" + text + "'");
}

}  // namespace

void add_training_flags(const Command& app, TrainingFlags& flags, Workload& workload) {
  Training& training = workload.training;
  const auto add = [&](const char* flag, const char* shape, const std::function<void(const std::string&)>& set) {
    app.value(flag, shape, "",
              [flag, set, &flags](const std::string& text) {
                set(text);
                if (flags.first_given.empty()) flags.first_given = flag;
              })
        .hidden();
  };
  add("--micro-batch", "N",
      [&training](const std::string& text) { training.micro_batch = whole_number("--micro-batch", text, 1, 1 << 20); });
  add("--optimizer", "WORD",
      [&training](const std::string& text) { training.optimizer = chosen_word("--optimizer", kOptimizerWords, text); });
  add("--grad-dtype", "TYPE", [&training](const std::string& text) { training.gradient = gradient_of(text); });
  add("--recompute", "WORD",
      [&training](const std::string& text) { training.recompute = chosen_word("--recompute", kRecomputeWords, text); });
  add("--schedule", "WORD",
      [&training](const std::string& text) { training.schedule = chosen_word("--schedule", kScheduleWords, text); });
  add("--vp", "N", [&training](const std::string& text) { training.chunks = whole_number("--vp", text, 1, 1 << 20); });
  add("--zero", "0..3", [&workload](const std::string& text) {
    workload.parallel.zero = static_cast<int>(whole_number("--zero", text, 0, 3));
  });
  add("--tokens", "T", [&flags](const std::string& text) { flags.tokens = tokens_of(text); });
}

std::vector<std::string> training_remarks(const Workload& workload) {
  const Training& training = workload.training;
  std::vector<std::string> remarks{
      "Training: gradients are added up in " + std::string(name(training.gradient)) +
          " by the products that make them, their norm is taken once, and " +
          std::string(word_of(kOptimizerWords, training.optimizer)) +
          " keeps fp32 master weights. Data loading, checkpoints and failures take no time.",
      "Backward kernels were never timed by themselves: they are priced by the bytes and FLOPs that they move, with "
      "the "
      "coefficients of their forward kin, and their bands are those of operators that nobody measured."};
  if (workload.parallel.data > 1) {
    remarks.emplace_back("Gradients travel between replicas behind the last backward pass; nothing hides them.");
  }
  return remarks;
}

}  // namespace plumbline::cli

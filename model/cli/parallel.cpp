#include "model/cli/parallel.hpp"

#include <charconv>
#include <sstream>

#include "arch/error.hpp"
#include "arch/fabric/cluster.hpp"
#include "arch/files.hpp"
#include "model/words.hpp"
#include "ops/lower/two_batch.hpp"

namespace plumbline::cli {
namespace {

constexpr std::array<Word<OverlapChoice>, 5> kOverlapFlagWords{{{"none", OverlapChoice::none},
                                                                {"stack", OverlapChoice::stack},
                                                                {"two-batch", OverlapChoice::two_batch},
                                                                {"sends", OverlapChoice::sends},
                                                                {"full", OverlapChoice::full}}};

std::string text_of(std::int64_t n) { return std::to_string(n); }

double number(const std::string& text, const std::string& flag, const std::string& expected) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || after != end) throw BadInput(flag + ": expected " + expected + "; found '" + text + "'");
  return value;
}

/// Counts of a file, separated by white space or commas.
std::vector<double> counts_of(const std::string& file) {
  constexpr std::size_t kMost = 1 << 20;
  std::string text = read_text_file(file, 16.0 * units::MiB);
  for (char& c : text) {
    if (c == ',') c = ' ';
  }
  std::istringstream in(text);
  std::vector<double> counts;
  double sum = 0;
  for (std::string word; in >> word;) {
    const double count = number(word, "--expert-load: " + file, "counts of tokens, one an expert");
    if (!(count >= 0) || counts.size() == kMost) throw BadInput("--expert-load: " + file + ": expected counts from 0");
    counts.push_back(count);
    sum += count;
  }
  if (!(sum > 0)) throw BadInput("--expert-load: " + file + ": expected counts of tokens, one an expert; found none");
  return counts;
}

ExpertLoad expert_load(const std::string& text) {
  ExpertLoad load;
  if (text == "uniform") return load;
  constexpr std::string_view kPower = "power:";
  if (text.rfind(kPower, 0) == 0) {
    load.power = number(text.substr(kPower.size()), "--expert-load", "power:A with A from 0 to 10");
    return load;
  }
  load.counts = counts_of(text);
  return load;
}

void add_degree(const Command& app, const std::string& flag, const std::string& help, std::int64_t& target,
                bool* given = nullptr) {
  app.value(flag, "N", help, [flag, &target, given](const std::string& text) {
    target = whole_number(flag, text, 1, 1 << 20);
    if (given != nullptr) *given = true;
  });
}

}  // namespace

void add_parallel_flags(const Command& app, ParallelFlags& flags, Workload& workload) {
  ParallelPlan& plan = workload.parallel;
  add_degree(app, "--gpus", "GPUs in all: tp x pp x cp x dp [1]", flags.gpus, &flags.gpus_given);
  add_degree(app, "--tp", "ranks that share every layer's matrices [what --gpus leaves]", plan.tensor,
             &flags.tensor_given);
  add_degree(app, "--pp", "stages of a pipeline [1]", plan.pipeline);
  add_degree(app, "--dp", "replicas, which share --batch [1]", plan.data);
  add_degree(app, "--ep", "ranks that the experts are dealt to, within tp x cp x dp [1]", plan.expert);
  add_degree(app, "--cp", "ranks that share each sequence [1]", plan.context);
  app.toggle("--sp", "tokens between the matrices are split over the tp ranks", plan.sequence);
  app.toggle("--attention-dp", "attention is whole on each tp rank, for sequences of its own", plan.attention_data);
  add_degree(app, "--micro-batches", "parts of a batch in the pipeline at a time [pp]", plan.micro_batches);
  app.value("--overlap", "WORD", "none, stack, two-batch, sends, full: what runs beside compute [stack]",
            [&flags](const std::string& text) { flags.overlap = chosen_word("--overlap", kOverlapFlagWords, text); });
  app.value("--expert-load", "LOAD", "uniform, power:A or FILE: how tokens spread over the experts [uniform]",
            [&workload](const std::string& text) { workload.expert_load = expert_load(text); });
  app.value("--zero", "0..3", "",
            [&plan](const std::string& text) { plan.zero = static_cast<int>(whole_number("--zero", text, 0, 3)); })
      .hidden();
}

void settle_degrees(const ParallelFlags& flags, ParallelPlan& plan) {
  if (!flags.gpus_given || settle_tensor(plan, flags.gpus, flags.tensor_given)) return;
  throw BadInput("--gpus " + text_of(flags.gpus) + ": expected tp x pp x cp x dp, found " + text_of(plan.tensor) +
                 " x " + text_of(plan.pipeline) + " x " + text_of(plan.context) + " x " + text_of(plan.data) + " = " +
                 text_of(plan.ranks()));
}

Overlap settle_overlap(OverlapChoice choice, const Llm& llm, const Workload& workload, const Stack& stack) {
  Workload asked = workload;
  switch (choice) {
    case OverlapChoice::none: return Overlap::none;
    case OverlapChoice::stack: return lowering::possible_overlap(stack.overlap, llm, workload);
    case OverlapChoice::two_batch: asked.overlap = Overlap::two_batch; break;
    case OverlapChoice::sends: asked.overlap = Overlap::sends; break;
    case OverlapChoice::full: asked.overlap = lowering::possible_overlap(Overlap::full, llm, workload); break;
  }
  lowering::refuse_overlap(llm, asked);
  if (asked.overlap == Overlap::none) {
    throw BadInput("--overlap full: nothing of this plan can run beside compute: expected ranks that exchange data " +
                   std::string("within a layer and two sequences a rank, or a pipeline of two micro-batches at least"));
  }
  return asked.overlap;
}

std::vector<std::string> parallel_remarks(const Workload& workload, const Machine& machine, bool cluster_given) {
  std::vector<std::string> remarks;
  const ParallelPlan& plan = workload.parallel;
  if (plan.ranks() == 1) return remarks;
  const Cluster& cluster = *machine.rates().fabric;
  if (!cluster_given) remarks.push_back("The GPUs stand in cluster " + cluster.name + ": " + cluster.title + ".");
  remarks.push_back(
      "Neighbouring ranks share a layer (tp), then a sequence (cp), then come replicas (dp), then stages (pp); figures "
      "are of the rank that has most to do, tokens/s and energy of all.");
  if (plan.data > 1 && workload.batch % plan.data != 0) {
    remarks.push_back("A batch of " + text_of(workload.batch) + " does not divide by " + text_of(plan.data) +
                      " replicas: the fullest is priced.");
  }
  if (workload.expert_load.power > 0) {
    remarks.push_back(
        "The i-th most popular expert gets a share of the tokens proportional to i^-A; ranks hold them in "
        "turn, and the fullest rank is priced.");
  }
  if (workload.overlap == Overlap::none) {
    remarks.emplace_back("Collectives run beside nothing (--overlap): no communication overlaps with compute.");
  } else {
    remarks.emplace_back(
        "Two halves of the batch take turns, layer by layer; what runs side by side shares SMs, DRAM and L2 by what "
        "each "
        "asks for, and one clock. Whole steps with overlap were never measured.");
  }
  return remarks;
}

}  // namespace plumbline::cli

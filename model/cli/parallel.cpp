#include "model/cli/parallel.hpp"

#include "arch/fabric/cluster.hpp"
#include "model/words.hpp"

namespace plumbline::cli {
namespace {

std::string text_of(std::int64_t n) { return std::to_string(n); }

void add_degree(const Command& app, const std::string& flag, const std::string& help, std::int64_t& target,
                bool* given = nullptr) {
  app.value(flag, "N", help, [flag, &target, given](const std::string& text) {
    target = whole_number(flag, text, 1, 1 << 20);
    if (given != nullptr) *given = true;
  });
}

}  // namespace

void add_parallel_flags(const Command& app, ParallelChoice& choice, Workload& workload) {
  ParallelPlan& plan = workload.parallel;
  add_degree(app, "--gpus", "GPUs in all: tp x pp x cp x dp [1]", choice.gpus, &choice.gpus_given);
  add_degree(app, "--tp", "ranks that share every layer's matrices [what --gpus leaves]", plan.tensor,
             &choice.tensor_given);
  add_degree(app, "--pp", "stages of a pipeline [1]", plan.pipeline);
  add_degree(app, "--dp", "replicas, which share --batch [1]", plan.data);
  add_degree(app, "--ep", "ranks that the experts are dealt to, within tp x cp x dp [1]", plan.expert);
  add_degree(app, "--cp", "ranks that share each sequence [1]", plan.context);
  app.toggle("--sp", "tokens between the matrices are split over the tp ranks", plan.sequence);
  app.toggle("--attention-dp", "attention is whole on each tp rank, for sequences of its own", plan.attention_data);
  add_degree(app, "--micro-batches", "parts of a batch in the pipeline at a time [pp]", plan.micro_batches);
  app.value(
      "--overlap", "WORD", "none, two-batch, sends, async-tp, full, replicas, iteration, experts [stack]",
      [&choice](const std::string& text) { choice.overlap = chosen_word("--overlap", kOverlapChoiceWords, text); });
  app.value("--expert-load", "LOAD", "uniform, power:A or FILE: how tokens spread over the experts [uniform]",
            [&workload](const std::string& text) { workload.expert_load = expert_load_of("--expert-load", text); });
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
  const bool together = workload.phase == Phase::train && workload.training.two_stages();
  if (workload.overlap == Overlap::none && !together) {
    remarks.emplace_back("Collectives run beside nothing (--overlap): no communication overlaps with compute.");
    return remarks;
  }
  if (together) {
    remarks.emplace_back(
        "Each rank holds two stages; what a pass exchanges travels while the pass that runs with it computes, and what "
        "replicas exchange travels by itself.");
  }
  if (in_halves(workload.overlap)) remarks.emplace_back("Two halves of the batch take turns, layer by layer.");
  if (sends_beside(workload.overlap)) {
    remarks.emplace_back("A stage hands its micro-batch on while it works on the next.");
  }
  if (in_shards(workload.overlap)) {
    remarks.emplace_back(
        "Products in front of which tokens are gathered, or behind which sums are scattered, work on one rank's tokens "
        "at a time, while copy engines bring or take the next rank's.");
  }
  if (replicas_beside(workload.overlap)) {
    remarks.emplace_back(
        "What replicas exchange travels beside the pass that makes or reads it, but for the first or the last layer's "
        "part; "
        "the SMs that it holds are missing there.");
  }
  if (workload.overlap == Overlap::iteration) {
    remarks.emplace_back("What tensor ranks exchange travels in parts beside the product next to it.");
  }
  if (experts_beside(workload.overlap)) {
    remarks.emplace_back(
        "Tokens travel to experts and back while another micro-batch's pass computes, but in the first passes forward "
        "and "
        "the last ones backward; the SMs that their exchange holds are missing there. Activations of one micro-batch "
        "more "
        "are kept.");
  }
  if (workload.phase == Phase::train) return remarks;
  remarks.emplace_back(
      "What runs side by side shares SMs, DRAM and L2 by what each asks for, and one clock. Whole steps with overlap "
      "were never measured.");
  return remarks;
}

}  // namespace plumbline::cli

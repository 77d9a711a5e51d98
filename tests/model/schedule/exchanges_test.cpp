// Exchanges of training that travel beside compute: what is hidden by hand, and laws of whole iterations.
#include "model/schedule/exchanges.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "arch/error.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"

namespace plumbline::exchanges_test {
namespace {

Machine h100(const char* stack) {
  MachineOptions options{stack};
  options.cluster = "dgx_h100";
  return machines().get({"h100_sxm", options});
}

StepPrediction price(const Llm& llm, const Workload& w, const Machine& machine) {
  return predict(llm, w, machine, RunOptions{Runtime::stream});
}

Workload training(Overlap overlap) {
  Workload w;
  w.phase = Phase::train;
  w.batch = 16;
  w.prompt = 2048;
  w.parallel.data = 8;
  w.parallel.zero = 3;
  w.overlap = overlap;
  return w;
}

const NodePrediction& node(const StepPrediction& step, const std::string& name, std::size_t nth = 0) {
  for (const NodePrediction& n : step.nodes) {
    if (n.node->name == name && nth-- == 0) return n;
  }
  throw BadInput("no node " + name);
}

/// 16 layers and what is outside of them: of a gather ahead of a pass all but a seventeenth finds compute to travel beside,
/// which is longer by the SMs that are missing from it.
TEST(Exchanges, AllButTheFirstUnitIsHiddenWherePassesAreLong) {
  const Llm llm = load_llm("llama-3.2-1b");
  const StepPrediction step = price(llm, training(Overlap::replicas), h100("megatron"));
  for (const char* name : {"forward_all_gather", "backward_all_gather", "grad_reduce_scatter"}) {
    const NodePrediction& n = node(step, name);
    EXPECT_EQ(n.node->count, 16) << name;
    EXPECT_NEAR(n.hidden / (n.op.time + n.gap), 16.0 / 17, 1e-9) << name;
    EXPECT_GE(n.tax, Seconds{});
    EXPECT_LT(n.tax, 0.6 * n.hidden) << "SMs and DRAM";
  }
  EXPECT_GT(step.network_hidden, step.network_exposed);
}

/// Each exchange of tensor ranks goes beside its own product, forward and backward, all but one part of the product: gathers
/// beside the one behind, sums beside the one before; of gradients a sum's gather beside the product of the input's gradient, a
/// gather's sum beside that of the weights.
TEST(Exchanges, TensorRanksExchangeBesideTheirProducts) {
  const Llm llm = load_llm("llama-3.1-8b");
  Workload w = training(Overlap::iteration);
  w.parallel.data = 1;
  w.parallel.zero = 0;
  w.parallel.tensor = 4;
  w.parallel.sequence = true;
  const StepPrediction step = price(llm, w, h100("megatron"));
  std::size_t hidden = 0;
  for (std::size_t i = 0; i + 1 < step.nodes.size(); ++i) {
    const NodePrediction& n = step.nodes[i];
    const std::string name = n.node->name;
    const bool gradient = n.node->pass == Pass::backward && !n.node->again;
    std::size_t beside = i;
    if (name == "ffn_all_gather") beside = gradient ? i - 1 : i + 1;
    if (name == "ffn_all_gather.recompute") beside = i + 1;
    if (name == "ffn_reduce_scatter") beside = gradient ? i + 1 : i - 1;
    if (beside == i) continue;
    ++hidden;
    EXPECT_TRUE(std::holds_alternative<Gemm>(step.nodes[beside].node->op)) << name << ' ' << gradient;
    EXPECT_EQ(n.hidden, std::min(n.op.time + n.gap, 0.75 * step.nodes[beside].op.time)) << name << ' ' << gradient;
  }
  EXPECT_EQ(hidden, 5U);
}

/// Two passes of different micro-batches run together but at either end of an iteration: half of what experts exchange is
/// hidden of two micro-batches, seven eighths of eight, for the activations of one micro-batch more.
TEST(Exchanges, TokensTravelBesideThePassOfAnotherMicroBatch) {
  const Llm llm = load_llm("qwen3-30b-a3b");
  const Machine machine = h100("megatron");
  for (const int parts : {2, 8}) {
    Workload w = training(Overlap::replicas);
    w.batch = 8 * parts;
    w.prompt = 4096;
    w.parallel.zero = 1;
    w.parallel.expert = 8;
    w.training.micro_batch = 1;
    const StepPrediction apart = price(llm, w, machine);
    w.overlap = Overlap::experts;
    const StepPrediction together = price(llm, w, machine);
    for (const char* name : {"moe_dispatch", "moe_collect"}) {
      const NodePrediction& n = node(together, name);
      EXPECT_LE(n.hidden, (1 - 1.0 / parts) * (n.op.time + n.gap) + 1e-12 * units::s) << name;
      EXPECT_GT(n.hidden, 0.3 * (n.op.time + n.gap)) << name;
      EXPECT_EQ(node(apart, name).hidden, Seconds{});
    }
    EXPECT_LT(together.latency, apart.latency);
    EXPECT_GT(together.latency, apart.latency - apart.network_exposed);
    EXPECT_GT(together.graph.memory.activations, 1.5 * apart.graph.memory.activations);
  }
}

TEST(Exchanges, PassesOfTwoMicroBatchesAreAskedForWhereTheyRunTogether) {
  const Llm llm = load_llm("qwen3-30b-a3b");
  Workload w = training(Overlap::experts);
  w.parallel.zero = 0;
  w.parallel.expert = 8;
  w.training.micro_batch = 1;
  const auto refused = [&](const Workload& asked) { EXPECT_THROW(price(llm, asked, h100("megatron")), Error); };
  Workload one = w;
  one.training.micro_batch = 2;
  refused(one);
  Workload again = w;
  again.training.recompute = Recompute::full;
  refused(again);
  Workload stages = w;
  stages.parallel.pipeline = 2;
  stages.parallel.data = 4;
  stages.parallel.expert = 4;
  refused(stages);
  stages.training.schedule = PipelineSchedule::interleaved;
  stages.training.chunks = 2;
  EXPECT_GT(price(llm, stages, h100("megatron")).network_hidden, Seconds{});
  Workload held = w;
  held.parallel.expert = 1;
  refused(held);
}

/// A pass hides no more than it takes: of one short sequence a replica most stays exposed.
TEST(Exchanges, NoMoreIsHiddenThanAPassTakes) {
  const Llm llm = load_llm("llama-3.2-1b");
  Workload w = training(Overlap::replicas);
  w.batch = 8;
  w.prompt = 64;
  const StepPrediction step = price(llm, w, h100("megatron"));
  Seconds forward, hidden;
  for (const NodePrediction& n : step.nodes) {
    const auto count = static_cast<double>(n.node->count);
    if (n.node->role == NodeRole::beside_forward) hidden += count * n.hidden;
    else if (n.node->pass == Pass::forward) forward += count * n.on_path();
  }
  EXPECT_NEAR(hidden / forward, 1, 1e-9);
}

/// Never slower than with everything exposed, never faster than without replicas' data at all.
TEST(Exchanges, LieBetweenNothingHiddenAndNothingSent) {
  const Llm llm = load_llm("llama-3.2-1b");
  const Machine machine = h100("megatron");
  for (const int zero : {0, 1, 2, 3}) {
    Workload w = training(Overlap::none);
    w.parallel.zero = zero;
    const StepPrediction none = price(llm, w, machine);
    w.overlap = Overlap::replicas;
    const StepPrediction beside = price(llm, w, machine);
    EXPECT_LT(beside.latency, none.latency) << zero;
    EXPECT_GT(beside.latency, none.latency - none.network_exposed) << zero;
  }
}

/// Of a pipeline too, where the last stage that ends sums its gradients beside its last backward pass alone.
TEST(Exchanges, OfAPipelineAreThoseOfAnIteration) {
  const Llm llm = load_llm("llama-3.2-1b");
  Workload w = training(Overlap::none);
  w.parallel.data = 2;
  w.parallel.pipeline = 4;
  w.parallel.zero = 1;
  w.training.micro_batch = 1;
  const Machine machine = h100("megatron");
  const StepPrediction none = price(llm, w, machine);
  w.overlap = Overlap::replicas;
  const StepPrediction beside = price(llm, w, machine);
  EXPECT_LT(beside.latency, none.latency);
  EXPECT_GT(node(beside, "grad_reduce_scatter").hidden, Seconds{});
}

/// Seven of eight parts of a product hide what eight ranks exchange beside it.
TEST(Exchanges, OfTensorRanksTravelBesideTheProductNextToThem) {
  const Llm llm = load_llm("llama-3.1-8b");
  Workload w = training(Overlap::iteration);
  w.parallel = {};
  w.parallel.tensor = 8;
  w.parallel.sequence = true;
  const StepPrediction step = price(llm, w, h100("megatron"));
  std::size_t at = 0;
  while (std::string(step.nodes[at].node->name) != "gate_up_proj") ++at;
  const NodePrediction& gather = step.nodes[at - 1];
  ASSERT_TRUE(std::holds_alternative<Collective>(gather.node->op));
  const Seconds product = step.nodes[at].op.time;
  EXPECT_NEAR(gather.hidden / std::min(gather.op.time + gather.gap, 7.0 / 8 * product), 1, 1e-9);
  // this rank's share is first copied to where the others read it: read and written once
  const double share = static_cast<double>(std::get<Collective>(gather.node->op).bytes) / 8;
  const double at_peak = 2 * share / 3.352e12;
  EXPECT_GT(gather.tax.in(units::s), at_peak);
  EXPECT_LT(gather.tax.in(units::s), 1.4 * at_peak);
}

TEST(Exchanges, AreRefusedWhereThereAreNone) {
  const Llm llm = load_llm("llama-3.2-1b");
  Workload w = training(Overlap::replicas);
  w.parallel = {};
  EXPECT_THROW(price(llm, w, h100("megatron")), BadInput);
  w = training(Overlap::replicas);
  w.phase = Phase::prefill;
  w.parallel.zero = 0;
  EXPECT_THROW(price(llm, w, h100("megatron")), BadInput);
}

}  // namespace
}  // namespace plumbline::exchanges_test

// Replicas of eager training (DistributedDataParallel, FSDP): what they hold, what they exchange, what it hides behind.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "arch/error.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"
#include "model/stacks/stack.hpp"
#include "ops/memory/memory.hpp"
#include "tests/support/eager_training.hpp"

namespace plumbline::eager_replicas_test {
namespace {

using testing_support::cut;
using testing_support::executions;
using testing_support::on_two;
using testing_support::training;

/// Buckets are as large as all gradients. FSDP halves parameters and states; embedding and head, which are one matrix
/// here, stay gathered, and with zero 2 all parameters.
TEST(EagerReplicas, ReplicasHoldBucketsOrShares) {
  const Llm llm = load_llm("llama-3.2-1b");
  const double params = 1235814400, head = 128256.0 * 2048, layer = 60821504,
               one = memory_need(llm, on_two(4, 1024, 0)).total().in(units::B);
  Workload alone = training(4, 1024);
  train_eagerly(alone);
  EXPECT_EQ(one - memory_need(llm, alone).total().in(units::B), 2 * params);
  EXPECT_EQ(memory_need(llm, on_two(4, 1024, 3)).total().in(units::B),
            one - 2 * params - 3 * params + 2 * head + 2 * layer)
      << "and the last layer";
  EXPECT_EQ(memory_need(llm, on_two(4, 1024, 2)).total().in(units::B), one - 2 * params - 3 * params + 2 * params);
}

/// Two recorded peaks (data/measurements/h200/pytorch_training, two.fifth and two.third): of layers that are computed again,
/// where joined gradients of the one before are there still, and of the loss.
TEST(EagerReplicas, LayersThatAreComputedAgainHoldJoinedGradients) {
  const auto need = [](const char* model, std::size_t layers) {
    Workload w = on_two(8, 512, 3);
    w.training.recompute = Recompute::full;
    return memory_need(testing_support::cut(model, layers), w).total().in(units::B);
  };
  EXPECT_NEAR(need("phi-3.5-mini", 6) / 5334140928.0, 1, 0.02);
  EXPECT_NEAR(need("phi-4", 4) / 15248320512.0, 1, 0.001);
}

TEST(EagerReplicas, ReplicasExchangeWhatTheirHooksDo) {
  const Machine machine = [] {
    MachineOptions options{"hf-sdpa"};
    options.cluster = "dgx_h200";
    return machines().get({"h200_sxm", options});
  }();
  const auto bytes = [&](int zero) {
    std::map<std::string, double> found;
    const StepPrediction step =
        predict(load_llm("llama-3.2-1b"), on_two(4, 1024, zero), machine, RunOptions{Runtime::eager});
    for (const NodePrediction& n : step.nodes) {
      const auto* c = std::get_if<Collective>(&n.node->op);
      if (c != nullptr) found[n.node->name] += static_cast<double>(c->bytes) * static_cast<double>(n.node->count);
    }
    return found;
  };
  const double all = 2 * 1235814400.0;
  const std::map<int, std::vector<std::string>> names{
      {0, {"grad_all_reduce"}},
      {1, {"grad_all_reduce", "weight_broadcast"}},
      {2, {"forward_all_gather", "grad_reduce_scatter"}},
      {3, {"backward_all_gather", "forward_all_gather", "grad_reduce_scatter"}}};
  for (const auto& [zero, expected] : names) {
    const auto found = bytes(zero);
    ASSERT_EQ(found.size(), expected.size()) << zero;
    for (const std::string& name : expected) EXPECT_NEAR(found.at(name) / all, 1, 1e-6) << zero << ' ' << name;
  }
}

StepPrediction two_h200s(const std::string& model, const Workload& w) {
  MachineOptions options{"hf-sdpa"};
  options.cluster = "dgx_h200";
  return predict(load_llm(model), w, machines().get({"h200_sxm", options}), RunOptions{Runtime::eager});
}

const NodePrediction& node(const StepPrediction& step, const std::string& name, std::size_t nth) {
  for (const NodePrediction& n : step.nodes) {
    if (n.node->name == name && nth-- == 0) return n;
  }
  throw BadInput("no node " + name);
}

/// Of Llama-3.2-1B 48 buckets are full before the embedding's gradient is there (as recorded: down; then up, gate, and
/// the four of attention with the next layer's down), and all of what is left goes with it, beside nothing.
TEST(EagerReplicas, GradientsAreSummedInBuckets) {
  const StepPrediction step = two_h200s("llama-3.2-1b", on_two(4, 1024, 0));
  const NodePrediction& full = node(step, "grad_all_reduce", 0);
  EXPECT_EQ(full.node->count, 48);
  EXPECT_DOUBLE_EQ(full.hidden.in(units::us), (full.op.time + full.gap).in(units::us));
  EXPECT_GT(full.tax, Seconds{});
  EXPECT_LT(full.tax, 0.5 * full.hidden);
  const NodePrediction& last = node(step, "grad_all_reduce", 1);
  EXPECT_EQ(last.node->count, 1);
  Seconds copied;
  for (const NodePrediction& n : step.nodes) {
    if (n.node->role == NodeRole::copied_back) copied += static_cast<double>(n.node->count) * n.op.time;
  }
  EXPECT_DOUBLE_EQ(last.hidden.in(units::us), copied.in(units::us)) << "what is copied back of others' sums";
  EXPECT_LT(last.hidden, 0.8 * last.op.time);
  EXPECT_NEAR(static_cast<double>(std::get<Collective>(last.node->op).bytes), 2 * 273158144.0, 4096);
}

/// (ops/lower/replicas.cpp.) FSDP gathers for each micro-batch, and sums behind the last; its host has more to do, by
/// hooks of 17 units.
TEST(EagerReplicas, ShardsAreGatheredForEachMicroBatch) {
  Workload w = on_two(1, 64, 3);
  const StepPrediction one = two_h200s("llama-3.2-1b", w);
  w.batch *= 2;
  w.training.micro_batch = 1;
  const StepPrediction two = two_h200s("llama-3.2-1b", w);
  EXPECT_EQ(node(one, "forward_all_gather", 0).node->count, 15) << "the first layer's is apart";
  EXPECT_EQ(node(two, "forward_all_gather", 0).node->count, 30);
  EXPECT_EQ(node(two, "backward_all_gather", 1).node->count, 2);
  EXPECT_EQ(node(two, "grad_reduce_scatter", 0).node->count, 15);
  EXPECT_EQ(one.graph.eager.sharded_units, 17);
  EXPECT_EQ(one.graph.eager.tensors, 146);
  EXPECT_TRUE(one.waits_for_host);
  EXPECT_GT(one.latency, two_h200s("llama-3.2-1b", on_two(1, 64, 0)).latency);
  Workload long_one = on_two(4, 1024, 3), long_two = long_one;
  long_two.batch *= 2;
  long_two.training.micro_batch = 4;
  const Llm llm = load_llm("llama-3.2-1b");
  const Bytes more = memory_need(llm, long_two).total() - memory_need(llm, long_one).total();
  EXPECT_EQ(more.in(units::B), 2 * 1235814400.0) << "gradients of the first, whole";
}

/// Exchanges of a unit go one after the other: the first layer's gather forward and the sum of its gradients find nothing
/// to travel beside, its gather for the backward pass does; the root's (the last) none at all.
TEST(EagerReplicas, FirstGathersAndLastSumsAreWaitedFor) {
  const StepPrediction step = two_h200s("llama-3.1-8b", on_two(4, 2048, 3));
  const auto hides = [&](const char* name, std::size_t unit) { return node(step, name, unit).hidden > Seconds{}; };
  for (const char* name : {"forward_all_gather", "grad_reduce_scatter"}) {
    EXPECT_TRUE(hides(name, 0)) << name;
    EXPECT_FALSE(hides(name, 1)) << name;
    EXPECT_FALSE(hides(name, 2)) << name;
  }
  EXPECT_TRUE(hides("backward_all_gather", 1));
  EXPECT_FALSE(hides("backward_all_gather", 2));
}

/// MixedPrecisionPolicy: parameters, two moments a share are fp32, all else is as in bf16 (as recorded: 3.708 GB more).
TEST(EagerReplicas, WideSharesAreGatheredInTheLayersType) {
  Workload w = training(8, 1024);
  w.parallel.data = 2;
  w.parallel.zero = 3;
  w.training.gradient_given = true;
  w.training.gradient = DType::fp32;
  train_eagerly(w);
  const Llm llm = load_llm("llama-3.2-1b");
  const Bytes more = memory_need(llm, w).total() - memory_need(llm, on_two(4, 1024, 3)).total();
  EXPECT_EQ(more.in(units::B), 3 * (4 - 2) * 1235814400.0 / 2);
  const StepPrediction step = two_h200s("llama-3.2-1b", w);
  EXPECT_EQ(std::get<Collective>(node(step, "forward_all_gather", 0).node->op).dtype, DType::bf16);
  EXPECT_EQ(std::get<Collective>(node(step, "grad_reduce_scatter", 0).node->op).dtype, DType::fp32);
  // in launches of 20 Mi elements: 30 Mi of a layer's share, 125 Mi of the root's
  EXPECT_EQ(executions(step).at("forward_cast.list"), 16 + 6);
  EXPECT_EQ(executions(step).at("forward_cast.list_rest"), 17);
  EXPECT_EQ(executions(step).at("forward_copy_in.list_rest"), 17);
}

/// The host issues in order: where the forward pass waits for it and the backward pass does not, a step takes the host's
/// time for the one and the GPU's for the other, longer than either sum.
TEST(EagerReplicas, APassThatWaitsIsNotMadeUpForByTheNext) {
  const auto with_host = [](const char* narrow_launch) {
    MachineOptions options{"hf-sdpa"};
    options.cluster = "dgx_h200";
    options.stack.host = narrow_launch;
    return predict(cut("llama-3.2-3b", 8), on_two(2, 2048, 2), machines().get({"h200_sxm", options}),
                   RunOptions{Runtime::eager});
  };
  const StepPrediction quick = with_host("5us"), slow = with_host("35us");
  EXPECT_FALSE(quick.waits_for_host);
  EXPECT_TRUE(slow.waits_for_host);
  EXPECT_GT(slow.latency, 1.02 * quick.latency);
  EXPECT_LT(with_host("36us").latency - slow.latency, (1 / 35.0) * slow.latency) << "a part of it waits";
}

/// The mean of the slower one of two hosts, of normal ones that are `apart`, is 0.564 of that above their mean; a host that
/// was measured is the slower one's.
TEST(EagerReplicas, RanksGoAsTheirSlowestHostDoes) {
  const HostTime host = machines().stack("hf-sdpa").host;
  const auto on_host = [](const std::string& narrow_launch) {
    MachineOptions options{"hf-sdpa"};
    options.cluster = "dgx_h200";
    options.stack.host = narrow_launch;
    return predict(load_llm("llama-3.2-1b"), on_two(1, 64, 3), machines().get({"h200_sxm", options}),
                   RunOptions{Runtime::eager});
  };
  const std::string mean = std::to_string(host.training.narrow_launch.in(units::us)) + "us";
  const double longer = on_host("").latency / on_host(mean).latency;
  EXPECT_NEAR(longer, 1 + 0.564 * host.training_hosts.apart, 0.01);
}

/// The band of an iteration that waits holds what quick and slow hosts make of it; that of one that does not, next to nothing
/// of hosts.
TEST(EagerReplicas, BandsHoldQuickAndSlowHosts) {
  const HostTime::Hosts hosts = machines().stack("hf-sdpa").host.training_hosts;
  const StepPrediction waits = two_h200s("llama-3.2-1b", on_two(1, 64, 3));
  EXPECT_NEAR(waits.high / waits.latency, hosts.slow, 0.03);
  EXPECT_NEAR(waits.low / waits.latency, hosts.quick, 0.03);
  const StepPrediction computes = two_h200s("llama-3.1-8b", on_two(8, 2048, 0));
  EXPECT_LT(computes.high / computes.latency, 0.5 * (1 + hosts.slow));
  EXPECT_GT(computes.low / computes.latency, hosts.quick + 0.03);
}

}  // namespace
}  // namespace plumbline::eager_replicas_test

// Shares of eager training beside fully_shard's: FSDP of the first kind, whose units are flat tensors, ZeroRedundancyOptimizer,
// which deals whole tensors, and Muon of matrices that ranks have rows of.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "arch/error.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"
#include "model/stacks/stack.hpp"
#include "ops/memory/memory.hpp"
#include "tests/support/eager_training.hpp"

namespace plumbline::eager_shards_test {
namespace {

using testing_support::executions;
using testing_support::on_several;
using testing_support::on_two;

constexpr double kLayers = 16, kParams = 1235814400, kHead = 128256.0 * 2048, kLayer = 60821504;  // llama-3.2-1b

Workload flat(std::int64_t replicas, int zero) {
  Workload w = on_several(replicas, 4, 1024, zero);
  w.training.flat_shards = true;
  return w;
}

StepPrediction on_h200s(const Workload& w, const std::string& model = "llama-3.2-1b") {
  MachineOptions options{"hf-sdpa"};
  options.cluster = "dgx_h200";
  return predict(load_llm(model), w, machines().get({"h200_sxm", options}), RunOptions{Runtime::eager});
}

/// Bytes of collectives by name.
std::map<std::string, double> exchanged(const StepPrediction& step) {
  std::map<std::string, double> found;
  for (const NodePrediction& n : step.nodes) {
    const auto* c = std::get_if<Collective>(&n.node->op);
    if (c != nullptr) found[n.node->name] += static_cast<double>(c->bytes) * static_cast<double>(n.node->count);
  }
  return found;
}

/// By hand: 17 units are gathered forward, 16 again (the root stays), each one's gradients are joined, halved and scattered;
/// nothing is copied in or out. Of four ranks half of the division comes behind.
TEST(EagerShards, FlatUnitsAreGatheredAsTheyLie) {
  const std::map<std::string, double> two = executions(on_h200s(flat(2, 3)));
  EXPECT_EQ(two.at("forward_all_gather"), kLayers + 1);
  EXPECT_EQ(two.at("backward_all_gather"), kLayers);
  EXPECT_EQ(two.at("grad_join"), kLayers + 1);
  EXPECT_EQ(two.at("grad_divide"), kLayers + 1);
  EXPECT_EQ(two.at("grad_reduce_scatter"), kLayers + 1);
  for (const char* none :
       {"forward_copy_in.list_rest", "forward_copy_out", "grad_copy_in", "grad_divide_share", "grad_cast"}) {
    EXPECT_EQ(two.count(none), 0) << none;
  }
  EXPECT_EQ(executions(on_h200s(flat(4, 3))).at("grad_divide_share"), kLayers + 1);
  const std::map<std::string, double> kept = executions(on_h200s(flat(2, 2)));
  EXPECT_EQ(kept.count("backward_all_gather"), 0);
  const auto bytes = exchanged(on_h200s(flat(2, 3)));
  EXPECT_NEAR(bytes.at("forward_all_gather") / (2 * kParams), 1, 1e-6);
  EXPECT_NEAR(bytes.at("backward_all_gather") / (2 * kLayers * kLayer), 1, 1e-5);
}

/// Where the loss takes most both kinds hold the same.
TEST(EagerShards, FlatUnitsHoldWhatOthersDo) {
  const Llm llm = load_llm("llama-3.2-1b");
  EXPECT_EQ(memory_need(llm, flat(2, 3)).total(), memory_need(llm, on_two(4, 1024, 3)).total());
  EXPECT_EQ(memory_need(llm, flat(1, 3)).total(), memory_need(llm, on_several(1, 4, 1024, 0)).total());
}

/// One rank has nothing to share.
TEST(EagerShards, OneRankIsNoSharding) {
  const double one = on_h200s(on_several(1, 4, 1024, 0)).latency.in(units::us);
  EXPECT_EQ(on_h200s(flat(1, 3)).latency.in(units::us), one);
  EXPECT_EQ(on_h200s(on_several(1, 4, 1024, 1)).latency.in(units::us), one);
  Workload muon = on_several(1, 4, 1024, 0), shared = on_several(1, 4, 1024, 3);
  muon.training.optimizer = shared.training.optimizer = Optimizer::muon;
  EXPECT_EQ(on_h200s(shared).latency.in(units::us), on_h200s(muon).latency.in(units::us));
}

/// Each of 146 tensors is broadcast once, the states are halved, and the update takes half.
TEST(EagerShards, TensorsAreDealtAndBroadcast) {
  const StepPrediction whole = on_h200s(on_two(4, 1024, 0)), dealt = on_h200s(on_two(4, 1024, 1));
  EXPECT_EQ(executions(dealt).at("weight_broadcast"), 9 * kLayers + 2) << "the embedding is the head";
  EXPECT_NEAR(exchanged(dealt).at("weight_broadcast") / (2 * kParams), 1, 1e-6);
  EXPECT_EQ(executions(dealt).at("adamw.step"), 29);
  EXPECT_EQ(executions(whole).at("adamw.step"), 58);
  const Llm llm = load_llm("llama-3.2-1b");
  const Bytes less = memory_need(llm, on_two(4, 1024, 0)).total() - memory_need(llm, on_two(4, 1024, 1)).total();
  EXPECT_EQ(less.in(units::B), 2 * 2 * kParams / 2);
  // of eight ranks one has the embedding, which is more than an eighth
  EXPECT_EQ(memory_need(llm, on_several(8, 4, 1024, 1)).optimizer.in(units::B), 2 * 2 * kHead);
}

/// Of a layer gate and up are taller than wide; queries, keys, values, output and down are not.
TEST(EagerShards, MuonGathersMatrices) {
  Workload w = on_two(4, 1024, 3);
  w.training.optimizer = Optimizer::muon;
  const StepPrediction step = on_h200s(w);
  const std::map<std::string, double> found = executions(step);
  constexpr double kWide = 5, kTall = 2;  // q, k, v, o, down; gate, up
  EXPECT_EQ(found.at("muon_all_gather"), 5 * 3 * kWide * kLayers);
  EXPECT_EQ(found.at("muon_all_reduce"), 5 * 2 * kTall * kLayers);
  EXPECT_EQ(found.at("muon_norm_all_reduce"), (kWide + kTall) * kLayers);
  EXPECT_EQ(found.at("muon_gram"), 5 * (kWide + kTall) * kLayers);
  EXPECT_EQ(found.at("muon_share.step"), kWide * kLayers);
  EXPECT_EQ(found.at("muon_share_turned.step_turned"), kTall * kLayers);
  EXPECT_EQ(found.at("muon_turn.turn"), (5 * kWide + kTall) * kLayers);
  EXPECT_EQ(step.graph.eager.shared_matrices, 112);
  EXPECT_EQ(step.graph.eager.tensors, 146 - 112);
}

TEST(EagerShards, WhatIsNotDescribedIsRefused) {
  Workload w = flat(2, 3);
  w.training.optimizer = Optimizer::muon;
  EXPECT_THROW(on_h200s(w), NotModelled);
  w = on_two(4, 1024, 1);
  w.training.optimizer = Optimizer::adafactor;
  EXPECT_THROW(on_h200s(w), NotModelled);
  w = on_two(4, 1024, 1);
  w.training.flat_shards = true;
  EXPECT_THROW(on_h200s(w), BadInput);
}

}  // namespace
}  // namespace plumbline::eager_shards_test

// The latency of a cluster's links: in every collective as often as its messages wait for one another, and a shorter one
// never makes anything slower.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "arch/files.hpp"
#include "model/plan_search.hpp"
#include "ops/table/text.hpp"
#include "tests/support/workloads.hpp"

namespace plumbline::link_latency_test {
namespace {

using testing_support::decode;
using testing_support::prefill;

/// DGX H200 with every hop so many times as long.
Machine with_hops(double factor, const char* stack, CollectiveChoice collective = CollectiveChoice::automatic) {
  nlohmann::json cluster = nlohmann::json::parse(read_text_file(data_folder() + "/clusters/dgx_h200.json"));
  for (auto& tier : cluster["tiers"]) {
    const double us = std::stod(tier["latency"].get<std::string>());
    tier["latency"] = std::to_string(factor * us) + " us";
  }
  const std::string file = testing::TempDir() + "hops_" + std::to_string(factor) + ".json";
  std::ofstream(file) << cluster;
  MachineOptions options{stack};
  options.cluster = file;
  options.stack.collective = collective;
  options.clock = ClockMode::burst;
  return make_machine(load_gpu("h200_sxm"), options);
}

Seconds time_of(const Machine& machine, const char* op, const std::string& shape) {
  Predictor predictor;
  OpPrediction out;
  predictor.predict(parse_op(op, "bf16", shape), machine, out, {.alone = true});
  return out.time;
}

/// Longer hops of 0.6 us (NVLink) and 2.7 us (network): a message with its flags has one; NCCL's hops of Simple have 3.4 / 0.6
/// and 14 / 2.7 ways, by its own tables; our two-shot all-reduce a barrier, a load's way there and back, and a barrier.
TEST(LinkLatency, CountsAsOftenAsMessagesWaitForOneAnother) {
  const Machine usual = with_hops(1, "nccl"), twice = with_hops(2, "nccl");
  const auto longer_by = [](const Machine& a, const Machine& b, const char* op, const std::string& shape) {
    return (time_of(b, op, shape) - time_of(a, op, shape)).in(units::us);
  };
  EXPECT_NEAR(longer_by(usual, twice, "all_to_all", "bytes=4096;gpus=8"), 0.6, 1e-6);
  EXPECT_NEAR(longer_by(usual, twice, "all_to_all", "bytes=67108864;gpus=8"), 3.4, 1e-6);
  EXPECT_NEAR(longer_by(usual, twice, "all_to_all", "bytes=16384;gpus=16"), 2.7, 1e-6);
  EXPECT_NEAR(longer_by(usual, twice, "all_reduce", "bytes=1073741824;gpus=8;multicast=0"), 14 * 3.4, 1e-6);
  EXPECT_NEAR(longer_by(usual, twice, "all_reduce", "bytes=1073741824;gpus=8"), 2 * 0.6, 1e-6) << "to a switch and on";
  const Machine ours = with_hops(1, "own"), ours_twice = with_hops(2, "own");
  EXPECT_NEAR(longer_by(ours, ours_twice, "all_reduce", "bytes=8192;gpus=2"), 0.6, 1e-6);
  EXPECT_NEAR(longer_by(ours, ours_twice, "all_reduce", "bytes=67108864;gpus=2"), 4 * 0.6, 1e-6);
}

TEST(LinkLatency, WhatTheClusterFileSaysAsItShipsChangesNothing) {
  const Machine shipped = make_machine(load_gpu("h200_sxm"), MachineOptions{"nccl"});
  for (const char* shape : {"bytes=4096;gpus=8", "bytes=67108864;gpus=8", "bytes=1048576;gpus=64"}) {
    EXPECT_NEAR(time_of(with_hops(1, "nccl"), "all_gather", shape) / time_of(shipped, "all_gather", shape), 1, 1e-12);
  }
}

RC_GTEST_PROP(LinkLatency, AShorterOneNeverSlowsACollective, ()) {
  static const std::vector<std::array<Machine, 3>> stacks = [] {
    std::vector<std::array<Machine, 3>> all;
    for (const char* stack : {"nccl", "own", "trt-llm", "sglang"}) {
      all.push_back({with_hops(0.25, stack), with_hops(1, stack), with_hops(3, stack)});
    }
    return all;
  }();
  const auto& machines = *rc::gen::elementOf(stacks);
  const char* op = *rc::gen::element("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast");
  const auto gpus = *rc::gen::element(2, 3, 4, 8, 16, 64);
  const auto bytes = std::int64_t{*rc::gen::inRange(1, 100)} * gpus * 16 << *rc::gen::inRange(0, 20);
  const std::string shape = "bytes=" + std::to_string(bytes) + ";gpus=" + std::to_string(gpus);
  const Seconds shorter = time_of(machines[0], op, shape), usual = time_of(machines[1], op, shape);
  RC_ASSERT(shorter <= usual);
  RC_ASSERT(usual < time_of(machines[2], op, shape));
  RC_ASSERT(shorter > Seconds{});
}

RC_GTEST_PROP(LinkLatency, AShorterOneNeverSlowsLevelsAndRails, ()) {
  constexpr auto kLevels = CollectiveChoice::hierarchical, kRails = CollectiveChoice::rail_aligned;
  static const Machine levels[] = {with_hops(0.25, "nccl", kLevels), with_hops(3, "nccl", kLevels)};
  static const Machine rails[] = {with_hops(0.25, "nccl", kRails), with_hops(3, "nccl", kRails)};
  const bool exchanges = *rc::gen::arbitrary<bool>();
  const auto& machines = exchanges ? rails : levels;
  const char* op =
      exchanges ? "all_to_all" : *rc::gen::element("all_reduce", "all_gather", "reduce_scatter", "broadcast");
  const auto gpus = *rc::gen::element(8, 16, 32, 64, 256);
  const auto bytes = std::int64_t{*rc::gen::inRange(1, 100)} * gpus * 16 << *rc::gen::inRange(0, 18);
  const std::string shape = "bytes=" + std::to_string(bytes) + ";gpus=" + std::to_string(gpus);
  RC_ASSERT(time_of(machines[0], op, shape) <= time_of(machines[1], op, shape));
}

/// Random plans: dense and with experts, inside a node and beyond.
RC_GTEST_PROP(LinkLatency, AShorterOneNeverSlowsAPlan, ()) {
  static const Machine shorter = with_hops(0.25, "sglang"), longer = with_hops(3, "sglang");
  static const Llm dense = load_llm("llama-3.1-70b"), experts = load_llm("deepseek-v3");
  const bool moe = *rc::gen::arbitrary<bool>(), decodes = *rc::gen::arbitrary<bool>();
  Workload w = decodes ? decode(*rc::gen::inRange(8, 512), 2048) : prefill(*rc::gen::inRange(8, 32), 512);
  const Llm& llm = moe ? experts : dense;
  const std::vector<ParallelPlan> plans = legal_plans(llm, w, *rc::gen::element(8, 16, 64));
  w.parallel = plans[*rc::gen::inRange<std::size_t>(0, plans.size())];
  Predictor predictor;
  const StepPrediction before = predictor.predict(llm, w, longer, {}), after = predictor.predict(llm, w, shorter, {});
  RC_ASSERT(after.latency <= before.latency * (1 + 1e-12));
}

}  // namespace
}  // namespace plumbline::link_latency_test

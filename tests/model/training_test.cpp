// An iteration of training: laws, what its parts add up to, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>

#include "arch/error.hpp"
#include "model/predict.hpp"
#include "model/report/report.hpp"
#include "model/stacks/stack.hpp"

namespace plumbline::training_test {
namespace {

using ::testing::HasSubstr;

const Machine& machine_of(const char* stack) {
  const auto make = [](const char* name) {
    MachineOptions options{name, ClockMode::steady, {}};
    options.cluster = "dgx_h100";
    return make_machine(load_gpu("h100_sxm"), options);
  };
  static const Machine megatron = make("megatron"), ideal = make("ideal"), serving = make("faster-transformer");
  const std::string name = stack;
  return name == "megatron" ? megatron : name == "ideal" ? ideal : serving;
}

const Llm& small() {
  static const Llm model = load_llm("llama-3.2-1b");
  return model;
}

Workload training(std::int64_t batch, std::int64_t prompt) {
  Workload w;
  w.phase = Phase::train;
  w.batch = batch;
  w.prompt = prompt;
  return w;
}

StepPrediction price(const Workload& w, const char* stack = "megatron") {
  return predict(small(), w, machine_of(stack), RunOptions{Runtime::stream});
}

TEST(Training, AnIterationIsItsPasses) {
  const StepPrediction step = price(training(4, 2048));
  Seconds passes[3];
  for (const NodePrediction& n : step.nodes) {
    passes[static_cast<int>(n.node->pass)] += static_cast<double>(n.node->count) * n.on_path();
  }
  EXPECT_NEAR((passes[0] + passes[1] + passes[2]) / step.latency, 1, 1e-12);
  EXPECT_NEAR(passes[1] / passes[0], 2, 0.35) << "a backward pass is two forward ones, more or less";
  EXPECT_DOUBLE_EQ(step.tokens_per_s * step.latency.in(units::s), 4 * 2048);
  EXPECT_LT(step.mfu, step.hfu) << "attention computes its scores again";
  EXPECT_GT(step.mfu, 0.97 * step.hfu);
}

/// Recomputed layers add a third to what is not the head: 6 to 8 FLOPs a parameter and token.
TEST(Training, RecomputationCountsForTheHardwareAlone) {
  Workload w = training(4, 2048);
  const StepPrediction kept = price(w);
  w.training.recompute = Recompute::full;
  const StepPrediction again = price(w);
  EXPECT_GT(again.latency, 1.15 * kept.latency);
  EXPECT_LT(again.latency, 1.34 * kept.latency);
  EXPECT_NEAR(again.mfu * again.latency.in(units::s), kept.mfu * kept.latency.in(units::s), 1e-9);
  EXPECT_GT(again.hfu / again.mfu, 1.2);
  EXPECT_LT(again.graph.memory.activations, 0.3 * kept.graph.memory.activations);
}

/// Bits: degrees of one, one micro-batch that is all, and ZeRO among one replica are no plan.
TEST(Training, DegreesOfOneAreOneGpu) {
  const StepPrediction plain = price(training(4, 1024));
  Workload w = training(4, 1024);
  w.parallel.micro_batches = 1;
  w.parallel.zero = 1;
  w.training.schedule = PipelineSchedule::gpipe;
  const StepPrediction step = price(w);
  EXPECT_EQ(step.latency, plain.latency);
  EXPECT_EQ(*step.energy, *plain.energy);
  EXPECT_EQ(step.graph.memory.total(), plain.graph.memory.total());
}

TEST(Training, ReplicasWaitForTheirGradientsAlone) {
  const StepPrediction one = price(training(4, 1024));
  Workload w = training(32, 1024);
  w.parallel.data = 8;
  const StepPrediction eight = price(w);
  EXPECT_GT(eight.network_exposed, Seconds{});
  EXPECT_NEAR((eight.latency - eight.network_exposed) / one.latency, 1, 0.02);
  EXPECT_GT(*eight.energy, 7.9 * *one.energy);
}

TEST(Training, AFrameworksLaunchesAreRefusedByName) {
  Workload w = training(1, 128);
  w.fusion = machine_of("faster-transformer").stack().fusion;
  try {
    (void)price(w, "faster-transformer");
    FAIL();
  } catch (const NotModelled& refusal) {
    EXPECT_THAT(refusal.what(), HasSubstr("backward"));
  }
}

std::string refusal(const Workload& w) {
  try {
    (void)price(w);
  } catch (const Error& error) {
    return error.what();
  }
  return "(accepted)";
}

TEST(Training, WhatIsNotReachedIsNamed) {
  Workload w = training(8, 128);
  w.parallel.data = 2;
  w.parallel.zero = 2;
  w.parallel.pipeline = 2;
  EXPECT_THAT(refusal(w), HasSubstr("zero 2"));
  w.parallel = {};
  w.training = {};
  w.training.chunks = 2;
  EXPECT_THAT(refusal(w), HasSubstr("schedule interleaved"));
  w.parallel.pipeline = 4;
  w.training.schedule = PipelineSchedule::interleaved;
  w.training.chunks = 3;
  EXPECT_THAT(refusal(w), HasSubstr("16 layers to divide by pp x vp"));
  w.training.chunks = 2;
  w.training.micro_batch = 3;
  EXPECT_THAT(refusal(w), HasSubstr("to divide by pp 4"));
}

const Llm& of_experts() {
  static const Llm model = load_llm("deepseek-moe-16b");
  return model;
}

StepPrediction price_experts(const Workload& w, const char* stack = "megatron") {
  return predict(of_experts(), w, machine_of(stack), RunOptions{Runtime::stream});
}

/// Of experts on all eight replicas gradients are added up over nobody: what the links carry is tokens.
TEST(Training, ExpertsOnOtherRanksTradeGradientsForTokens) {
  Workload w = training(8, 2048);
  w.parallel.data = 8;
  const StepPrediction replicas = price_experts(w);
  w.parallel.expert = 8;
  const StepPrediction dealt = price_experts(w);
  const auto sent = [](const StepPrediction& step, CollectiveKind kind) {
    double bytes = 0;
    for (const Node& n : step.graph.nodes) {
      const auto* c = std::get_if<Collective>(&n.op);
      if (c != nullptr && c->kind == kind) bytes += static_cast<double>(c->bytes * n.count);
    }
    return bytes;
  };
  EXPECT_EQ(sent(replicas, CollectiveKind::all_to_all), 0);
  EXPECT_GT(sent(dealt, CollectiveKind::all_to_all), 0);
  EXPECT_LT(sent(dealt, CollectiveKind::all_reduce), 0.2 * sent(replicas, CollectiveKind::all_reduce));
  EXPECT_LT(dealt.graph.memory.total(), 0.4 * replicas.graph.memory.total());
  EXPECT_GT(dealt.tokens_per_s, 0);
}

/// The laws below, of a model whose experts live on other ranks; a load that is not even is never faster.
RC_GTEST_PROP(TrainingLaws, MoreWorkOfExpertsIsNeverFaster, ()) {
  if (*rc::gen::inRange(0, 5) > 0) return;
  Workload w = training(8 * *rc::gen::inRange(1, 5), 128 * *rc::gen::inRange(1, 9));
  w.training.micro_batch = *rc::gen::element(0, 1, 2);
  w.parallel.tensor = *rc::gen::element(1, 2);
  w.parallel.data = *rc::gen::element(2, 4);
  w.parallel.expert = *rc::gen::element(2, 4) * w.parallel.tensor / 2;
  w.parallel.pipeline = *rc::gen::element(1, 2);
  w.parallel.zero = *rc::gen::element(0, 1);
  const Seconds time = price_experts(w).latency;
  RC_ASSERT(price_experts(w, "ideal").latency <= time);
  Workload more = w;
  switch (*rc::gen::inRange(0, 3)) {
    case 0: more.batch *= 2; break;
    case 1: more.prompt *= 2; break;
    default: more.expert_load.power = 1; break;
  }
  RC_ASSERT(price_experts(more).latency >= time * (1 - 1e-9));
}

/// Twice the work along any axis is never faster, and no stack is faster than the floor.
RC_GTEST_PROP(TrainingLaws, MoreWorkIsNeverFaster, ()) {
  if (*rc::gen::inRange(0, 5) > 0) return;  // three iterations are priced in each: a fifth of the cases will do
  Workload w = training(8 * *rc::gen::inRange(1, 5), 128 * *rc::gen::inRange(1, 9));
  w.training.micro_batch = *rc::gen::element(0, 1, 2);
  w.training.recompute = *rc::gen::element(Recompute::none, Recompute::full);
  w.parallel.tensor = *rc::gen::element(1, 2, 4);
  w.parallel.data = *rc::gen::element(1, 2, 4);
  w.parallel.pipeline = *rc::gen::element(1, 2, 4);
  w.parallel.sequence = w.parallel.tensor > 1 && *rc::gen::arbitrary<bool>();
  w.parallel.zero = *rc::gen::element(0, 1);
  const Seconds time = price(w).latency;
  RC_ASSERT(price(w, "ideal").latency <= time);
  Workload more = w;
  if (*rc::gen::arbitrary<bool>()) more.batch *= 2;
  else more.prompt *= 2;
  RC_ASSERT(price(more).latency >= time * (1 - 1e-9));
}

}  // namespace
}  // namespace plumbline::training_test

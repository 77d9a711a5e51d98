// Steps of whole models: sums, shares, runtimes, memory, and what is refused.
#include "model/predict.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "model/predictor/host_time.hpp"
#include "model/stacks/stack.hpp"
#include "ops/facts/work.hpp"
#include "tests/support/random_gpu.hpp"

namespace plumbline::predict_test {
namespace {

using namespace testing_support;

/// One of each kind of model: dense, grouped heads, experts, latent attention, recurrences, windows, encoder,
/// quantized.
const std::vector<Llm>& models() {
  static const std::vector<Llm> list = [] {
    std::vector<Llm> loaded;
    for (const char* name :
         {"llama-3.1-8b", "llama-2-7b", "mixtral-8x7b", "deepseek-v3", "mamba2-2.7b", "nemotron-3-nano-30b-a3b",
          "gemma-3-27b", "bert-base-uncased", "qwen3-next-80b-a3b", "gpt2", "qwen3-32b-fp8", "opt-175b"}) {
      loaded.push_back(load_llm(name));
    }
    return loaded;
  }();
  return list;
}

Workload random_workload() {
  Workload w;
  w.phase = coin() ? Phase::decode : Phase::prefill;
  w.batch = *rc::gen::resize(rc::kNominalSize, rc::gen::exec([] { return random_dim(7); }));
  w.prompt = *rc::gen::resize(rc::kNominalSize, rc::gen::exec([] { return random_dim(12); }));
  w.context = *rc::gen::resize(rc::kNominalSize, rc::gen::exec([] { return random_dim(14); }));
  w.fusion = static_cast<Fusion>(whole_between(0, 2));
  return w;
}

struct Case {
  const Llm* llm = nullptr;
  Workload workload;
};

/// A model and a workload that the machine runs: no decode of an encoder, no fp8 without a path.
Case random_case(const Machine& machine) {
  for (;;) {
    Case c{&models()[static_cast<std::size_t>(whole_between(0, static_cast<std::int64_t>(models().size()) - 1))],
           random_workload()};
    try {
      (void)predict(*c.llm, c.workload, machine, RunOptions{});
      RC_LOG() << c.llm->name << (c.workload.phase == Phase::decode ? " decode" : " prefill") << " batch "
               << c.workload.batch << " prompt " << c.workload.prompt << " context " << c.workload.context << " fusion "
               << static_cast<int>(c.workload.fusion) << "\n";
      return c;
    } catch (const BadInput&) {
    } catch (const NotModelled&) {
    }
  }
}

constexpr int kStepsPerMachine = 3;

bool close(double a, double b, double tolerance = 1e-9) {
  return std::abs(a - b) <= tolerance * std::max(std::abs(a), std::abs(b));
}

RC_GTEST_PROP(StepLaws, NodesSumToTheStep, ()) {
  const auto m = random_machine();
  for (int i = 0; i < kStepsPerMachine; ++i) {
    const Case c = random_case(m);
    for (const Runtime runtime : {Runtime::graph, Runtime::stream, Runtime::eager}) {
      const StepPrediction step = predict(*c.llm, c.workload, m, RunOptions{runtime});
      Seconds sum;
      Flops flops;
      Bytes bytes;
      RC_ASSERT(step.nodes.size() == step.graph.nodes.size() && !step.nodes.empty());
      for (const NodePrediction& n : step.nodes) {
        const double count = static_cast<double>(n.node->count);
        RC_ASSERT(n.gap >= Seconds{});
        sum += count * (n.op.time + n.gap);
        flops += count * n.op.flops;
        bytes += count * n.op.dram_bytes();
      }
      RC_ASSERT(close(sum.in(units::s), step.latency.in(units::s)));
      RC_ASSERT(close(flops.in(units::FLOP), step.flops.in(units::FLOP)));
      RC_ASSERT(close(bytes.in(units::B), step.dram_bytes.in(units::B)));
      const TimeShare& s = step.share;
      RC_ASSERT(close(s.compute + s.memory + s.network + s.latency + s.launch, 1));
      for (const double part : {s.compute, s.memory, s.network, s.latency, s.launch}) RC_ASSERT(part >= 0);
    }
  }
}

RC_GTEST_PROP(StepLaws, FiguresAreConsistent, ()) {
  const auto m = random_machine();
  for (int i = 0; i < kStepsPerMachine; ++i) {
    const Case c = random_case(m);
    const StepPrediction step = predict(*c.llm, c.workload, m, RunOptions{});
    const double seconds = step.latency.in(units::s);
    RC_ASSERT(std::isfinite(seconds) && seconds > 0);
    RC_ASSERT(step.low > Seconds{} && step.low <= step.latency && step.latency <= step.high);
    RC_ASSERT(close(step.tokens_per_s * seconds, step.graph.tokens));
    const auto batch = static_cast<double>(c.workload.batch), prompt = static_cast<double>(c.workload.prompt);
    if (c.workload.phase == Phase::decode) RC_ASSERT(step.graph.tokens == batch);
    else RC_ASSERT(step.graph.tokens >= batch || step.graph.tokens == batch * prompt);
    RC_ASSERT(step.mfu >= 0 && step.mfu <= 1);
    RC_ASSERT(step.mbu >= 0 && step.mbu <= 1 + 1e-9);
    RC_ASSERT(step.fits == (step.graph.memory.total() <= m.gpu().memory.capacity));
  }
}

RC_GTEST_PROP(StepLaws, GraphsAreFastestAndEagerIsSlowest, ()) {
  const auto m = random_machine();
  for (int i = 0; i < kStepsPerMachine; ++i) {
    const Case c = random_case(m);
    const Seconds graph = predict(*c.llm, c.workload, m, RunOptions{Runtime::graph}).latency;
    const Seconds stream = predict(*c.llm, c.workload, m, RunOptions{Runtime::stream}).latency;
    const StepPrediction eager = predict(*c.llm, c.workload, m, RunOptions{Runtime::eager});
    RC_ASSERT(graph <= stream * (1 + 1e-9));
    RC_ASSERT(stream <= eager.latency * (1 + 1e-9));
    double launches = 0;
    for (const NodePrediction& n : eager.nodes) {
      RC_ASSERT(host_calls(n) <= n.op.launch_count);
      launches += static_cast<double>(n.node->count) * n.op.launch_count;
    }
    const HostTime& host = m.stack().host;
    RC_ASSERT(host.each_launch > Seconds{} && host.each_further_launch == Seconds{} && host.each_layer == Seconds{});
    const Seconds longest = std::max(stream, launches * host.each_launch);
    RC_ASSERT(close(eager.latency.in(units::s), longest.in(units::s)));
    RC_ASSERT(eager.waits_for_host == (eager.host_ratio > 1));
  }
}

RC_GTEST_PROP(StepLaws, IdealIsTheFloorAndWithinThePeaks, ()) {
  const Gpu gpu = random_gpu();
  const Calibration calibration = random_calibration();
  const auto m = toy_machine(gpu, calibration), ideal = toy_machine(gpu, calibration, KernelSet::ideal);
  for (int i = 0; i < kStepsPerMachine; ++i) {
    const Case c = random_case(m);
    const StepPrediction floor = predict(*c.llm, c.workload, ideal, RunOptions{});
    const StepPrediction step = predict(*c.llm, c.workload, m, RunOptions{});
    RC_ASSERT(floor.mfu <= 1 + 1e-9 && floor.mbu <= 1 + 1e-9);
    Seconds sum;
    for (std::size_t k = 0; k < step.nodes.size(); ++k) {
      const double count = static_cast<double>(step.nodes[k].node->count);
      RC_LOG() << step.nodes[k].node->name << " " << describe(step.nodes[k].node->op) << "\n";
      sum += count * floor.nodes[k].op.time;
      // An operator whose input its predecessor left in L2 may beat the DRAM roofline, never the arithmetic one.
      if (step.nodes[k].op.dram_bytes() > Bytes{}) {
        RC_ASSERT(step.nodes[k].op.time * (1 + 1e-9) >= floor.nodes[k].op.time);
      }
    }
    RC_ASSERT(close(sum.in(units::s), floor.latency.in(units::s)));
    for (const Runtime runtime : {Runtime::stream, Runtime::eager}) {
      RC_ASSERT(predict(*c.llm, c.workload, ideal, RunOptions{runtime}).latency == floor.latency);
    }
  }
}

/// Storage is reused from step to step; a large step leaves nothing in the next.
RC_GTEST_PROP(StepLaws, AReusedStepIsANewStep, ()) {
  const auto m = random_machine();
  StepPrediction reused;
  Predictor predictor;
  for (int i = 0; i < 2 * kStepsPerMachine; ++i) {
    const Case c = random_case(m);
    predictor.predict(*c.llm, c.workload, m, RunOptions{}, reused);
    const StepPrediction fresh = predict(*c.llm, c.workload, m, RunOptions{});
    RC_ASSERT(reused.latency == fresh.latency && reused.low == fresh.low && reused.high == fresh.high);
    RC_ASSERT(reused.nodes.size() == fresh.nodes.size());
    RC_ASSERT(reused.share.memory == fresh.share.memory && reused.fits == fresh.fits);
    for (std::size_t k = 0; k < fresh.nodes.size(); ++k) {
      RC_ASSERT(reused.nodes[k].op.time == fresh.nodes[k].op.time);
      RC_ASSERT(reused.nodes[k].node == &reused.graph.nodes[k]);
    }
  }
}

/// More sequences, or more tokens of each, are never faster in the ideal: more of every kind of work. Prompts of one token
/// are apart: recurrences take them as a step of decode, which reads a state that longer prompts begin without.
RC_GTEST_PROP(StepLaws, ALargerStepIsNeverFasterInTheIdeal, ()) {
  const auto m = toy_machine(random_gpu(), random_calibration(), KernelSet::ideal);
  for (int i = 0; i < kStepsPerMachine; ++i) {
    Case c = random_case(m);
    c.workload.prompt = std::max<std::int64_t>(c.workload.prompt, 2);
    const Seconds before = predict(*c.llm, c.workload, m, RunOptions{}).latency;
    (coin() ? c.workload.batch : c.workload.phase == Phase::decode ? c.workload.context : c.workload.prompt) *= 2;
    RC_ASSERT(predict(*c.llm, c.workload, m, RunOptions{}).latency * (1 + 1e-9) >= before);
  }
}

// --- real cards ------------------------------------------------------------------------------------------------------

Machine h200(KernelSet kernels = KernelSet::library) {
  return make_machine(load_gpu("h200_sxm"), MachineOptions{usual_stack(kernels), ClockMode::steady, std::nullopt});
}

/// Steps of real models on a real card are never below the ideal, warm operators or not.
TEST(Steps, OnH200AreAboveTheIdeal) {
  const auto real = h200(), ideal = h200(KernelSet::ideal);
  for (const Llm& llm : models()) {
    for (const Phase phase : {Phase::decode, Phase::prefill}) {
      if (phase == Phase::decode && llm.main().role != StackSpec::Role::decoder) continue;
      Workload w;
      w.phase = phase;
      w.batch = phase == Phase::decode ? 32 : 2;
      const StepPrediction step = predict(llm, w, real, RunOptions{});
      const StepPrediction floor = predict(llm, w, ideal, RunOptions{});
      EXPECT_GT(step.latency, floor.latency) << llm.name;
      EXPECT_LT(step.latency, 20.0 * floor.latency) << llm.name;
    }
  }
}

/// The 16.06 GB of Llama-3.1-8B in bf16, less its 1.05 GB of input embedding, pass through 4.8 TB/s once a decode step:
/// 3.13 ms at least.
TEST(Steps, DecodeOfLlama8BReadsItsWeights) {
  Workload w;
  w.batch = 1;
  const StepPrediction step = predict(load_llm("llama-3.1-8b"), w, h200(), RunOptions{});
  EXPECT_GT(step.latency.in(units::ms), 3.13);
  EXPECT_LT(step.latency.in(units::ms), 6);
  EXPECT_GT(step.share.memory, 0.5);
  EXPECT_DOUBLE_EQ(step.graph.tokens, 1);
  EXPECT_GT(step.dram_bytes.in(units::GB), 15.0);
  EXPECT_LT(step.dram_bytes.in(units::GB), 15.6);
}

TEST(Steps, EveryLaunchPaysForFollowingAnotherKernel) {
  Workload w;
  Calibration c = toy_calibration();
  const Llm& llm = models().front();
  const StepPrediction before = predict(llm, w, toy_machine(toy_gpu(), c), RunOptions{});
  c.machine["kernel_change_s"] = Scalar{1e-6, "a round number"};
  const StepPrediction after = predict(llm, w, toy_machine(toy_gpu(), c), RunOptions{});
  double launches = 0;
  for (const NodePrediction& n : after.nodes) launches += static_cast<double>(n.node->count) * n.op.launch_count;
  EXPECT_NEAR((after.latency - before.latency).in(units::us), launches, 1e-6);
}

/// Llama-3.1-8B at batch 1 on the toy's 32 MiB of L2: a layer's 436 MB pass between two uses of rope's tables, gate_up
/// alone is 235 MB, o_proj 34 MB; the embedding's row is warm, the norm's weights never are.
TEST(Steps, StreamsAreWarmWhereL2StillHoldsThem) {
  Workload w;
  const StepPrediction step = predict(models().front(), w, toy_machine(), RunOptions{});
  for (const NodePrediction& n : step.nodes) EXPECT_EQ(n.held, 0) << n.node->name;
  Gpu large = toy_gpu();
  large.l2.size = 100.0 * units::GB;
  const StepPrediction kept = predict(models().front(), w, toy_machine(large), RunOptions{});
  for (const NodePrediction& n : kept.nodes) {
    const std::string name = n.node->name;
    EXPECT_EQ(n.held > 0,
              name != "embedding" && name.find("proj") == std::string::npos && name != "attention" && name != "lm_head")
        << name;
  }
  large.l2.size = 240.0 * units::MB;
  const StepPrediction some = predict(models().front(), w, toy_machine(large), RunOptions{});
  for (const NodePrediction& n : some.nodes) {
    EXPECT_EQ(n.held > 0, std::string(n.node->name) == "ffn_act") << n.node->name;
  }
}

TEST(Steps, WhatDoesNotFitIsSaid) {
  Workload w;
  const StepPrediction large = predict(load_llm("deepseek-v3"), w, h200(), RunOptions{});
  EXPECT_FALSE(large.fits);  // 671 GB of fp8 weights in 141 GiB
  EXPECT_TRUE(predict(load_llm("llama-3.1-8b"), w, h200(), RunOptions{}).fits);
}

// --- refusals --------------------------------------------------------------------------------------------------------

TEST(Refusals, CollectivesOfOneGpuAreNotModelled) {
  const auto m = toy_machine();
  EXPECT_THROW(predict(Collective{CollectiveKind::all_reduce, 1 << 20, 8}, m), NotModelled);
  EXPECT_THROW(predict(Transfer{TransferKind::send_recv, 1 << 20}, m), NotModelled);
}

std::string refusal(const Op& op, const Machine& m) {
  try {
    (void)predict(op, m);
  } catch (const BadInput& error) {
    return error.what();
  }
  return "";
}

TEST(Refusals, Fp8OnA100NamesBoth) {
  const auto a100 = make_machine(load_gpu("a100_sxm"), MachineOptions{"trt-llm", ClockMode::burst, {}});
  const std::string gemm = refusal(Gemm{64, 64, 64, 1, *parse_precision("fp8"), false}, a100);
  EXPECT_NE(gemm.find("a100_sxm"), std::string::npos) << gemm;
  EXPECT_NE(gemm.find("fp8"), std::string::npos) << gemm;
  EXPECT_EQ(gemm.find('\n'), std::string::npos);
  AttentionDecode decode{1, 8, 8, 128, 128, 1024};
  EXPECT_EQ(refusal(decode, a100), "");
  decode.kv_dtype = DType::fp8;  // storage only: the maths stays bf16
  EXPECT_EQ(refusal(decode, a100), "");
  decode.dtype = DType::fp8;
  EXPECT_NE(refusal(decode, a100).find("fp8"), std::string::npos);
  EXPECT_NE(refusal(AttentionPrefill{1, 8, 8, 128, 128, 64, 64, true, 0, 0, DType::fp8, DType::fp8}, a100), "");
  EXPECT_NE(refusal(MlaDecode{1, 8, 64, 512, 64, DType::fp8, DType::fp8}, a100), "");
}

}  // namespace
}  // namespace plumbline::predict_test

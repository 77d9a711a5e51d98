// Users' own operators (CustomOp), by hand on the toy machine: 10 SMs at 1 GHz, bf16 10 TFLOP/s, fp32 2.56 TFLOP/s, DRAM
// 1 TB/s after 500 ns; 1 us fixed, perfect overlap, a graph gap of 1 us. And in the step of a model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "model/stacks/generic/plan_custom.hpp"
#include "tests/support/random_gpu.hpp"

namespace plumbline::custom_op_test {
namespace {

using namespace testing_support;
using ::testing::HasSubstr;

CustomOp stream(double megabytes) {
  CustomOp op;
  op.read = 0.75 * megabytes * units::MB;
  op.write = 0.25 * megabytes * units::MB;
  return op;
}

double us(const CustomOp& op) { return predict(op, toy_machine()).time.in(units::us); }

/// 100 MB at 1 TB/s: 100 us, 1 us fixed, 1 us gap.
TEST(CustomOp, AStreamTakesItsBytesAtDramSpeedAndALaunch) {
  const OpPrediction p = predict(stream(100), toy_machine());
  EXPECT_NEAR(p.time.in(units::us), 102, 1e-9);
  EXPECT_EQ(p.bound, Bound::memory);
  EXPECT_EQ(p.limiter, Resource::dram);
  EXPECT_EQ(p.launch_count, 1);
  EXPECT_NEAR(p.dram_bytes().in(units::MB), 100, 1e-9);
}

/// One that only writes waits for no answer of DRAM, one that reads as little does.
TEST(CustomOp, WhatReadsNothingDoesNotWaitForDram) {
  CustomOp reads, writes;
  reads.read = writes.write = 128.0 * units::B;
  reads.ctas = writes.ctas = 1;
  const Seconds latency = toy_machine().rates().dram_latency;
  EXPECT_LT(us(writes), us(reads) - 0.25 * latency.in(units::us));
}

/// 10 GFLOP at 10 TFLOP/s: 1000 us, and the launch.
TEST(CustomOp, ATensorOperatorRunsAtTheTensorRate) {
  CustomOp op;
  op.tensor = 10.0 * units::GFLOP;
  const OpPrediction p = predict(op, toy_machine());
  EXPECT_NEAR(p.time.in(units::us), 1002, 1e-9);
  EXPECT_EQ(p.bound, Bound::compute);
  EXPECT_EQ(p.limiter, Resource::tensor);
  op.dtype = DType::fp8;  // twice the rate
  EXPECT_NEAR(us(op), 502, 1e-9);
}

/// On the roofline floor an operator that asks for one thing alone takes that thing's time at the datasheet's rate: the
/// toy's 160 G special functions, 40 G instructions, 1.28 TB of shared memory and 10 TB of L2 a second, 500 ns an access.
TEST(CustomOp, TheFloorCountsWhateverItAsksFor) {
  const Machine floor = toy_machine(toy_gpu(), toy_calibration(), KernelSet::ideal);
  const auto expect = [&](const CustomOp& op, double us, Resource limiter) {
    const OpPrediction p = predict(op, floor);
    EXPECT_NEAR(p.time.in(units::us), us, 1e-9 * us) << name(limiter);
    EXPECT_EQ(p.limiter, limiter);
    EXPECT_EQ(p.limiter_share, 1);
    EXPECT_GE(predict(op, toy_machine()).time, p.time) << name(limiter);
  };
  CustomOp sfu, issue, smem, l2, chain;
  sfu.sfu = 160e6;
  expect(sfu, 1000, Resource::sfu);
  issue.instructions = 40e6;
  expect(issue, 1000, Resource::issue);
  smem.smem = 1.28 * units::GB;
  expect(smem, 1000, Resource::smem);
  l2.l2 = 10.0 * units::GB;
  expect(l2, 1000, Resource::l2);
  chain.chain = 20;
  expect(chain, 10, Resource::latency);
}

/// Operations on lanes take an instruction each where nobody says that they are fused: 2.56 G / 32 at 4 x 10 a ns.
TEST(CustomOp, LanesTakeAnInstructionAnOperation) {
  CustomOp op;
  op.fp32 = 2.56 * units::GFLOP;
  EXPECT_NEAR(us(op), 2002, 1e-6);
  EXPECT_EQ(predict(op, toy_machine()).limiter, Resource::issue);
}

/// Each unit alone: 2.56 GFLOP on lanes at 2.56 TFLOP/s; 160 M exponentials at 16 x 10 a ns; 40 M instructions at 4 x 10 a
/// ns; 1.28 GB at 128 B x 10 a ns of shared memory; 10 GB at L2's 10 TB/s: 1 ms each.
TEST(CustomOp, EachUnitIsPricedAtItsRate) {
  CustomOp lanes, sfu, issue, smem, l2;
  lanes.fp32 = 2.56 * units::GFLOP;
  lanes.instructions = 40e6;  // fused multiply-adds of 32 threads: 64 FLOP each
  sfu.sfu = 160e6;
  issue.instructions = 40e6;
  smem.smem = 1.28 * units::GB;
  l2.l2 = 10.0 * units::GB;
  for (const CustomOp& op : {lanes, sfu, issue, smem, l2}) EXPECT_NEAR(us(op), 1002, 1e-6) << shape_text(Op(op));
  // 4 DRAM accesses of 500 ns, one after the other
  CustomOp chain;
  chain.chain = 4;
  EXPECT_NEAR(us(chain), 4, 1e-9);
  EXPECT_EQ(predict(chain, toy_machine()).bound, Bound::latency);
}

/// 11 CTAs that fill an SM each are two waves of 10: the second as long as the first.
TEST(CustomOp, CtasThatAreGivenCountInWaves) {
  CustomOp op;
  op.tensor = 11.0 * units::GFLOP;  // 1 ms a CTA
  op.block_smem = 200.0 * units::KiB;
  op.ctas = 11;
  EXPECT_NEAR(us(op), 2002, 1e-9);
  op.ctas = 10;
  EXPECT_NEAR(us(op), 1102, 1e-9);
  // 10 CTAs of 1000 B in flight: 10 kB every 500 ns
  CustomOp shy = stream(100);
  shy.ctas = 10;
  shy.in_flight = 1000.0 * units::B;
  EXPECT_NEAR(us(shy), 5002, 1e-6);
}

TEST(CustomOp, WasNeverMeasuredAndSaysSo) {
  for (const char* stack : {"trt-llm", "own", "vllm"}) {
    MachineOptions options;
    options.stack = stack;
    const Machine h200 = make_machine(load_gpu("h200"), options);
    const OpPrediction p = predict(stream(1000), h200);
    EXPECT_EQ(p.provenance, Provenance::never_measured) << stack;
    EXPECT_EQ(p.provider, "generic");
    EXPECT_LT(p.low, p.time);
    EXPECT_GT(p.high, p.time);
    ASSERT_TRUE(p.power && p.energy && p.power_low && p.power_high);
    EXPECT_GT(*p.power, h200.gpu().idle_power);
    EXPECT_THAT(explain(stream(1000), p, h200), HasSubstr("custom: "));
  }
  MachineOptions floor;
  floor.stack = "ideal";
  EXPECT_NEAR(predict(stream(4800), make_machine(load_gpu("h200"), floor)).time.in(units::us), 1000, 1e-6);
}

/// What a stream of ours moves, said as a custom operator, takes as long as the stream, to the start of its waves.
TEST(CustomOp, ACopySaidInBytesIsACopy) {
  const Machine h200 = make_machine(load_gpu("h200"), MachineOptions{});
  const Op copy = Rowwise{RowwiseKind::copy, 65536, 8192};
  const Work w = work(copy);
  CustomOp same;
  same.read = w.read;
  same.write = w.write;
  EXPECT_NEAR(predict(same, h200).time / predict(copy, h200).time, 1, 0.02);
}

TEST(CustomOp, RefusesWhatIsNoAmountOrDoesNotFit) {
  const auto refusal = [](const CustomOp& op) -> std::string {
    try {
      (void)predict(op, toy_machine());
    } catch (const BadInput& e) {
      return e.what();
    }
    return "(accepted)";
  };
  CustomOp op = stream(1);
  op.read = -1.0 * units::B;
  EXPECT_THAT(refusal(op), HasSubstr("key 'read': expected a number from 0 to 9007199254740992, found -1"));
  op = stream(1);
  op.sfu = 0.0 / 0.0;
  EXPECT_THAT(refusal(op), HasSubstr("key 'sfu'"));
  op = stream(1);
  op.threads = 0;
  EXPECT_THAT(refusal(op), HasSubstr("key 'threads': expected a number from 1"));
  EXPECT_THAT(refusal(CustomOp{}), HasSubstr("expected work"));
  op.threads = 2048;
  op.registers = 16;
  EXPECT_THAT(refusal(op), HasSubstr("a CTA of 2048 threads does not fit on an SM"));
  op = CustomOp{};
  op.tensor = 1.0 * units::GFLOP;
  op.dtype = DType::int4;
  EXPECT_THAT(refusal(op), HasSubstr("toy has no int4 tensor path"));
}

RC_GTEST_PROP(CustomOp, MoreOfAnythingIsNeverFaster, ()) {
  const Machine m = random_machine();
  const auto op = random_shape<CustomOp>();
  CustomOp more = op;
  const double k = between(1, 8);
  switch (whole_between(0, 8)) {
    case 0: more.tensor *= k; break;
    case 1: more.fp32 *= k; break;
    case 2: more.sfu *= k; break;
    case 3: more.instructions *= k; break;
    case 4: more.smem *= k; break;
    case 5: more.l2 *= k; break;
    case 6: more.read *= k; break;
    case 7: more.write *= k; break;
    default: more.chain += 1; break;
  }
  RC_LOG() << shape_text(Op(op)) << " -> " << shape_text(Op(more)) << "\n";
  OpPrediction before, after;
  try {
    before = predict(op, m);
    after = predict(more, m);
  } catch (const BadInput&) {
    RC_DISCARD("no tensor path");
  }
  RC_ASSERT(after.time * (1 + 2e-4) >= before.time);  // the p-norm leaves out what adds less than 1e-4
}

// --- in a step -------------------------------------------------------------------------------------------------------

/// Slots of the schedulers in which nothing is issued take time and no energy.
TEST(CustomOp, EnergyGoesByInstructionsThatAreExecuted) {
  const Machine h200 = make_machine(load_gpu("h200"), MachineOptions{"hf-sdpa"});
  CustomOp op = stream(100);
  op.instructions = 4e8;
  const OpPrediction all = predict(op, h200);
  op.executed = 2e8;
  const OpPrediction half = predict(op, h200);
  EXPECT_EQ(half.time, all.time);
  EXPECT_LT(half.energy.value(), 0.9 * all.energy.value());
  op.executed = 8e8;
  EXPECT_EQ(predict(op, h200).energy.value(), all.energy.value()) << "no more than there are";
}

/// Those of a launch that names no slots pass while its bytes do: an addition in bf16 on an H200 draws some 14 pJ a byte for
/// 236 a CTA (gradient_power.jsonl of data/measurements/h200/pytorch_training).
TEST(CustomOp, InstructionsWithoutSlotsAreEnergyAlone) {
  const Machine h200 = make_machine(load_gpu("h200"), MachineOptions{"hf-sdpa"});
  CustomOp op = stream(400);
  const OpPrediction bare = predict(op, h200);
  op.executed = 236.0 * 65536;
  const OpPrediction executed = predict(op, h200);
  EXPECT_EQ(executed.time, bare.time);
  EXPECT_NEAR((executed.energy.value() - bare.energy.value()).in(units::J), 5.8e-3, 0.4e-3);
}

/// torch.optim's fused AdamW in bf16, 65536 elements a CTA: 61 registers a thread keep two CTAs on an SM, so that 320 are a
/// wave and what is left of another, which then takes as long as it does alone. 20971520 elements took 105 to 109 us on two
/// H200 and 128 to 133 on two H100 (ninth, tenth of data/measurements/h200 and h100/pytorch_training).
TEST(CustomOp, AFewCtasOfALastWaveTakeAsLongAsAlone) {
  const auto time = [](const char* gpu, int ctas, int registers) {
    const double n = 65536.0 * ctas;
    CustomOp op;
    op.read = 8 * n * units::B;
    op.write = 6 * n * units::B;
    op.instructions = 239 * n / 128;
    op.ctas = ctas;
    op.threads = 512;
    op.registers = registers;
    op.in_flight = 13480.0 * units::B;
    return predict(op, make_machine(load_gpu(gpu), MachineOptions{"hf-sdpa"})).time.in(units::us);
  };
  EXPECT_NEAR(time("h200", 320, 61), time("h200", 264, 61) + time("h200", 56, 61), 5);
  EXPECT_NEAR(time("h200", 264, 61), time("h200", 264, 40), 1) << "two CTAs on each SM";
  EXPECT_LT(time("h200", 320, 40), 0.9 * time("h200", 320, 61));
  EXPECT_NEAR(time("h200", 320, 61) / 107, 1, 0.03);
  EXPECT_NEAR(time("h100", 320, 61) / 130.5, 1, 0.03);
}

class CustomStep : public ::testing::Test {
 protected:
  Machine h200 = make_machine(load_gpu("h200"), MachineOptions{});
  Llm llm = load_llm("llama-3.1-8b");
  Workload decode;
  StepPrediction plain = predict(llm, decode, h200, RunOptions{});
  Graph graph = plain.graph;

  static const NodePrediction& node(const StepPrediction& step, std::string_view name) {
    return *std::find_if(step.nodes.begin(), step.nodes.end(),
                         [&](const NodePrediction& n) { return n.node->name == name; });
  }
};

TEST_F(CustomStep, TheGraphOfAStepIsPricedAsTheStep) {
  const StepPrediction same = predict(graph, h200, RunOptions{});
  EXPECT_EQ(same.latency, plain.latency);
  EXPECT_EQ(same.low, plain.low);
  EXPECT_EQ(same.energy, plain.energy);
}

TEST_F(CustomStep, OneKernelStandsForSeveral) {
  CustomOp fused;
  fused.read = 60.0 * units::MB;
  replace_nodes(graph, "attn_norm", "attention", "fused", fused);
  const StepPrediction step = predict(graph, h200, RunOptions{});
  EXPECT_EQ(step.nodes.size(), plain.nodes.size() - 2);
  EXPECT_EQ(node(step, "fused").node->count, 32);
  EXPECT_EQ(node(step, "fused").op.provenance, Provenance::never_measured);
  EXPECT_EQ(node(step, "fused").op.time, predict(fused, h200.for_steps()).time);
  const Seconds gone = node(plain, "attn_norm").op.time + node(plain, "attn_norm").gap +
                       node(plain, "qkv_proj").op.time + node(plain, "qkv_proj").gap +
                       node(plain, "attention").op.time + node(plain, "attention").gap;
  const Seconds come = node(step, "fused").op.time + node(step, "fused").gap;
  EXPECT_NEAR((step.latency + 32.0 * (gone - come)) / plain.latency, 1, 0.002);
  EXPECT_GT(step.high, step.latency);
  EXPECT_TRUE(step.power && step.energy);
}

TEST_F(CustomStep, ANodeIsPutBehindEachOfAName) {
  CustomOp extra;
  extra.read = 100.0 * units::MB;
  insert_after(graph, "attention", "extra", extra);
  const StepPrediction step = predict(graph, h200, RunOptions{});
  EXPECT_EQ(step.nodes.size(), plain.nodes.size() + 1);
  EXPECT_EQ(node(step, "extra").node->count, 32);
  EXPECT_GT(step.latency, plain.latency + 32 * 20.0 * units::us);
}

/// Single operators run in bursts and steps as they settle, unless a clock is asked for: as predict-model answers.
TEST_F(CustomStep, AnOpenClockIsThatOfTheQuestion) {
  Workload prefill;
  prefill.phase = Phase::prefill;
  prefill.prompt = 8192;
  const Op gemm = parse_op("gemm", "bf16", "M=8192;N=8192;K=8192");
  const auto machine = [](std::optional<ClockMode> clock) {
    MachineOptions options;
    options.clock = clock;
    return make_machine(load_gpu("h200"), options);
  };
  const Machine open = machine({}), burst = machine(ClockMode::burst), steady = machine(ClockMode::steady);
  EXPECT_EQ(predict(gemm, open).time, predict(gemm, burst).time);
  EXPECT_LT(predict(gemm, burst).time, predict(gemm, steady).time);
  const auto step = [&](const Machine& m) { return predict(llm, prefill, m, RunOptions{}).latency; };
  EXPECT_EQ(step(open), step(steady));
  EXPECT_LT(step(burst), step(steady));
  EXPECT_THAT(open.for_steps().assumptions().back(), HasSubstr("clock steady"));
  // and of machines whose numbers were changed
  GpuNumbers numbers = open.numbers();
  numbers.memory.bandwidth *= 2;
  EXPECT_EQ(step(open.with(numbers)), step(steady.with(numbers)));
}

}  // namespace
}  // namespace plumbline::custom_op_test

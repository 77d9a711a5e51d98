// An iteration of training: laws, what its parts add up to, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <utility>

#include "arch/error.hpp"
#include "arch/files.hpp"
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

/// MFU is what the whole model needs over the peaks of all GPUs: stages that are not alike (a head, the embedding) change the
/// time alone, and a rank that holds two stages has no more of it than one that holds one.
TEST(Training, UtilisationIsOfAllStages) {
  Workload w = training(8, 1024);
  w.training.micro_batch = 1;
  w.training.recompute = Recompute::full;
  const StepPrediction one = price(w);
  const double needed = one.mfu * one.latency.in(units::s), done = one.hfu * one.latency.in(units::s);
  for (const PipelineSchedule schedule : {PipelineSchedule::one_f_one_b, PipelineSchedule::dual_pipe}) {
    w.parallel.pipeline = 4;
    w.training.schedule = schedule;
    const StepPrediction four = price(w);
    EXPECT_NEAR(4 * four.mfu * four.latency.in(units::s) / needed, 1, 1e-9);
    EXPECT_NEAR(4 * four.hfu * four.latency.in(units::s) / done, 1, 1e-9);
    EXPECT_NEAR(mfu_of(four, machine_of("megatron").gpu()).value / mfu_of(one, machine_of("megatron").gpu()).value,
                four.mfu / one.mfu, 1e-9);
  }
}

TEST(Training, ReplicasWaitForTheirGradientsAlone) {
  const StepPrediction one = price(training(4, 1024));
  Workload w = training(32, 1024);
  w.parallel.data = 8;
  const StepPrediction eight = price(w);
  EXPECT_GT(eight.network_exposed, Seconds{});
  // a little less: while gradients travel the board draws less, and the clock that the cap leaves for the rest is higher
  EXPECT_NEAR((eight.latency - eight.network_exposed) / one.latency, 1, 0.05);
  EXPECT_GT(*eight.energy, 7.9 * *one.energy);
}

/// At the cap replicas run at the clock of the card whose chip takes most: the more of them, the further that one lies
/// from the mean (expected largest of 8 and of 1024 draws: 1.42 and 3.25 standard deviations), while their mean power lies
/// below the cap. Alone a card is the mean one.
TEST(Training, ReplicasRunAtTheSlowestCardsClock) {
  const std::string file = data_folder() + "/calibration/h100_sxm.json";
  Calibration alike = parse_calibration(read_text_file(file), file);
  const double spread = alike.power.at("chip_spread").value;
  alike.power.erase("chip_spread");
  MachineOptions options{"megatron", ClockMode::steady, {}};
  options.cluster = "dgx_h100";
  const Machine machine = make_machine(load_gpu("h100_sxm"), alike, options);
  for (const auto& [replicas, deviations] : {std::pair<std::int64_t, double>{1, 0}, {8, 1.42}, {1024, 3.25}}) {
    Workload w = training(4 * replicas, 2048);
    w.parallel.data = replicas;
    const StepPrediction slowest = price(w), mean = predict(small(), w, machine, RunOptions{Runtime::stream});
    ASSERT_TRUE(mean.power_limited) << replicas;
    // between three tenths and the whole of what the chip takes more: phases far below the cap are at one clock on all cards
    const double slower = mean.clock / slowest.clock - 1;
    EXPECT_GE(slower, 0.3 * deviations * spread) << replicas;
    EXPECT_LE(slower, deviations * spread) << replicas;
    EXPECT_GE(slowest.latency, mean.latency) << replicas;
    EXPECT_LE(*slowest.power, *mean.power) << replicas;
  }
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

std::string refusal_of(const Llm& llm, const Workload& w) {
  try {
    (void)predict(llm, w, machine_of("megatron"), RunOptions{Runtime::stream});
  } catch (const Error& error) {
    return error.what();
  }
  return "(accepted)";
}

std::string refusal(const Workload& w) { return refusal_of(small(), w); }

TEST(Training, WhatIsNotReachedIsNamed) {
  Workload w = training(8, 128);
  w.parallel.data = 2;
  w.parallel.zero = 2;
  w.parallel.pipeline = 2;
  w.training.schedule = PipelineSchedule::dual_pipe;
  w.training.micro_batch = 1;
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
  w.training.micro_batch = 4;
  EXPECT_THAT(refusal(w), HasSubstr("to divide by pp 4"));
  w.training.micro_batch = 3;
  EXPECT_THAT(refusal(w), HasSubstr("expected a divisor of the 8 sequences of a replica"));
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
  w.training.offload = *rc::gen::element(Offload::none, Offload::optimizer);
  const std::int64_t parts = (w.batch / w.parallel.data) / std::max<std::int64_t>(1, w.training.micro_batch);
  if (w.parallel.pipeline > 1 && parts % 2 == 0 && parts >= 4 && *rc::gen::arbitrary<bool>()) {
    w.training.schedule = PipelineSchedule::dual_pipe;
  }
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

/// A pass for the maximum of each tensor and one that casts; of blocks one that does both, with fp32 scales of 128 (mx: a byte
/// for each 32) beside the values and their transpose.
TEST(Training, CastsToFp8AreLaunches) {
  Workload w = training(1, 2048);
  w.precision_given = true;
  w.precision = *parse_precision("fp8");
  const double n = 2048.0 * 2048;
  const auto of_qkv = [](const StepPrediction& step, std::string_view launch) -> const CustomOp* {
    for (const Node& node : step.graph.nodes) {
      if (node.pass == Pass::forward && node.name == "qkv_quantize." + std::string(launch)) {
        return &std::get<CustomOp>(node.op);
      }
    }
    return nullptr;
  };
  const StepPrediction tensor = price(w);
  ASSERT_NE(of_qkv(tensor, "amax"), nullptr);
  EXPECT_EQ(of_qkv(tensor, "cast_transpose")->write, 2 * n * units::B);
  EXPECT_EQ(of_qkv(tensor, "cast_blocks"), nullptr);
  w.training.fp8 = Fp8Recipe::block;
  const StepPrediction block = price(w);
  EXPECT_EQ(of_qkv(block, "amax"), nullptr);
  EXPECT_EQ(of_qkv(block, "cast_blocks")->write, (2 * n + 2 * 4 * n / 128) * units::B);
  w.training.fp8 = Fp8Recipe::mx;
  EXPECT_THAT(refusal(w), HasSubstr("take no scales of 32 elements; expected tensor or block"));
  const Machine b200 = make_machine(load_gpu("b200_sxm"), MachineOptions{"megatron", ClockMode::steady, {}});
  const StepPrediction mx = predict(small(), w, b200, RunOptions{Runtime::stream});
  EXPECT_EQ(of_qkv(mx, "cast_blocks")->write, (2 * n + 2 * n / 32) * units::B);
}

/// States come and go over the host's link, a layer at a time beside the passes; what waits there is not in memory.
TEST(Training, WhatWaitsInTheHostsMemoryTravelsBesideThePasses) {
  const StepPrediction here = price(training(4, 2048));
  for (const Offload offload : {Offload::optimizer, Offload::activations}) {
    Workload w = training(4, 2048);
    w.training.offload = offload;
    const StepPrediction away = price(w);
    EXPECT_GE(away.latency, here.latency);
    EXPECT_LT(away.graph.memory.total(), here.graph.memory.total());
    EXPECT_GT(away.graph.memory.host, Bytes{});
    Bytes to_host, from_host;
    Seconds travels;
    for (const NodePrediction& n : away.nodes) {
      const auto* copy = std::get_if<Transfer>(&n.node->op);
      if (copy == nullptr) continue;
      const Bytes bytes = static_cast<double>(copy->bytes * n.node->count) * units::B;
      (copy->kind == TransferKind::d2h ? to_host : from_host) += bytes;
      EXPECT_LE(n.hidden, n.op.time + n.gap);
      travels += static_cast<double>(n.node->count) * (n.op.time + n.gap);
    }
    EXPECT_NEAR((away.host_exposed + away.host_hidden) / travels, 1, 1e-12);
    EXPECT_EQ(away.host_exposed, away.network_exposed) << "of one GPU that is all that travels";
    EXPECT_EQ(here.network_exposed, Seconds{});
    EXPECT_EQ(to_host, from_host);
    EXPECT_GT(to_host, 0.5 * away.graph.memory.host);
  }
  Workload w = training(4, 2048);
  w.training.offload = Offload::optimizer;
  const double states = 12 * 1235814400.0;
  EXPECT_NEAR(price(w).graph.memory.host.in(units::B) / states, 1, 1e-3);
  w.training.offload = Offload::activations;
  w.training.recompute = Recompute::full;
  EXPECT_THAT(refusal(w), HasSubstr("computed again"));
  w.training.recompute = Recompute::none;
  w.parallel.pipeline = 2;
  EXPECT_THAT(refusal(w), HasSubstr("expected pp 1, or optimizer"));
}

/// Each rank holds two stages, and gradients are added up over both of its copies; tokens of experts travel while another
/// pass computes.
TEST(Training, DualPipeHoldsTwoStagesAndHidesWhatTravels) {
  Workload w = training(1024, 512);  // many, as what is added up over two copies is once an iteration
  w.parallel.pipeline = 4;
  w.parallel.data = 2;
  w.parallel.expert = 2;
  w.training.micro_batch = 1;
  const StepPrediction in_turn = price_experts(w);
  w.training.schedule = PipelineSchedule::dual_pipe;
  const StepPrediction dual = price_experts(w);
  EXPECT_LT(dual.latency, in_turn.latency);
  const auto exposed = [](const StepPrediction& step) {
    Seconds sum;
    for (const NodePrediction& n : step.nodes) {
      const auto* c = std::get_if<Collective>(&n.node->op);
      if (c != nullptr && c->kind == CollectiveKind::all_to_all)
        sum += static_cast<double>(n.node->count) * n.on_path();
    }
    return sum;
  };
  EXPECT_LT(exposed(dual), 0.2 * exposed(in_turn));
  EXPECT_NEAR(dual.graph.memory.weights / in_turn.graph.memory.weights, 2, 0.35);
  EXPECT_EQ(dual.graph.pipeline.micro_batches, 512);
  for (const Node& n : dual.graph.nodes) {
    const auto* c = std::get_if<Collective>(&n.op);
    if (c != nullptr && c->kind == CollectiveKind::all_reduce) {
      EXPECT_EQ(c->gpus % 2, 0) << n.name;
    }
  }
  EXPECT_NEAR(dual.flops.in(units::FLOP) / in_turn.flops.in(units::FLOP), 1, 0.3) << "of one rank, two half stages";
  w.parallel.pipeline = 3;
  EXPECT_THAT(refusal_of(of_experts(), w),
              HasSubstr("expected an even pp, as micro-batches come from both ends; nearest: 2 and 4"));
  w.parallel.pipeline = 4;
  w.training.micro_batch = 128;
  EXPECT_THAT(refusal_of(of_experts(), w), HasSubstr("at least 2 x pp = 8; found 4"));
}

/// Its V form has the same two stages a rank, of half as many layers each and on no other rank: weights are held once, embedding
/// and head both by the first rank.
TEST(Training, DualPipesVFormHoldsEachStageOnce) {
  Workload w = training(256, 512);
  w.parallel.pipeline = 4;
  w.parallel.data = 2;
  w.parallel.expert = 2;
  w.training.micro_batch = 1;
  const StepPrediction in_turn = price_experts(w);
  w.training.schedule = PipelineSchedule::dual_pipe_v;
  const StepPrediction v = price_experts(w);
  EXPECT_LT(v.latency, in_turn.latency);
  EXPECT_NEAR(v.graph.memory.weights / in_turn.graph.memory.weights, 1, 0.35);
  const PipelineStages& pipeline = v.graph.pipeline;
  EXPECT_EQ(pipeline.stages, 4);
  EXPECT_EQ(pipeline.turns(), 128);
  Workload w2 = w;
  w2.parallel.pipeline = 1;
  w2.training.schedule = PipelineSchedule::one_f_one_b;
  const Graph all = lower(of_experts(), w), one = lower(of_experts(), w2);
  const auto layers = [](const Graph& g, bool pipelined) {
    std::int64_t sum = 0, ends = 0;
    for (std::size_t i = 0; i < g.segments.size(); ++i) {
      if (g.segments[i].forward >= 0 || g.segments[i].once) continue;
      const std::int64_t ranks = pipelined ? g.pipeline.stages : 1;
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        const std::int64_t repeat = pipelined ? g.pipeline.repeat(rank, i, g.segments.size()) : g.segments[i].repeat;
        if (g.segments[i].layers) sum += repeat;
        if (g.segments[i].name == std::string_view("stage_end")) ends += repeat;
      }
    }
    return std::pair(sum, ends);
  };
  EXPECT_EQ(layers(all, true).second, 6) << "three ranks on, three back";
  EXPECT_EQ(layers(all, true).first * one.pipeline.micro_batches, layers(one, false).first);
  w.training.micro_batch = 64;
  EXPECT_THAT(refusal_of(of_experts(), w), HasSubstr("at least 2 x pp = 8 micro-batches; found 2"));
  w.parallel.pipeline = 1;
  EXPECT_THAT(refusal_of(of_experts(), w), HasSubstr("schedule dualpipe-v: expected pp from 2 to"));
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

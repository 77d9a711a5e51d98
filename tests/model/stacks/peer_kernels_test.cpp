// Collectives by loads and stores of peers' memory: ours, and those of serving stacks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "arch/error.hpp"
#include "model/bands/bands.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"
#include "ops/plan/peer_plan.hpp"
#include "ops/table/text.hpp"
#include "tests/support/planners.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::peer_kernels_test {
namespace {

using ::testing::HasSubstr;
using testing_support::refusal;
using testing_support::scalars_of;

constexpr std::int64_t kKiB = 1024, kMiB = 1048576;

Machine machine_of(const char* stack, CollectiveChoice collective = CollectiveChoice::automatic) {
  MachineOptions options;
  options.stack.name = stack;
  options.stack.collective = collective;
  return machines().get({.gpu = "h200_sxm", .options = options});
}

OpPrediction priced(const Machine& machine, CollectiveKind kind, std::int64_t bytes, std::int64_t gpus) {
  Predictor predictor;
  OpPrediction out;
  predictor.predict(Collective{kind, bytes, gpus, DType::bf16}, machine, out, {.alone = true});
  return out;
}

std::string kernel_of(const Machine& machine, std::int64_t bytes, std::int64_t gpus) {
  return priced(machine, CollectiveKind::all_reduce, bytes, gpus).launches[0].kernel;
}

TEST(OwnCollectives, ThePlanThatIsPricedIsTheOneThatIsLaunched) {
  const Machine machine = machine_of("own");
  const auto sms = static_cast<std::int64_t>(machine.rates().sm_count);
  for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::all_gather,
                                    CollectiveKind::reduce_scatter, CollectiveKind::all_to_all}) {
    for (const std::int64_t bytes : {8 * kKiB, kMiB, 64 * kMiB}) {
      const Collective shape{kind, bytes, 4, DType::bf16};
      const PeerPlan plan = peer_plan(shape, sms);
      const OpPrediction p = priced(machine, kind, bytes, 4);
      EXPECT_EQ(p.provider, "own");
      EXPECT_EQ(p.launches[0].demand.plan.ctas, plan.ctas) << name(kind) << " " << bytes;
      EXPECT_EQ(p.launches[0].demand.link, peer_sent(shape, plan.algorithm)) << name(kind) << " " << bytes;
    }
  }
}

/// Parts of 16 bytes and 4 more end within a pack; all_reduce has one part, its whole buffer.
TEST(OwnCollectives, PartsThatAreNoWholePacksAreAClassOfTheirOwn) {
  const Machine machine = machine_of("own");
  const auto class_of = [&](CollectiveKind kind, std::int64_t bytes) {
    return band_class_name(priced(machine, kind, bytes, 2).band_class);
  };
  for (const CollectiveKind kind :
       {CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::all_to_all}) {
    EXPECT_EQ(class_of(kind, 2 * kMiB), "collective_own") << name(kind);
    EXPECT_EQ(class_of(kind, 2 * kMiB + 8), "collective_own_ragged") << name(kind);
    EXPECT_EQ(class_of(kind, 1024 + 8), "collective_own_ragged") << name(kind);
  }
  EXPECT_EQ(class_of(CollectiveKind::all_reduce, 2 * kMiB + 16), "collective_own");
  EXPECT_EQ(class_of(CollectiveKind::all_reduce, 2 * kMiB + 8), "collective_own_ragged");
}

/// 64 MiB on two GPUs by hand: each loads half of it and stores half; of 2 Mi packs a CTA has 15888.
TEST(OwnCollectives, TwoShotsTakeTheirBarriersTheLinkAndACtasChain) {
  const Machine machine = machine_of("own");
  const FamilyScalars& f = scalars_of(machine, "own.peer_two_shot");
  const double link = 64.0 * kMiB / (f.link_share * 450e9);
  const double cta = 2 * 15888 * 16.0 / f.channel.in(units::B_per_s);
  const double together = std::pow(std::pow(link, f.overlap) + std::pow(cta, f.overlap), 1 / f.overlap);
  const double by_hand = (f.fixed + machine.rates().gap_graph).in(units::s) + together;
  EXPECT_NEAR(priced(machine, CollectiveKind::all_reduce, 64 * kMiB, 2).time.in(units::s) / by_hand, 1, 1e-9);
}

/// By hand: 240,520 bytes on two GPUs are parts of 60,130 elements, which begin at no 16 bytes: the plan is 15 CTAs of
/// 512 threads, as many as packs ask for, and eight turns of one element each, beside what the links carry.
TEST(OwnCollectives, PartsThatBeginAtNoPackAreAddedByElements) {
  const Machine machine = machine_of("own", CollectiveChoice::two_shot);
  const FamilyScalars& f = scalars_of(machine, "own.peer_pull");
  const double by_hand =
      (f.fixed + machine.rates().gap_graph).in(units::s) + 120260 / (f.link_share * 450e9) + 8 * f.counter.in(units::s);
  const auto time = [&](std::int64_t bytes) {
    return priced(machine, CollectiveKind::reduce_scatter, bytes, 2).time.in(units::s);
  };
  EXPECT_NEAR(time(240520) / by_hand, 1, 1e-9);
  EXPECT_GT(time(240520), 1.8 * time(240512)) << "whole packs, twice to three times as fast (13.8 us were measured)";
}

/// What an all-reduce has behind its last pack is one turn more; a part of it always begins at a pack.
TEST(OwnCollectives, AnAllReducesTailIsOneTurnOfElements) {
  const Machine machine = machine_of("own", CollectiveChoice::two_shot);
  const auto time = [&](std::int64_t bytes) { return priced(machine, CollectiveKind::all_reduce, bytes, 2).time; };
  const Seconds tail = time(4 * kMiB + 2) - time(4 * kMiB);
  EXPECT_NEAR(tail / scalars_of(machine, "own.peer_two_shot").counter, 1, 0.02);
}

/// By hand: 32 lanes write 128 bytes in words of 4, and 64 in words of 2. They begin at any word of a line: 31 of 32
/// places touch a second line, 7 of 8 a fifth sector; of words of 2, 31 of 64 a second line and 15 of 16 a third
/// sector.
TEST(OwnCollectives, NarrowWordsFillTheLinksWithPackets) {
  const Machine machine = machine_of("own", CollectiveChoice::two_shot);
  const double whole = scalars_of(machine, "own.peer_push").link_share;
  const double beside_data = 128 * (1 / whole - 1) + 16;
  const auto rate = [&](std::int64_t bytes) {
    return priced(machine, CollectiveKind::all_gather, bytes, 2).launches[0].demand.link_rate.in(units::B_per_s) /
           450e9;
  };
  EXPECT_NEAR(rate(64 * kMiB), whole, 1e-9);
  EXPECT_NEAR(rate(64 * kMiB + 8), 128 / (128 + 28 + (1 + 31.0 / 32) * beside_data), 1e-9);
  EXPECT_NEAR(rate(64 * kMiB + 4), 64 / (64 + 30 + (1 + 31.0 / 64) * beside_data), 1e-9);
}

TEST(OwnCollectives, WhatOurKernelsCannotDoIsNccls) {
  const Machine machine = machine_of("own");
  EXPECT_EQ(priced(machine, CollectiveKind::all_reduce, kMiB, 16).provider, "nccl");
  EXPECT_EQ(priced(machine, CollectiveKind::broadcast, kMiB, 2).provider, "nccl");
  Predictor predictor;
  OpPrediction out;
  predictor.predict(Collective{CollectiveKind::all_reduce, kMiB, 2, DType::fp16}, machine, out);
  EXPECT_EQ(out.provider, "nccl");
}

TEST(OwnCollectives, AUserChoosesTheAlgorithm) {
  EXPECT_EQ(kernel_of(machine_of("own"), 8 * kKiB, 2), "one-shot");
  EXPECT_EQ(kernel_of(machine_of("own", CollectiveChoice::two_shot), 8 * kKiB, 2), "two-shot");
  EXPECT_EQ(kernel_of(machine_of("own", CollectiveChoice::one_shot), kMiB, 2), "one-shot");
  EXPECT_THAT(kernel_of(machine_of("own", CollectiveChoice::ring), 8 * kKiB, 2), HasSubstr("nccl ring"));
  // beyond the buffer of one shot
  EXPECT_THAT(refusal([] { kernel_of(machine_of("own", CollectiveChoice::one_shot), 64 * kMiB, 2); }),
              HasSubstr("no algorithms of NCCL"));
}

/// The switching points of their sources, on both sides.
TEST(CustomAllReduce, RunsWhereItsSourceSays) {
  const Machine trt = machine_of("trt-llm"), vllm = machine_of("vllm");
  EXPECT_EQ(kernel_of(trt, 4 * kMiB, 2), "all-reduce in one shot");
  EXPECT_THAT(kernel_of(trt, 16 * kMiB, 2), HasSubstr("nccl"));
  EXPECT_EQ(kernel_of(trt, 512 * kKiB, 4), "all-reduce in one shot");
  EXPECT_THAT(kernel_of(trt, kMiB, 4), HasSubstr("nccl"));
  EXPECT_EQ(kernel_of(trt, 256 * kKiB, 8), "all-reduce in one shot");
  EXPECT_THAT(kernel_of(trt, 512 * kKiB, 8), HasSubstr("nccl"));
  EXPECT_EQ(kernel_of(vllm, 4 * kMiB, 2), "all-reduce in one shot");
  EXPECT_EQ(kernel_of(vllm, 512 * kKiB, 4), "all-reduce in two shots");
  EXPECT_EQ(kernel_of(vllm, 128 * kKiB, 8), "all-reduce in one shot");
  EXPECT_EQ(kernel_of(vllm, 256 * kKiB, 8), "all-reduce in two shots");
  EXPECT_THAT(kernel_of(vllm, 8 * kMiB, 8), HasSubstr("nccl"));
  // rows of cards without clusters are of TensorRT-LLM 1.0
  const Machine a100 = machines().get({.gpu = "a100_sxm", .options = MachineOptions{"trt-llm"}});
  EXPECT_EQ(kernel_of(a100, kMiB, 2), "all-reduce in one shot");
  EXPECT_THAT(kernel_of(a100, 2 * kMiB, 2), HasSubstr("nccl"));
}

/// TensorRT-LLM's one shot, by hand: a launch, the peers beyond the first, what the links carry, and what a CTA stores for all
/// ranks and polls. On Hopper a row of 8 KiB is four CTAs', one of 128 threads; 256 rows are a CTA's each, and two turns. On an
/// A100, which has no clusters, every row is one CTA's.
TEST(CustomAllReduce, OneShotCarriesAllRanksDataAndNoStacksCall) {
  const auto by_hand = [](const char* gpu, std::int64_t bytes, double ranks, double bytes_of_a_cta, double wire) {
    const Machine machine = machines().get({.gpu = gpu, .options = MachineOptions{"trt-llm"}});
    const FamilyScalars& f = scalars_of(machine, "library.trtllm_all_reduce");
    const Bytes link = (ranks - 1) * static_cast<double>(bytes) * units::B;
    const Seconds time = f.fixed + (ranks - 2) * f.step + link / (f.link_share * wire * units::GB_per_s) +
                         ranks * bytes_of_a_cta * units::B / f.channel + machine.rates().gap_graph;
    Predictor predictor;
    OpPrediction out;
    predictor.predict(Collective{CollectiveKind::all_reduce, bytes, static_cast<std::int64_t>(ranks), DType::bf16},
                      machine, out);
    return out.time / time;
  };
  EXPECT_NEAR(by_hand("h200_sxm", 64 * kKiB, 4, 2048, 450), 1, 1e-9);
  EXPECT_NEAR(by_hand("h200_sxm", 1024, 2, 1024, 450), 1, 1e-9) << "64 threads are fewer than a CTA of a cluster has";
  EXPECT_NEAR(by_hand("h200_sxm", 2 * kMiB, 2, 16384, 450), 1, 1e-9);
  EXPECT_NEAR(by_hand("a100_sxm", 64 * kKiB, 8, 8192, 300), 1, 1e-9);
  EXPECT_NEAR(by_hand("a100_sxm", kMiB, 2, 16384, 300), 1, 1e-9) << "128 rows on 108 SMs";
}

/// Two stages wait for as many peers as one, twice.
TEST(CustomAllReduce, TwoStagesWaitTwiceForTheirPeers) {
  const Machine machine = machine_of("vllm");
  const FamilyScalars &one = scalars_of(machine, "library.vllm_one_stage"),
                      &two = scalars_of(machine, "library.vllm_two_stages");
  const double bytes = 512 * kKiB;
  const Seconds by_hand = two.fixed + 2 * 2 * one.step +
                          2 * 3.0 / 4 * bytes * units::B / (two.link_share * 450.0 * units::GB_per_s) +
                          machine.rates().gap_graph;
  EXPECT_NEAR(priced(machine, CollectiveKind::all_reduce, 512 * kKiB, 4).time / by_hand, 1, 1e-9);
}

TEST(CustomAllReduce, NeedsNvlink) {
  const Machine machine = machines().get({.gpu = "rtx_4090"});
  EXPECT_EQ(priced(machine, CollectiveKind::all_reduce, 8 * kKiB, 2).provider, "nccl");
  EXPECT_EQ(priced(machine, CollectiveKind::all_reduce, 8 * kKiB, 2).provenance, Provenance::never_measured);
}

}  // namespace
}  // namespace plumbline::peer_kernels_test

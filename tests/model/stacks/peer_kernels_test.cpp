// Collectives by loads and stores of peers' memory: ours, and those of serving stacks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "arch/error.hpp"
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
}

TEST(CustomAllReduce, OneShotCarriesAllRanksDataAndNoStacksCall) {
  const Machine machine = machine_of("trt-llm");
  const FamilyScalars& f = scalars_of(machine, "library.trtllm_all_reduce");
  const Seconds by_hand = f.fixed + 2.0 * f.step + 3.0 * 65536 * units::B / (f.link_share * 450.0 * units::GB_per_s) +
                          machine.rates().gap_graph;
  Predictor predictor;
  OpPrediction out;
  predictor.predict(Collective{CollectiveKind::all_reduce, 65536, 4, DType::bf16}, machine, out);
  EXPECT_NEAR(out.time / by_hand, 1, 1e-9);
}

TEST(CustomAllReduce, NeedsNvlink) {
  const Machine machine = machines().get({.gpu = "rtx_4090"});
  EXPECT_EQ(priced(machine, CollectiveKind::all_reduce, 8 * kKiB, 2).provider, "nccl");
  EXPECT_EQ(priced(machine, CollectiveKind::all_reduce, 8 * kKiB, 2).provenance, Provenance::never_measured);
}

}  // namespace
}  // namespace plumbline::peer_kernels_test

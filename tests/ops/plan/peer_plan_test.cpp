// Plans of our own collectives, by hand and as laws.
#include "ops/plan/peer_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "arch/error.hpp"

namespace plumbline::peer_plan_test {
namespace {

Collective all_reduce(std::int64_t bytes, std::int64_t gpus) {
  return {CollectiveKind::all_reduce, bytes, gpus, DType::bf16};
}

TEST(PeerPlan, EightKibInOneShotAreFourCtasOfOnePackAThread) {
  const PeerPlan p = peer_plan(all_reduce(8192, 2), 132);
  EXPECT_EQ(p.algorithm, PeerAlgorithm::one_shot);
  EXPECT_EQ(p.packs, 1024);  // of 8 bytes
  EXPECT_EQ(p.ctas, 4);
  EXPECT_EQ(p.threads, 256);
  EXPECT_EQ(p.barriers, 0);
}

TEST(PeerPlan, LargeOnesTakeTwoShotsOnAllSms) {
  const PeerPlan p = peer_plan(all_reduce(64 << 20, 2), 132);
  EXPECT_EQ(p.algorithm, PeerAlgorithm::two_shot);
  EXPECT_EQ(p.packs, (64 << 20) / 2 / 16);  // a rank adds half
  EXPECT_EQ(p.ctas, 132);
  EXPECT_EQ(p.in_flight, 8);
  EXPECT_EQ(p.barriers, 2);
}

TEST(PeerPlan, TheOneShotBufferHoldsOneMib) {
  EXPECT_TRUE(peer_plan(all_reduce(1 << 20, 2), 132, PeerAlgorithm::one_shot).has_value());
  EXPECT_FALSE(peer_plan(all_reduce((1 << 20) + 8, 2), 132, PeerAlgorithm::one_shot).has_value());
  EXPECT_FALSE(peer_plan(all_reduce(1 << 20, 2), 64, PeerAlgorithm::one_shot).has_value());
}

TEST(PeerPlan, MoreRanksLeaveOneShotEarlier) {
  // Extra bytes of one shot: 2 (n-1) S - 2 (n-1)/n S.
  EXPECT_EQ(peer_plan(all_reduce(768 << 10, 2), 132).algorithm, PeerAlgorithm::one_shot);
  EXPECT_EQ(peer_plan(all_reduce(1 << 20, 2), 132).algorithm, PeerAlgorithm::two_shot);
  EXPECT_EQ(peer_plan(all_reduce(168 << 10, 4), 132).algorithm, PeerAlgorithm::one_shot);
  EXPECT_EQ(peer_plan(all_reduce(176 << 10, 4), 132).algorithm, PeerAlgorithm::two_shot);
}

TEST(PeerPlan, WhatL2CannotHoldIsAddedBeforeItIsStored) {
  EXPECT_FALSE(peer_plan(all_reduce(4 << 20, 2), 132).in_turn);
  EXPECT_TRUE(peer_plan(all_reduce(8 << 20, 2), 132).in_turn);
  EXPECT_THAT(plan_text(all_reduce(8 << 20, 2), peer_plan(all_reduce(8 << 20, 2), 132)), testing::EndsWith(" in_turn"));
  const Collective gathered{CollectiveKind::all_gather, 64 << 20, 2, DType::bf16};
  EXPECT_FALSE(peer_plan(gathered, 132).in_turn);
}

TEST(PeerPlan, SentBytesByHand) {
  EXPECT_EQ(peer_sent(all_reduce(800, 4), PeerAlgorithm::one_shot).in(units::B), 2 * 3 * 800);
  EXPECT_EQ(peer_sent(all_reduce(800, 4), PeerAlgorithm::two_shot).in(units::B), 2 * 3 * 200);
  const Collective gathered{CollectiveKind::all_gather, 800, 4, DType::bf16};
  EXPECT_EQ(peer_sent(gathered, PeerAlgorithm::two_shot).in(units::B), 600);
  EXPECT_EQ(peer_sent(gathered, PeerAlgorithm::one_shot).in(units::B), 1200);
}

TEST(PeerPlan, RaggedPartsAreWholePacksButTheLast) {
  const Collective shape = all_reduce(2 * 21, 2);  // 21 elements are 3 packs
  EXPECT_EQ(all_reduce_part(shape, 0).count, 16);
  EXPECT_EQ(all_reduce_part(shape, 1).first, 16);
  EXPECT_EQ(all_reduce_part(shape, 1).count, 5);
  EXPECT_EQ(all_reduce_part(all_reduce(2, 4), 3).count, 0);
}

TEST(PeerPlan, RefusesWhatDoesNotDivide) {
  EXPECT_THROW(peer_elements({CollectiveKind::all_gather, 10, 4, DType::bf16}), BadInput);
  EXPECT_THROW(peer_elements(all_reduce(3, 2)), BadInput);
  EXPECT_THROW(peer_elements(all_reduce(64, 17)), BadInput);
  EXPECT_THROW(peer_plan({CollectiveKind::all_reduce, 64, 2, DType::fp8}, 132), NotModelled);
  EXPECT_THROW(peer_plan(all_reduce(64, 2), 0, PeerAlgorithm::one_shot), BadInput);
}

TEST(PeerPlan, NamesTellTheKernelsApart) {
  EXPECT_EQ(kernel_name(CollectiveKind::all_reduce, PeerAlgorithm::two_shot), "two_shot");
  EXPECT_EQ(kernel_name(CollectiveKind::reduce_scatter, PeerAlgorithm::two_shot), "pull");
  EXPECT_EQ(kernel_name(CollectiveKind::all_to_all, PeerAlgorithm::two_shot), "push");
  PeerPlan p = peer_plan(all_reduce(8192, 2), 132);
  EXPECT_EQ(plan_text(all_reduce(8192, 2), p), "one_shot ctas=4 threads=256 in_flight=1");
  p.early = true;
  EXPECT_EQ(plan_text(all_reduce(8192, 2), p), "one_shot ctas=4 threads=256 in_flight=1 early");
}

Collective any_shape() {
  const auto kind = *rc::gen::element(CollectiveKind::all_reduce, CollectiveKind::all_gather,
                                      CollectiveKind::reduce_scatter, CollectiveKind::all_to_all);
  const std::int64_t gpus = *rc::gen::inRange<std::int64_t>(2, kPeerRanks + 1);
  const DType type = *rc::gen::element(DType::bf16, DType::fp32);
  const std::int64_t part = *rc::gen::inRange<std::int64_t>(1, 1 << 22) * (type == DType::bf16 ? 2 : 4);
  return {kind, kind == CollectiveKind::all_reduce ? part : part * gpus, gpus, type};
}

RC_GTEST_PROP(PeerPlan, EveryCtaHasAPackAndFitsItsPartOfTheBuffer, ()) {
  const Collective shape = any_shape();
  const std::int64_t sms = *rc::gen::inRange<std::int64_t>(1, 200);
  for (const PeerAlgorithm algorithm : {PeerAlgorithm::one_shot, PeerAlgorithm::two_shot}) {
    const std::optional<PeerPlan> p = peer_plan(shape, sms, algorithm);
    if (!p) continue;
    RC_ASSERT(p->ctas >= 1 && p->ctas <= sms && p->ctas <= kPeerCtas);
    if (algorithm == PeerAlgorithm::two_shot) continue;
    const std::int64_t each = (p->packs + p->ctas - 1) / p->ctas;
    RC_ASSERT(p->ctas <= kOneShotCtas && each <= kOneShotPacks);
    RC_ASSERT((p->ctas - 1) * each < p->packs);  // the last CTA's first
  }
}

RC_GTEST_PROP(PeerPlan, PartsOfAnAllReduceCoverItOnce, ()) {
  Collective shape = any_shape();
  shape.kind = CollectiveKind::all_reduce;
  std::int64_t next = 0;
  for (std::int64_t rank = 0; rank < shape.gpus; ++rank) {
    const PeerPart part = all_reduce_part(shape, rank);
    RC_ASSERT(part.first == next && part.count >= 0);
    RC_ASSERT(part.count <= all_reduce_part(shape, 0).count);
    next += part.count;
  }
  RC_ASSERT(next == peer_elements(shape));
}

}  // namespace
}  // namespace plumbline::peer_plan_test

// What is asked of a model: sizes that are refused, each by its name.
#include "ops/graph/workload.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "arch/error.hpp"

namespace plumbline::workload_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

template <class Change>
std::string refusal(Phase phase, Change change) {
  Workload w;
  w.phase = phase;
  change(w);
  try {
    check(w);
  } catch (const Error& error) {
    return error.what();
  }
  return "(accepted)";
}

TEST(Workload, DefaultsAreAccepted) {
  for (const Phase phase : {Phase::prefill, Phase::decode, Phase::train}) {
    EXPECT_EQ(refusal(phase, [](Workload&) {}), "(accepted)");
  }
}

TEST(Workload, SizesBeginAtOneAndContextsAtNothing) {
  EXPECT_THAT(refusal(Phase::prefill, [](Workload& w) { w.batch = 0; }),
              StartsWith("batch: expected a whole number from 1 to 2^40, found 0"));
  EXPECT_THAT(refusal(Phase::prefill, [](Workload& w) { w.prompt = 0; }), StartsWith("prompt: "));
  EXPECT_THAT(refusal(Phase::decode, [](Workload& w) { w.context = -1; }),
              StartsWith("context: expected a whole number from 0"));
  EXPECT_EQ(refusal(Phase::decode, [](Workload& w) { w.context = 0; }), "(accepted)");
  EXPECT_EQ(refusal(Phase::prefill, [](Workload& w) { w.context = -1; }), "(accepted)") << "prefill asks for none";
  EXPECT_THAT(refusal(Phase::prefill, [](Workload& w) { w.cached = -1; }), StartsWith("cached context: "));
  EXPECT_EQ(refusal(Phase::prefill, [](Workload& w) { w.cached = 1; }), "(accepted)");
  EXPECT_THAT(refusal(Phase::decode, [](Workload& w) { w.cached = 1; }), HasSubstr("of a prefill alone"));
  EXPECT_THAT(refusal(Phase::prefill, [](Workload& w) { w.cached = std::int64_t{1} << 40; }),
              HasSubstr("tokens in all"));
  EXPECT_THAT(refusal(Phase::decode, [](Workload& w) { w.page = -1; }), StartsWith("page: "));
}

TEST(Workload, TokensInAllAreBounded) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  EXPECT_EQ(refusal(Phase::prefill, [](Workload& w) { w.batch = 1 << 20, w.prompt = 1 << 20; }), "(accepted)");
  EXPECT_THAT(refusal(Phase::prefill, [](Workload& w) { w.batch = 1 << 20, w.prompt = (1 << 20) + 1; }),
              HasSubstr("expected at most 2^40 tokens in all"));
  EXPECT_THAT(refusal(Phase::decode, [](Workload& w) { w.context = kMost; }), HasSubstr("context"))
      << "the new token is one more";
  EXPECT_EQ(refusal(Phase::decode, [](Workload& w) { w.context = kMost - 1; }), "(accepted)");
}

TEST(Workload, PlansThatNoModelAllowsAreRefused) {
  const auto plan = [](Phase phase, ParallelPlan p) { return refusal(phase, [&](Workload& w) { w.parallel = p; }); };
  EXPECT_EQ(plan(Phase::decode, {.tensor = 8}), "(accepted)");
  EXPECT_THAT(plan(Phase::decode, {.data = 0}), StartsWith("dp: "));
  EXPECT_THAT(plan(Phase::decode, {.tensor = 1 << 11, .data = 1 << 11}), HasSubstr("at most 2^20 GPUs"));
  EXPECT_THAT(plan(Phase::decode, {.tensor = 2, .expert = 4}), HasSubstr("a divisor of tp x cp x dp = 2"));
  EXPECT_THAT(plan(Phase::decode, {.tensor = 4, .data = 3, .expert = 6}), HasSubstr("a multiple or a divisor of tp 4"));
  EXPECT_EQ(plan(Phase::decode, {.tensor = 4, .data = 3, .expert = 12}), "(accepted)");
  EXPECT_THAT(plan(Phase::decode, {.zero = 4}), HasSubstr("expected 0, 1, 2 or 3"));
  EXPECT_THAT(plan(Phase::decode, {.zero = 1}), HasSubstr("with phase train"));
  EXPECT_EQ(plan(Phase::train, {.zero = 1}), "(accepted)");
  const auto train = [](const Training& t, ParallelPlan p = {}) {
    return refusal(Phase::train, [&](Workload& w) {
      w.training = t;
      w.parallel = p;
    });
  };
  EXPECT_THAT(train({.micro_batch = 2}), HasSubstr("at most the 1 sequences of a replica"));
  EXPECT_THAT(train({.micro_batch = 1}, {.micro_batches = 1}), HasSubstr("without micro-batch"));
  EXPECT_THAT(train({.chunks = 0}), HasSubstr("vp: expected"));
  EXPECT_EQ(plan(Phase::train, {.micro_batches = 1}), "(accepted)") << "gradients are added up without a pipeline too";
  EXPECT_THAT(plan(Phase::decode, {.sequence = true}), StartsWith("sp: expected tp of at least 2"));
  EXPECT_THAT(plan(Phase::decode, {.attention_data = true}), StartsWith("attention-dp: expected tp"));
  EXPECT_THAT(plan(Phase::decode, {.tensor = 2, .sequence = true, .attention_data = true}), StartsWith("sp: "));
  EXPECT_THAT(plan(Phase::decode, {.micro_batches = 2}), StartsWith("micro-batches: expected pp"));
  EXPECT_THAT(plan(Phase::decode, {.pipeline = 2, .micro_batches = 2}), HasSubstr("at most the 1 sequences"));
  EXPECT_THAT(refusal(Phase::decode, [](Workload& w) { w.expert_load.power = 11; }), HasSubstr("power from 0 to 10"));
}

TEST(Workload, RanksAreTheProductOfTheDegreesThatSplitWork) {
  EXPECT_EQ((ParallelPlan{2, 3, 5, 4, 7, 0}.ranks()), 2 * 3 * 5 * 7) << "experts are split within the others";
}

}  // namespace
}  // namespace plumbline::workload_test

// What is asked of a model: sizes that are refused, each by its name.
#include "ops/graph/workload.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "arch/error.hpp"

namespace plumbline {
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

TEST(Workload, OneGpuIsModelledAndMoreAreNot) {
  EXPECT_EQ(refusal(Phase::decode, [](Workload& w) { w.parallel.pipeline = 2; }),
            "pp 2: several GPUs are not modelled yet");
  EXPECT_EQ(refusal(Phase::decode, [](Workload& w) { w.parallel.tensor = 2; }), "(accepted)") << "whole steps on cards";
  EXPECT_EQ(refusal(Phase::decode, [](Workload& w) { w.parallel.context = 2; }),
            "cp 2: several GPUs are not modelled yet");
  EXPECT_THAT(refusal(Phase::decode, [](Workload& w) { w.parallel.data = 0; }), StartsWith("dp: "));
  EXPECT_THAT(refusal(Phase::train, [](Workload& w) { w.parallel.zero = 4; }), HasSubstr("expected 0, 1, 2 or 3"));
  EXPECT_THAT(refusal(Phase::train, [](Workload& w) { w.parallel.zero = 1; }), HasSubstr("not modelled yet"));
}

TEST(Workload, RanksAreTheProductOfTheDegreesThatSplitWork) {
  EXPECT_EQ((ParallelPlan{2, 3, 5, 4, 7, 0}.ranks()), 2 * 3 * 5 * 7) << "experts are split within the others";
}

}  // namespace
}  // namespace plumbline

#include "validate/diff/recording_diff.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/hand_made_recording.hpp"
#include "tests/support/places.hpp"
#include "tests/support/run_program.hpp"

namespace plumbline::recording_diff_test {
namespace {

using ::testing::HasSubstr;
using namespace testing_support;
using Words = std::vector<std::string>;

const std::string kRecordings = tests_folder() + "/../data/measurements/h200/";

TEST(RecordingDiff, ARecordingAndItself) {
  const Recording run = hand_made_recording();
  const RecordingDifference d = difference_of(run, run, {});
  std::size_t timed = 0;
  for (const Measurement& c : run.cases) timed += c.fault.empty() ? 1 : 0;
  EXPECT_EQ(d.pairs.size(), timed);
  EXPECT_EQ(d.only_before + d.only_after, 0);
  for (const RecordedPair& pair : d.pairs) {
    EXPECT_EQ(pair.time_ratio(), 1);
    EXPECT_FALSE(pair.other_limiter());
    EXPECT_FALSE(pair.before.limiter.empty()) << pair.name;
  }
  for (const GroupDifference& g : groups_of(d)) EXPECT_EQ(g.quicker + g.slower, 0);
}

/// By hand: one case quicker by a fifth and a third of its energy gone, one slower, one that a side alone has.
TEST(RecordingDiff, WhatIsWonAndLost) {
  Recording first = hand_made_recording();
  const auto case_of = [](Recording& r, const char* op) -> Measurement& {
    return *std::find_if(r.cases.begin(), r.cases.end(),
                         [&](const Measurement& c) { return op_name(c.what.op) == op; });
  };
  case_of(first, "rmsnorm").energy = 3.0 * units::J;
  Recording second = first;
  second.session.gpu = "h100_sxm";
  Measurement& norm = case_of(second, "rmsnorm");
  norm.time = 0.8 * norm.time;
  norm.energy = 2.0 * units::J;
  Measurement& copy = case_of(second, "copy");
  const std::string moved = "own copy " + std::string(dtype_text(copy.what.op)) + ", cold burst";
  copy.time = 1.5 * copy.time;
  second.cases.erase(second.cases.begin());
  const RecordingDifference d = difference_of(first, second, {});
  EXPECT_EQ(d.only_before, 1);
  EXPECT_EQ(d.only_after, 0);
  const RecordingDifference turned = difference_of(second, first, {});
  EXPECT_EQ(turned.only_after, 1);
  ASSERT_EQ(turned.pairs.size(), d.pairs.size());
  for (std::size_t i = 0; i < d.pairs.size(); ++i) {
    EXPECT_NEAR(d.pairs[i].won() + turned.pairs[i].won() == Seconds{} ? 0 : 1, 0, 0);
  }
  const std::vector<GroupDifference> groups = groups_of(d);
  double sum = 0;
  for (const GroupDifference& g : groups) {
    const bool norms = g.group.find(" rmsnorm ") != std::string::npos, copies = g.group == moved;
    EXPECT_EQ(g.quicker, norms ? 1 : 0) << g.group;
    EXPECT_EQ(g.slower, copies ? 1 : 0) << g.group;
    if (norms) {
      EXPECT_NEAR(g.after / g.before, 0.8, 1e-12);
      EXPECT_NEAR(*g.energy_after / *g.energy_before, 2.0 / 3, 1e-12);
    }
    sum += (g.before - g.after).in(units::s);
  }
  double pairs = 0;
  for (const RecordedPair& pair : d.pairs) pairs += pair.won().in(units::s);
  EXPECT_NEAR(sum, pairs, 1e-12);
  EXPECT_THAT(difference_table(d, 1), HasSubstr("-20.0 %"));
  EXPECT_THAT(difference_of(first, second, {"rmsnorm"}).pairs, ::testing::SizeIs(1));
}

/// What an H200 reads from memory keeps the tensor cores of a card with a seventh of its rate busy: the table says so.
TEST(RecordingDiff, LimitersAreEachCardsOwn) {
  Recording first;
  first.session = hand_made_session();
  first.cases = {measured_case(study_case("gemm", "bf16", "M=128;N=8192;K=8192"), 60)};
  Recording second = first;
  second.session.gpu = "h20";
  first.cases[0].plan = second.cases[0].plan = "";
  const RecordingDifference d = difference_of(first, second, {});
  ASSERT_EQ(d.pairs.size(), 1U);
  EXPECT_EQ(d.pairs[0].before.limiter, "dram");
  EXPECT_EQ(d.pairs[0].after.limiter, "tensor");
  EXPECT_TRUE(d.pairs[0].other_limiter());
  EXPECT_THAT(difference_table(d, 5), HasSubstr("dram -> tensor"));
  EXPECT_EQ(groups_of(d).front().other_limiters, 1);
  second.session.gpu = "";  // a card that nobody knows has times all the same
  EXPECT_EQ(difference_of(first, second, {}).pairs[0].after.limiter, "");
}

TEST(RecordingDiff, OfStepsHasTheirOperators) {
  const auto run = [](const Words& words) { return test::run_program("validate", words); };
  const auto found =
      run({"diff", kRecordings + "steps.json", kRecordings + "steps.second_card.json", "--format", "json"});
  ASSERT_EQ(found.code, 0) << found.err;
  const auto pairs = nlohmann::json::parse(found.out).at("pairs");
  long whole = 0, limited = 0;
  for (const auto& pair : pairs) {
    const double first = pair.at("first_s"), second = pair.at("second_s");
    EXPECT_NEAR(pair.at("won_s").get<double>(), first - second, 1e-12);
    EXPECT_NEAR(second / first, 1, 0.2) << pair.dump();
    if (pair.at("name") == "") ++whole;
    else if (pair.at("first_limiter") != "") ++limited;
  }
  EXPECT_GT(whole, 3);
  EXPECT_GT(limited, 3 * whole);
}

TEST(RecordingDiff, RefusesWhatHasNothingInCommon) {
  const auto run = [](const Words& words) { return test::run_program("validate", words); };
  const auto kinds = run({"diff", kRecordings + "steps.json", kRecordings + "repeat.json"});
  EXPECT_EQ(kinds.code, 2);
  EXPECT_THAT(kinds.err, HasSubstr("expected a recording of steps"));
  const auto none = run({"diff", kRecordings + "repeat.json", kRecordings + "power.json", "--ops", "dropout"});
  EXPECT_EQ(none.code, 2) << none.out;
  const auto gate =
      run({"diff", kRecordings + "full.json", kRecordings + "repeat.json", "--ops", "gemm", "--fail-over", "50"});
  EXPECT_EQ(gate.code, 0) << gate.err;
  const auto strict =
      run({"diff", kRecordings + "full.json", kRecordings + "repeat.json", "--ops", "gemm", "--fail-over", "0"});
  EXPECT_EQ(strict.code, 1) << strict.err;
}

}  // namespace
}  // namespace plumbline::recording_diff_test

#include "validate/compare/report_repeat.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/hand_made_recording.hpp"

namespace plumbline::report_repeat_test {
namespace {

using ::testing::HasSubstr;
using namespace testing_support;

TEST(CompareRuns, ARunAgreesWithItself) {
  const Recording run = hand_made_recording();
  const auto classes = compare_runs(run, run);
  ASSERT_EQ(classes.size(), 9U);  // the library's beside our own; the fault has no time
  for (const RepeatClass& r : classes) {
    EXPECT_EQ(r.median_ln, 0.0);
    EXPECT_EQ(r.worst_ln, 0.0);
  }
  EXPECT_THAT(repeat_table(classes, 0.02), HasSubstr("9 of 9 classes moved by at most 2.0 %"));
}

TEST(CompareRuns, SaysWhichClassMoved) {
  const Recording first = hand_made_recording();
  Recording second = first;
  second.cases[6].time = 1.05 * first.cases[6].time;  // rmsnorm
  second.cases.erase(second.cases.begin());           // and a case that is only in one
  const auto classes = compare_runs(first, second);
  EXPECT_EQ(classes.size(), 8U);
  for (const RepeatClass& r : classes) EXPECT_NEAR(r.median_ln, r.op == "rmsnorm" ? std::log(1.05) : 0.0, 1e-12);
  EXPECT_THAT(repeat_table(classes, 0.02), HasSubstr("7 of 8 classes"));
}

/// The worst case of a class is the one that moved most, faster or slower.
TEST(CompareRuns, TheWorstMayHaveBecomeFaster) {
  Recording first = hand_made_recording();
  Measurement another = first.cases[6];
  another.what.shape = "rows=8;cols=8";
  another.what.op = Rowwise{RowwiseKind::rmsnorm, 8, 8};
  first.cases.push_back(another);
  Recording second = first;
  second.cases[6].time = 0.9 * first.cases[6].time;
  second.cases.back().time = 1.05 * another.time;
  for (const RepeatClass& r : compare_runs(first, second)) {
    if (r.op != "rmsnorm") continue;
    EXPECT_EQ(r.count, 2);
    EXPECT_NEAR(r.worst_ln, std::log(0.9), 1e-12);
    EXPECT_EQ(r.worst_shape, first.cases[6].what.shape);
  }
}

TEST(CompareRuns, SwappedRunsMoveTheOtherWay) {
  const Recording first = hand_made_recording();
  Recording second = first;
  for (Measurement& c : second.cases) c.time = 1.01 * c.time;
  const auto there = compare_runs(first, second), back = compare_runs(second, first);
  ASSERT_EQ(there.size(), back.size());
  for (std::size_t i = 0; i < there.size(); ++i) EXPECT_NEAR(there[i].median_ln, -back[i].median_ln, 1e-12);
}

}  // namespace
}  // namespace plumbline::report_repeat_test

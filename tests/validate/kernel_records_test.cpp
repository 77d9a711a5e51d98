// Faked profiler records: what becomes of good ones, and that bad ones are never turned into a time.
#include "validate/record/kernel_records.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "validate/measure/cupti_refusal.hpp"

namespace plumbline::kernel_records_test {
namespace {

using ::testing::DoubleEq;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

KernelRecord kernel(const char* name, std::uint64_t start, std::uint64_t end) {
  KernelRecord r;
  r.name = name;
  r.start_ns = start;
  r.end_ns = end;
  r.graph = 7;
  return r;
}

/// `count` executions of two kernels, 100 ns and 20 + i ns long with a gap of 5, one execution each 1000 ns.
std::vector<KernelRecord> pairs(std::uint64_t count) {
  std::vector<KernelRecord> out;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t t = 1000 * (i + 1);
    out.push_back(kernel("gemm", t, t + 100));
    out.push_back(kernel("reduce", t + 105, t + 125 + i));
  }
  return out;
}

TEST(ExecutionTimes, SpanFromTheFirstStartToTheLastEnd) {
  const ExecutionTimes t = execution_times(pairs(3), {3, 2, 0});
  EXPECT_EQ(t.fault, "");
  EXPECT_THAT(t.seconds, ElementsAre(DoubleEq(125e-9), DoubleEq(126e-9), DoubleEq(127e-9)));
  EXPECT_THAT(t.starts_ns, ElementsAre(1000, 2000, 3000));
  EXPECT_DOUBLE_EQ(t.period_seconds, 1000e-9);
  ASSERT_THAT(t.launches, SizeIs(2));
  EXPECT_EQ(t.launches[0].kernel, "gemm");
  EXPECT_NEAR(t.launches[0].time.in(units::ns), 100, 1e-6);
  EXPECT_EQ(t.launches[1].kernel, "reduce");
  EXPECT_NEAR(t.launches[1].time.in(units::ns), 21, 1e-6);  // the median of 20, 21, 22
}

TEST(ExecutionTimes, WarmUpsDoNotCount) {
  const ExecutionTimes t = execution_times(pairs(5), {5, 2, 3});
  EXPECT_THAT(t.starts_ns, ElementsAre(4000, 5000));
  EXPECT_NEAR(t.launches[1].time.in(units::ns), 23.5, 1e-6);
}

TEST(ExecutionTimes, TheOrderInWhichRecordsArriveDoesNotMatter) {
  std::vector<KernelRecord> records = pairs(20);
  const ExecutionTimes sorted = execution_times(records, {20, 2, 3});
  std::shuffle(records.begin(), records.end(), std::minstd_rand(5));
  const ExecutionTimes shuffled = execution_times(records, {20, 2, 3});
  EXPECT_EQ(shuffled.fault, "");
  EXPECT_EQ(shuffled.seconds, sorted.seconds);
}

TEST(ExecutionTimes, OverlappingKernelsOfOneExecutionEndWithTheLast) {
  // the first kernel outlives the second one (programmatic dependent launch)
  const ExecutionTimes t = execution_times({kernel("a", 10, 100), kernel("b", 50, 90)}, {1, 2, 0});
  EXPECT_THAT(t.seconds, ElementsAre(DoubleNear(90e-9, 1e-15)));
}

TEST(ExecutionTimes, AMissingRecordIsAFault) {
  std::vector<KernelRecord> records = pairs(4);
  records.pop_back();
  const ExecutionTimes t = execution_times(records, {4, 2, 1});
  EXPECT_EQ(t.fault, "expected 8 kernel records (4 executions of 2), found 7");
  EXPECT_THAT(t.seconds, SizeIs(0));
}

TEST(ExecutionTimes, ASurplusRecordIsAFault) {
  std::vector<KernelRecord> records = pairs(4);
  records.push_back(kernel("gemm", 9000, 9001));
  EXPECT_THAT(execution_times(records, {4, 2, 1}).fault, HasSubstr("found 9"));
}

TEST(ExecutionTimes, ARecordWithoutTimestampsIsAFault) {
  std::vector<KernelRecord> records = pairs(4);
  records[3].start_ns = records[3].end_ns = 0;
  EXPECT_EQ(execution_times(records, {4, 2, 1}).fault, "1 kernel records without timestamps");
}

TEST(ExecutionTimes, ARecordThatEndsBeforeItStartsIsAFault) {
  std::vector<KernelRecord> records = pairs(4);
  std::swap(records[2].start_ns, records[2].end_ns);
  EXPECT_EQ(execution_times(records, {4, 2, 1}).fault, "1 kernel records that end before they start");
}

TEST(ExecutionTimes, AKernelOutOfItsPlaceIsAFault) {
  std::vector<KernelRecord> records = pairs(4);
  records[4].name = "sweep";
  EXPECT_EQ(execution_times(records, {4, 2, 1}).fault, "kernel record 4 is sweep, expected gemm");
}

TEST(ExecutionTimes, NothingLaunchedOrNothingCountedIsAFault) {
  EXPECT_EQ(execution_times({}, {3, 0, 0}).fault, "the operator launched no kernel");
  EXPECT_EQ(execution_times(pairs(2), {2, 2, 2}).fault, "no execution counts");
}

TEST(ExecutionTimes, OnlyThoseOfTheWindowAreKept) {
  ExecutionTimes t = execution_times(pairs(10), {10, 2, 0});
  keep_between(t, 3000, 5999);
  EXPECT_THAT(t.starts_ns, ElementsAre(3000, 4000, 5000));
  EXPECT_THAT(t.seconds, SizeIs(3));
  keep_between(t, 20000, 30000);
  EXPECT_EQ(t.fault, "no execution started within the timed window");
}

TEST(SetTimes, GivesMedianSpreadCountAndKernels) {
  Measurement out;
  set_times(execution_times(pairs(11), {11, 2, 0}), out);
  EXPECT_NEAR(out.time.in(units::ns), 130, 1e-6);
  EXPECT_NEAR(out.low.in(units::ns), 126, 1e-6);
  EXPECT_NEAR(out.high.in(units::ns), 134, 1e-6);
  EXPECT_EQ(out.samples, 11);
  EXPECT_EQ(out.kernel, "gemm + reduce");
  EXPECT_EQ(out.fault, "");
}

TEST(SetTimes, AFaultLeavesNoTime) {
  Measurement out;
  set_times(execution_times(pairs(2), {3, 2, 0}), out);
  EXPECT_NE(out.fault, "");
  EXPECT_EQ(out.time, Seconds());
  EXPECT_EQ(out.samples, 0);
}

TEST(KernelName, IsReadableAndHasNoArguments) {
  EXPECT_EQ(kernel_name("_ZN9plumbline6device5emptyEv"), "device::empty");
  EXPECT_EQ(kernel_name("_ZN9plumbline12_GLOBAL__N_18sweep_l2EPK5uint4PS1_m"), "sweep_l2");
  EXPECT_EQ(kernel_name("_Z4tileILi128ELb1EEvPKfm"), "tile<128, true>");
  // parentheses among the template arguments, and a function as an argument
  EXPECT_EQ(kernel_name("_Z3runIL4Kind3EEvPFvvE"), "run<(Kind)3>");
  EXPECT_EQ(kernel_name("nvjet_tst_128x256"), "nvjet_tst_128x256");
  EXPECT_EQ(kernel_name(""), "");
}

TEST(CuptiRefusal, SaysWhatToDoInOneLine) {
  EXPECT_EQ(cupti_refusal(39, "cuptiActivityEnable", "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"),
            "cannot trace kernels: cuptiActivityEnable: CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED (39): another "
            "profiler is attached; end it first");
  for (const int code : {33, 35, 40, 41, 43, 45, 999, 7}) {
    const std::string text = cupti_refusal(code, "call", "NAME");
    EXPECT_THAT(text, HasSubstr("NAME (" + std::to_string(code) + "): "));
    EXPECT_EQ(text.find('\n'), std::string::npos);
  }
  EXPECT_THAT(cupti_refusal(35, "c", "N"), HasSubstr("administrators"));
  EXPECT_THAT(cupti_refusal(43, "c", "N"), HasSubstr("MIG"));
}

}  // namespace
}  // namespace plumbline::kernel_records_test

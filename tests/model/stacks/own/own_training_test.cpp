// Training's kernels of ours: launches as they were recorded on an H200, counts by hand, and laws.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <string>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "model/predict.hpp"
#include "model/stacks/own/plan_rows.hpp"
#include "model/stacks/own/row_kernels.hpp"
#include "ops/csv.hpp"
#include "ops/table/text.hpp"
#include "tests/support/own_h200.hpp"

namespace plumbline::own_training_test {
namespace {

using namespace testing_support;

/// CTAs and threads behind "ctas=4x128 threads=256".
std::pair<std::int64_t, std::int64_t> launched(const std::string& kernel) {
  std::int64_t x = 0, y = 0, threads = 0;
  const char* at = kernel.c_str() + kernel.find("ctas=");
  if (std::sscanf(at, "ctas=%ldx%ld threads=%ld", &x, &y, &threads) != 3) return {};
  return {x * y, threads};
}

/// What is priced is what was launched, to the CTA: 202 recorded launches (zeros are another provider's).
TEST(OwnTraining, PlansAreTheRecordedLaunches) {
  int seen = 0;
  for (const char* side : {"train", "heldout"}) {
    const std::string place = data_folder() + "/measurements/own/h200_sxm/training." + side + ".csv";
    const std::string text = read_text_file(place);
    CsvReader reader(text, place);
    const CsvHeader header(reader);
    const std::size_t op_at = header.require("op"), type = header.require("dtype"), shape = header.require("shape"),
                      kernel = header.require("kernel");
    while (reader.next()) {
      const auto fields = reader.fields();
      if (fields[op_at] == "custom") continue;
      const Op op = parse_op(fields[op_at], fields[type], fields[shape]);
      const KernelPlan plan = row_kernel_of(op).plan;
      const auto [ctas, threads] = launched(std::string(fields[kernel]));
      EXPECT_EQ(plan.ctas, ctas) << fields[op_at] << ' ' << fields[shape];
      EXPECT_EQ(plan.threads, threads) << fields[op_at] << ' ' << fields[shape];
      ++seen;
    }
  }
  EXPECT_EQ(seen, 202);
}

/// 8192 rows of 2048 columns: 256 vectors are two for each of 128 threads, so that a CTA has four rows at a time and 132
/// CTAs go through 8192 / 528 of them. rmsnorm's rows of 1024 columns lie two CTAs an SM, layernorm's one.
TEST(OwnTraining, NormsStayAndTakeRowsInTurn) {
  const RowKernel k = row_kernel_of(Rowwise{RowwiseKind::rmsnorm_backward, 8192, 2048});
  EXPECT_EQ(k.plan.ctas, 132);
  EXPECT_DOUBLE_EQ(k.stay_turns, 8192.0 / 528);
  EXPECT_DOUBLE_EQ(k.end_adds, 132.0 * 2048);
  EXPECT_EQ(row_kernel_of(Rowwise{RowwiseKind::rmsnorm_backward, 8192, 1024}).plan.ctas_per_sm, 2);
  const RowKernel layer = row_kernel_of(Rowwise{RowwiseKind::layernorm_backward, 8192, 1024});
  EXPECT_EQ(layer.plan.ctas_per_sm, 1);
  EXPECT_DOUBLE_EQ(layer.end_adds, 2 * 132.0 * 1024) << "of gamma and of beta";
}

/// Four vectors a thread: nothing is fetched ahead, and layernorm's registers spill.
TEST(OwnTraining, WideRowsFetchNothingAhead) {
  const RowKernel wide = row_kernel_of(Rowwise{RowwiseKind::layernorm_backward, 4096, 12288});
  EXPECT_GT(wide.turn_loads, 1);
  EXPECT_GT(wide.spilled, 0);
  EXPECT_EQ(row_kernel_of(Rowwise{RowwiseKind::layernorm_backward, 4096, 8192}).spilled, 0);
}

/// 1056 CTAs are asked for, eight an SM, of which registers leave room for five: a second wave.
TEST(OwnTraining, SumsOfColumnsTakeTwoWaves) {
  const RowKernel k = row_kernel_of(Rowwise{RowwiseKind::sum_columns, 65536, 1024});
  EXPECT_EQ(k.plan.ctas, 4 * 264);
  EXPECT_EQ(k.plan.ctas_per_sm, 5);
  EXPECT_DOUBLE_EQ(k.rounds, 2);
}

/// The fused loss is the two kernels and the sum of their losses, and takes what they take.
TEST(OwnTraining, TheFusedLossIsItsKernels) {
  const Rowwise fused{RowwiseKind::cross_entropy_fused, 8192, 128256};
  const OpPrediction all = predict(Op(fused), own_h200());
  EXPECT_EQ(all.launch_count, 3);
  Seconds parts = predict(Op(Scan{ScanKind::sum_all, 8192}), own_h200()).time;
  for (const RowwiseKind kind : {RowwiseKind::cross_entropy, RowwiseKind::cross_entropy_backward}) {
    parts += predict(Op(Rowwise{kind, 8192, 128256}), own_h200()).time;
  }
  EXPECT_NEAR(all.time / parts, 1, 1e-9);
}

/// Rows that meet are fetched once; each addition takes L2's time all the same.
TEST(OwnTraining, AdditionsTakeL2sTimeHoweverFewRowsTheyMeetIn) {
  const Op apart = EmbeddingBackward{16384, 2048, 0}, met = EmbeddingBackward{16384, 2048, 100};
  const OpPrediction spread = predict(apart, own_h200()), few = predict(met, own_h200());
  EXPECT_LT(few.time, spread.time);
  EXPECT_GT(few.time, 0.5 * spread.time);
  EXPECT_LT(few.dram_write, 0.01 * spread.dram_write);
}

/// An L2 with nothing to write back saves what a launch leaves in it, and no more.
TEST(OwnTraining, AnL2ThatWasReadThroughSavesWhatIsLeftInIt) {
  for (const Op& op : {Op(Rowwise{RowwiseKind::gelu_backward, 8192, 8192}), Op(EmbeddingBackward{8192, 2048, 128256}),
                       Op(Rowwise{RowwiseKind::rmsnorm_backward, 8192, 4096})}) {
    const OpPrediction between = predict(op, own_h200()), alone = predict(op, own_h200(), {.read_through = true});
    EXPECT_LT(alone.time, between.time) << op_name(op);
    EXPECT_LE(between.dram_write - alone.dram_write, own_h200().rates().l2_capacity) << op_name(op);
    EXPECT_EQ(between.dram_read, alone.dram_read) << op_name(op);
  }
  const Op reads = Rowwise{RowwiseKind::cross_entropy_backward, 1, 8};
  EXPECT_GE(predict(reads, own_h200(), {.read_through = true}).dram_write, Bytes{});
}

/// More rows are never faster, but for terms below 1e-4 that the engine's p-norm leaves out (timing.cpp).
RC_GTEST_PROP(OwnTraining, TwiceTheRowsAreNeverFaster, ()) {
  const auto kind =
      *rc::gen::element(RowwiseKind::rmsnorm_backward, RowwiseKind::layernorm_backward, RowwiseKind::sum_columns,
                        RowwiseKind::cross_entropy, RowwiseKind::swiglu_backward, RowwiseKind::cross_entropy_backward,
                        RowwiseKind::gelu_backward);
  const auto rows = *rc::gen::inRange<std::int64_t>(1, 40000);
  const auto cols = *rc::gen::inRange<std::int64_t>(1, 16384);
  const Seconds once = predict(Op(Rowwise{kind, rows, cols}), own_h200()).time,
                twice = predict(Op(Rowwise{kind, 2 * rows, cols}), own_h200()).time;
  RC_ASSERT(twice >= once * (1 - 2e-4));
}

}  // namespace
}  // namespace plumbline::own_training_test

// The planner of our own row-wise kernels on the H200: the launcher's cut, and laws that hold whatever the scalars.
#include "model/stacks/own/plan_rows.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "arch/gpu/gpu.hpp"
#include "model/engine/timing.hpp"
#include "model/predict.hpp"
#include "model/stacks/own/row_kernels.hpp"
#include "ops/plan/row_menu.hpp"
#include "tests/support/planners.hpp"

namespace plumbline::plan_rows_test {
namespace {

using namespace testing_support;

const Machine& h200() {
  static const Machine machine = make_machine(load_gpu("h200_sxm"), MachineOptions{"own"});
  return machine;
}

Seconds time_of(const Op& op, bool warm = false) {
  return price(plan_own_rows(op, work(op), h200().rates(), scalars_of(h200(), "own.rowwise"),
                             warm ? L2State::operands : L2State::others),
               h200().rates(), scalars_of(h200(), "own.rowwise"))
      .total;
}

constexpr std::int64_t kSms = 132;  // an H200's

TEST(PlanRows, TheH200HasOurs) { EXPECT_TRUE(runs_own_rows(h200().rates())); }

/// 8192 columns are 1024 vectors: few rows take 512 threads x 2, many rows of softmax 256 x 4.
TEST(PlanRows, FewRowsAreHeldByMoreThreads) {
  const RowChoice few = choose_row_tile({RowwiseKind::softmax, 100, 8192}, kSms),
                  many = choose_row_tile({RowwiseKind::softmax, 10000, 8192}, kSms);
  EXPECT_EQ(few.menu, RowMenu::few);
  EXPECT_EQ(few.tile().threads, 512);
  EXPECT_EQ(many.menu, RowMenu::softmax);
  EXPECT_EQ(many.tile().threads, 256);
}

/// What counts as few goes with the SMs: 4 CTAs an SM, of which a GPU of half the size has half.
TEST(PlanRows, FewRowsAreFewForTheGpu) {
  for (const std::int64_t sms : {66, 132, 264}) {
    EXPECT_EQ(choose_row_tile({RowwiseKind::softmax, 4 * sms, 8192}, sms).menu, RowMenu::few) << sms;
    EXPECT_EQ(choose_row_tile({RowwiseKind::softmax, 4 * sms + 1, 8192}, sms).menu, RowMenu::softmax) << sms;
    EXPECT_FALSE(choose_row_tile({RowwiseKind::argmax, sms - 1, 262208}, sms).tile().walks) << sms;
    EXPECT_TRUE(choose_row_tile({RowwiseKind::argmax, sms, 262208}, sms).tile().walks) << sms;
  }
}

/// CTAs of sum_all queue at one counter: a grid that grew with the SMs made more SMs slower (4.66 to 4.87 us from 86 to 172).
TEST(PlanRows, AGridThatQueuesAtOneCounterDoesNotGrowWithTheSms) {
  const Op sum = Scan{ScanKind::sum_all, 3102609};
  Seconds before = 1.0 * units::s;
  for (const std::int64_t sms : {20, 66, 86, 132, 172, 264}) {
    GpuNumbers gpu = h200().rates().gpu;
    gpu.sm_count = sms;
    EXPECT_EQ(row_kernel(sum, work(sum), *h200().rates().counts, gpu).plan.ctas, 528);
    const Seconds time = predict(sum, h200().with(gpu)).time;
    EXPECT_LE(time, before) << sms;
    before = time;
  }
}

/// 256000 columns: eight CTAs of 512 threads x 8 vectors hold 262144.
TEST(PlanRows, WideRowsTakeClusters) {
  const Op op = Rowwise{RowwiseKind::softmax, 129, 256000};
  const Demand d = plan_own_rows(op, work(op), h200().rates(), scalars_of(h200(), "own.rowwise"), L2State::others);
  EXPECT_EQ(d.plan.cluster, 8);
  EXPECT_EQ(d.plan.ctas, 129 * 8);
}

RC_GTEST_PROP(PlanRows, TheChosenWayHoldsTheRow, ()) {
  const auto cols = *rc::gen::inRange<std::int64_t>(1, 500000);
  const auto rows = *rc::gen::inRange<std::int64_t>(1, 100000);
  const auto kind =
      *rc::gen::element(RowwiseKind::softmax, RowwiseKind::argmax, RowwiseKind::rmsnorm, RowwiseKind::quantize);
  const RowChoice way = choose_row_tile({kind, rows, cols}, kSms);
  RC_ASSERT(way.choice.entry >= 0);
  RC_ASSERT(way.tile().walks || kRowVector * way.tile().threads * way.tile().vecs * way.choice.cluster >= cols);
}

/// A reduction of many rows that no CTA holds walks them, a CTA each; of few rows each is spread over a cluster.
TEST(PlanRows, ReductionsOfWideRowsWalk) {
  const RowChoice many = choose_row_tile({RowwiseKind::argmax, 4096, 262208}, kSms),
                  few = choose_row_tile({RowwiseKind::argmax, 100, 262208}, kSms);
  EXPECT_TRUE(many.tile().walks);
  EXPECT_EQ(many.choice.cluster, 1);
  EXPECT_FALSE(few.tile().walks);
  EXPECT_EQ(few.choice.cluster, 8);
  EXPECT_FALSE(choose_row_tile({RowwiseKind::softmax, 4096, 262208}, kSms).tile().walks);
}

/// Backward, 8192 columns: 256 lanes, of which 528 groups are on the card; 6400 rows are three turns of four groups.
TEST(PlanRows, BackwardTakesSeveralRowsWhereItPrefetches) {
  const Rowwise wide{RowwiseKind::scale_mask_softmax_dropout_backward, 6400, 8192};
  EXPECT_EQ(row_kernel(Op(wide), work(wide), *h200().rates().counts, h200().rates().gpu).turns, 3);
  EXPECT_EQ(row_kernel(Op(wide), work(wide), *h200().rates().counts, h200().rates().gpu).plan.ctas, 2134);
  const Rowwise narrow{RowwiseKind::scale_mask_softmax_dropout_backward, 6400, 1024};
  EXPECT_EQ(row_kernel(Op(narrow), work(narrow), *h200().rates().counts, h200().rates().gpu).turns, 1);
}

RC_GTEST_PROP(PlanRows, NeverFasterThanDramAndWarmNeverSlower, ()) {
  const auto cols = *rc::gen::inRange<std::int64_t>(1, 300000);
  const auto rows = *rc::gen::inRange<std::int64_t>(1, 5000);
  const auto kind =
      *rc::gen::element(RowwiseKind::copy, RowwiseKind::softmax, RowwiseKind::argmax, RowwiseKind::layernorm,
                        RowwiseKind::transpose_copy, RowwiseKind::scale_mask_softmax_dropout);
  const Op op = Rowwise{kind, rows, cols};
  const Work w = work(op);
  RC_ASSERT(time_of(op) >= dram_time(w.read, w.write, h200().rates()));
  RC_ASSERT(time_of(op, true) <= time_of(op));
}

/// Of the selections only the softmax over 1024 threads spills: 439 MB that 8000 CTAs write to DRAM beside their results
/// (ncu, data/kernels/profiled_h200.train.csv).
TEST(PlanRows, ASpillingSelectionWritesToDram) {
  const auto written = [](const Op& op) {
    const Bytes spilled =
        predict(op, make_machine(load_gpu("h200_sxm"), MachineOptions{"own"})).dram_write - work(op).write;
    return spilled.in(units::MB);
  };
  EXPECT_NEAR(written(SoftmaxTopK{1000, 262208, 64}), 439, 5);
  EXPECT_EQ(written(SoftmaxTopK{1000, 256000, 64}), 0);
  EXPECT_EQ(written(TopK{1000, 262208, 64}), 0);
}

}  // namespace
}  // namespace plumbline::plan_rows_test

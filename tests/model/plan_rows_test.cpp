// The planner of our own row-wise kernels on the H200: the launcher's cut, and laws that hold whatever the scalars.
#include "model/plan_rows.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "arch/gpu.hpp"
#include "model/timing.hpp"
#include "ops/row_menu.hpp"

namespace plumbline {
namespace {

const Machine& h200() {
  static const std::shared_ptr<const Machine> machine = make_machine(load_gpu("h200_sxm"), {});
  return *machine;
}

Seconds time_of(const Op& op, bool warm = false) {
  return price(plan_own_rows(op, work(op), h200(), warm), h200(), h200().rowwise).total;
}

TEST(PlanRows, TheH200HasOurs) { EXPECT_TRUE(has_own_rows(h200())); }

/// 8192 columns are 1024 vectors: few rows take 512 threads x 2, many rows of softmax 256 x 4.
TEST(PlanRows, FewRowsAreHeldByMoreThreads) {
  const RowWay few = row_way({RowwiseKind::softmax, 100, 8192}), many = row_way({RowwiseKind::softmax, 10000, 8192});
  EXPECT_EQ(few.menu, RowMenu::few);
  EXPECT_EQ(few.holding().threads, 512);
  EXPECT_EQ(many.menu, RowMenu::softmax);
  EXPECT_EQ(many.holding().threads, 256);
}

/// 256000 columns: eight CTAs of 512 threads x 8 vectors hold 262144.
TEST(PlanRows, WideRowsTakeClusters) {
  const Op op = Rowwise{RowwiseKind::softmax, 129, 256000};
  const Demand d = plan_own_rows(op, work(op), h200(), false);
  EXPECT_EQ(d.plan.cluster, 8);
  EXPECT_EQ(d.plan.ctas, 129 * 8);
}

RC_GTEST_PROP(PlanRows, TheChosenWayHoldsTheRow, ()) {
  const auto cols = *rc::gen::inRange<std::int64_t>(1, 500000);
  const auto rows = *rc::gen::inRange<std::int64_t>(1, 100000);
  const auto kind =
      *rc::gen::element(RowwiseKind::softmax, RowwiseKind::argmax, RowwiseKind::rmsnorm, RowwiseKind::quantize);
  const RowWay way = row_way({kind, rows, cols});
  RC_ASSERT(way.choice.entry >= 0);
  RC_ASSERT(kRowVector * way.holding().threads * way.holding().vecs * way.choice.cluster >= cols);
}

RC_GTEST_PROP(PlanRows, NeverFasterThanDramAndWarmNeverSlower, ()) {
  const auto cols = *rc::gen::inRange<std::int64_t>(1, 300000);
  const auto rows = *rc::gen::inRange<std::int64_t>(1, 5000);
  const auto kind =
      *rc::gen::element(RowwiseKind::copy, RowwiseKind::softmax, RowwiseKind::argmax, RowwiseKind::layernorm,
                        RowwiseKind::transpose_copy, RowwiseKind::scale_mask_softmax_dropout);
  const Op op = Rowwise{kind, rows, cols};
  const Work w = work(op);
  RC_ASSERT(time_of(op) >= dram_time(w.read, w.write, h200()));
  RC_ASSERT(time_of(op, true) <= time_of(op));
}

}  // namespace
}  // namespace plumbline

// The search of the GEMM planners: pruning by the engine's lower bound loses nothing.
#include "model/stacks/common/gemm_search.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/random_gpu.hpp"

#include "tests/support/planners.hpp"

namespace plumbline::gemm_search_test {
namespace {

using namespace testing_support;

/// A planner whose candidate of n splits asks for the n-th of some demands.
struct TablePlanner {
  std::vector<Demand> demands;
  std::vector<bool> second_launch;

  void adapt(gemm::TileLayout& layout) const { layout.lookups = 1; }
  gemm::WorkSplit split(const gemm::TileLayout& layout, double splits) const {
    gemm::WorkSplit split = gemm::tiled(layout, splits);
    split.second_launch = second_launch[static_cast<std::size_t>(splits)];
    return split;
  }
  Demand demand(const gemm::TileLayout&, const gemm::WorkSplit& split, gemm::Traffic traffic) const {
    Demand d = demands[static_cast<std::size_t>(split.splits)];
    if (traffic == gemm::Traffic::compulsory) d.dram_read *= 0.8;
    return d;
  }
  GemmPlan plan(const gemm::TileLayout&, const gemm::WorkSplit& split) const {
    GemmPlan plan;
    plan.splits = static_cast<std::int64_t>(split.splits);
    return plan;
  }
};

Demand random_gemm_demand() {
  Demand d;
  d.plan.ctas = whole_between(1, 2000);
  d.plan.ctas_per_sm = whole_between(1, 2);
  d.plan.persistent = coin();
  d.plan.steps = d.plan.longest = static_cast<double>(whole_between(1, 100));
  d.tensor_clk = between(0, 2000);
  d.smem_clk = between(0, 2000);
  d.l2 = between(0, 1e5) * units::B;
  d.l2_limit = static_cast<L2Limit>(whole_between(0, 2));
  d.lookups = between(0.5, 1.3) * d.l2;
  d.step_latency = between(0, 1000) * units::ns;
  d.once_clk = coin() ? 0 : between(0, 3000);
  d.serial_clk = coin() ? 0 : between(0, 3000);
  d.loads_stop = coin();
  d.dealt_once = coin();
  d.dram_read = between(0, 1e9) * units::B;
  d.dram_write = between(0, 1e8) * units::B;
  d.serial_latency = between(0, 3000) * units::ns;
  return d;
}

RC_GTEST_PROP(GemmSearch, FindsWhatPricingAllOfThemFinds, ()) {
  const Machine machine = random_machine();
  const Rates& m = machine.rates();
  GemmTask task;
  task.m = task.n = task.k = 256;
  task.tensor_flop_per_clk = 1000;
  const gemm::Context c(task, m, scalars_of(machine, "library.gemm"), scalars_of(machine, "library.reduce"), m.path,
                        {});
  const gemm::TileCosts costs = gemm::tile_costs(c, {128, 128}, 64, false);
  GemmCache cache;
  for (int i = 0; i < 20; ++i) {
    TablePlanner planner;
    const auto candidates = static_cast<std::size_t>(whole_between(1, 40));
    for (std::size_t k = 0; k < candidates; ++k) {
      planner.demands.push_back(random_gemm_demand());
      planner.second_launch.push_back(coin());
    }
    gemm::Search<TablePlanner> search(planner, c, cache);
    RC_ASSERT(search.empty());
    const gemm::TileLayout& layout = search.lay_out(costs);
    RC_ASSERT(layout.lookups == 1);
    Seconds least = gemm::kNoAnswer;
    for (std::size_t k = 0; k < candidates; ++k) {
      search.add(layout, static_cast<double>(k));
      least = std::min(least, search.priced(layout, static_cast<double>(k)).total);
    }
    const GemmChoice best = search.run();
    RC_ASSERT(best.total == least);
    RC_ASSERT(price(best.main, m, scalars_of(machine, "library.gemm")).total <= best.total * (1 + 1e-12));
  }
}

/// Tiles laid over operands that are no multiple of them; splits that leave a part of K.
TEST(TileLayout, RoundsUp) {
  const Machine machine = toy_machine();
  const Rates& m = machine.rates();
  GemmTask task;
  task.m = 300;
  task.n = 128;
  task.k = 1000;
  task.batch = 2;
  task.tensor_flop_per_clk = 1000;
  const gemm::Context c(task, m, scalars_of(machine, "library.gemm"), scalars_of(machine, "library.reduce"), m.path,
                        {});
  gemm::TileCosts costs = gemm::tile_costs(c, {128, 64}, 64, false);
  EXPECT_DOUBLE_EQ(costs.tensor_clk, 2.0 * 128 * 64 * 64 / 1000);
  EXPECT_DOUBLE_EQ(costs.stage_bytes, (128 + 64) * 64 * 2);
  gemm::TileLayout layout(c, costs);
  EXPECT_DOUBLE_EQ(layout.tiles_m, 3);
  EXPECT_DOUBLE_EQ(layout.tiles_n, 2);
  EXPECT_DOUBLE_EQ(layout.tiles, 12);
  EXPECT_DOUBLE_EQ(layout.k_steps, 16);
  const gemm::WorkSplit split = gemm::tiled(layout, 3);
  EXPECT_DOUBLE_EQ(split.ctas, 36);
  EXPECT_DOUBLE_EQ(split.steps, 6);
  EXPECT_TRUE(split.second_launch);
  costs.cluster = 2;  // three rows of tiles do not fill two clusters of two
  layout.fill_clusters(c);
  EXPECT_DOUBLE_EQ(layout.tiles_m, 4);
  EXPECT_DOUBLE_EQ(layout.tiles, 16);
}

/// Rows of 1000, 1008 and 1024 elements of two bytes against lines of 128, sectors of 32, DRAM's accesses of 64.
TEST(RowStarts, FollowTheBytesOfARow) {
  GemmTask task;
  task.k = 1024;
  EXPECT_DOUBLE_EQ(gemm::row_starts(task).lines, 1);
  EXPECT_DOUBLE_EQ(gemm::row_starts(task).inside, 0);
  task.k = 1008;  // 2016 bytes: a multiple of 32
  EXPECT_DOUBLE_EQ(gemm::row_starts(task).lines, 1.75);
  EXPECT_TRUE(gemm::row_starts(task).whole_sectors);
  EXPECT_DOUBLE_EQ(gemm::row_starts(task).inside, 0.5);
  task.k = 1000;  // 2000 bytes: a multiple of 16
  EXPECT_FALSE(gemm::row_starts(task).whole_sectors);
  EXPECT_DOUBLE_EQ(gemm::row_starts(task).inside, 0.75);
}

}  // namespace
}  // namespace plumbline::gemm_search_test

#include "model/engine/demand.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace plumbline::demand_test {
namespace {

TEST(Resources, HaveTheNamesThatReportsPrint) {
  const char* names[] = {"tensor", "fp32", "sfu", "issue", "smem", "l2", "dram", "link", "latency"};
  ASSERT_EQ(std::size(names), kResourceCount);
  for (std::size_t i = 0; i < kResourceCount; ++i) EXPECT_EQ(name(static_cast<Resource>(i)), names[i]);
}

TEST(PerResource, HasAPlaceForEach) {
  PerResource<int> all;
  for (std::size_t i = 0; i < kResourceCount; ++i) all[static_cast<Resource>(i)] = static_cast<int>(i);
  EXPECT_EQ(std::set<int>(all.begin(), all.end()).size(), kResourceCount);
  EXPECT_EQ(all[Resource::latency], static_cast<int>(kResourceCount) - 1);
}

/// A demand that says nothing asks for nothing: one step of no work, and no limit on what is in flight.
TEST(Demands, AreEmptyUntilAPlannerWritesThem) {
  const Demand d;
  EXPECT_EQ(d.plan.steps, 1);
  EXPECT_EQ(d.tensor_clk + d.fp32_clk + d.sfu_clk + d.issue_clk + d.smem_clk, 0);
  EXPECT_EQ(d.dram_read + d.dram_write + d.l2 + d.link + d.in_flight, Bytes{});
  EXPECT_EQ(d.l2_limit, L2Limit::lines);
  EXPECT_FALSE(d.no_waves || d.dealt_once || d.loads_stop);
}

}  // namespace
}  // namespace plumbline::demand_test

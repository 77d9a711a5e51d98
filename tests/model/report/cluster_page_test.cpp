#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arch/json_reader.hpp"
#include "model/machines.hpp"
#include "model/report/several_gpus/cluster_page.hpp"

namespace plumbline::cluster_page_test {
namespace {

using ::testing::HasSubstr;

ClusterPage page_of(const std::string& gpu, const std::string& cluster) {
  MachineOptions options;
  options.cluster = cluster;
  return cluster_page(machines().get({.gpu = gpu, .options = options}));
}

const CollectiveFigure& figure(const ClusterPage& page, const std::string& op, std::int64_t gpus, std::int64_t bytes) {
  for (const CollectiveFigure& f : page.collectives) {
    if (f.op == op && f.gpus == gpus && f.bytes == bytes) return f;
  }
  throw std::runtime_error("no such figure");
}

/// 8 x 450 GB/s: half of them send 1.8 TB/s; a gathered GiB passes 7/8 of it over a rank's links.
TEST(ClusterPage, FollowsFromTheFabric) {
  const ClusterPage page = page_of("h200_sxm", "dgx_h200");
  EXPECT_THAT(cluster_page_table(page, {}), HasSubstr("1.80 TB/s"));
  const CollectiveFigure& gather = figure(page, "all_gather", 8, 1 << 30);
  EXPECT_NEAR(gather.bus / (7.0 / 8 * 1073741824 * units::B / gather.time), 1, 1e-12);
  EXPECT_LT(gather.bus, 450.0 * units::GB_per_s);
  EXPECT_EQ(gather.provenance, Provenance::measured);
  EXPECT_EQ(figure(page, "all_gather", 16, 1 << 30).provenance, Provenance::never_measured);
}

/// 199 pJ a byte (data/calibration/h200_sxm.json).
TEST(ClusterPage, SaysWhatABitTakesWhereItWasMeasured) {
  const ClusterPage page = page_of("h200_sxm", "dgx_h200");
  ASSERT_TRUE(page.link_energy_a_bit);
  EXPECT_NEAR(page.link_energy_a_bit->in(units::J), 199e-12 / 8, 0.5e-12);
  EXPECT_THAT(cluster_page_json(page), HasSubstr("\"link_energy_J_per_bit\": 2.4"));
}

TEST(ClusterPage, ByPcieNothingIsMeasured) {
  const ClusterPage page = page_of("rtx_4090", "pcie_rtx_4090");
  EXPECT_FALSE(page.link_energy_a_bit);
  ASSERT_FALSE(page.collectives.empty());
  for (const CollectiveFigure& f : page.collectives) {
    EXPECT_TRUE(!f.error.empty() || f.provenance == Provenance::never_measured) << f.op << f.bytes;
  }
}

TEST(ClusterPage, JsonHasTheSameFigures) {
  const ClusterPage page = page_of("h200_sxm", "dgx_h200");
  const JsonDocument document = JsonDocument::parse(cluster_page_json(page), "page");
  const auto rows = document.root().at("collectives").elements();
  ASSERT_EQ(rows.size(), page.collectives.size());
  EXPECT_EQ(rows.front().at("latency_s").as_number(), page.collectives.front().time.in(units::s));
  EXPECT_EQ(document.root().at("tiers").elements().front().at("bandwidth_B_per_s").as_number(), 450e9);
}

}  // namespace
}  // namespace plumbline::cluster_page_test

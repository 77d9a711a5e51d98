#include "arch/fabric/cluster.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arch/error.hpp"
#include "arch/gpu/gpu.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using testing_support::refusal;

std::string with(const std::string& key, const std::string& value) {
  std::map<std::string, std::string> fields{{"name", "\"c\""},
                                            {"gpu", "\"h100\""},
                                            {"gpus_per_node", "8"},
                                            {"nodes", "4"},
                                            {"intra_node", "\"nvswitch\""},
                                            {"intra_bandwidth", "\"450 GB/s\""},
                                            {"intra_latency", "\"0.6 us\""},
                                            {"network_bandwidth", "\"50 GB/s\""},
                                            {"network_latency", "\"2.7 us\""},
                                            {"network_gbit_per_s", "400"}};
  fields[key] = value;
  std::string text;
  for (const auto& [k, v] : fields) {
    if (!v.empty()) text += (text.empty() ? "{\"" : ", \"") + k + "\": " + v;
  }
  return text + "}";
}

std::string refusal_of(const std::string& key, const std::string& value) {
  return refusal([&] { parse_cluster(with(key, value), "c.json"); });
}

TEST(Cluster, ReadsACompleteOne) {
  const Cluster c = parse_cluster(with("title", "\"Four nodes\""), "c.json");
  EXPECT_EQ(c.gpu, "h100_sxm");  // an alias becomes the short name
  EXPECT_EQ(c.gpus_per_node, 8);
  EXPECT_EQ(c.nodes, 4);
  EXPECT_EQ(c.intra_node, IntraNodeLink::nvswitch);
  EXPECT_EQ(c.intra_bandwidth, 450.0 * units::GB_per_s);
  EXPECT_EQ(c.network_bandwidth, 50.0 * units::GB_per_s);
  EXPECT_DOUBLE_EQ(c.network_latency.in(units::us), 2.7);
}

TEST(Cluster, EveryFileLoadsWithSources) {
  const auto names = cluster_names();
  EXPECT_THAT(names, testing::IsSupersetOf({"dgx_a100", "dgx_h100", "dgx_h200", "dgx_b200", "pcie_l40s"}));
  for (const std::string& name : names) {
    const Cluster c = load_cluster(name);
    EXPECT_EQ(c.name, name);
    EXPECT_NO_THROW(load_gpu(c.gpu));
    EXPECT_GE(c.sources.size(), 4U) << name;
    for (const auto& [path, source] : c.sources) EXPECT_THAT(source, Not(HasSubstr("no source"))) << name << path;
  }
  EXPECT_EQ(load_cluster("DGX-H100").name, "dgx_h100");
}

TEST(Cluster, RefusesTwoWayRates) {
  EXPECT_THAT(refusal_of("intra_bandwidth", "\"900 GB/s\""),
              AllOf(StartsWith("c.json: /intra_bandwidth: two-way rate"), HasSubstr("450 GB/s")));
  EXPECT_THAT(refusal_of("network_bandwidth", "\"100 GB/s\""),
              AllOf(HasSubstr("two-way rate"), HasSubstr("50.0 GB/s")));
  EXPECT_THAT(refusal_of("intra_bandwidth", "\"700 GB/s\""),
              AllOf(HasSubstr("expected at most"), Not(HasSubstr("two-way"))));
}

/// "460 GB/s" may be a rounded 450; a tenth more is another link.
TEST(Cluster, TwoPercentAreRounding) {
  EXPECT_EQ(refusal_of("intra_bandwidth", "\"458 GB/s\""), "(accepted)");
  EXPECT_THAT(refusal_of("intra_bandwidth", "\"495 GB/s\""), HasSubstr("expected at most 450 GB/s"));
  EXPECT_EQ(refusal_of("network_bandwidth", "\"50.9 GB/s\""), "(accepted)");
  EXPECT_THAT(refusal_of("network_bandwidth", "\"55 GB/s\""), HasSubstr("expected at most 50.0 GB/s"));
}

TEST(Cluster, RefusesWhatCannotBe) {
  EXPECT_THAT(refusal_of("gpus_per_node", "0"), HasSubstr("expected a count from 1"));
  EXPECT_THAT(refusal_of("nodes", "1.5"), HasSubstr("whole number"));
  EXPECT_THAT(refusal_of("intra_node", "\"nvswich\""), HasSubstr("did you mean 'nvswitch'?"));
  EXPECT_THAT(refusal_of("gpu", "\"h100x\""), AllOf(StartsWith("c.json: /gpu"), HasSubstr("did you mean")));
  EXPECT_THAT(refusal_of("intra_bandwidth", "\"0 GB/s\""), HasSubstr("above zero"));
  EXPECT_THAT(refusal_of("intra_latency", "\"-1 us\""), HasSubstr("not negative"));
  EXPECT_THAT(refusal_of("network_bandwidth", ""),
              HasSubstr("expected a network_bandwidth above zero between 4 nodes"));
  EXPECT_THAT(refusal_of("network_latency", ""), HasSubstr("missing key 'network_latency'"));
  EXPECT_THAT(refusal_of("network_gbit_per_s", "-400"), HasSubstr("not negative"));
  EXPECT_THAT(refusal_of("gpus", "8"), HasSubstr("unknown key"));
  EXPECT_THAT(refusal_of("sources", R"({"/node": "x"})"), HasSubstr("did you mean '/nodes'?"));
  EXPECT_THAT(refusal_of("gpu", "\"l40s\""), HasSubstr("expected a link that l40s has"));
  EXPECT_THAT(refusal([] { load_cluster("dgx_h10"); }), HasSubstr("did you mean 'dgx_h100'?"));
  EXPECT_THAT(refusal([] { load_cluster("/no/such.json"); }), HasSubstr("cannot be opened"));
}

TEST(Cluster, ASingleNodeNeedsNoNetwork) {
  const Cluster c = load_cluster("pcie_rtx_4090");
  EXPECT_EQ(c.network_bandwidth, Bandwidth());
  EXPECT_EQ(c.intra_node, IntraNodeLink::pcie);
}

}  // namespace
}  // namespace plumbline

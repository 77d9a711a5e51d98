#include "arch/fabric/cluster.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arch/error.hpp"
#include "arch/gpu/gpu.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::cluster_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using testing_support::refusal;

using Fields = std::map<std::string, std::string>;

std::string object(const Fields& fields) {
  std::string text;
  for (const auto& [key, value] : fields) {
    if (!value.empty()) text += (text.empty() ? "{\"" : ", \"") + key + "\": " + value;
  }
  return text + "}";
}

const Fields kInner{{"name", "\"nvlink\""}, {"kind", "\"nvswitch\""},      {"gpus", "8"},
                    {"links", "18"},        {"bandwidth", "\"450 GB/s\""}, {"latency", "\"0.6 us\""}};
const Fields kOuter{{"name", "\"network\""},        {"kind", "\"infiniband\""}, {"gpus", "32"},
                    {"bandwidth", "\"50 GB/s\""},   {"latency", "\"2.7 us\""},  {"oversubscription", "2"},
                    {"line_rate_gbit_per_s", "400"}};

Fields changed(Fields fields, const std::string& key, const std::string& value) {
  fields[key] = value;
  return fields;
}

/// A cluster of four H100 nodes with one key of it ("inner.gpus", "host") replaced, or left out where `value` is empty.
std::string with(const std::string& key = "", const std::string& value = "") {
  const auto part = [&](const std::string& name, const Fields& fields) {
    return key.rfind(name, 0) == 0 ? changed(fields, key.substr(name.size()), value) : fields;
  };
  Fields top{{"name", "\"c\""}, {"gpu", "\"h100\""}};
  top["tiers"] = "[" + object(part("inner.", kInner)) + ", " + object(part("outer.", kOuter)) + "]";
  if (!key.empty() && key.find('.') == std::string::npos) top[key] = value;
  return object(top);
}

std::string refusal_of(const std::string& key, const std::string& value) {
  return refusal([&] { parse_cluster(with(key, value), "c.json"); });
}

TEST(Cluster, ReadsACompleteOne) {
  const Cluster c =
      parse_cluster(with("host", R"({"kind": "pcie", "bandwidth": "63 GB/s", "gpus_a_port": 2})"), "c.json");
  EXPECT_EQ(c.gpu, "h100_sxm");  // an alias becomes the short name
  ASSERT_EQ(c.tiers.size(), 2U);
  EXPECT_EQ(c.gpus_per_node(), 8);
  EXPECT_EQ(c.inner().kind, LinkKind::nvswitch);
  EXPECT_EQ(c.inner().links, 18);
  EXPECT_EQ(c.inner().bandwidth, 450.0 * units::GB_per_s);
  EXPECT_EQ(c.tiers[1].gpus, 32);
  EXPECT_EQ(c.tiers[1].bandwidth, 50.0 * units::GB_per_s);
  EXPECT_DOUBLE_EQ(c.tiers[1].latency.in(units::us), 2.7);
  EXPECT_EQ(c.host.gpus_a_port, 2);
  EXPECT_TRUE(c.storage.empty());
}

TEST(Cluster, AGroupLivesInTheInnermostTierThatJoinsIt) {
  const Cluster c = parse_cluster(with(), "c.json");
  EXPECT_EQ(c.tier_of(1), 0U);
  EXPECT_EQ(c.tier_of(8), 0U);
  EXPECT_EQ(c.tier_of(9), 1U);
  EXPECT_EQ(c.tier_of(64), 1U);  // more than delivered: the outermost tier is no limit
}

/// By hand: 16 of 32 GPUs at 50 GB/s each, half of which crosses the middle.
TEST(Cluster, BisectionCountsOversubscription) {
  EXPECT_EQ(parse_cluster(with(), "c.json").tiers[1].bisection(32), 400.0 * units::GB_per_s);
}

TEST(Cluster, WithoutAHostTheGpusOwnPortIsTaken) {
  const Cluster c = parse_cluster(with(), "c.json");
  EXPECT_EQ(c.host.kind, LinkKind::pcie);
  EXPECT_EQ(c.host.bandwidth, load_gpu("h100").links.pcie_per_direction);
  EXPECT_EQ(c.host.gpus_a_port, 1);
}

TEST(Cluster, ReadsStorage) {
  const Cluster c = parse_cluster(with("storage", R"([{"name": "local disk", "read_per_node": "14 GB/s"}])"), "c.json");
  ASSERT_EQ(c.storage.size(), 1U);
  EXPECT_EQ(c.storage[0].read_per_node, 14.0 * units::GB_per_s);
  EXPECT_EQ(c.sources.count("/storage/0/read_per_node"), 1U);
}

TEST(Cluster, DescriptorsNameClustersOfTheirOwn) {
  int named = 0;
  for (const std::string& name : gpu_names()) {
    const Gpu gpu = load_gpu(name);
    if (gpu.cluster.empty()) continue;
    ++named;
    EXPECT_EQ(load_cluster(gpu.cluster).gpu, name);
  }
  EXPECT_GE(named, 10);
}

TEST(Cluster, WithoutOneEightGpusAreAssumed) {
  const Cluster bridged = assumed_cluster(load_gpu("h100_pcie")), bare = assumed_cluster(load_gpu("l4"));
  EXPECT_EQ(bridged.inner().kind, LinkKind::nvswitch);
  EXPECT_EQ(bare.inner().kind, LinkKind::pcie);
  EXPECT_EQ(bare.inner().bandwidth, load_gpu("l4").links.pcie_per_direction);
  EXPECT_EQ(bare.gpus_per_node(), 8);
  EXPECT_THAT(bare.sources.begin()->second, HasSubstr("assumed"));
}

TEST(Cluster, EveryFileLoadsWithSources) {
  const auto names = cluster_names();
  EXPECT_THAT(names, testing::IsSupersetOf({"dgx_a100", "dgx_h100", "dgx_h200", "dgx_b200", "pcie_l40s"}));
  for (const std::string& name : names) {
    const Cluster c = load_cluster(name);
    EXPECT_EQ(c.name, name);
    EXPECT_NO_THROW(load_gpu(c.gpu));
    EXPECT_GE(c.sources.size(), 3U) << name;
    for (const auto& [path, source] : c.sources) EXPECT_THAT(source, Not(HasSubstr("no source"))) << name << path;
  }
  EXPECT_EQ(load_cluster("DGX-H100").name, "dgx_h100");
}

TEST(Cluster, RefusesTwoWayRates) {
  EXPECT_THAT(refusal_of("inner.bandwidth", "\"900 GB/s\""),
              AllOf(StartsWith("c.json: /tiers/0/bandwidth: two-way rate"), HasSubstr("450 GB/s")));
  EXPECT_THAT(refusal_of("outer.bandwidth", "\"100 GB/s\""), AllOf(HasSubstr("two-way rate"), HasSubstr("50.0 GB/s")));
  EXPECT_THAT(refusal_of("inner.bandwidth", "\"700 GB/s\""),
              AllOf(HasSubstr("expected at most"), Not(HasSubstr("two-way"))));
}

/// "460 GB/s" may be a rounded 450; a tenth more is another link.
TEST(Cluster, TwoPercentAreRounding) {
  EXPECT_EQ(refusal_of("inner.bandwidth", "\"458 GB/s\""), "(accepted)");
  EXPECT_THAT(refusal_of("inner.bandwidth", "\"495 GB/s\""), HasSubstr("expected at most 450 GB/s"));
  EXPECT_EQ(refusal_of("outer.bandwidth", "\"50.9 GB/s\""), "(accepted)");
  EXPECT_THAT(refusal_of("outer.bandwidth", "\"55 GB/s\""), HasSubstr("expected at most 50.0 GB/s"));
}

TEST(Cluster, RefusesWhatCannotBe) {
  EXPECT_THAT(refusal_of("inner.gpus", "0"), HasSubstr("expected a count from 1"));
  EXPECT_THAT(refusal_of("inner.gpus", ""), HasSubstr("missing key 'gpus'"));
  EXPECT_THAT(refusal_of("outer.gpus", "1.5"), HasSubstr("whole number"));
  EXPECT_THAT(refusal_of("outer.gpus", "12"), HasSubstr("expected several times the 8 GPUs of 'nvlink' below it"));
  EXPECT_THAT(refusal_of("outer.gpus", "8"), HasSubstr("expected several times the 8 GPUs"));
  EXPECT_EQ(refusal_of("outer.gpus", ""), "(accepted)");  // any number
  EXPECT_THAT(refusal_of("inner.kind", "\"nvswich\""), HasSubstr("did you mean 'nvswitch'?"));
  EXPECT_THAT(refusal_of("inner.kind", "\"c2c\""), HasSubstr("expected a link between GPUs"));
  EXPECT_THAT(refusal_of("gpu", "\"h100x\""), AllOf(StartsWith("c.json: /gpu"), HasSubstr("did you mean")));
  EXPECT_THAT(refusal_of("inner.bandwidth", "\"0 GB/s\""), HasSubstr("above zero"));
  EXPECT_THAT(refusal_of("inner.latency", "\"-1 us\""), HasSubstr("not negative"));
  EXPECT_THAT(refusal_of("outer.bandwidth", ""), HasSubstr("missing key 'bandwidth'"));
  EXPECT_THAT(refusal_of("outer.latency", ""), HasSubstr("missing key 'latency'"));
  EXPECT_THAT(refusal_of("outer.oversubscription", "0.5"), HasSubstr("at least 1"));
  EXPECT_THAT(refusal_of("outer.line_rate_gbit_per_s", "-400"), HasSubstr("above zero"));
  EXPECT_THAT(refusal_of("outer.multicast", "1"), HasSubstr("/tiers/1/multicast"));
  EXPECT_THAT(refusal_of("tiers", "[]"), HasSubstr("1 to 8 tiers"));
  EXPECT_THAT(refusal_of("gpus", "8"), HasSubstr("unknown key"));
  EXPECT_THAT(refusal_of("host", R"({"kind": "nvswitch", "bandwidth": "63 GB/s"})"), HasSubstr("expected pcie or c2c"));
  EXPECT_THAT(refusal_of("host", R"({"kind": "pcie", "bandwidth": "126 GB/s"})"), HasSubstr("two-way rate"));
  EXPECT_THAT(refusal_of("sources", R"({"/tiers/0/gpu": "x"})"), HasSubstr("did you mean '/tiers/0/gpus'?"));
  EXPECT_THAT(refusal_of("gpu", "\"l40s\""), HasSubstr("expected a link that l40s has"));
  EXPECT_THAT(refusal([] { load_cluster("dgx_h10"); }), HasSubstr("did you mean 'dgx_h100'?"));
  EXPECT_THAT(refusal([] { load_cluster("/no/such.json"); }), HasSubstr("cannot be opened"));
}

TEST(Cluster, ASingleNodeNeedsNoNetwork) {
  const Cluster c = load_cluster("pcie_rtx_4090");
  EXPECT_EQ(c.tiers.size(), 1U);
  EXPECT_EQ(c.inner().kind, LinkKind::pcie);
}

}  // namespace
}  // namespace plumbline::cluster_test

// The study of what more silicon buys: its designs are those that the areas on file allow, and its script's.
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/machines.hpp"
#include "model/study.hpp"
#include "tests/support/places.hpp"
#include "tests/support/run_program.hpp"

namespace plumbline::area_budget_test {
namespace {

using Json = nlohmann::json;

const std::string kRoot = testing_support::tests_folder() + "/..";

Json areas() { return Json::parse(test::whole_file(kRoot + "/data/studies/areas.json")); }
std::string study_text() { return test::whole_file(kRoot + "/data/studies/whatif/area_budget.json"); }

TEST(Areas, HaveARangeASourceForEachEndAndAddUpToTheirDies) {
  const Json all = areas();
  for (const auto& [name, part] : all["parts"].items()) {
    EXPECT_LE(part["low"], part["likely"]) << name;
    EXPECT_LE(part["likely"], part["high"]) << name;
    EXPECT_TRUE(part.contains("likely_source")) << name;
    EXPECT_EQ(part.contains("low_source"), part["low"] < part["likely"] && name != "nvlink" && name != "pcie_lane");
  }
  const auto sum = [](const Json& die, const std::vector<std::pair<const char*, double>>& parts) {
    double total = 0;
    for (const auto& [count, area] : parts) total += die[count].get<double>() * area;
    return total / die["area_mm2"].get<double>();
  };
  const Json& p = all["parts"];
  EXPECT_NEAR(sum(all["die"], {{"sms", p["sm"]["likely"]},
                               {"l2_MiB", p["l2_MiB"]["likely"]},
                               {"hbm_sites", p["hbm_site"]["likely"]},
                               {"nvlinks", p["nvlink"]["likely"]},
                               {"pcie_lanes", p["pcie_lane"]["likely"]}}),
              0.944, 0.002);
  const Json& old = all["adds_up"]["GA100"];
  EXPECT_NEAR(sum(old, {{"sms", old["sm"]},
                        {"l2_MiB_count", old["l2_MiB"]},
                        {"hbm_sites", old["hbm_site"]},
                        {"nvlinks", old["nvlink"]},
                        {"pcie_lanes", old["pcie_lane"]}}),
              1.011, 0.002);
}

/// What a design adds to the card, in square millimetres at the area that its label says; at least one unit more would not
/// have fitted.
TEST(AreaBudget, DesignsSpendTheBudgetOnOnePart) {
  const Json all = areas();
  const Json& parts = all["parts"];
  const double budget = all["budget"]["mm2"], sms = all["die"]["sms"], sites = all["die"]["hbm_sites"];
  const Study study = parse_study(study_text(), kRoot + "/data/studies/whatif/area_budget.json");
  ASSERT_EQ(study.axes.size(), 2U);
  const std::vector<std::string> names{"label", "set.sm_count", "set.l2.size", "set.memory.bandwidth",
                                       "set.sm.tensor_flop_per_clk.bf16"};
  ASSERT_EQ(study.axes[1].names, names);
  const Gpu card = load_gpu("h200_sxm");
  const auto enabled = static_cast<double>(card.sm_count);
  const double bandwidth = card.memory.bandwidth.in(units::GB_per_s);
  int seen = 0;
  for (const std::vector<std::string>& design : study.axes[1].values) {
    const std::string& label = design[0];
    const double more_sms = std::stod(design[1]) - enabled, more_l2 = std::stod(design[2]) - 60;
    const double channels = (std::stod(design[3]) / bandwidth - 1) * sites * 16;
    const double rate = std::stod(design[4]) / 4096 - 1;
    if (label == "as it is") {
      EXPECT_EQ(std::abs(more_sms) + std::abs(more_l2) + std::abs(channels) + std::abs(rate), 0);
      continue;
    }
    const std::string which = label.find("low") != std::string::npos    ? "low"
                              : label.find("high") != std::string::npos ? "high"
                                                                        : "likely";
    const double sm = parts["sm"][which].get<double>() * sms / enabled;  // some are built and not enabled
    const double l2 = parts["l2_MiB"][which], channel = parts["hbm_site"][which].get<double>() / 16;
    const double doubled = parts["tensor_doubled"][which].get<double>() * sms, step = doubled * 64 / 4096;
    const double spent = more_sms * sm + more_l2 * l2 + channels * channel + rate * doubled;
    const double unit = more_sms > 0 ? 2 * sm : more_l2 > 0 ? l2 : channels > 0 ? channel : step;
    EXPECT_LE(spent, budget * 1.001) << label;
    EXPECT_GT(spent, budget - unit) << label;
    EXPECT_EQ((more_sms > 0) + (more_l2 > 0) + (channels > 0.5) + (rate > 0), 1) << label;
    ++seen;
  }
  EXPECT_EQ(seen, 12);
}

TEST(AreaBudget, IsWhatItsScriptWrites) {
  if (std::system("python3 -c '' 2>/dev/null") != 0) GTEST_SKIP() << "no python3";
  const test::TemporaryFolder folder;
  const std::string out = folder / "study.json";
  ASSERT_EQ(
      std::system(("PYTHONDONTWRITEBYTECODE=1 python3 '" + kRoot + "/tools/area_budget.py' > '" + out + "'").c_str()),
      0);
  EXPECT_EQ(test::whole_file(out), study_text());
}

}  // namespace
}  // namespace plumbline::area_budget_test

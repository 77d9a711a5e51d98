// The lists of scalars: in order, each once, each with its unit in the name.
#include "arch/calibration/names.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace plumbline::names_test {
namespace {

using Names = std::span<const std::string_view>;

void expect_each_once(Names names) {
  std::vector<std::string_view> sorted(names.begin(), names.end());
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(std::adjacent_find(sorted.begin(), sorted.end()), sorted.end());
  for (const std::string_view name : names) {
    EXPECT_FALSE(name.empty());
    EXPECT_EQ(name.find_first_of(" .\""), std::string_view::npos) << name;
  }
}

TEST(CalibrationNames, EachIsListedOnce) {
  for (const Names names : {machine_scalar_names(), power_scalar_names(), family_names(), family_scalar_names()}) {
    EXPECT_FALSE(names.empty());
    expect_each_once(names);
  }
}

bool ends_in_a_unit(std::string_view name) {
  for (const char* unit : {"_s", "_clk", "_W", "_C", "_Hz", "_J", "_B", "_fraction", "_ratio", "_per_B", "_per_FLOP",
                           "_per_W", "_per_K", "_per_clk", "_per_column"}) {
    if (name.ends_with(unit)) return true;
  }
  return false;
}

TEST(CalibrationNames, MachineScalarsEndInTheirUnit) {
  for (const std::string_view name : machine_scalar_names()) EXPECT_TRUE(ends_in_a_unit(name)) << name;
}

}  // namespace
}  // namespace plumbline::names_test

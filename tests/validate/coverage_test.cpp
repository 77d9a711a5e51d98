// Bands must hold what they promise: of held-out rows, which no scalar and no band was found on, nine in ten lie
// inside.
//
// A class passes between 85 and 95 %. Small classes scatter: one passes, too, when its share is inside the central 99 %
// of a binomial distribution of chance 0.9 with as many draws as it has different shapes (10: from 6; 50: from 39):
// rows of one shape err alike. After a change of predictions: tools/fit_bands.sh.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "arch/files.hpp"
#include "validate/fit/fit_bands.hpp"
#include "validate/fit/fit_calibration.hpp"
#include "validate/record/study.hpp"

namespace plumbline::coverage_test {
namespace {

std::vector<Coverage> held_out() {
  const std::string list = data_folder() + "/studies/bands.json";
  return coverage_of(read_band_rows(parse_band_sources(read_text_file(list), list), Half::heldout).rows);
}

void expect_nine_in_ten_by_class(const std::vector<Coverage>& all) {
  long classes = 0;
  for (const Coverage& c : all) {
    ++classes;
    const CountRange range = binomial_range(c.shapes, 0.9, 0.999);  // of 45 classes one in three lists leaves 99 %
    const double least = static_cast<double>(range.least) / static_cast<double>(c.shapes);
    const double most = static_cast<double>(range.most) / static_cast<double>(c.shapes);
    const bool range_of_cards = c.provenance != "measured";
    EXPECT_TRUE(c.share() >= std::min(least, 0.85) && (range_of_cards || c.share() <= std::max(most, 0.95)))
        << c.gpu << " " << key_of(c.kernels) << " " << c.band_class << " " << c.provenance << ": " << c.inside << " of "
        << c.rows << " rows inside";
  }
  EXPECT_GT(classes, 40);
}

/// Of all our kernels together, and of each card's library.
void expect_nine_in_ten_by_kernel_set(const std::vector<Coverage>& all) {
  std::map<std::string, Coverage> sets;
  for (const Coverage& c : all) {
    if (c.provenance != "measured") continue;
    Coverage& sum = sets[c.gpu + " " + std::string(key_of(c.kernels))];
    sum.rows += c.rows;
    sum.inside += c.inside;
  }
  ASSERT_EQ(sets.size(), 4U);
  for (const auto& [name, c] : sets) {
    EXPECT_GE(c.share(), 0.85) << name;
    EXPECT_LE(c.share(), 0.95) << name;
  }
}

/// One test, as most of it is to replay the rows.
TEST(Coverage, OfHeldOutRowsIsNineInTenByClassAndByKernelSet) {
  const std::vector<Coverage> all = held_out();
  expect_nine_in_ten_by_class(all);
  expect_nine_in_ten_by_kernel_set(all);
}

}  // namespace
}  // namespace plumbline::coverage_test

#include "validate/step/card_spread.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include <vector>

#include "arch/files.hpp"

namespace plumbline::card_spread_test {
namespace {

/// A step predicted at 100 ms with a band of 97 to 104.
StepRow step(double measured_ms) {
  StepRow row;
  row.measured.time = measured_ms * units::ms;
  row.predicted = 100.0 * units::ms;
  row.low = 97.0 * units::ms;
  row.high = 104.0 * units::ms;
  return row;
}

/// 105 ms lack sqrt(5^2 - 4^2) = 3 %, 95 ms sqrt(5^2 - 3^2) = 4 %; of 19 steps the further one is inside with 90 %
/// chance where 18 are.
TEST(CardSpread, ByHand) {
  EXPECT_EQ(card_spread({}), 0);
  EXPECT_NEAR(card_spread({step(105)}), 0.03, 1e-12);
  EXPECT_NEAR(card_spread({step(95)}), 0.04, 1e-12);
  EXPECT_EQ(card_spread({step(103)}), 0);
  std::vector<StepRow> many(17, step(101));
  many.push_back(step(105));
  many.push_back(step(95));
  EXPECT_NEAR(card_spread(many), 0.03, 1e-12);
  many[0] = step(95);
  EXPECT_NEAR(card_spread(many), 0.04, 1e-12);
}

std::string list() { return data_folder() + "/studies/bands.json"; }

Calibration committed() {
  const std::string file = data_folder() + "/calibration/h200_sxm.json";
  return parse_calibration(read_text_file(file), file);
}

/// The band printed with a step promises nine in ten: held-out steps of both cards, which no band and no scalar was
/// found on, and the training ones. Before the card's share, 27 of the 36 held-out ones lay inside, of the first card 11
/// of 18.
TEST(StepBands, HoldAsOftenAsTheySay) {
  const auto sources = parse_step_sources(read_text_file(list()), list());
  ASSERT_EQ(std::count_if(sources.begin(), sources.end(), [](const StepSource& s) { return !s.recording.empty(); }), 2);
  for (const Half half : {Half::train, Half::heldout}) {
    const StepCoverage c = step_coverage(sources, committed(), half);
    EXPECT_EQ(c.steps, half == Half::train ? 30 : 36);
    EXPECT_GE(static_cast<double>(c.inside), 0.85 * static_cast<double>(c.steps)) << c.inside << " of " << c.steps;
  }
}

/// The committed share is what training steps say.
TEST(StepBands, CardShareIsFoundOnTrainingSteps) {
  Calibration again = committed();
  const double share = again.band_correlation.at("own").card;
  EXPECT_GT(share, 0);
  again.band_correlation.at("own").card = 0.5;
  add_card_spread(parse_step_sources(read_text_file(list()), list()), again);
  EXPECT_NEAR(again.band_correlation.at("own").card, share, 1e-9);
}

}  // namespace
}  // namespace plumbline::card_spread_test

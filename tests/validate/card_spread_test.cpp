#include "validate/step/card_spread.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

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

/// The band printed with a step promises nine in ten: held-out steps of three cards, which no band and no scalar was
/// found on, and the training ones.
TEST(StepBands, HoldAsOftenAsTheySay) {
  const auto sources = parse_step_sources(read_text_file(list()), list());
  ASSERT_EQ(std::count_if(sources.begin(), sources.end(), [](const StepSource& s) { return !s.recording.empty(); }), 3);
  for (const Half half : {Half::train, Half::heldout}) {
    const StepCoverage c = step_coverage(sources, committed(), half);
    EXPECT_EQ(c.steps, half == Half::train ? 45 : 54);
    EXPECT_GE(static_cast<double>(c.inside), 0.83 * static_cast<double>(c.steps)) << c.inside << " of " << c.steps;
  }
}

/// The committed share is what training steps say: nothing, since energies are those of the mean of ten cards.
TEST(StepBands, CardShareIsFoundOnTrainingSteps) {
  Calibration again = committed();
  const double share = again.band_correlation.at("own").card;
  again.band_correlation.at("own").card = 0.5;
  add_card_spread(parse_step_sources(read_text_file(list()), list()), again);
  EXPECT_NEAR(again.band_correlation.at("own").card, share, 1e-9);
}

/// Mean of ln(rank 0 / rank 1) over a recording's steady steps: of power where neither board is at its cap, of the clock
/// where both are.
struct PairSpread {
  double power = 0, clock = 0;
};
PairSpread spread_of(const char* name) {
  const std::string file = data_folder() + "/measurements/h200/" + name;
  const StepRecording recording = parse_step_recording(read_text_file(file), file);
  PairSpread sum;
  int free = 0, held = 0;
  for (const StepMeasurement& step : recording.steps) {
    if (step.what.clock != ClockMode::steady || step.ranks.size() != 2) continue;
    const auto& a = step.ranks[0];
    const auto& b = step.ranks[1];
    const bool at_cap = std::max(*a.power, *b.power) > 0.97 * 700.0 * units::W;
    (at_cap ? sum.clock : sum.power) += at_cap ? std::log(*a.sm_clock / *b.sm_clock) : std::log(*a.power / *b.power);
    ++(at_cap ? held : free);
  }
  EXPECT_EQ(free, 8) << name;
  EXPECT_EQ(held, 6) << name;
  return {sum.power / free, sum.clock / held};
}

/// Cards that draw more at one clock settle at less of it under the cap, by as much: two ways to the same share.
TEST(StepBands, CardsOfAPairAreAsFarApartInPowerAsInClock) {
  const PairSpread first = spread_of("steps.tp2.json"), second = spread_of("steps.tp2.second.json");
  const auto half = [](double a, double b) { return 1.645 * std::sqrt((a * a + b * b) / 2 / 2); };
  const double committed_share = committed().power.at("band_card").value;
  EXPECT_NEAR(half(first.power, second.power), committed_share, 5e-5);
  EXPECT_NEAR(half(first.clock, second.clock), committed_share, 2e-3);
  EXPECT_LT(first.power * first.clock, 0);
  EXPECT_LT(second.power * second.clock, 0);
}

}  // namespace
}  // namespace plumbline::card_spread_test

// What a regulator that acts late does to bursts of steps.
#include "validate/step/burst_clock.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "arch/files.hpp"
#include "validate/record/step.hpp"
#include "validate/statistics.hpp"
#include "validate/step/step_report.hpp"

namespace plumbline {
namespace {

constexpr RegulatorDelay kDelay{20.0 * units::ms, 60.0 * units::ms};

TEST(RegulatorDelay, IsALineBetweenTwoTimes) {
  EXPECT_EQ(kDelay.way(0.0 * units::ms, 20.0 * units::ms), 0);
  EXPECT_NEAR(kDelay.way(20.0 * units::ms, 60.0 * units::ms), 0.5, 1e-12);
  EXPECT_NEAR(kDelay.way(39.0 * units::ms, 41.0 * units::ms), 0.5, 1e-12);
  EXPECT_NEAR(kDelay.way(0.0 * units::ms, 40.0 * units::ms), 0.125, 1e-12);  // a half of it over a quarter
  EXPECT_NEAR(kDelay.way(60.0 * units::ms, 100.0 * units::ms), 1, 1e-12);
  EXPECT_NEAR(kDelay.way(20.0 * units::ms, 100.0 * units::ms), 0.75, 1e-12);
}

TEST(RegulatorDelay, NeedsBothTimesInOrder) {
  Calibration calibration;
  EXPECT_FALSE(regulator_delay(calibration));
  calibration.machine["regulator_acts_from_s"].value = 0.02;
  EXPECT_FALSE(regulator_delay(calibration));
  calibration.machine["regulator_acts_by_s"].value = 0.02;
  EXPECT_FALSE(regulator_delay(calibration));
  calibration.machine["regulator_acts_by_s"].value = 0.06;
  ASSERT_TRUE(regulator_delay(calibration));
  EXPECT_EQ(regulator_delay(calibration)->by, 0.06 * units::s);
}

TEST(StepBurst, IsTimedByTheMiddleOfItsLaunches) {
  EXPECT_EQ(StepBurst::counted(50.0 * units::ms),
            4);  // three are timed, behind two warm-ups and the one with the clocks
  EXPECT_EQ(StepBurst::before_median(50.0 * units::ms), 4);
  EXPECT_EQ(StepBurst::counted(5.0 * units::ms), 6);
  EXPECT_EQ(StepBurst::before_median(5.0 * units::ms), 5);
  EXPECT_EQ(StepBurst::counted(0.1 * units::ms), 30);
  EXPECT_EQ(StepBurst::before_median(0.1 * units::ms), 17);
}

TEST(StepBurst, OfShortStepsEndsBeforeTheRegulatorActs) {
  EXPECT_EQ(way_of_burst(kDelay, 2.0 * units::ms), 0);
  EXPECT_GT(way_of_burst(kDelay, 8.0 * units::ms), 0.3);
  EXPECT_EQ(way_of_burst(kDelay, 20.0 * units::ms), 1);
}

/// Bursts of prompts, of one H200, of two and of four: 6 to 12 % too fast in the median while all were priced at the
/// boost clock.
TEST(StepBurst, PromptsAreHeldDownAsTheyWere) {
  std::vector<double> errors;
  for (const char* name : {"steps", "steps.second_card", "steps.third_card", "steps.fp16", "steps.types", "steps.tp2",
                           "steps.tp2.second", "steps.tp2.third", "steps.tp4"}) {
    const std::string file = data_folder() + "/measurements/h200/" + name + ".json";
    for (const StepRow& row :
         compare_steps(parse_step_recording(read_text_file(file), file), MachineKey{"h200_sxm"}).rows) {
      if (row.good() && row.measured.what.workload.phase == Phase::prefill &&
          row.measured.what.clock == ClockMode::burst) {
        errors.push_back(std::abs(row.time_error()));
      }
    }
  }
  ASSERT_EQ(errors.size(), 28);
  EXPECT_LT(median(errors), 0.03);
  EXPECT_LT(*std::max_element(errors.begin(), errors.end()), 0.12);
}

}  // namespace
}  // namespace plumbline

// Power of kernels out of windows that hold waits, and what an H100's own row-wise runs say of its memory's bytes.
#include "validate/compare/busy.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "arch/files.hpp"
#include "validate/compare/pricing.hpp"
#include "validate/record/recorded.hpp"
#include "validate/statistics.hpp"

namespace plumbline::busy_test {
namespace {

constexpr Watts kWaiting = 125.0 * units::W, kCap = 700.0 * units::W;

/// 100 us of kernels in every `period_us`, at `mean` watts over all of it.
Measurement run(double mean, double period_us) {
  Measurement m;
  m.what.clock = ClockMode::steady;
  m.time = 100.0 * units::us;
  m.conditions.power = mean * units::W;
  m.energy = *m.conditions.power * (period_us * units::us);
  return m;
}

TEST(Busy, WaitsAreTakenOutOfTheMean) {
  EXPECT_DOUBLE_EQ(busy_share(run(425, 125)), 0.8);
  EXPECT_NEAR(power_while_busy(run(425, 125), kWaiting, kCap)->in(units::W), 500, 1e-9);  // 0.8 x 500 + 0.2 x 125
  EXPECT_EQ(power_while_busy(run(425, 100), kWaiting, kCap), 425.0 * units::W);
}

TEST(Busy, RowsThatSayTooLittleHaveNone) {
  EXPECT_FALSE(power_while_busy(run(300, 150), kWaiting, kCap)) << "a third of it waits";
  EXPECT_FALSE(power_while_busy(run(600, 125), kWaiting, kCap)) << "its kernels may have been held down";
  EXPECT_TRUE(power_while_busy(run(600, 105), kWaiting, kCap));
  Measurement burst = run(425, 125);
  burst.what.clock = ClockMode::burst;
  EXPECT_FALSE(power_while_busy(burst, kWaiting, kCap));
}

/// Held out, and none of them was behind the H100's energies (PyTorch's copies and additions were): reads, writes and both.
TEST(Busy, RowWiseKernelsOfAnH100TakeWhatItsBytesSay) {
  const std::set<std::string> streams{"add", "copy", "layernorm", "rmsnorm", "swiglu", "sum_rows", "transpose_copy"};
  PricingOptions options;
  options.gpu = "h100_sxm";
  options.stack = usual_stack(KernelSet::own);
  const std::vector<Measurement> cases = read_recording(data_folder() + "/measurements/h100/own/first.json").cases;
  const std::vector<Comparison> rows = price(cases, options).rows;
  ASSERT_EQ(rows.size(), cases.size());
  std::vector<double> errors;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Comparison& row = rows[i];
    const bool steady = cases[i].what.clock == ClockMode::steady && !cases[i].warm();
    if (!steady || row.measured < 50.0 * units::us || streams.count(row.op) == 0) continue;
    ASSERT_TRUE(row.measured_power && row.predicted_power) << row.op << ' ' << row.shape;
    errors.push_back(std::log(*row.predicted_power / *row.measured_power));
    EXPECT_LT(std::abs(errors.back()), 0.05) << row.op << ' ' << row.shape;
  }
  EXPECT_GE(errors.size(), 11U);
  EXPECT_LT(std::abs(median(errors)), 0.03);
}

}  // namespace
}  // namespace plumbline::busy_test

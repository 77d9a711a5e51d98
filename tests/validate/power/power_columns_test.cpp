// Columns of the power fits: the engine's P(f), energy by energy.
#include "validate/fit/power_columns.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>

#include "tests/support/random_gpu.hpp"

namespace plumbline::power_columns_test {
namespace {

using namespace power_fit;
using namespace testing_support;

Activity random_work() {
  Activity a;
  a.tensor = between(0, 1e12) * units::FLOP;
  a.padded = between(0, 1e11) * units::FLOP;
  a.fp32 = between(0, 1e11) * units::FLOP;
  a.sfu = between(0, 1e10);
  a.instructions = between(0, 1e11);
  a.smem = between(0, 1e11) * units::B;
  a.l2 = between(0, 1e10) * units::B;
  a.dram_read = between(0, 1e9) * units::B;
  a.dram_write = between(0, 1e9) * units::B;
  a.polling = between(0, 1e-3) * units::s;
  return a;
}

/// The columns, each times its energy, add up to the power that the engine predicts with those energies.
RC_GTEST_PROP(PowerColumns, AddUpToTheEnginesPower, ()) {
  PowerScalars shape;
  shape.knee = between(0.3, 0.95);
  shape.floor_voltage = between(0.5, 1);
  shape.memory_supply = between(0, 1);
  for (std::size_t i = 1; i < kDataPatternCount; ++i) {
    shape.tensor_toggle[i] = between(0.1, 1);
    shape.move_toggle[i] = between(0.1, 1);
  }
  Calibration c;
  std::array<double, kNames.size()> energy{};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    energy[i] = between(0, 100);
    c.power[kNames[i]] = Scalar{energy[i] * (is_watts(kNames[i]) ? 1 : kPico), "random"};
  }
  c.power["knee_fraction"] = c.power["floor_voltage_fraction"] = Scalar{0, "set below"};
  PowerScalars all = *read_power_scalars(c);
  all.knee = shape.knee;
  all.floor_voltage = shape.floor_voltage;
  all.memory_supply = shape.memory_supply;
  all.tensor_toggle = shape.tensor_toggle;
  all.move_toggle = shape.move_toggle;

  const Activity work = random_work();
  const auto math = *rc::gen::element(DType::bf16, DType::fp8, DType::tf32, DType::fp16);
  const auto data = static_cast<DataPattern>(whole_between(0, static_cast<int>(kDataPatternCount) - 1));
  const double share = between(0.2, 1);
  const Seconds time = between(1, 1000) * units::us;
  const std::vector<double> x = power_columns(unit_scalars(kNames, shape), work, math, data, share, time);
  double sum = 0;
  for (std::size_t i = 0; i < kNames.size(); ++i) sum += x[i] * energy[i];
  const LaunchEnergy e = energy_of(work, math, all, data);
  const double power = run_power(all, share, {e.chip, e.memory, {}}, time).in(units::W);
  RC_ASSERT(std::abs(sum - power) <= 1e-9 * power);
}

/// One watt of constant power is one watt; one picojoule a byte, a tera-byte a second, is another.
TEST(PowerColumns, AreWattsAUnit) {
  Activity work;
  work.smem = 1e12 * units::B;
  const auto x =
      power_columns(unit_scalars(kNames, PowerScalars{}), work, DType::bf16, DataPattern::normal, 1, 1.0 * units::s);
  EXPECT_DOUBLE_EQ(x[kConstant], 1);
  EXPECT_DOUBLE_EQ(x[kClocked], 1);
  EXPECT_DOUBLE_EQ(x[kSmem], 1);
  EXPECT_DOUBLE_EQ(x[kBf16], 0);
}

}  // namespace
}  // namespace plumbline::power_columns_test

// The phases of a step whose operators' times and energies are round numbers.
#include "model/predictor/step_phases.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "model/machines.hpp"
#include "tests/support/random_gpu.hpp"

namespace plumbline::step_phases_test {
namespace {

using namespace testing_support;

/// 30 W beside what work takes; the voltage falls from 1 at boost to a half at half of it.
Machine machine_with(double pace) {
  Calibration c = toy_calibration();
  for (const auto& [name, value] : {std::pair{"constant_W", 20.0},
                                    {"clocked_W", 10.0},
                                    {"tensor_bf16_J_per_FLOP", 2e-12},
                                    {"fp32_J_per_FLOP", 0.0},
                                    {"sfu_J", 0.0},
                                    {"instruction_J", 0.0},
                                    {"smem_J_per_B", 0.0},
                                    {"l2_J_per_B", 0.0},
                                    {"dram_read_J_per_B", 20e-12},
                                    {"dram_write_J_per_B", 20e-12},
                                    {"knee_fraction", 0.5},
                                    {"floor_voltage_fraction", 0.5},
                                    {"regulator_pace_per_s", pace}}) {
    c.power[name] = Scalar{value, "a round number"};
  }
  return make_machine(toy_gpu(), c, MachineOptions{"trt-llm", ClockMode::steady, 100.0 * units::W});
}

/// Layers of 10 s at 180 W, a head of 1 ms, an update of 10 s at 50 W.
StepPrediction step() {
  StepPrediction out;
  out.graph.nodes.resize(3);
  out.graph.nodes[2].pass = Pass::update;
  out.nodes.resize(3);
  for (int i = 0; i < 3; ++i) {
    const auto place = static_cast<std::size_t>(i);
    Segment& segment = out.graph.segments.emplace_back();
    segment.first = i;
    segment.size = 1;
    segment.layers = i == 0;
    segment.once = i == 2;
    out.nodes[place].node = &out.graph.nodes[place];
    out.nodes[place].op.time = (i == 1 ? 1e-3 : 10.0) * units::s;
  }
  return out;
}

const std::vector<RunEnergy> kEnergies{
    {1500.0 * units::J, {}, {}}, {0.15 * units::J, {}, {}}, {200.0 * units::J, {}, {}}};

TEST(StepPhases, EachLongOneIsAtItsOwnClockAndABriefOneAtThatBeforeIt) {
  StepPrediction at = step();
  const Machine machine = machine_with(10);
  StepPhases phases(at, machine.rates(), kEnergies);
  ASSERT_TRUE(phases.regulated());
  for (const double share : {0.8, 0.6}) {
    StepPrediction slower = step();
    for (NodePrediction& n : slower.nodes) n.op.time = 1 / share * n.op.time;
    phases.tell(slower, share);
  }
  const std::vector<double> shares = phases.clocks(0.8);
  EXPECT_EQ(shares[1], shares[0]);
  EXPECT_GT(shares[2], 0.98);
  // 100 W = 20 W + share x v x 10 W + 150 W x share x v, v = share^2 of the voltage's straight line: 0.5 = share^3
  EXPECT_NEAR(shares[0], std::cbrt(0.5), 0.02);
}

TEST(StepPhases, WithoutAPaceThereIsOneClock) {
  EXPECT_FALSE(StepPhases(step(), machine_with(0).rates(), kEnergies).regulated());
}

}  // namespace
}  // namespace plumbline::step_phases_test

// Operators at a clock: times, power and energy; the clock that the cap leaves.
#include <algorithm>

#include "model/machine.hpp"
#include "model/power.hpp"
#include "model/predict_internal.hpp"
#include "model/timing.hpp"

namespace plumbline {
namespace {

/// Share of SM cycles in which the tensor units work, all SMs together, as the launch was last priced.
double busy_share(const LaunchPrediction& l, const Machine& m) {
  const double work_clk = static_cast<double>(l.demand.plan.ctas) * l.demand.plan.steps * l.demand.tensor_clk;
  const Seconds all = work_clk / (m.sm_count * l.clock);
  return l.time.total > Seconds{} ? std::min(1.0, all / l.time.total) : 0;
}

/// Share of the tensor rate at the SM clock. The library kernels' fitted shares were measured with the droop in them.
double tensor_rate(const LaunchPrediction& l, const Machine& m) {
  const FamilyScalars& family = *l.family;
  if (family.droop > 0) return family.efficiency;
  const double fitted = family.own ? family.tensor_burst * family.efficiency : l.family_share;
  return std::min(1.0, fitted / (1 - droop(*m.power, 1, DataPattern::normal)));
}

}  // namespace

void set_energies(OpPrediction& op, const Machine& m) {
  Flops useful = op.tensor;
  op.chip_energy = Joules{};
  for (int i = 0; i < op.launch_count; ++i) {
    const Demand& d = op.launches[static_cast<std::size_t>(i)].demand;
    Activity a = activity(d, d.tensor_clk > 0 ? useful : Flops{}, op.math, m.gpu);
    a.dram_read = a.dram_write = Bytes{};
    op.chip_energy += energy_of(a, op.math, *m.power, m.data).chip;
  }
  Activity moved;  // of the whole op: a copy engine's bytes are in no launch's time
  moved.dram_read = op.dram_read;
  moved.dram_write = op.dram_write;
  op.memory_energy = energy_of(moved, op.math, *m.power, m.data).memory;
}

void reprice(OpPrediction& op, const Machine& m, double share) {
  op.time = Seconds{};
  double cycles = 0;
  for (int i = 0; i < op.launch_count; ++i) {
    LaunchPrediction& l = op.launches[static_cast<std::size_t>(i)];
    if (l.demand.tensor_clk > 0) {
      const double skipped = droop(*m.power, busy_share(l, m), m.data);
      l.clock = m.clock * share * (1 - skipped);
      l.time = price(l.demand, m, *l.family, Speeds{tensor_rate(l, m), share * (1 - skipped), share});
    } else if (l.clock != m.clock * share) {
      l.clock = m.clock * share;
      l.time = price(l.demand, m, *l.family, Speeds{1, share, share});
    }
    op.time += l.time.total + m.gap_graph;
    cycles += l.time.total * l.clock + m.gap_graph * (m.clock * share);
  }
  op.clock = cycles / op.time;
  const Joules work = op.chip_energy * voltage_squared(*m.power, share) + op.memory_energy;
  op.power = settled_power(*m.power, share, work / op.time);
  op.energy = *op.power * op.time;
}

void settle(OpPrediction& op, const Machine& m) {
  double last = 1;
  const double share = settled_clock_share(*m.power, m.power_cap, *op.power, [&](double tried) {
    reprice(op, m, last = tried);
    return *op.power;
  });
  if (share != last) reprice(op, m, share);
}

}  // namespace plumbline

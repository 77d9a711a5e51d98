// How long the launches of a plan take as they are priced: of an operator that runs alone, at the clock that its power
// leaves, less the cycles that its SMs skip there. At the clock of the rates one plan may be the quickest, and a leaner
// one where it really runs.
#pragma once

#include <array>
#include <span>

#include "model/engine/run_at_clock.hpp"
#include "model/engine/timing.hpp"

namespace plumbline {

/// A launch of a plan.
struct PlannedLaunch {
  const Demand* demand = nullptr;
  const FamilyScalars* family = nullptr;
};

class PricedTimes {
 public:
  struct Priced {
    Seconds time;
    double share = 1;  ///< of the boost clock
  };

  /// `useful`: FLOPs of the operator that count for power; the rest of what tensor units do is padding. The rates have
  /// power scalars.
  PricedTimes(const Rates& rates, Flops useful, DType math) : m_(rates), useful_(useful), math_(math) {}

  Priced price(std::span<const PlannedLaunch> plan) {
    take(plan);
    return settled(time_at_boost());
  }

  /// The same, or nothing better than `best` where the plan is no better at the boost clock, or no better at the clock
  /// that `best` settles at and over the cap there.
  Priced price(std::span<const PlannedLaunch> plan, const Priced& best) {
    take(plan);
    const Seconds at_boost = time_at_boost();
    if (at_boost >= best.time) return best;
    if (m_.clock_mode == ClockMode::steady && best.share < 1) {
      const PowerScalars& p = *m_.power;
      const Seconds there = time_at(best.share);
      const Watts aim = p.regulator_aim * m_.power_cap;
      if (there >= best.time && binding_power(p, aim, energy_, best.share, there) >= aim) return best;
    }
    return settled(at_boost);
  }

 private:
  void take(std::span<const PlannedLaunch> plan) {
    Bytes read, written;
    count_ = 0;
    for (const PlannedLaunch& planned : plan) {
      LaunchPrediction& l = launches_[count_++];
      l.demand = *planned.demand;
      l.family = planned.family;
      l.family_share = usual_speeds(l.demand, m_, *l.family).tensor;
      read += l.demand.dram_read;
      written += l.demand.dram_write;
    }
    energy_ = energy_of_run(launches(), useful_, math_, read, written, m_);
  }

  std::span<const LaunchPrediction> launches() const { return std::span(launches_).first(count_); }
  Seconds time_at(double share) const { return plumbline::time_at(launches(), energy_, m_, share); }
  /// With what warps take that poll meanwhile, which goes with the time (power_clock.hpp, add_polling_energy()).
  Seconds time_at_boost() {
    const Seconds time = time_at(1);
    const Seconds busy = time - static_cast<double>(count_) * m_.gap_graph;
    const double sms = static_cast<double>(m_.gpu.sm_count);
    energy_.chip += polled(launches_.front().demand, busy, sms, m_.clock) * m_.power->polling;
    return time;
  }
  Priced settled(Seconds at_boost) const {
    const double share = clock_share_of(launches(), energy_, m_, at_boost);
    return {share < 1 ? time_at(share) : at_boost, share};
  }

  const Rates& m_;
  const Flops useful_;
  const DType math_;
  std::array<LaunchPrediction, 3> launches_;
  std::size_t count_ = 0;
  RunEnergy energy_;
};

}  // namespace plumbline

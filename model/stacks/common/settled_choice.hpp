// How long a GEMM choice takes at the clock that it settles at when it is repeated, or that is locked: at the boost clock
// one plan may be the quickest and another, leaner one at the clock that the power cap leaves.
#pragma once

#include <array>
#include <span>

#include "model/engine/run_at_clock.hpp"
#include "model/stacks/common/gemm_tiles.hpp"

namespace plumbline::gemm {

class SettledTimes {
 public:
  struct Settled {
    Seconds time;
    double share = 1;  ///< of the boost clock
  };

  explicit SettledTimes(const Context& context) : c_(context) {}

  Settled settle(const GemmChoice& choice) {
    take(choice);
    return settled(time_at(1));
  }

  /// The same, or nothing better than `best` where the choice is no better at the boost clock, or no better at the clock
  /// that `best` settles at and over the cap there.
  Settled settle(const GemmChoice& choice, const Settled& best) {
    take(choice);
    const Seconds at_boost = time_at(1);
    if (at_boost >= best.time) return best;
    if (best.share < 1) {
      const PowerScalars& p = *c_.rates.power;
      const Seconds there = time_at(best.share);
      const Watts aim = p.regulator_aim * c_.rates.power_cap;
      if (there >= best.time && binding_power(p, aim, energy_, best.share, there) >= aim) return best;
    }
    return settled(at_boost);
  }

 private:
  void take(const GemmChoice& choice) {
    const Rates& m = c_.rates;
    count_ = choice.reduces ? 2 : 1;
    launches_[0].demand = choice.main;
    launches_[0].family = &c_.family;
    Bytes read = choice.main.dram_read, written = choice.main.dram_write;
    if (choice.reduces) {
      launches_[1].demand = choice.reduce;
      launches_[1].family = &c_.reduce;
      read += choice.reduce.dram_read;
      written += choice.reduce.dram_write;
    }
    for (LaunchPrediction& l : launches_) {
      if (l.family != nullptr) l.family_share = usual_speeds(l.demand, m, *l.family).tensor;
    }
    energy_ = energy_of_run(launches(), c_.task.settled_flops * units::FLOP, c_.task.math, read, written, m);
  }

  std::span<const LaunchPrediction> launches() const { return std::span(launches_).first(count_); }
  Seconds time_at(double share) const { return plumbline::time_at(launches(), energy_, c_.rates, share); }
  Settled settled(Seconds at_boost) const {
    const double share = clock_share_of(launches(), energy_, c_.rates, at_boost);
    return {share < 1 ? time_at(share) : at_boost, share};
  }

  const Context& c_;
  std::array<LaunchPrediction, 2> launches_;
  std::size_t count_ = 0;
  RunEnergy energy_;
};

}  // namespace plumbline::gemm

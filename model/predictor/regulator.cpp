#include "model/predictor/regulator.hpp"

#include <algorithm>
#include <cmath>

namespace plumbline {
namespace {

/// Repeats that are followed one by one; those behind them are taken to be as the last of them.
constexpr std::int64_t kMostRepeats = 8;
constexpr int kMostRuns = 8;
/// Steps into which a phase is cut, of a sixth of the lag or less; behind the last of them the clock stays as it is.
constexpr int kMostSteps = 96;

/// One phase after another.
class Path {
 public:
  Path(const PowerScalars::Regulator& regulator, const RegulatedRun& run, double start)
      : regulator_(regulator), run_(run), share_(start) {}

  double share() const { return share_; }

  /// Goes through a phase; its mean share of the boost clock.
  double through(const RegulatedPhase& phase) {
    const double lag = regulator_.lag.in(units::s);
    const double exponent = std::max(std::log(phase.power_lower / phase.power) / std::log(run_.lower), 0.0);
    const double at_boost = phase.power / run_.aim;
    const double slower = (phase.time_lower / phase.time - 1) / (1 / run_.lower - 1);
    const double whole = phase.time.in(units::s);  // at the boost clock
    const double cut = std::min(lag / 6, 0.25 * whole);
    const double fading = std::exp(-cut / lag);
    double done = 0, took = 0, shared = 0;
    for (int i = 0; i < kMostSteps && done < 1; ++i) {
      const double pace = 1 / (whole * (1 + slower * (1 / share_ - 1)));
      const double step = std::min(cut, (1 - done) / pace);
      const double power = at_boost * std::pow(share_, exponent);
      known_ = power + (known_ - power) * (step == cut ? fading : std::exp(-step / lag));
      const double off = known_ - 1;
      const double before = share_;
      share_ -= (off > 0 ? regulator_.lowers : regulator_.raises) * off * step;
      share_ = std::clamp(share_, kLowestClockShare, run_.top);
      shared += 0.5 * (before + share_) * step;
      took += step;
      done += step * pace;
    }
    if (done < 1 - 1e-9) {  // by then it is where it stays
      const double rest = (1 - done) * whole * (1 + slower * (1 / share_ - 1));
      shared += share_ * rest;
      took += rest;
    }
    return took > 0 ? shared / took : share_;
  }

 private:
  const PowerScalars::Regulator& regulator_;
  const RegulatedRun& run_;
  double share_;
  double known_ = 1;  ///< power / aim
};

}  // namespace

void clocks_of_phases(std::span<const RegulatedPhase> phases, const PowerScalars::Regulator& regulator,
                      const RegulatedRun& run, double start, std::vector<double>& shares) {
  shares.assign(phases.size(), start);
  Path path(regulator, run, start);
  const std::int64_t followed = std::min(run.repeats, kMostRepeats);
  for (int again = 0; again < kMostRuns; ++again) {
    const double begins = path.share();
    for (std::size_t i = 0; i < phases.size();) {
      std::size_t end = i;
      while (end < phases.size() && phases[end].repeats == phases[i].repeats) ++end;
      const std::int64_t turns = phases[i].repeats ? followed : 1;
      std::fill(shares.begin() + static_cast<std::ptrdiff_t>(i), shares.begin() + static_cast<std::ptrdiff_t>(end), 0.0);
      for (std::int64_t turn = 0; turn < turns; ++turn) {
        const auto alike = static_cast<double>(turn + 1 < turns || !phases[i].repeats ? 1 : run.repeats - turn);
        const double all = phases[i].repeats ? static_cast<double>(run.repeats) : 1;
        for (std::size_t j = i; j < end; ++j) shares[j] += alike / all * path.through(phases[j]);
      }
      i = end;
    }
    if (std::abs(path.share() - begins) < 1e-4) break;
  }
}

}  // namespace plumbline

#include "model/predictor/regulator.hpp"

#include <algorithm>
#include <cmath>

namespace plumbline {
namespace {

/// Repeats that are followed one by one; those behind them are taken to be as the last of them.
constexpr std::int64_t kMostRepeats = 8;
constexpr int kMostRuns = 8;
/// Steps into which a phase is cut, short beside the tens of ms that the clock takes; behind the last of them it stays as it
/// is.
constexpr int kMostSteps = 96;
constexpr Seconds kStep = 5.0 * units::ms;

/// A phase at any share of the boost clock, in terms of the aim and in seconds.
class PhaseAtClock {
 public:
  PhaseAtClock(const RegulatedPhase& phase, const RegulatedRun& run) : edge_(run.shares[1]) {
    for (std::size_t i = 0; i < 2; ++i) {
      const double upper = run.shares[i], lower = run.shares[i + 1];
      Piece& piece = pieces_[i];
      piece.exponent = std::max(std::log(phase.power[i + 1] / phase.power[i]) / std::log(lower / upper), 0.0);
      piece.power = phase.power[i] / run.aim * std::pow(upper, -piece.exponent);
      piece.slope = (phase.time[i + 1] - phase.time[i]).in(units::s) / (1 / lower - 1 / upper);
      piece.time = phase.time[i].in(units::s)-piece.slope / upper;
    }
  }
  double power(double share) const { return at(share).power * std::pow(share, at(share).exponent); }
  double seconds(double share) const { return at(share).time + at(share).slope / share; }

 private:
  struct Piece {
    double power = 0, exponent = 0, time = 0, slope = 0;
  };
  const Piece& at(double share) const { return pieces_[share < edge_ ? 1 : 0]; }

  double edge_;
  std::array<Piece, 2> pieces_;
};

/// One phase after another.
class Path {
 public:
  Path(const RegulatedRun& run, double start) : run_(run), share_(start) {}

  double share() const { return share_; }

  /// Goes through a phase; its mean share of the boost clock.
  double through(const RegulatedPhase& phase) {
    const PhaseAtClock at(phase, run_);
    const double cut = std::min(kStep, 0.25 * phase.time[0]).in(units::s);
    double done = 0, took = 0, shared = 0;
    for (int i = 0; i < kMostSteps && done < 1; ++i) {
      const double pace = 1 / at.seconds(share_);
      const double step = std::min(cut, (1 - done) / pace);
      const double before = share_;
      share_ -= run_.pace * (at.power(share_) - 1) * step;
      share_ = std::clamp(share_, kLowestClockShare, run_.top);
      shared += 0.5 * (before + share_) * step;
      took += step;
      done += step * pace;
    }
    if (done < 1 - 1e-9) {  // by then it is where it stays
      const double rest = (1 - done) * at.seconds(share_);
      shared += share_ * rest;
      took += rest;
    }
    return took > 0 ? shared / took : share_;
  }

 private:
  const RegulatedRun& run_;
  double share_;
};

}  // namespace

void clocks_of_phases(std::span<const RegulatedPhase> phases, const RegulatedRun& run, double start,
                      std::vector<double>& shares) {
  shares.assign(phases.size(), start);
  Path path(run, start);
  const std::int64_t followed = std::min(run.repeats, kMostRepeats);
  for (int again = 0; again < kMostRuns; ++again) {
    const double begins = path.share();
    for (std::size_t i = 0; i < phases.size();) {
      std::size_t end = i;
      while (end < phases.size() && phases[end].repeats == phases[i].repeats) ++end;
      const std::int64_t turns = phases[i].repeats ? followed : 1;
      std::fill(shares.begin() + static_cast<std::ptrdiff_t>(i), shares.begin() + static_cast<std::ptrdiff_t>(end),
                0.0);
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

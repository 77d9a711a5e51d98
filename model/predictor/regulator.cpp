#include "model/predictor/regulator.hpp"

#include <algorithm>
#include <cmath>

namespace plumbline {
namespace {

/// Repeats that are followed one by one; those behind them are taken to be as the last of them.
constexpr std::int64_t kMostRepeats = 4;
constexpr int kMostRuns = 8;
/// Steps into which a phase is cut: in each, power is a straight line over the clock.
constexpr int kSteps = 4;

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
  /// power / aim - 1, and how it grows with the share.
  struct Off {
    double value, slope;
  };
  Off off(double share) const {
    const Piece& piece = at(share);
    const double power = piece.power * std::pow(share, piece.exponent);
    return {power - 1, power * piece.exponent / share};
  }
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
    double took = 0, shared = 0;
    for (int i = 0; i < kSteps; ++i) {
      const double step = at.seconds(share_) / kSteps;
      if (step <= 0) return share_;
      shared += step * relax(at.off(share_), step);
      took += step;
    }
    return shared / took;
  }

 private:
  /// Moves the clock for so many seconds; its mean meanwhile.
  double relax(const PhaseAtClock::Off& off, double seconds) {
    const double pace = run_.pace * std::max(off.slope, 1e-3);
    const double goal = share_ - off.value / std::max(off.slope, 1e-3);
    const double begin = share_;
    const double end = goal + (begin - goal) * std::exp(-pace * seconds);
    share_ = std::clamp(end, kLowestClockShare, run_.top);
    if (end <= run_.top) return std::max(goal + (begin - end) / (pace * seconds), kLowestClockShare);
    // the top is reached on the way, and held
    const double until = std::log((begin - goal) / (run_.top - goal)) / pace;
    return (goal * until + (begin - run_.top) / pace + run_.top * (seconds - until)) / seconds;
  }

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
    if (std::abs(path.share() - begins) < 1e-3) break;
  }
}

}  // namespace plumbline

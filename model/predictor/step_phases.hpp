// The phases of a step, between which the regulator of the board's power moves the clock: forward passes through the
// layers, the head and its loss, backward passes, the update, and a pipeline's waits at both ends of the passes.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "model/engine/power.hpp"
#include "model/predict.hpp"
#include "model/predictor/regulator.hpp"

namespace plumbline {

/// What a node takes beside its operator's energy is told by whoever asks: `energies[i]` of one execution of node i.
class StepPhases {
 public:
  /// Of a step priced at the boost clock. A phase is what stands side by side of one pass, in its layers or beside them.
  /// What is shorter than 2 ms goes with the phase before it (the first with the one behind it): the clock moves by less
  /// than 1 % in such a time.
  StepPhases(const StepPrediction& step, const Rates& rates, const std::vector<RunEnergy>& energies);

  /// More than one, one of which draws more at the boost clock than the regulator aims at.
  bool regulated() const;
  /// The step's times are those at that share of the boost clock; to be told twice, the lower one last.
  void tell(const StepPrediction& step, double share);
  /// Of each node the mean share of the boost clock.
  std::vector<double> clocks(double start) const;

 private:
  struct Phase {
    RunEnergy run;  ///< of all repeats
    Seconds time;   ///< of all repeats, at the boost clock
    bool repeats = false;
    std::array<Seconds, 2> lower;  ///< the same where it was told
  };
  void merge_brief();

  const Rates& m_;
  Watts aim_;
  std::int64_t turns_;
  Seconds wait_;  ///< at either end of the passes
  std::array<double, 2> told_{};
  std::size_t tellings_ = 0;
  std::vector<std::size_t> of_;
  std::vector<Phase> phases_;
};

}  // namespace plumbline

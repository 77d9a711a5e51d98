// Two recordings side by side: what each operator won and lost in time and energy, and whose limiter is another one now. Of
// two cards, two states of the kernels, two drivers; operators timed alone, or whole steps of models.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "arch/units.hpp"
#include "validate/record/recorded.hpp"
#include "validate/record/step.hpp"

namespace plumbline {

/// One side of a pair. Energy is of steady rows alone, as the board counted it.
struct RecordedCost {
  Seconds time;
  std::optional<Joules> energy;
  std::string limiter;  ///< as it is predicted for the plan that ran; nothing measures it. "": it has no prediction
};

/// What both recordings have a time of.
struct RecordedPair {
  std::string group;  ///< of operators "own gemm bf16, cold burst", of steps the step
  std::string name;   ///< the shape; of steps the operator (all its executions), "" the whole step
  std::string place;  ///< in the first recording
  RecordedCost before, after;

  bool whole_step() const { return name.empty(); }
  Seconds won() const { return before.time - after.time; }  ///< above zero: the second is quicker
  double time_ratio() const { return after.time / before.time; }
  std::optional<double> energy_ratio() const;
  bool other_limiter() const;
};

struct RecordingDifference {
  MeasuringSession before, after;
  std::vector<RecordedPair> pairs;       ///< in the order of the first recording
  long only_before = 0, only_after = 0;  ///< cases (steps) that the other one has not, or has no time of
};

/// Cases are the same by kernels, operator, types, shape, cache, clock and data. `ops`: these operators alone; empty: all.
RecordingDifference difference_of(const Recording& before, const Recording& after, const std::vector<std::string>& ops);
/// Steps are the same by model, workload, layers and clock.
RecordingDifference difference_of(const StepRecording& before, const StepRecording& after);

/// The sums of a group: a waterfall's bars.
struct GroupDifference {
  std::string group;
  long count = 0, quicker = 0, slower = 0;  ///< by more than 1 %
  long other_limiters = 0;
  Seconds before, after;
  std::optional<Joules> energy_before, energy_after;  ///< of the pairs that have both
};
/// The largest change first. A step's sums are those of the step, not of its operators.
std::vector<GroupDifference> groups_of(const RecordingDifference& difference);

/// Groups, then the pairs that changed most, `most` of them, each with what it won.
std::string difference_table(const RecordingDifference& difference, std::size_t most);
std::string difference_csv(const RecordingDifference& difference);
std::string difference_json(const RecordingDifference& difference);  ///< schema plumbline.validate.diff.v1

}  // namespace plumbline

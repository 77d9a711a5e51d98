// A profiler's timeline of a model's steps held against the prediction: which launch is which operator's, what each took
// and was predicted to take, and what is left over on either side.
#pragma once

#include <string>
#include <vector>

#include "validate/step/model_report.hpp"
#include "validate/timeline/align.hpp"

namespace plumbline {

/// A node of the step: one operator, or one launch of a framework's.
struct TimelineRow {
  int node = 0;
  std::string name, op, dtype, shape;
  long executions = 0;          ///< that were found, of all steps
  long expected = 0;            ///< that as many steps have
  Seconds measured, predicted;  ///< of the executions found: launches without the gaps between them
  std::optional<Bytes> measured_dram;
  Bytes predicted_dram;
};

/// Launches alike that are no operator's.
struct LeftOver {
  std::string kernel, call;
  long count = 0;
  Seconds time;
};

struct TimelineReport {
  Timeline timeline;
  Alignment alignment;
  std::vector<ExpectedLaunch> expected;
  ModelRow asked;
  std::string gpu, stack;
  ClockMode clock = ClockMode::burst;
  Llm llm;
  Workload workload;
  RunOptions run;
  Machine machine;
  StepPrediction step;
  std::vector<TimelineRow> rows;    ///< of nodes that launch something, in the step's order
  std::vector<LeftOver> left_over;  ///< most time first

  Seconds matched() const;            ///< time of launches that are an operator's
  Seconds predicted_matched() const;  ///< of the same operators
  double unmatched_share() const;     ///< of the timeline's busy time
};

/// Prices the step that `asked` says (its measured figure is not read) and lays the timeline beside it. Throws BadInput
/// where the card is neither named nor in the file, and for a phase other than prefill and decode.
TimelineReport compare_timeline(Timeline timeline, const ModelRow& asked, const ModelPricing& pricing);

/// Operators in the step's order: launches "q_proj.product" and "q_proj.reduce" are one, "q_proj".
std::vector<TimelineRow> by_operator(const TimelineReport& report);

std::string timeline_table(const TimelineReport& report);
std::string timeline_json(const TimelineReport& report);  ///< schema "plumbline.validate.timeline.v1"
std::string timeline_csv(const TimelineReport& report);   ///< a line a node of the step

/// Both as one Chrome trace: the predicted step (predict-model's --format trace) as one process, the measured launches
/// inside of the operators that they are of as another, one step above the other.
std::string both_traces(const TimelineReport& report);

}  // namespace plumbline

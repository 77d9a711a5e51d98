// What the `validate` command does, apart from reading its flags.
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arch/error.hpp"
#include "arch/gpu/gpu.hpp"
#include "model/predict.hpp"
#include "validate/fit/fit_calibration.hpp"
#include "validate/record/measurement_csv.hpp"
#include "validate/record/measurer.hpp"
#include "validate/record/probe_run.hpp"
#include "validate/record/step.hpp"

namespace plumbline {

struct ValidateRequest {
  std::vector<std::string> files;
  std::string gpu;  ///< short name or file; empty: the rows' own
  std::vector<Override> overrides;
  KernelSet kernels = KernelSet::own;
  std::optional<ClockMode> clock;
  std::string calibration_file;
  std::vector<RowFilter> where;
  Seconds at_least;
  std::string format = "table", out_file, rows_file, report_file;
  std::optional<double> fail_over_percent;
  // cards and recordings only
  std::vector<std::string> ops;      ///< empty: all
  std::vector<std::string> studies;  ///< files; empty: train and heldout of the data folder, or quick
  bool quick = false, kernels_table = false;
  bool alone = false;                                     ///< card: no library kernels beside our own
  std::string probes_file;                                ///< --calibrate: where to write what the probes found
  std::string repeat_file;                                ///< --replay: another recording of the same cases
  std::vector<StepCase> steps;                            ///< card: whole steps instead of operators
  bool check_steps = false;                               ///< card: hold them against references instead of timing them
  double least_cap_percent = 0, most_cap_percent = 1000;  ///< power table: of the board's limit
  // fitting only
  std::string family;
  std::vector<FreeScalar> free;
  bool balance = true;
  std::string source;  ///< provenance text; empty: made from file names, stacks, clocks and the date
};

/// Compares and writes the report to `out` (or the file asked for); messages go to `messages`.
/// done, answered_no (a class is worse than asked), or not_modelled (some rows could not be read or priced).
ExitCode run_against(const ValidateRequest& request, std::ostream& out, std::ostream& messages);

/// Makes the measurer of the card at hand; throws DeviceError when there is none.
using MakeMeasurer = std::function<std::unique_ptr<Measurer>()>;

/// Measures the studies on a card, writes the recording to `out_file` when one is asked for, compares and reports.
/// no_device when the card fails in the middle, interrupted after SIGINT or SIGTERM; what was measured until then is
/// written and reported all the same. `terminal`: messages go to one.
ExitCode run_live(const ValidateRequest& request, const MakeMeasurer& make, std::ostream& out, std::ostream& messages,
                  bool terminal);

/// The same comparison from a recording. With `repeat_file`: how far that one is from it instead, answered_no when a
/// class moved by more than `fail_over_percent` in the median.
ExitCode run_replay(const ValidateRequest& request, std::ostream& out, std::ostream& messages);

/// Makes the measurer of whole steps of the card at hand; throws DeviceError when there is none.
using MakeStepMeasurer = std::function<std::unique_ptr<StepMeasurer>()>;
/// Measures the steps asked for, or of the lists in `studies`, writes the recording to `out_file`, compares, reports.
ExitCode run_steps(const ValidateRequest& request, const MakeStepMeasurer& make, std::ostream& out,
                   std::ostream& messages);
/// The same comparison from a recording of steps.
ExitCode run_step_replay(const ValidateRequest& request, std::ostream& out, std::ostream& messages);
/// Probes the card (`quick`: without energies), or takes the recorded probes in `files`, and writes a calibration to
/// `out_file` or `out`.
ExitCode run_calibrate(const ValidateRequest& request, const RunProbes& probe, std::ostream& out,
                       std::ostream& messages);

/// An hour of measuring must not end with a folder that is not there: throws BadInput unless `file` is "" or can be
/// written.
void need_writable(const std::string& file);

/// "html" and the other formats of a comparison of recorded or measured cases.
struct Report;
std::string text_in(const Report& report, const std::string& format);

/// The first messages of each reason, and how many more there are: a file full of one unknown operator must neither
/// flood the terminal nor hide the other reasons. A message is "file:line: reason".
void show_messages(const std::vector<std::string>& lines, std::ostream& messages);

/// answered_no, with a line of why, when a class is worse than `fail_over_percent` allows; else `otherwise`.
ExitCode accuracy_answer(const std::vector<ClassSummary>& classes, const std::optional<double>& fail_over_percent,
                         std::ostream& messages, ExitCode otherwise);

/// Fits and writes the calibration file when one is asked for. Held-out rows are refused, each with the rule.
ExitCode run_fit(const ValidateRequest& request, std::ostream& out, std::ostream& messages);

/// Fits the power section to steady rows and writes the calibration file when one is asked for. Held-out rows
/// are refused.
ExitCode run_fit_power(const ValidateRequest& request, std::ostream& out, std::ostream& messages);
/// Time, power and clock of steady rows against the engine, by class of work.
ExitCode run_power_table(const ValidateRequest& request, std::ostream& out);

/// Finds error bands on the training rows of data/studies/bands.json and writes them into a calibration.
ExitCode run_fit_bands(const ValidateRequest& request, std::ostream& out, std::ostream& messages);
/// How many held-out rows lie in their bands, by class.
ExitCode run_coverage(const ValidateRequest& request, std::ostream& out);

/// The README's accuracy table from the committed measurements: the list of `files`, or data/studies/accuracy.json.
/// answered_no, with a line each, when a median error is above what the list allows.
ExitCode run_accuracy(const ValidateRequest& request, std::ostream& out, std::ostream& messages);

/// "--set memory.bandwidth=6TB/s".
Override parse_override(const std::string& text);

/// "aiconfigurator h200_sxm gemm train, trtllm-1.3.0rc20, burst": what the rows are, for a provenance text.
std::string describe_rows(const std::vector<std::string>& files, const std::vector<Measurement>& rows,
                          const std::optional<ClockMode>& clock);

}  // namespace plumbline

// The measuring loop: one case after another through a Measurer, with progress for people and nothing lost when it is
// stopped or the card fails. Knows no CUDA.
#pragma once

#include <csignal>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "model/predict.hpp"
#include "validate/record/recorded.hpp"

namespace plumbline {

/// What is to be measured: a case with one kernel set.
struct LiveTask {
  StudyCase what;
  KernelSet kernels = KernelSet::own;
};

/// The tasks of a study. `own`: every case, and the library's kernel next to each that has one, so that a slow drift of
/// the card meets both; they take turns at going first, as the second one meets the heat and the power regulator's
/// state that the first left behind. `library`: the cases that the library has a kernel for.
std::vector<LiveTask> live_tasks(const std::vector<StudyCase>& cases, KernelSet kernels, bool alone = false);

/// About how long a task takes, for the remaining time that progress tells: bursts 0.06 s, steady runs 2.8 s (H200).
Seconds expected_duration(const LiveTask& task);

/// Why the loop ended.
enum class LiveEnd { all_measured, interrupted, device_lost };

struct LiveResult {
  Recording recording;
  LiveEnd end = LiveEnd::all_measured;
  std::string device_error;  ///< of device_lost
};

/// Tells people how far the measuring is; see live_progress.cpp.
class Progress {
 public:
  virtual ~Progress() = default;
  /// Before task number `done` of `total`.
  virtual void before(std::size_t done, std::size_t total, const LiveTask& task, Seconds left) = 0;
  virtual void finish() = 0;
};
/// On a terminal one line that is rewritten, else a line every few seconds. No colours.
std::unique_ptr<Progress> make_progress(std::ostream& messages, bool terminal);

/// Which machine prices a task: the plan that is measured is the plan that was priced.
using PriceTask = std::function<const OpPrediction&(const LiveTask& task)>;

/// Measures the tasks in order. A case that cannot be priced or run is recorded with its fault. `stop` is looked at
/// between cases; DeviceError ends the loop with what there is.
LiveResult measure_all(Measurer& measurer, const std::vector<LiveTask>& tasks, const PriceTask& price,
                       const std::function<bool()>& stop, Progress& progress);

/// While it lives, the first SIGINT or SIGTERM asks to stop; a second one ends the process as usual.
class StopOnSignal {
 public:
  StopOnSignal();
  ~StopOnSignal();
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;
  static bool asked();

 private:
  struct sigaction interrupt_before_, terminate_before_;
};

}  // namespace plumbline

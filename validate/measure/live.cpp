#include "validate/measure/live.hpp"

#include <chrono>

#include "arch/error.hpp"
#include "validate/measure/host_clock.hpp"
#include "validate/record/study.hpp"

namespace plumbline {

namespace {

volatile std::sig_atomic_t stop_asked = 0;

extern "C" void ask_to_stop(int) { stop_asked = 1; }

/// Time left: the expected durations of the tasks to come, scaled by how the past ones kept to theirs.
class Remaining {
 public:
  explicit Remaining(const std::vector<LiveTask>& tasks) {
    for (const LiveTask& task : tasks) left_ += expected_duration(task);
  }
  void done(const LiveTask& task) {
    left_ -= expected_duration(task);
    done_ += expected_duration(task);
  }
  Seconds left() const {
    const Seconds spent = seconds_since(start_) * units::s;
    return done_ > Seconds{} ? left_ * (spent / done_) : left_;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  Seconds left_, done_;
};

Measurement measure_one(Measurer& measurer, const LiveTask& task, const PriceTask& price) {
  Measurement result;
  try {
    result = measurer.measure(task.what, task.kernels, price(task));
  } catch (const DeviceError&) {
    throw;
  } catch (const Error& error) {
    result.fault = error.what();
  }
  result.what = task.what;
  result.kernels = task.kernels;
  if (result.fault.empty() && !(result.time > Seconds{})) result.fault = "no time was measured";
  return result;
}

}  // namespace

std::vector<LiveTask> live_tasks(const std::vector<StudyCase>& cases, KernelSet kernels, bool alone) {
  std::vector<LiveTask> tasks;
  bool library_first = false;
  for (const StudyCase& what : cases) {
    const bool both = !alone && kernels == KernelSet::own && has_library_kernel(what.op);
    if (both && library_first) tasks.push_back({what, KernelSet::library});
    if (kernels == KernelSet::own) tasks.push_back({what, KernelSet::own});
    if ((both && !library_first) || (kernels == KernelSet::library && has_library_kernel(what.op)))
      tasks.push_back({what, KernelSet::library});
    if (both) library_first = !library_first;
  }
  return tasks;
}

Seconds expected_duration(const LiveTask& task) {
  return (task.what.clock == ClockMode::burst ? 0.06 : 2.8) * units::s;
}

LiveResult measure_all(Measurer& measurer, const std::vector<LiveTask>& tasks, const PriceTask& price,
                       const std::function<bool()>& stop, Progress& progress) {
  LiveResult result;
  Remaining remaining(tasks);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (stop()) {
      result.end = LiveEnd::interrupted;
      break;
    }
    progress.before(i, tasks.size(), tasks[i], remaining.left());
    try {
      result.recording.cases.push_back(measure_one(measurer, tasks[i], price));
    } catch (const DeviceError& error) {
      result.end = LiveEnd::device_lost;
      result.device_error = case_text(tasks[i].what) + ": " + error.what();
      break;
    }
    remaining.done(tasks[i]);
  }
  progress.finish();
  result.recording.session = measurer.session();  // at the end: it counts dropped records
  return result;
}

StopOnSignal::StopOnSignal() {
  stop_asked = 0;
  struct sigaction action {};
  action.sa_handler = ask_to_stop;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, &interrupt_before_);
  sigaction(SIGTERM, &action, &terminate_before_);
}

StopOnSignal::~StopOnSignal() {
  sigaction(SIGINT, &interrupt_before_, nullptr);
  sigaction(SIGTERM, &terminate_before_, nullptr);
}

bool StopOnSignal::asked() { return stop_asked != 0; }

}  // namespace plumbline

// A whole step of a model, measured: what was run, and what came out. The operators are those of the lowered graph that
// the prediction prices, on our own kernels, in one CUDA graph.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/predict.hpp"
#include "ops/graph/workload.hpp"
#include "validate/record/measurer.hpp"

namespace plumbline {

/// One step to measure. burst: a few steps after a pause; steady: back to back until clock and power have settled.
struct StepCase {
  std::string model;        ///< a name under data/models, or a config.json
  Workload workload;        ///< workload.parallel.tensor: on how many GPUs
  std::int64_t layers = 0;  ///< of the model's, the first ones; 0: all
  ClockMode clock = ClockMode::steady;
  std::string study, place;
  bool held_out = false;  ///< the list says so
};
/// "llama-3.1-8b decode batch=1 context=512 page=64, steady"; " tp=2 layers=16" behind the page where they are asked for.
std::string step_text(const StepCase& what);
/// A model with its first `layers` layers alone; 0: all. Throws BadInput as load_llm() does, and for more layers than the
/// model has.
Llm first_layers(const std::string& model, std::int64_t layers);
/// The case's model, with as many layers as it says.
Llm step_llm(const StepCase& what);

/// "attention", and of a backward pass "attention (bwd)".
std::string step_node_name(const Node& node);

/// How a burst is run: behind a pause, some launches that do not count, then a few, of which the first is left out, as it
/// also holds a kernel of the clocks. Its time is the median of the others.
struct StepBurst {
  static constexpr std::size_t kWarmUps = 2;
  /// Launches behind the warm-ups, of a step that takes `one`.
  static std::size_t counted(Seconds one);
  /// Launches before the one whose time is the median, if each takes longer than the one before.
  static std::size_t before_median(Seconds one);
};

/// All executions of one operator of the graph within a step, by the profiler, from the end of the one before to its
/// own end.
struct MeasuredStepOp {
  std::string name, op, kernel;  ///< node of the graph (step_node_name), operator, kernel of its first launch
  std::int64_t count = 0;        ///< executions a step
  std::int64_t launches = 0;     ///< of one execution
  Seconds time;                  ///< mean of one execution
};

/// One GPU's part of a step that several run.
struct StepRank {
  Seconds time;  ///< median
  std::optional<Hertz> sm_clock;
  std::optional<Watts> power;
};

struct StepMeasurement {
  StepCase what;
  /// From one step's first kernel to the next one's, graph launches back to back, nothing attached: median, 10th and
  /// 90th percentile. Of several GPUs the slowest one's.
  Seconds time, low, high;
  int samples = 0;
  /// The same with the profiler attached, first start to last end; of several GPUs the first one's.
  std::optional<Seconds> traced;
  Conditions conditions;         ///< of several GPUs: clocks and powers are means over them
  std::optional<Joules> energy;  ///< of one step, whole board (steady only); of several GPUs the mean
  std::vector<StepRank> ranks;   ///< empty where one GPU runs the step
  std::vector<MeasuredStepOp> ops;
  double memory_B = 0;  ///< that the step's buffers took
  std::string fault;    ///< not empty: why there is no time
};

struct StepRecording {
  MeasuringSession session;
  std::vector<StepMeasurement> steps;
};

/// What is asked of the card: a case and the step as it was priced, whose plans are run.
struct StepTask {
  StepCase what;
  const StepPrediction* priced = nullptr;
};

/// Of one operator of a step, run once on its own and compared with the definition in fp64 on the host.
struct StepOpCheck {
  std::string name;
  std::int64_t layer = 0;
  double error = 0;  ///< largest |got - expected| / max(|expected|, its root mean square), over what was compared
  double bound = 0;
  bool good() const { return error <= bound; }
};

class StepMeasurer {
 public:
  virtual ~StepMeasurer() = default;
  virtual MeasuringSession session() const = 0;
  /// A step that cannot be run comes back with a fault. Throws DeviceError for a card that is gone.
  virtual StepMeasurement measure(const StepTask& task) = 0;
  /// The operators' own times and the traced span, into what `measure` gave for the same task. Attaches the profiler
  /// for good: to be called when all spans are measured.
  virtual void trace(const StepTask& task, StepMeasurement& out) = 0;
  /// Runs first and last layer operator by operator against references.
  virtual std::vector<StepOpCheck> check(const StepTask& task) = 0;
};

/// CSV `model,phase,batch` and any of `context,prompt,page,dtype,tp,layers,clock,study`; strict like other lists. Whether a list is one
/// of steps: its header has a column `model`.
bool is_step_study(std::string_view csv, const std::string& place);
std::vector<StepCase> parse_step_study(std::string_view csv, const std::string& place);

/// JSON, schema "plumbline.steps.v1": as other recordings, one step a line.
std::string step_recording_json(const StepRecording& recording);
StepRecording parse_step_recording(const std::string& json_text, const std::string& place);
bool is_step_recording(const std::string& json_text);

}  // namespace plumbline

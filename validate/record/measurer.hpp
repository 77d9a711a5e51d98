// What a measurement of one operator is, and who can give one: the card at hand, or a recording. Everything but the
// measuring itself is tested on recordings.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "arch/calibration/calibration.hpp"
#include "arch/units.hpp"
#include "model/predict.hpp"
#include "ops/op/shapes.hpp"

namespace plumbline {

/// cold: operands rotate over more than three times the L2; warm: the same operands every time.
enum class CacheState { cold, warm };
std::string_view name(CacheState cache);

/// One row of a study: what to run and how.
struct StudyCase {
  Op op;
  std::string shape;  ///< canonical text
  CacheState cache = CacheState::cold;
  ClockMode clock = ClockMode::burst;  ///< burst: a few tens of ms after a pause; steady: until clock and power settle
  std::string study;                   ///< "train", "heldout", "quick": which list it came from
  std::string place;                   ///< "train.csv:17"
  DataPattern data = DataPattern::normal;
  bool held_out = false;  ///< the list says so (validate/record/held_out.hpp has the rule for the others)
};

/// The card while the timed launches ran. Empty where the board does not say.
struct Conditions {
  /// Of the SMs' own cycle counters over the timed executions where those last 100 us or more together, else what the
  /// board says, which does not follow the clock within a burst.
  std::optional<Hertz> sm_clock;
  std::optional<Hertz> board_clock;  ///< steady: what the board says the SM clock is; the SMs skip some of it
  std::optional<Hertz> memory_clock;
  std::optional<Watts> power;         ///< steady: mean of the energy counter over the timed window
  std::optional<Watts> memory_power;  ///< steady: of the memory's domain alone, mean over the last second
  std::optional<double> temperature_C;
  std::uint64_t clock_event_reasons = 0;  ///< NVML's bits, any of them seen while timing (0x4: power cap)
};

/// One kernel of the operator, as the profiler saw it.
struct MeasuredLaunch {
  std::string kernel;  ///< demangled, without its arguments
  Seconds time;        ///< median of end - start
  std::int64_t grid = 0, block = 0, registers = 0, shared_memory_B = 0, cluster = 1;
};

struct CaseMeasurement {
  StudyCase what;
  KernelSet kernels = KernelSet::own;
  std::string kernel, plan;  ///< which kernel ran, and how it cut the shape, as text
  Seconds time;              ///< median over samples of (last end - first start) of one execution's kernels
  Seconds low, high;         ///< 10th and 90th percentile
  int samples = 0;
  std::vector<MeasuredLaunch> launches;
  Conditions conditions;
  std::optional<Joules> energy;  ///< of one execution, whole board (steady only)
  std::string fault;             ///< not empty: why there is no time ("no library kernel for rmsnorm")
};

/// Where and when.
struct MeasuringSession {
  std::string gpu;   ///< descriptor name, "h200_sxm"; empty when the card is none that we know
  std::string card;  ///< as the driver names it
  std::string driver, toolkit, profiler, date;
  double l2_B = 0, memory_B = 0, power_limit_W = 0;
  std::int64_t sms = 0;
  std::uint64_t dropped_records = 0;
};

class Measurer {
 public:
  virtual ~Measurer() = default;
  virtual MeasuringSession session() const = 0;
  /// Runs the operator as `priced` planned it. A case that cannot be run comes back with a fault; DeviceError is for a
  /// card that is gone.
  virtual CaseMeasurement measure(const StudyCase& what, KernelSet kernels, const OpPrediction& priced) = 0;
};

}  // namespace plumbline

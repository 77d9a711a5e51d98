// What a measurement of one operator is: what was run, what came out, under which conditions, and where it comes from. Two
// readers give measurements, of anyone's CSV (measurement_csv.hpp) and of recordings (recorded.hpp); a card gives them too
// (measurer.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arch/calibration/calibration.hpp"
#include "arch/units.hpp"
#include "model/predict.hpp"
#include "ops/shape/shapes.hpp"
#include "validate/record/held_out.hpp"
#include "validate/record/protocol.hpp"

namespace plumbline {

/// cold: operands rotate over more than three times the L2; warm: the same operands every time; read_through: operands lie
/// in DRAM, and a large array was read right before (PredictOptions::read_through).
enum class CacheState { cold, warm, read_through };
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
  std::optional<Bytes> memory_used;       ///< of the card, by whomever: the most that was seen
  /// Bytes a second by the board's counters between the first look at it and the last.
  std::optional<Bandwidth> pcie_tx, pcie_rx, nvlink_tx, nvlink_rx;
};

/// One kernel of the operator, as the profiler saw it.
struct MeasuredLaunch {
  std::string kernel;  ///< demangled, without its arguments
  Seconds time;        ///< median of end - start
  std::int64_t grid = 0, block = 0, registers = 0, shared_memory_B = 0, cluster = 1;
};

/// Who measured a row and how, as far as its file says.
struct RowOrigin {
  std::string gpu;  ///< descriptor name, or what the file calls the card
  std::string stack, scope, id;
  Protocol protocol;
};

/// One operator measured. With a `fault` there is no time.
struct Measurement {
  StudyCase what;
  bool clock_known = true;   ///< false: the file does not say how the row was timed, and `what.clock` is burst
  bool cache_known = false;  ///< the row says what L2 holds, whatever its protocol
  KernelSet kernels = KernelSet::own;  ///< whose kernel ran; rows of a CSV do not say, and are priced as asked
  std::string kernel;                  ///< which one
  std::string plan;                    ///< how it cut the shape (ops/plan/text.hpp), where the file says so
  Seconds time;                        ///< median over samples of (last end - first start) of one execution's kernels
  Seconds low, high;                   ///< 10th and 90th percentile
  int samples = 0;
  std::vector<MeasuredLaunch> launches;
  Conditions conditions;
  std::optional<Watts> published_power;  ///< a CSV's `measured_W`; recordings have theirs in `conditions`
  std::optional<Joules> energy;          ///< of one execution, whole board (steady only)
  RowOrigin origin;
  HeldOut held_out = HeldOut::no;  ///< as the readers found it
  std::string fault;               ///< why there is no time ("no library kernel for rmsnorm")

  /// The power that a prediction is held against: as published, or the mean of a steady window. A burst has none.
  std::optional<Watts> power() const;
  bool warm() const { return what.cache == CacheState::warm; }
};

inline const std::string& place_of(const Measurement& row) { return row.what.place; }

/// Where and when.
struct MeasuringSession {
  std::string gpu;   ///< descriptor name, "h200_sxm"; empty when the card is none that we know
  std::string card;  ///< as the driver names it
  std::string driver, toolkit, profiler, date;
  double l2_B = 0, memory_B = 0, power_limit_W = 0;
  std::int64_t sms = 0;
  std::uint64_t dropped_records = 0;
  std::int64_t other_processes = 0;  ///< the most that were seen computing on the card beside this one
};

/// "2 other processes on the card", for reports and messages.
std::string shared_card_text(const MeasuringSession& session);

/// "burst" or "steady"; throws BadInput that starts with `place`.
ClockMode read_clock_mode(std::string_view text, const std::string& place);
std::string_view text_of(ClockMode clock);

}  // namespace plumbline

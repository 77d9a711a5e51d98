// Power, energy and the clock that a power cap leaves.
//
//   P(f, T) = constant + clocked (f/f_boost) v(f) + leakage (T - T_ref)
//             + [ v(f) (sum_k n_k e_k + polling) + DRAM bytes x their energy ] / t(f),  v(f) = (V(f)/V(f_boost))^2
//
// n_k counts what a launch does on the chip (tensor FLOPs by format, FP32 and SFU operations, instructions, bytes
// through shared memory and L2), from the same Demand that its time comes from; t(f) is that time with SM cycles at f
// and DRAM in its own time. V is flat up to a knee and rises linearly above it (arXiv 2607.00819: A40 to H200 need no
// more). The memory has a supply of its own, on which
// a part of a DRAM byte's energy is spent; the way through the chip takes the other. The temperature follows the power:
// T = T_cool + R x P. The n_k e_k do not depend on f, so a launch's energy is two numbers, worked out once. Warps that
// wait for a copy engine's bytes poll barriers meanwhile, which is work too: watts of an SM for the time that its tensor
// units rest, at the boost clock.
//
// Two clocks: the regulator sets f so that the mean power meets the cap (tens of ms); within microseconds the SMs skip
// cycles of it where tensor units work: a fixed share, and beyond some power (bursts on random data) more with every
// watt, as a load line has it. Nothing but the SMs' own cycle counters shows it: the board reports f.
//
// Two limits hold f down: the cap on mean power, and one on tensor work as counted, whatever the data. Both grow with
// f, so that the clock is where the tighter one is met.
#pragma once

#include <algorithm>
#include <array>
#include <optional>

#include "arch/calibration/calibration.hpp"
#include "arch/dtype.hpp"
#include "arch/gpu/gpu.hpp"
#include "model/engine/demand.hpp"
#include "model/engine/formula.hpp"

namespace plumbline {

using JoulesPerFlop = Quantity<-1, 0, 0, 1>;
using JoulesPerByte = Quantity<0, -1, 0, 1>;

/// The `power` section of a calibration. Energies at the boost clock's voltage, of standard normal data.
struct PowerScalars {
  Hertz boost;          ///< the boost clock that energies and shares of the clock speak of; 0: the card's own
  Watts constant;       ///< of the board with its clocks running, at `reference_C`, less `clocked`
  Watts clocked;        ///< clock trees at the boost clock
  Watts leakage_per_K;  ///< above `reference_C`
  double reference_C = 50;
  double cool_C = 30;  ///< the chip's temperature at 0 W, and how much a watt adds
  double kelvin_per_W = 0;
  double knee = 0.6;         ///< share of the boost clock up to which the voltage is flat
  double floor_voltage = 1;  ///< the voltage there / at the boost clock
  PerDType<JoulesPerFlop> tensor;
  JoulesPerFlop fp32;
  /// Of products on ordinary lanes, beyond their instructions and beyond what zeros take: operands whose bits change.
  JoulesPerFlop lane_product;
  Joules sfu, instruction;  ///< of one thread's operation; `instruction`: beyond what it computes
  JoulesPerByte smem, l2, dram_read, dram_write;
  /// Of all SMs while their warps poll barriers (Demand::polls), at the boost clock; 0: not measured.
  Watts polling;
  JoulesPerByte link;        ///< sent over NVLink to another GPU, both ends' way through L2 with it; 0: never measured
  Watts links_awake;         ///< what a board's NVLinks take while its GPU works with others, whether they carry or not
  double memory_supply = 1;  ///< share of a DRAM byte's energy on the memory's own supply; the rest is the chip's
  /// Share of the energy of arithmetic (tensor units, FP32), and of moving data (registers to DRAM), that a pattern
  /// takes.
  std::array<double, kDataPatternCount> tensor_toggle{1, 1, 1, 1}, move_toggle{1, 1, 1, 1};
  /// The same of rows that a tile has beyond the shape: zeros against the other operand, which is not.
  double zero_rows_toggle = 1;
  double skipped_cycles = 0;  ///< share of SM cycles skipped where tensor units work
  double skipped_per_W = 0;   ///< and by how much more for each watt beyond `skipped_more_from`: the load line
  Watts skipped_more_from;
  double regulator_aim = 1;  ///< mean power that the regulator settles at / the cap
  /// Shares of the boost clock a second by which it moves the clock where the power is off by all that it aims at
  /// (model/predictor/regulator.hpp). 0: not known, one clock for a step.
  double regulator_pace = 0;
  double chip_spread = 0;  ///< what the chip's energies differ by from card to card: standard deviation / mean
  /// What the board lets tensor units take by an estimate that counts their work and does not know the data: dense work
  /// on zeros is held down at 430 W of 700. 0: no such limit known.
  Watts tensor_limit;
  /// Measured / predicted power at the 5 % and 95 % quantile of training runs that were not fitted: held down by the
  /// regulator, free, and free but shorter than 10 us.
  struct Band {
    double low = 0.6, high = 1.65;
    bool operator==(const Band&) const = default;
  };
  Band held_down, free, brief;

  bool operator==(const PowerScalars&) const = default;
};

/// Nothing when the calibration has no such section. Throws BadInput for one that lacks a scalar.
std::optional<PowerScalars> read_power_scalars(const Calibration& calibration);

/// The same chip with another boost clock, `ratio` of the one that `power` speaks of: on the same line of voltage over
/// frequency, and straight on above it.
PowerScalars at_boost(const PowerScalars& power, double ratio);

/// For a card without energies of its own: those of `from` by process node and voltage; what does not go with work, and
/// limits, as shares of the cap. Not measured on `to`. `logic`: energy of the same logic in the process of `to` / of
/// `from` (Process::energy_ratio).
PowerScalars scaled_to(const PowerScalars& power, const GpuNumbers& from, const GpuNumbers& to, double logic);

/// The band of an execution of that power and time; `aim`: what the regulator holds to, above all for bursts.
const PowerScalars::Band& power_band(const PowerScalars& power, Watts board, Watts aim, Seconds time);

/// What a launch does, beside its time: the counts n_k.
struct Activity {
  Flops tensor;  ///< useful ones
  Flops padded;  ///< of tiles beyond the shape: zeros
  Flops fp32;
  Flops lane_products;  ///< of `fp32` those of matrix products
  double sfu = 0, instructions = 0;
  Bytes smem, l2, dram_read, dram_write;
  Seconds polling;  ///< in which warps poll x their share of the SMs
};
Activity activity(const Demand& demand, Flops useful_tensor, DType math, const StreamingMultiprocessor& sm);

/// How long the warps of a launch that takes `time` poll, x the share of the SMs that they are on: while the tensor units
/// of those SMs, at `clock`, rest.
Seconds polled(const Demand& demand, Seconds time, double sm_count, Hertz clock);

struct LaunchEnergy {
  Joules chip;    ///< at the boost clock's voltage
  Joules memory;  ///< on the memory's own supply
};
LaunchEnergy energy_of(const Activity& activity, DType math, const PowerScalars& power, DataPattern data);
/// What the board's own estimate of tensor work comes to: as if on normal data, at the boost clock's voltage.
Joules estimated_tensor_energy(const Activity& activity, DType math, const PowerScalars& power);

/// v(f) of a share f of the boost clock.
double voltage_squared(const PowerScalars& power, double clock_share);
/// Share of SM cycles that is left where tensor units work; `full`: power if only `skipped_cycles` were skipped, `standing`: the
/// part of it that does not go with the cycles. Both at one voltage.
double cycles_left(const PowerScalars& power, Watts full, Watts standing);
/// Board power when work takes `dynamic` beside what the clocks take at this share of the boost clock, once the
/// temperature has followed.
Watts settled_power(const PowerScalars& power, double clock_share, Watts dynamic);

/// What a run takes beside its time: enough to say its power at any clock and time.
struct RunEnergy {
  Joules chip;             ///< at the boost clock's voltage
  Joules memory;           ///< on the memory's own supply
  Joules tensor_estimate;  ///< what the limit on tensor work counts, at the boost clock's voltage
};
/// P(f): board power of a run that takes `time` at that share of the boost clock. The one place where work becomes
/// watts: predictions, the search for the clock, explanations and the fits of energies call it. Linear in the energies,
/// so that what one of them adds is this power with that energy alone (validate/fit/power_columns.hpp).
Watts run_power(const PowerScalars& power, double clock_share, const RunEnergy& run, Seconds time);
/// The same, and how it adds up.
Written<Watts> written_power(const PowerScalars& power, double clock_share, const RunEnergy& run, Seconds time);
/// The power that counts for the clock: the board's, or what is as far from `cap` as the estimate of tensor work is
/// from its limit.
Watts binding_power(const PowerScalars& power, Watts cap, const RunEnergy& run, double clock_share, Seconds time);

inline constexpr double kLowestClockShare = 0.17;  // 345 of 1980 MHz: the lowest that a GH100 runs at
inline constexpr int kMostClockSteps = 8;

/// Looks for the largest share of the boost clock at which a run keeps within `cap`. Only its time has to be asked for
/// (it is dear), and between two shares it is close to a power of the share: so each guess is where the power, with the
/// time so interpolated, meets the cap.
class ClockSearch {
 public:
  ClockSearch(const PowerScalars& power, Watts cap, const RunEnergy& run, Seconds time_at_boost);
  /// Already within the cap at the boost clock.
  bool unlimited() const { return unlimited_; }
  double guess() const;
  /// Nothing better to be had: 0.04 % below the cap or nearer, or no lower clock. (Times must not differ by what the
  /// search leaves: a faster machine would seem slower.)
  bool tell(double share, Seconds time);
  /// Within the cap and at most 0.3 % below it.
  bool near() const { return near_; }
  /// The largest share told that keeps within the cap; the lowest clock if none did.
  double best() const { return low_.share > 0 ? low_.share : kLowestClockShare; }

 private:
  struct Point {
    double share = 0, log_share = 0, log_time = 0;
  };
  double aim_share(double aim) const;
  double time_slope() const;
  const PowerScalars& power_;
  const Watts cap_;
  const RunEnergy run_;
  bool unlimited_ = false, last_below_ = false, near_ = false;
  int told_ = 0;
  Point low_, high_, above_;  // below the cap, above it, and the one above that
};

/// `time_at(share)` prices the run; kMostClockSteps calls at most, and up to as many again in the odd case that none of
/// them came near the cap from below.
template <class TimeAt>
double settled_clock_share(const PowerScalars& power, Watts cap, const RunEnergy& run, Seconds at_boost,
                           const TimeAt& time_at) {
  ClockSearch search(power, cap, run, at_boost);
  if (search.unlimited()) return 1;
  for (int i = 0; i < 2 * kMostClockSteps; ++i) {
    if (i >= kMostClockSteps && search.near()) break;
    const double share = search.guess();
    if (search.tell(share, time_at(share))) break;
  }
  return search.best();
}

}  // namespace plumbline

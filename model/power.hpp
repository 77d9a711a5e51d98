// Power, energy and the clock that a power cap leaves.
//
//   P(f, T) = constant + clocked (f/f_boost) v(f) + leakage (T - T_ref)
//             + [ v(f) sum_k n_k e_k  +  DRAM bytes x their energy ] / t(f),      v(f) = (V(f)/V(f_boost))^2
//
// n_k counts what a launch does on the chip (tensor FLOPs by format, FP32 and SFU operations, instructions, bytes
// through shared memory and L2), from the same Demand that its time comes from; t(f) is that time with SM cycles at f
// and DRAM in its own time. V is flat up to a knee and rises linearly above it (arXiv 2607.00819: A40 to H200 need no
// more). The memory has a supply of its own, on which
// a part of a DRAM byte's energy is spent; the way through the chip takes the other. The temperature follows the power:
// T = T_cool + R x P. The n_k e_k do not depend on f, so a launch's energy is two numbers, worked out once.
//
// Two clocks: the regulator sets f so that the mean power meets the cap (tens of ms); within microseconds the SMs skip
// cycles of it where tensor units work: a fixed share, and beyond some power (bursts on random data) more with every
// watt, as a load line has it. Nothing but the SMs' own cycle counters shows it: the board reports f.
#pragma once

#include <algorithm>
#include <array>
#include <optional>

#include "arch/calibration.hpp"
#include "arch/dtype.hpp"
#include "arch/gpu.hpp"
#include "model/demand.hpp"

namespace plumbline {

class Machine;
struct FamilyScalars;
struct OpPrediction;

using JoulesPerFlop = Quantity<-1, 0, 0, 1>;
using JoulesPerByte = Quantity<0, -1, 0, 1>;

/// The `power` section of a calibration. Energies at the boost clock's voltage, of standard normal data.
struct PowerScalars {
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
  Joules sfu, instruction;  ///< of one thread's operation; `instruction`: beyond what it computes
  JoulesPerByte smem, l2, dram_read, dram_write;
  double memory_supply = 1;  ///< share of a DRAM byte's energy on the memory's own supply; the rest is the chip's
  /// Share of the energy of tensor FLOPs, and of moving their operands and all other data, that a pattern takes.
  std::array<double, kDataPatternCount> tensor_toggle{1, 1, 1, 1}, move_toggle{1, 1, 1, 1};
  double droop = 0;        ///< share of SM cycles skipped where tensor units work
  double droop_per_W = 0;  ///< and by how much more for each watt beyond `droop_from`: the load line
  Watts droop_from;
  double regulator_aim = 1;  ///< mean power that the regulator settles at / the cap
};

/// Nothing when the calibration has no such section. Throws BadInput for one that lacks a scalar.
std::optional<PowerScalars> read_power_scalars(const Calibration& calibration);

/// For a card without energies of its own: each resource at its full rate takes the same share of the cap as it does on
/// `from`. Not measured on `to`: a first guess that keeps power between idle and the cap.
PowerScalars scaled_to(const PowerScalars& power, const Gpu& from, const Gpu& to);

/// What a launch does, beside its time: the counts n_k.
struct Activity {
  Flops tensor;  ///< useful ones
  Flops padded;  ///< of tiles beyond the shape: zeros
  Flops fp32;
  double sfu = 0, instructions = 0;
  Bytes smem, l2, dram_read, dram_write;
};
Activity activity(const Demand& demand, Flops useful_tensor, DType math, const Gpu& gpu);

struct LaunchEnergy {
  Joules chip;    ///< at the boost clock's voltage
  Joules memory;  ///< on the memory's own supply
};
LaunchEnergy energy_of(const Activity& activity, DType math, const PowerScalars& power, DataPattern data);

/// v(f) of a share f of the boost clock.
double voltage_squared(const PowerScalars& power, double clock_share);
/// Share of SM cycles that is left where tensor units work; `full`: power if only `droop` were skipped, `standing`: the
/// part of it that does not go with the cycles. Both at one voltage.
double kept_cycles(const PowerScalars& power, Watts full, Watts standing);
/// Board power when work takes `dynamic` beside what the clocks take at this share of the boost clock, once the
/// temperature has followed.
Watts settled_power(const PowerScalars& power, double clock_share, Watts dynamic);

/// The largest share of the boost clock, at most 1 and at least kLowestClockShare, with `power_at(share)` <= cap, to
/// 0.25 % of the cap; `power_at` grows with the share. A secant in f v(f), in which the power of work on the SMs alone
/// is a straight line, inside its bracket; at most kMostClockSteps calls.
inline constexpr double kLowestClockShare = 0.17;  // 345 of 1980 MHz: the lowest that a GH100 runs at
inline constexpr int kMostClockSteps = 5;
template <class PowerAt>
double settled_clock_share(const PowerScalars& power, Watts cap, Watts at_boost, const PowerAt& power_at);

/// The energies of an op whose launches are priced; they do not depend on the clock.
void set_energies(OpPrediction& op, const Machine& machine);
/// Prices the launches of `op` again at a share of the boost clock; adds power, energy and clock.
void reprice(OpPrediction& op, const Machine& machine, double clock_share);
/// An op priced at the boost clock on a machine that runs steadily: brings it to the clock that the cap leaves when the
/// op is repeated.
void settle(OpPrediction& op, const Machine& machine);

/// What the power of work on the SMs goes with: f v(f).
double work_share(const PowerScalars& power, double clock_share);
/// Its inverse between kLowestClockShare and 1.
double clock_share_of(const PowerScalars& power, double work_share);

template <class PowerAt>
double settled_clock_share(const PowerScalars& power, Watts cap, Watts at_boost, const PowerAt& power_at) {
  if (at_boost <= cap) return 1;
  const double least = work_share(power, kLowestClockShare);
  double low = least, high = 1;     // of f v(f): the cap is met at `low`, if anywhere, and passed at `high`
  double before = 0, next = 0;      // the last two points of the secant
  Watts p_before = power.constant;  // what is left without any work, to begin with
  Watts p_next = at_boost;
  double best = 0;
  next = 1;
  for (int i = 0; i < kMostClockSteps; ++i) {
    // a little below the cap, so that the last of few steps does not end a little above it
    const Watts aim = (i + 1 < kMostClockSteps || best > 0 ? 0.999 : 0.99) * cap;
    const Watts rise = p_next - p_before;
    double y = rise > Watts{} ? next + (next - before) * ((aim - p_next) / rise) : low;
    if (!(y > low && y < high))
      y = best > 0 || low > least ? 0.5 * (low + high) : std::max(least, 0.5 * (least + high));
    const double share = clock_share_of(power, y);
    const Watts now = power_at(share);
    before = next, p_before = p_next;
    next = y, p_next = now;
    if (now <= cap) {
      best = std::max(best, share);
      low = std::max(low, y);
      if (now >= 0.9975 * cap) break;
    } else {
      high = std::min(high, y);
    }
  }
  return best > 0 ? best : kLowestClockShare;
}

}  // namespace plumbline

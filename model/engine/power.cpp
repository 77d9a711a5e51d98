#include "model/engine/power.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "arch/error.hpp"

namespace plumbline {
namespace {

class PowerSection {
 public:
  explicit PowerSection(const Calibration& calibration) : calibration_(calibration) {}

  double number(const std::string& key) const {
    const auto it = calibration_.power.find(key);
    if (it == calibration_.power.end()) {
      throw BadInput("calibration of " + calibration_.gpu + ": power: missing scalar '" + key + "'");
    }
    return it->second.value;
  }
  double number_or(const std::string& key, double otherwise) const {
    const auto it = calibration_.power.find(key);
    return it == calibration_.power.end() ? otherwise : it->second.value;
  }

 private:
  const Calibration& calibration_;
};

void read_tensor_energies(const PowerSection& s, PowerScalars& p) {
  constexpr JoulesPerFlop kUnit = units::J / units::FLOP;
  const double bf16 = s.number("tensor_bf16_J_per_FLOP");
  // Not measured: as the bits that are multiplied. A format of half the width takes half of bf16's, as fp8 about does.
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    const auto type = static_cast<DType>(i);
    const double wide = type == DType::fp64 ? 8 : type == DType::tf32 || type == DType::fp32 ? 2 : 1;
    const double narrow = type == DType::fp8 || type == DType::int8 ? 0.5 : bits(type) < 6 ? 0.25 : 1;
    p.tensor[type] = s.number_or("tensor_" + std::string(name(type)) + "_J_per_FLOP", bf16 * wide * narrow) * kUnit;
  }
}

}  // namespace

std::optional<PowerScalars> read_power_scalars(const Calibration& calibration) {
  if (calibration.power.empty()) return std::nullopt;
  const PowerSection s(calibration);
  PowerScalars p;
  p.boost = s.number_or("boost_clock_Hz", 0) * units::Hz;
  p.constant = s.number("constant_W") * units::W;
  p.clocked = s.number("clocked_W") * units::W;
  p.leakage_per_K = s.number_or("leakage_W_per_K", 0) * units::W;
  p.reference_C = s.number_or("reference_C", 50);
  p.cool_C = s.number_or("cool_C", p.reference_C);
  p.kelvin_per_W = s.number_or("thermal_K_per_W", 0);
  p.knee = s.number("knee_fraction");
  p.floor_voltage = s.number("floor_voltage_fraction");
  read_tensor_energies(s, p);
  p.fp32 = s.number("fp32_J_per_FLOP") * (units::J / units::FLOP);
  p.lane_product = s.number_or("lane_product_J_per_FLOP", 0) * (units::J / units::FLOP);
  p.sfu = s.number("sfu_J") * units::J;
  p.instruction = s.number("instruction_J") * units::J;
  p.smem = s.number("smem_J_per_B") * (units::J / units::B);
  p.l2 = s.number("l2_J_per_B") * (units::J / units::B);
  p.dram_read = s.number("dram_read_J_per_B") * (units::J / units::B);
  p.dram_write = s.number("dram_write_J_per_B") * (units::J / units::B);
  p.polling = s.number_or("polling_W", 0) * units::W;
  p.link = s.number_or("link_J_per_B", 0) * (units::J / units::B);
  p.links_awake = s.number_or("links_awake_W", 0) * units::W;
  p.memory_supply = s.number_or("memory_supply_fraction", 1);
  for (std::size_t i = 0; i < kDataPatternCount; ++i) {
    const std::string pattern(name(static_cast<DataPattern>(i)));
    p.tensor_toggle[i] = s.number_or("tensor_toggle_" + pattern, 1);
    p.move_toggle[i] = s.number_or("move_toggle_" + pattern, 1);
  }
  p.zero_rows_toggle =
      s.number_or("tensor_toggle_zero_rows", p.tensor_toggle[static_cast<std::size_t>(DataPattern::zeros)]);
  p.skipped_cycles = s.number_or("droop_ratio", 0);
  p.skipped_per_W = s.number_or("droop_ratio_per_W", 0);
  p.skipped_more_from = s.number_or("droop_from_W", 0) * units::W;
  p.regulator_aim = s.number_or("regulator_aim_fraction", 1);
  p.regulator_pace = s.number_or("regulator_pace_per_s", 0);
  p.chip_spread = s.number_or("chip_spread", 0);
  p.tensor_limit = s.number_or("tensor_limit_W", 0) * units::W;
  const auto band = [&s](const std::string& what, PowerScalars::Band& into) {
    into.low = std::exp(s.number_or("band_" + what + "_low", std::log(into.low)));
    into.high = std::exp(s.number_or("band_" + what + "_high", std::log(into.high)));
  };
  band("held_down", p.held_down);
  band("free", p.free);
  band("brief", p.brief);
  return p;
}

const PowerScalars::Band& power_band(const PowerScalars& p, Watts board, Watts aim, Seconds time) {
  constexpr double kAtTheCap = 0.98;
  if (board >= kAtTheCap * aim) return p.held_down;
  return time < 10.0 * units::us ? p.brief : p.free;
}

namespace {

/// What a byte that one request brings to two SMs takes in the second, of the energy of a byte that an SM asks for itself:
/// bulk copies from L2 on an H200 take 29.4 pJ a byte that arrives, 18.0 where each CTA of two fetches one half for both
/// (data/measurements/h200/probe/multicast.jsonl, slopes of watts over 0.2 to 3.0 TB/s, 2026-11-23).
constexpr double kDelivery = 0.22;
/// Instructions of a warp that a clock of requests for single elements or pairs stands for (Demand::pieces_clk): what six
/// products of a library with vocabularies of 50257 and 30522 take on an H200 beyond tensor work and bytes, 7.3 to 9.8 nJ a
/// request (data/measurements/h200/pytorch_training/eager_power.jsonl), at the energy of other instructions. An SM issues up
/// to four a clock.
constexpr double kIssuedWithPieces = 3.2;

}  // namespace

Activity activity(const Demand& d, Flops useful_tensor, DType math, const StreamingMultiprocessor& sm) {
  const double steps = static_cast<double>(d.plan.ctas) * d.plan.steps;
  Activity a;
  const double rate = sm.tensor_flop_per_clk[math];
  const Flops tensor = steps * d.tensor_clk * rate * units::FLOP;
  a.tensor = std::min(tensor, useful_tensor);  // of a launch without tensor work none
  a.padded = tensor - a.tensor;
  a.fp32 = steps * d.fp32_clk * sm.fp32_flop_per_clk * units::FLOP;
  a.sfu = steps * d.sfu_clk * sm.sfu_op_per_clk;
  a.instructions = steps * ((d.issue_clk - d.waiting_issue_clk) * sm.issue_per_clk + d.pieces_clk * kIssuedWithPieces) *
                   static_cast<double>(sm.warp_size);
  if (rate <= 0 && d.tensor_clk > 0) {  // ordinary lanes multiply and add, one instruction for both
    a.fp32 += useful_tensor;
    a.instructions += 0.5 * useful_tensor.in(units::FLOP);
  }
  if (rate <= 0) a.lane_products = std::min(useful_tensor, a.fp32);
  a.smem = steps * (d.smem_clk - d.pieces_clk + d.smem_hidden_clk) * sm.smem_bytes_per_clk;
  a.l2 = steps * (d.l2 + d.l2_hidden + kDelivery * d.delivered);
  a.dram_read = d.dram_read;
  a.dram_write = d.dram_write;
  return a;
}

Seconds polled(const Demand& d, Seconds time, double sm_count, Hertz clock) {
  if (!d.polls) return {};
  const double ctas = static_cast<double>(d.plan.ctas);
  const Seconds busy = ctas * d.plan.steps * d.tensor_clk / sm_count / clock;
  return std::max(Seconds{}, std::min(1.0, ctas / sm_count) * time - busy);
}

namespace {

/// Bits that differ from one of two standard normal numbers to the other, of their 16: 5.63 in bf16, 6.86 in fp16, which has
/// three more bits of mantissa and three fewer of an exponent that hardly moves (counted, 300,000 pairs).
constexpr double kBitsOfHalf = 6.86 / 5.63;

/// Share of the energy of moving data that they take, of what normal data in bf16 takes: what they take beyond zeros goes
/// with the bits that differ. (Ternary data, 3.56 bits, would take 0.87 by that; measured 0.82.) Other formats: as bf16,
/// for which the energies of their own products were found.
double move_share(const PowerScalars& p, std::size_t pattern, DType math) {
  const double move = p.move_toggle[pattern];
  const double zeros = p.move_toggle[static_cast<std::size_t>(DataPattern::zeros)];
  return math == DType::fp16 ? zeros + (move - zeros) * kBitsOfHalf : move;
}

/// What data take in arithmetic beyond zeros, of what normal data take beyond them.
double beyond_zeros(const PowerScalars& p, std::size_t pattern) {
  const double zeros = p.tensor_toggle[static_cast<std::size_t>(DataPattern::zeros)];
  return zeros < 1 ? std::max(0.0, p.tensor_toggle[pattern] - zeros) / (1 - zeros) : 1;
}

}  // namespace

LaunchEnergy energy_of(const Activity& a, DType math, const PowerScalars& p, DataPattern data) {
  const auto pattern = static_cast<std::size_t>(data);
  const double tensor = p.tensor_toggle[pattern], move = move_share(p, pattern, math);
  const double zeros = data == DataPattern::zeros ? tensor : p.zero_rows_toggle;
  LaunchEnergy e;
  e.chip = (a.tensor * tensor + a.padded * zeros) * p.tensor[math] + a.fp32 * p.fp32 * tensor +
           a.lane_products * p.lane_product * beyond_zeros(p, pattern) + a.sfu * p.sfu +
           (a.instructions * p.instruction + a.smem * p.smem + a.l2 * p.l2) * move + a.polling * p.polling;
  const Joules moved = (a.dram_read * p.dram_read + a.dram_write * p.dram_write) * move;
  e.memory = p.memory_supply * moved;
  e.chip += moved - e.memory;
  return e;
}

Joules estimated_tensor_energy(const Activity& a, DType math, const PowerScalars& p) {
  return (a.tensor + a.padded) * p.tensor[math];
}

double voltage_squared(const PowerScalars& p, double share) {
  if (share >= 1 || p.knee >= 1) return 1;
  const double above = std::max(0.0, (share - p.knee) / (1 - p.knee));
  const double v = p.floor_voltage + (1 - p.floor_voltage) * above;
  return v * v;
}

double cycles_left(const PowerScalars& p, Watts full, Watts standing) {
  const double usual = 1 - p.skipped_cycles;
  if (full <= p.skipped_more_from || p.skipped_per_W <= 0) return usual;
  // left = usual - slope (P - from), P = standing + (full - standing) left / usual
  const double slope = p.skipped_per_W;
  const double above = slope * (standing - p.skipped_more_from).in(units::W),
               work = slope * (full - standing).in(units::W);
  return std::clamp((usual - above) / (1 + work / usual), 0.5 * usual, usual);
}

namespace {

/// P = at_reference + leakage (cool + R P - reference), solved for P.
template <class N>
auto board_power(const PowerScalars& p, double share, const typename N::template Of<Watts>& dynamic) {
  const double feedback = p.leakage_per_K.in(units::W)*p.kelvin_per_W;
  const auto at_reference = N::number(p.constant, "constant") +
                            N::number(p.clocked, "of clocks") * N::factor(share, "of the boost clock") *
                                N::factor(voltage_squared(p, share), "of V squared") +
                            dynamic;
  const auto leakage = N::number(p.cool_C - p.reference_C, "K") * N::number(p.leakage_per_K, "leakage a K");
  return (at_reference + leakage) / N::factor(1 - std::min(feedback, 0.5), "without its heat");
}

template <class N>
auto power_of_run(const PowerScalars& p, double share, const RunEnergy& run, Seconds time) {
  const auto work = N::number(run.chip, "chip") * N::factor(voltage_squared(p, share), "of V squared") +
                    N::number(run.memory, "memory");
  return board_power<N>(p, share, work / N::number(time, ""));
}

}  // namespace

Watts settled_power(const PowerScalars& p, double share, Watts dynamic) {
  return board_power<PlainNumbers>(p, share, dynamic);
}

Watts run_power(const PowerScalars& p, double share, const RunEnergy& run, Seconds time) {
  return power_of_run<PlainNumbers>(p, share, run, time);
}

Written<Watts> written_power(const PowerScalars& p, double share, const RunEnergy& run, Seconds time) {
  return power_of_run<WrittenNumbers>(p, share, run, time);
}

}  // namespace plumbline

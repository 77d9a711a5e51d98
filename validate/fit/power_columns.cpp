#include "validate/fit/power_columns.hpp"

#include <string_view>

namespace plumbline {

bool is_watts(const char* name) {
  const std::string_view text = name;
  return text == "constant_W" || text == "clocked_W" || text == "polling_W";
}

std::vector<PowerScalars> unit_scalars(std::span<const char* const> names, const PowerScalars& shape) {
  Calibration none;
  for (const char* name : {"constant_W", "clocked_W", "fp32_J_per_FLOP", "sfu_J", "instruction_J", "smem_J_per_B",
                           "l2_J_per_B", "dram_read_J_per_B", "dram_write_J_per_B", "tensor_bf16_J_per_FLOP",
                           "knee_fraction", "floor_voltage_fraction"}) {
    none.power[name] = Scalar{0, "none"};
  }
  for (const char* name : names) none.power[name] = Scalar{0, "none"};
  std::vector<PowerScalars> out;
  for (const char* name : names) {
    Calibration one = none;
    one.power[name].value = is_watts(name) ? 1 : kPico;
    PowerScalars p = *read_power_scalars(one);
    p.knee = shape.knee;
    p.floor_voltage = shape.floor_voltage;
    p.memory_supply = shape.memory_supply;
    p.tensor_toggle = shape.tensor_toggle;
    p.move_toggle = shape.move_toggle;
    p.zero_rows_toggle = shape.zero_rows_toggle;
    out.push_back(p);
  }
  return out;
}

std::vector<double> power_columns(std::span<const PowerScalars> units, const Activity& work, DType math,
                                  DataPattern data, double clock_share, Seconds time) {
  std::vector<double> out;
  out.reserve(units.size());
  for (const PowerScalars& p : units) {
    const LaunchEnergy e = energy_of(work, math, p, data);
    out.push_back(run_power(p, clock_share, {e.chip, e.memory, {}}, time).in(units::W));
  }
  return out;
}

}  // namespace plumbline

// What reports in JSON share.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "model/report/report.hpp"

namespace plumbline {

using Json = nlohmann::ordered_json;

/// JSON has no infinity and no NaN; one that gets here is our bug, not a figure. Throws std::logic_error.
double finite(double value, const char* key);

template <class Q>
Json optional_figure(const std::optional<Q>& value, Q unit, const char* key) {
  return value ? Json(finite(value->in(unit), key)) : Json(nullptr);
}

/// Of an operator or a step that takes `time`.
template <class Prediction>
void put_energy_band(Json& row, const Prediction& p, Seconds time) {
  std::optional<Joules> least, most;
  if (p.energy && p.power && p.power_low && p.power_high) {
    const EnergyBand band = energy_band(*p.energy, *p.power, *p.power_low, *p.power_high, time, p.low, p.high);
    least = band.low, most = band.high;
  }
  row["energy_low_J"] = optional_figure(least, units::J, "energy_low_J");
  row["energy_high_J"] = optional_figure(most, units::J, "energy_high_J");
}
/// A list of {kind, text, time_s}.
Json advice_json(const std::vector<Advice>& advice);
/// Whose whole steps the band is at least as wide as; null where none are on file.
Json band_json(const WholeStepBand& whole);
/// `fits`, `reserve_bytes`, and what would fit: null where memory sets no limit.
void put_fit(Json& out, const Fit& fit);
/// Of an iteration of training; nothing of another phase.
void put_training(Json& out, const StepReport& report);
void put_mfu(Json& out, const Mfu& mfu);
/// What was asked, and what it was assumed of; `phase` and lengths aside.
void put_model(Json& out, const StepReport& report);
void put_machine(Json& out, const StepReport& report);
/// Parameters and the cache of a token.
/// `load_s`: null where nothing says how fast the nodes read; `load_host_s`: from the host's memory to the GPUs.
void put_load(Json& out, const LoadTime& load);
/// The plan of several GPUs, its slowest stage and the cluster; null of one GPU.
void put_parallel(Json& out, const StepReport& report);
void put_sizes(Json& out, const StepReport& report);
Json memory_json(const MemoryNeed& need, Bytes capacity);
Json shares_json(const TimeShare& share);
/// What a monitor of the card would show (model/report/monitor/dcgm.hpp).
Json monitor_json(const StepReport& report);

}  // namespace plumbline

// Writes recordings: one case a line.
#include <nlohmann/json.hpp>

#include "ops/op_text.hpp"
#include "validate/fit_calibration.hpp"
#include "validate/measurement.hpp"
#include "validate/recorded.hpp"

namespace plumbline {

namespace {

using nlohmann::ordered_json;

/// Names come from drivers and profilers: bytes that are not UTF-8 become U+FFFD instead of an exception.
std::string line(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

ordered_json session_json(const MeasuringSession& s) {
  return {{"gpu", s.gpu},
          {"card", s.card},
          {"driver", s.driver},
          {"toolkit", s.toolkit},
          {"profiler", s.profiler},
          {"date", s.date},
          {"l2_B", s.l2_B},
          {"memory_B", s.memory_B},
          {"power_limit_W", s.power_limit_W},
          {"sms", s.sms},
          {"dropped_records", s.dropped_records}};
}

ordered_json launch_json(const MeasuredLaunch& l) {
  return {{"kernel", l.kernel},       {"time_s", l.time.in(units::s)},        {"grid", l.grid},      {"block", l.block},
          {"registers", l.registers}, {"shared_memory_B", l.shared_memory_B}, {"cluster", l.cluster}};
}

void add_conditions(const Conditions& c, ordered_json& out) {
  if (c.sm_clock) out["sm_clock_Hz"] = c.sm_clock->in(units::Hz);
  if (c.memory_clock) out["memory_clock_Hz"] = c.memory_clock->in(units::Hz);
  if (c.power) out["power_W"] = c.power->in(units::W);
  if (c.temperature_C) out["temperature_C"] = *c.temperature_C;
  out["clock_event_reasons"] = c.clock_event_reasons;
}

ordered_json case_json(const CaseMeasurement& c) {
  ordered_json out = {{"op", op_name(c.what.op)},    {"dtype", dtype_text(c.what.op)}, {"shape", c.what.shape},
                      {"cache", name(c.what.cache)}, {"clock", text_of(c.what.clock)}, {"kernels", key_of(c.kernels)},
                      {"study", c.what.study},       {"place", c.what.place}};
  if (!c.fault.empty()) {
    out["fault"] = c.fault;
    return out;
  }
  out["time_s"] = c.time.in(units::s);
  out["low_s"] = c.low.in(units::s);
  out["high_s"] = c.high.in(units::s);
  out["samples"] = c.samples;
  out["kernel"] = c.kernel;
  out["plan"] = c.plan;
  add_conditions(c.conditions, out);
  if (c.energy) out["energy_J"] = c.energy->in(units::J);
  out["launches"] = ordered_json::array();
  for (const MeasuredLaunch& launch : c.launches) out["launches"].push_back(launch_json(launch));
  return out;
}

}  // namespace

std::string recording_json(const Recording& recording) {
  std::string text =
      "{\n \"schema\": \"plumbline.measurements.v1\",\n \"session\": " + line(session_json(recording.session)) +
      ",\n \"cases\": [";
  const char* before = "\n  ";
  for (const CaseMeasurement& c : recording.cases) {
    text += before;
    text += line(case_json(c));
    before = ",\n  ";
  }
  return text + "\n ]\n}\n";
}

}  // namespace plumbline

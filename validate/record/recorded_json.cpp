// Writes recordings: one case a line.
#include <nlohmann/json.hpp>

#include "model/words.hpp"
#include "ops/table/text.hpp"
#include "validate/record/measurement.hpp"
#include "validate/record/recorded.hpp"
#include "validate/record/recorded_parts.hpp"
#include "validate/record/step.hpp"
#include "validate/record/study.hpp"

namespace plumbline {

namespace {

using nlohmann::ordered_json;

/// Names come from drivers and profilers: bytes that are not UTF-8 become U+FFFD instead of an exception.
std::string line(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

ordered_json session_json(const MeasuringSession& s) {
  ordered_json out = {{"gpu", s.gpu},
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
  if (s.other_processes > 0) out["other_processes"] = s.other_processes;
  return out;
}

ordered_json launch_json(const MeasuredLaunch& l) {
  return {{"kernel", l.kernel},       {"time_s", l.time.in(units::s)},        {"grid", l.grid},      {"block", l.block},
          {"registers", l.registers}, {"shared_memory_B", l.shared_memory_B}, {"cluster", l.cluster}};
}

void add_conditions(const Conditions& c, ordered_json& out) {
  if (c.sm_clock) out["sm_clock_Hz"] = c.sm_clock->in(units::Hz);
  if (c.board_clock) out["board_clock_Hz"] = c.board_clock->in(units::Hz);
  if (c.memory_clock) out["memory_clock_Hz"] = c.memory_clock->in(units::Hz);
  if (c.power) out["power_W"] = c.power->in(units::W);
  if (c.memory_power) out["memory_power_W"] = c.memory_power->in(units::W);
  if (c.temperature_C) out["temperature_C"] = *c.temperature_C;
  out["clock_event_reasons"] = c.clock_event_reasons;
  if (c.memory_used) out["memory_used_B"] = c.memory_used->in(units::B);
  for (const recorded::TrafficKey& each : recorded::kTrafficKeys) {
    if (const auto& rate = c.*each.rate) out[std::string(each.key)] = rate->in(units::B_per_s);
  }
}

ordered_json case_json(const Measurement& c) {
  ordered_json out = {{"op", op_name(c.what.op)},    {"dtype", dtype_text(c.what.op)}, {"shape", c.what.shape},
                      {"cache", name(c.what.cache)}, {"clock", text_of(c.what.clock)}, {"kernels", key_of(c.kernels)},
                      {"study", c.what.study},       {"place", c.what.place}};
  if (c.what.data != DataPattern::normal) out["data"] = name(c.what.data);
  if (c.what.held_out) out["held_out"] = true;
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

std::string_view text_of(Phase phase) { return word_of(kPhaseWords, phase); }

ordered_json step_json(const StepMeasurement& m) {
  const Workload& w = m.what.workload;
  const bool decode = w.phase == Phase::decode;
  ordered_json out = {{"model", m.what.model}, {"phase", text_of(w.phase)}, {"batch", w.batch}};
  out[decode ? "context" : "prompt"] = decode ? w.context : w.prompt;
  if (decode) out["page"] = w.page;
  if (w.precision_given) out["dtype"] = name(w.precision);
  if (w.parallel.tensor > 1) out["tp"] = w.parallel.tensor;
  if (w.parallel.data > 1) out["dp"] = w.parallel.data;
  if (w.parallel.sequence) out["sp"] = true;
  if (m.what.layers > 0) out["layers"] = m.what.layers;
  out["clock"] = text_of(m.what.clock);
  out["study"] = m.what.study;
  out["place"] = m.what.place;
  if (m.what.held_out) out["held_out"] = true;
  if (!m.fault.empty()) {
    out["fault"] = m.fault;
    return out;
  }
  out["time_s"] = m.time.in(units::s);
  out["low_s"] = m.low.in(units::s);
  out["high_s"] = m.high.in(units::s);
  out["samples"] = m.samples;
  if (m.traced) out["traced_s"] = m.traced->in(units::s);
  add_conditions(m.conditions, out);
  if (m.energy) out["energy_J"] = m.energy->in(units::J);
  out["memory_B"] = m.memory_B;
  for (const StepRank& rank : m.ranks) {
    ordered_json each = {{"time_s", rank.time.in(units::s)}};
    if (rank.sm_clock) each["sm_clock_Hz"] = rank.sm_clock->in(units::Hz);
    if (rank.power) each["power_W"] = rank.power->in(units::W);
    out["ranks"].push_back(std::move(each));
  }
  out["ops"] = ordered_json::array();
  for (const MeasuredStepOp& op : m.ops) {
    out["ops"].push_back({{"name", op.name},
                          {"op", op.op},
                          {"count", op.count},
                          {"time_s", op.time.in(units::s)},
                          {"launches", op.launches},
                          {"kernel", op.kernel}});
  }
  return out;
}

/// Header and one entry a line.
template <class Entries, class ToJson>
std::string lines(const char* schema, const char* key, const MeasuringSession& session, const Entries& entries,
                  ToJson to_json) {
  std::string text = std::string("{\n \"schema\": \"") + schema + "\",\n \"session\": " + line(session_json(session)) +
                     ",\n \"" + key + "\": [";
  const char* before = "\n  ";
  for (const auto& entry : entries) {
    text += before;
    text += line(to_json(entry));
    before = ",\n  ";
  }
  return text + "\n ]\n}\n";
}

}  // namespace

std::string recording_json(const Recording& recording) {
  return lines("plumbline.measurements.v1", "cases", recording.session, recording.cases, case_json);
}

std::string step_recording_json(const StepRecording& recording) {
  return lines("plumbline.steps.v1", "steps", recording.session, recording.steps, step_json);
}

}  // namespace plumbline

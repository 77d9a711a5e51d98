#include "validate/record/recorded.hpp"

#include <utility>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/json_reader.hpp"
#include "ops/table/text.hpp"
#include "validate/record/measurement.hpp"
#include "validate/record/recorded_parts.hpp"
#include "validate/record/study.hpp"

namespace plumbline {

namespace recorded {

double positive(const JsonValue& value) {
  const double number = value.as_number();
  if (!(number > 0)) value.fail("expected a number above 0, found " + value.dump());
  return number;
}

double not_negative(const JsonValue& value) {
  const double number = value.as_number();
  if (!(number >= 0)) value.fail("expected a number from 0, found " + value.dump());
  return number;
}

std::int64_t count(const JsonValue& value) {
  const std::int64_t number = value.as_integer();
  if (number < 0) value.fail("expected a whole number from 0, found " + value.dump());
  return number;
}

MeasuringSession read_session(const JsonValue& v) {
  v.refuse_unknown_keys({"gpu", "card", "driver", "toolkit", "profiler", "date", "l2_B", "memory_B", "power_limit_W",
                         "sms", "dropped_records", "other_processes"});
  MeasuringSession s;
  s.gpu = v.at("gpu").as_string();
  s.card = v.at("card").as_string();
  s.driver = v.at("driver").as_string();
  s.toolkit = v.at("toolkit").as_string();
  s.profiler = v.at("profiler").as_string();
  s.date = v.at("date").as_string();
  s.l2_B = not_negative(v.at("l2_B"));
  s.memory_B = not_negative(v.at("memory_B"));
  s.power_limit_W = not_negative(v.at("power_limit_W"));
  s.sms = count(v.at("sms"));
  s.dropped_records = static_cast<std::uint64_t>(count(v.at("dropped_records")));
  if (const auto others = v.find("other_processes")) s.other_processes = count(*others);
  return s;
}

Conditions read_conditions(const JsonValue& v) {
  Conditions c;
  if (const auto clock = v.find("sm_clock_Hz")) c.sm_clock = positive(*clock) * units::Hz;
  if (const auto clock = v.find("board_clock_Hz")) c.board_clock = positive(*clock) * units::Hz;
  if (const auto clock = v.find("memory_clock_Hz")) c.memory_clock = positive(*clock) * units::Hz;
  if (const auto power = v.find("power_W")) c.power = positive(*power) * units::W;
  if (const auto power = v.find("memory_power_W")) c.memory_power = positive(*power) * units::W;
  if (const auto temperature = v.find("temperature_C")) c.temperature_C = temperature->as_number();
  if (const auto used = v.find("memory_used_B")) c.memory_used = positive(*used) * units::B;
  for (const TrafficKey& each : kTrafficKeys) {
    const auto rate = v.find(each.key);
    if (rate) c.*each.rate = not_negative(*rate) * units::B_per_s;
  }
  if (const auto reasons = v.find("clock_event_reasons")) {
    c.clock_event_reasons = static_cast<std::uint64_t>(count(*reasons));
  }
  return c;
}

}  // namespace recorded

namespace {

constexpr const char* kSchema = "plumbline.measurements.v1";

using namespace recorded;

MeasuredLaunch read_launch(const JsonValue& v) {
  v.refuse_unknown_keys({"kernel", "time_s", "grid", "block", "registers", "shared_memory_B", "cluster"});
  MeasuredLaunch l;
  l.kernel = v.at("kernel").as_string();
  l.time = positive(v.at("time_s")) * units::s;
  l.grid = count(v.at("grid"));
  l.block = count(v.at("block"));
  l.registers = count(v.at("registers"));
  l.shared_memory_B = count(v.at("shared_memory_B"));
  l.cluster = count(v.at("cluster"));
  return l;
}

StudyCase read_what(const JsonValue& v) {
  StudyCase what;
  const std::string op = v.at("op").as_string(), dtype = v.at("dtype").as_string(), shape = v.at("shape").as_string();
  try {
    what.op = parse_op(op, dtype, shape);
  } catch (const BadInput& error) {
    throw BadInput(v.place() + ": " + error.what());
  }
  what.shape = shape_text(what.op);
  what.cache = read_cache_state(v.at("cache").as_string(), v.at("cache").place());
  what.clock = read_clock_mode(v.at("clock").as_string(), v.at("clock").place());
  if (const auto data = v.find("data")) what.data = read_data_pattern(data->as_string(), data->place());
  if (const auto flag = v.find("held_out")) what.held_out = flag->as_bool();
  what.study = v.at("study").as_string();
  what.place = v.at("place").as_string();
  return what;
}

Measurement read_case(const JsonValue& v) {
  v.refuse_unknown_keys({"op",
                         "dtype",
                         "shape",
                         "cache",
                         "clock",
                         "kernels",
                         "study",
                         "place",
                         "fault",
                         "time_s",
                         "low_s",
                         "high_s",
                         "samples",
                         "kernel",
                         "plan",
                         "sm_clock_Hz",
                         "memory_clock_Hz",
                         "power_W",
                         "temperature_C",
                         "clock_event_reasons",
                         "energy_J",
                         "launches",
                         "data",
                         "memory_power_W",
                         "board_clock_Hz",
                         "held_out",
                         "memory_used_B",
                         "pcie_tx_B_per_s",
                         "pcie_rx_B_per_s",
                         "nvlink_tx_B_per_s",
                         "nvlink_rx_B_per_s"});
  Measurement c;
  c.what = read_what(v);
  c.held_out = held_out(c.what);
  c.kernels = read_kernel_set(v.at("kernels").as_string(), v.at("kernels").place());
  if (const auto fault = v.find("fault")) {
    c.fault = fault->as_string();
    if (c.fault.empty()) fault->fail("expected why there is no time, found \"\"");
    return c;
  }
  c.time = positive(v.at("time_s")) * units::s;
  c.low = positive(v.at("low_s")) * units::s;
  c.high = positive(v.at("high_s")) * units::s;
  if (c.low > c.time || c.time > c.high) v.at("time_s").fail("expected low_s <= time_s <= high_s");
  const std::int64_t samples = count(v.at("samples"));
  if (samples < 1 || samples > 1'000'000'000) v.at("samples").fail("expected a number of samples from 1");
  c.samples = static_cast<int>(samples);
  c.kernel = v.at("kernel").as_string();
  c.plan = v.at("plan").as_string();
  c.conditions = read_conditions(v);
  if (const auto energy = v.find("energy_J")) c.energy = positive(*energy) * units::J;
  for (const JsonValue& launch : v.at("launches").elements()) c.launches.push_back(read_launch(launch));
  return c;
}

std::string key_in_set(const StudyCase& what, KernelSet kernels) {
  return std::string(key_of(kernels)) + "|" + case_key(what);
}

}  // namespace

Recording parse_recording(const std::string& json_text, const std::string& place) {
  const JsonDocument document = JsonDocument::parse(json_text, place);
  const JsonValue root = document.root();
  if (!root.is_object()) root.fail("expected a recording of measurements, found " + root.dump().substr(0, 40));
  root.refuse_unknown_keys({"schema", "session", "cases"});
  const std::string schema = root.at("schema").as_string();
  if (schema != kSchema) {
    root.at("schema").fail(std::string("expected \"") + kSchema + "\", found \"" + schema + "\"");
  }
  Recording recording;
  recording.session = read_session(root.at("session"));
  std::map<std::string, std::string> seen;
  for (const JsonValue& v : root.at("cases").elements()) {
    recording.cases.push_back(read_case(v));
    recording.cases.back().origin.gpu = recording.session.gpu;
    const Measurement& c = recording.cases.back();
    const auto [first, is_new] = seen.emplace(key_in_set(c.what, c.kernels), v.path());
    if (!is_new) v.fail("expected each case once, found " + case_text(c.what) + " again (first " + first->second + ")");
  }
  return recording;
}

Recording read_recording(const std::string& file) { return parse_recording(read_text_file(file), file); }

RecordedMeasurer::RecordedMeasurer(Recording recording) : recording_(std::move(recording)) {
  for (std::size_t i = 0; i < recording_.cases.size(); ++i) {
    by_key_[key_in_set(recording_.cases[i].what, recording_.cases[i].kernels)] = i;
  }
}

Measurement RecordedMeasurer::measure(const StudyCase& what, KernelSet kernels, const OpPrediction&) {
  const auto found = by_key_.find(key_in_set(what, kernels));
  Measurement out;
  if (found != by_key_.end()) {
    out = recording_.cases[found->second];
  } else {
    out.fault = "not in the recording";
  }
  out.what = what;
  out.kernels = kernels;
  return out;
}

}  // namespace plumbline

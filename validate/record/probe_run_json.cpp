#include <cstdio>
#include <nlohmann/json.hpp>

#include "arch/json_reader.hpp"
#include "validate/record/probe_run.hpp"

namespace plumbline {
namespace {

using nlohmann::ordered_json;

/// Six digits: more than any probe repeats to.
double rounded(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", value);
  return std::stod(text);
}

std::string one_line(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

ordered_json session_json(const Session& s) {
  ordered_json out{{"schema", 1},
                   {"gpu", s.gpu},
                   {"compute_capability", s.compute_capability},
                   {"date", s.date},
                   {"driver", s.driver},
                   {"runtime", s.runtime},
                   {"sm_count", s.sms},
                   {"l2_B", s.l2_bytes},
                   {"memory_B", s.memory_bytes},
                   {"memory_clock_MHz", s.memory_clock_MHz},
                   {"power_limit_W", s.power_limit_W},
                   {"cool_C", s.cool_C},
                   {"warm_C", s.warm_C},
                   {"elapsed_s", rounded(s.seconds)}};
  if (s.other_processes > 0) out["other_processes"] = s.other_processes;
  return out;
}

Record read_record(const JsonValue& at) {
  at.refuse_unknown_keys({"name", "setting", "value", "low", "high", "samples"});
  Record r{at.at("name").as_string(), at.at("setting").as_string(), {}};
  r.value.median = at.at("value").as_number();
  r.value.low = at.at("low").as_number();
  r.value.high = at.at("high").as_number();
  r.value.samples = static_cast<int>(at.at("samples").as_integer());
  if (r.name.empty()) at.at("name").fail("expected what was measured, found \"\"");
  if (r.value.low > r.value.median || r.value.median > r.value.high) at.fail("expected low <= value <= high");
  return r;
}

}  // namespace

std::string probe_run_json(const ProbeRun& run) {
  std::string out = "{\n";
  const ordered_json session = session_json(run.session);
  for (const auto& [key, value] : session.items()) out += "  " + one_line(key) + ": " + one_line(value) + ",\n";
  out += "  \"records\": [";
  for (std::size_t i = 0; i < run.records.size(); ++i) {
    const Record& r = run.records[i];
    out += (i == 0 ? "\n    " : ",\n    ") + one_line({{"name", r.name},
                                                       {"setting", r.setting},
                                                       {"value", rounded(r.value.median)},
                                                       {"low", rounded(r.value.low)},
                                                       {"high", rounded(r.value.high)},
                                                       {"samples", r.value.samples}});
  }
  return out + "\n  ]\n}\n";
}

ProbeRun parse_probe_run(const std::string& text, const std::string& place) {
  const JsonDocument document = JsonDocument::parse(text, place);
  const JsonValue root = document.root();
  root.refuse_unknown_keys({"schema", "gpu", "compute_capability", "date", "driver", "runtime", "sm_count", "l2_B",
                            "memory_B", "memory_clock_MHz", "power_limit_W", "cool_C", "warm_C", "elapsed_s",
                            "other_processes", "scalars", "records"});
  if (root.at("schema").as_integer() != 1) root.at("schema").fail("expected 1, found " + root.at("schema").dump());
  ProbeRun run;
  Session& s = run.session;
  const auto words = [&](const char* key) { return root.has(key) ? root.at(key).as_string() : std::string(); };
  const auto number = [&](const char* key) { return root.has(key) ? root.at(key).as_number() : 0; };
  s.gpu = root.at("gpu").as_string();
  s.compute_capability = words("compute_capability");
  s.date = root.at("date").as_string();
  s.driver = words("driver");
  s.runtime = words("runtime");
  s.sms = static_cast<int>(root.at("sm_count").as_integer());
  s.l2_bytes = root.at("l2_B").as_number();
  s.memory_bytes = number("memory_B");
  s.memory_clock_MHz = number("memory_clock_MHz");
  s.power_limit_W = number("power_limit_W");
  s.cool_C = number("cool_C");
  s.warm_C = number("warm_C");
  s.seconds = number("elapsed_s");
  if (root.has("other_processes")) s.other_processes = static_cast<int>(root.at("other_processes").as_integer());
  for (const JsonValue& record : root.at("records").elements()) run.records.push_back(read_record(record));
  if (run.records.empty()) root.at("records").fail("expected what the probes found, found nothing");
  return run;
}

}  // namespace plumbline

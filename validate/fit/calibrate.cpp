#include "validate/fit/calibrate.hpp"

#include <algorithm>
#include <cstdio>
#include <set>

#include "arch/error.hpp"
#include "arch/format.hpp"
#include "validate/record/known_gpu.hpp"

namespace plumbline {
namespace {

/// Of another card's power section only shares and ratios say something about this one; watts and joules are that
/// card's.
Scalars ratios_of(const Scalars& power) {
  Scalars out;
  for (const auto& [name, scalar] : power) {
    const auto ends_with = [&, n = std::string_view(name)](std::string_view end) {
      return n.size() >= end.size() && n.substr(n.size() - end.size()) == end;
    };
    const bool ratio = ends_with("_fraction") || name.find("_toggle_") != std::string::npos;
    if (ratio || name == "droop_ratio" || name == "reference_C") out.insert({name, scalar});
  }
  return out;
}

void mark_inherited(Scalars& scalars, const std::string& from) {
  for (auto& [name, scalar] : scalars) scalar.source = "inherited from " + from + ": " + scalar.source;
}

std::map<std::string, std::string> conditions_of(const ProbeRun& run) {
  const Session& s = run.session;
  std::map<std::string, std::string> out{{"card", s.gpu}, {"date", s.date}};
  const auto add = [&](const char* name, const std::string& text, bool known) {
    if (known) out[name] = text;
  };
  const auto number = [](const char* shape, double value) {
    char text[40];
    std::snprintf(text, sizeof text, shape, value);
    return std::string(text);
  };
  add("driver", s.driver, !s.driver.empty());
  add("runtime", s.runtime, !s.runtime.empty());
  add("memory_clock", number("%.0f MHz", s.memory_clock_MHz), s.memory_clock_MHz > 0);
  add("power_limit", number("%.0f W", s.power_limit_W), s.power_limit_W > 0);
  add("temperature_before", number("%.0f C", s.cool_C), s.cool_C > 0);
  add("temperature_after", number("%.0f C", s.warm_C), s.warm_C > 0);
  add("other_processes", std::to_string(s.other_processes), s.other_processes > 0);
  add("elapsed", number("%.0f s", s.seconds), s.seconds > 0);
  for (const Record* clock : records_of(run, "sm_clock_Hz")) {
    add("sm_clock", number("%.0f MHz", clock->value.median * 1e-6), true);
  }
  return out;
}

void replace(Scalars& scalars, const Scalars& measured) {
  for (const auto& [name, scalar] : measured) scalars.insert_or_assign(name, scalar);
}

}  // namespace

Gpu gpu_of(const ProbeRun& run, const std::string& asked) {
  if (!asked.empty()) return load_gpu(asked);
  const Session& s = run.session;
  if (!s.compute_capability.empty() && s.memory_bytes > 0) {
    const std::string name = descriptor_of({s.gpu, s.compute_capability, s.sms, s.memory_bytes * units::B});
    if (!name.empty()) return load_gpu(name);
  }
  try {
    return load_gpu(s.gpu);
  } catch (const BadInput&) {
    throw BadInput("no descriptor of '" + s.gpu + "' is on file: expected --gpu NAME or --gpu FILE.json");
  }
}

Calibration calibrated(const Gpu& gpu, const ProbeRun& run, const Calibration& base) {
  Calibration out = base;
  const bool another = base.inherited || base.gpu != gpu.name;
  out.gpu = gpu.name;
  out.inherited = false;
  out.conditions = conditions_of(run);
  if (another) {
    out.families_of = base.families_of.empty() ? base.gpu : base.families_of;
    mark_inherited(out.machine, base.gpu);
    out.power = ratios_of(base.power);
    mark_inherited(out.power, base.gpu);
    for (auto& [name, family] : out.families) mark_inherited(family, base.gpu);
  }
  const Scalars machine = fit_machine(gpu, run);
  if (machine.empty()) throw BadInput("no probe of the machine is among the records: expected dram_read_B_per_s, ...");
  replace(out.machine, machine);
  const Scalars power = fit_power_scalars(gpu, run, out.power);
  if (power.empty() && another) out.power.clear();  // shares of energies that nobody measured
  replace(out.power, power);
  out.note = std::string(power.empty() ? "machine" : "machine and power") +
             " as probed (validate calibrate); what no probe tells, families and bands carried over unchanged from " +
             base.gpu;
  return out;
}

std::string calibration_table(const Calibration& made, const Calibration& base) {
  std::string out;
  char line[400];
  const auto section = [&](const char* title, const Scalars& now, const Scalars& before) {
    std::snprintf(line, sizeof line, "%-30s %12s %12s %9s %5s  %s\n", title, "value", "before", "misfit %", "rows",
                  "source");
    out += line;
    for (const auto& [name, scalar] : now) {
      const auto it = before.find(name);
      char was[32] = "-", misfit[32] = "-";
      if (it != before.end()) std::snprintf(was, sizeof was, "%.5g", it->second.value);
      if (scalar.residual) std::snprintf(misfit, sizeof misfit, "%.2f", 100 * *scalar.residual);
      std::snprintf(line, sizeof line, "  %-28s %12.5g %12s %9s %5ld  %.200s\n", name.c_str(), scalar.value, was,
                    misfit, scalar.rows, scalar.source.c_str());
      out += line;
    }
  };
  section("machine", made.machine, base.machine);
  if (!made.power.empty()) section("power", made.power, base.power);
  return out + made.note + "\n";
}

}  // namespace plumbline

#include "model/report/remarks.hpp"

#include "arch/format.hpp"
#include "model/bands/step_bands.hpp"
#include "model/engine/rates.hpp"
#include "model/stacks/stack.hpp"

namespace plumbline {

bool is_over_cap(const Machine& machine, const std::optional<Watts>& power) {
  const Rates& m = machine.rates();
  return power && m.clock_mode == ClockMode::steady && *power > 1.001 * m.power_cap;
}

std::vector<std::string> cap_remarks(const Machine& machine, const std::optional<Watts>& power) {
  const Rates& m = machine.rates();
  std::vector<std::string> out;
  if (!power || m.clock_mode != ClockMode::steady) return out;
  if (m.power_cap > m.gpu.tdp) {
    out.push_back("the power cap of " + format(m.power_cap) + " exceeds the board's limit of " + format(m.gpu.tdp) +
                  ": priced as if the board allowed it");
  }
  if (is_over_cap(machine, power)) {
    out.push_back("the power cap of " + format(m.power_cap) + " cannot be met: " + format(*power) +
                  " at the lowest clock, " + format(kLowestClockShare * m.gpu.boost_clock));
  }
  return out;
}

std::vector<std::string> band_remarks(const StepPrediction& step, const Machine& machine) {
  const HostTime& host = machine.stack().host;
  std::vector<std::string> out;
  if (step.host_measured)
    out.push_back("host: " + format(host.narrow_launch) + " a launch of the narrow step, " + host.measured);
  if (step.host_ratio > 0 && !host.borrowed_from.empty()) {
    out.push_back("host: a call that launches takes what it takes in stack " + host.borrowed_from + ", " +
                  format(host.each_launch) +
                  (host.each_layer > Seconds{} ? " and " + format(host.each_layer) + " a layer" : "") +
                  ": nobody measured " + machine.stack().name +
                  " launched one by one (never_measured), so the band takes it for up to " + format(host.within) +
                  " times as long or short");
  }
  const WholeStepBand& whole = step.whole_steps;
  if (whole.band == nullptr) return out;
  const char* const kNobodys = host.narrow_launch > Seconds{} ? "that wait for a host nobody measured: --host"
                                                              : "that wait for a host nobody measured";
  const std::string kind = whole.kind == kExpertSteps         ? "models with experts"
                           : whole.kind == kWaitingSteps      ? kNobodys
                           : whole.kind == kMeasuredHostSteps ? "that wait for a host that was measured beside them"
                                                              : "dense models";
  const std::string whose =
      std::to_string(whole.band->rows) + " steps of " + std::string(whole.stack) + " (" + kind + ")";
  if (whole.recorded) {
    out.push_back("band: at least as wide as the residuals of " + whose + " that were measured whole");
  } else {
    out.push_back("too few whole steps of stack " + machine.stack().name +
                  ", or none, were recorded with such a model, these launches and this fusion: band from " + whose +
                  ", the widest to either side");
  }
  return out;
}

}  // namespace plumbline

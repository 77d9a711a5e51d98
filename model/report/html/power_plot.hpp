// Board power over the time of a step: the whole step as it repeats, then one repetition of each long part.
#pragma once

#include <string>

#include "model/report/html/step_parts.hpp"
#include "model/report/report.hpp"

namespace plumbline::html {

/// Why a machine has no power: a sentence.
std::string no_power(const Machine& machine);

/// That sentence where there is none.
std::string power_plots(const StepReport& report, const StepParts& parts);

}  // namespace plumbline::html

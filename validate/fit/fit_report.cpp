#include <cstdio>

#include "arch/format.hpp"
#include "validate/fit/fit_calibration.hpp"

namespace plumbline {

std::string fit_report(const CalibrationFit& fit) {
  std::string text = "trained on " + std::to_string(fit.trained) + " rows, " + std::to_string(fit.result.steps) +
                     " steps; loss " + format(fit.result.loss_before) + " -> " + format(fit.result.loss_after) + "\n";
  if (fit.not_modelled > 0) text += std::to_string(fit.not_modelled) + " rows are not modelled: left out\n";
  char line[256];
  text += "\nscalar                                  before        after\n";
  for (const FittedScalar& scalar : fit.scalars) {
    std::snprintf(line, sizeof line, "%-32s %13.6g %12.6g%s\n", scalar.name.c_str(), scalar.before, scalar.after,
                  scalar.at_bound ? "  at its bound: these rows do not determine it" : "");
    text += line;
  }
  text += "\nmeasured    rows  median% before   after   bias%\n";
  for (const FittedClass& c : fit.classes) {
    std::snprintf(line, sizeof line, "%-10s %5ld %15.1f %7.1f %+7.1f\n", std::string(name(c.size)).c_str(), c.rows,
                  100 * c.median_before, 100 * c.median_after, 100 * c.bias_after);
    text += line;
  }
  return text;
}

}  // namespace plumbline

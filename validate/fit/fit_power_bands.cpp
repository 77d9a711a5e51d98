// What is said of a power fit: its report, and bands, which are how far runs lie from fits that left them out.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

#include "ops/table/text.hpp"
#include "validate/fit/fit_power.hpp"
#include "validate/statistics.hpp"

namespace plumbline {
namespace {

constexpr std::uint32_t kFolds = 5;
/// A quantile of fewer residuals says little: they are added to a wider class.
constexpr std::size_t kFewest = 12;

/// By the shape, so that runs of one shape on other data or kernels are all left out together. FNV-1a.
std::uint32_t fold_of(const Op& op) {
  std::uint32_t hash = 2166136261U;
  for (const char c : std::string(op_name(op)) + shape_text(op))
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return (hash >> 8) % kFolds;
}

/// Of the cap: beyond this a mean is of a burst. Steady runs stay within 2 % of it.
constexpr double kBurst = 1.1;

struct PowerResiduals {
  std::vector<double> held_down, free, brief;  ///< ln(measured / predicted)
};

void collect(const Gpu& gpu, const Calibration& calibration, const std::vector<PowerRow>& rows, PowerResiduals& into) {
  const PowerScalars scalars = *read_power_scalars(calibration);
  const Watts aim = scalars.regulator_aim * gpu.tdp;
  for_steady_rows(gpu, calibration, rows, {}, [&](const PowerRow& row, const OpPrediction& p) {
    // what a board draws before the regulator acts is no steady run's power, which is what is predicted of these rows
    if (!p.power || *row.power > kBurst * gpu.tdp) return;
    const PowerScalars::Band* band = &power_band(scalars, *p.power, aim, p.time);
    auto& residuals = band == &scalars.held_down ? into.held_down : band == &scalars.brief ? into.brief : into.free;
    residuals.push_back(std::log(*row.power / *p.power));
  });
}

void store(const char* name, const std::vector<double>& residuals, const std::string& source, Calibration& into) {
  if (residuals.size() < 2) return;
  const std::string why = source + "; ln(measured / predicted) of runs left out of the fit, " +
                          std::to_string(residuals.size()) + " rows, " + std::to_string(kFolds) + " folds";
  // the predicted value is inside, whatever the bias
  into.power[std::string("band_") + name + "_low"] = Scalar{std::min(0.0, quantile(residuals, 0.05)), why + ", 5 %"};
  into.power[std::string("band_") + name + "_high"] = Scalar{std::max(0.0, quantile(residuals, 0.95)), why + ", 95 %"};
}

}  // namespace

void add_power_bands(const Gpu& gpu, const std::vector<PowerRow>& rows, const std::string& source,
                     Calibration& calibration) {
  PowerResiduals all;
  for (std::uint32_t fold = 0; fold < kFolds; ++fold) {
    std::vector<PowerRow> kept, left_out;
    for (const PowerRow& row : rows) (fold_of(row.op) == fold ? left_out : kept).push_back(row);
    collect(gpu, fit_power(gpu, calibration, kept, source).calibration, left_out, all);
  }
  if (all.brief.size() < kFewest) all.brief.insert(all.brief.end(), all.free.begin(), all.free.end());
  store("held_down", all.held_down, source, calibration);
  store("free", all.free, source, calibration);
  store("brief", all.brief, source, calibration);
}

std::string fit_report(const PowerFit& fit) {
  char text[200];
  std::snprintf(text, sizeof text,
                "power: %ld rows, |ln| median %.2f %%, p90 %.2f %%; SM clock: %ld rows, median %.2f %%\n",
                fit.power_rows, 100 * fit.power_median, 100 * fit.power_p90, fit.clock_rows, 100 * fit.skipped_median);
  std::string out = text;
  for (const auto& [name, scalar] : fit.calibration.power) {
    std::snprintf(text, sizeof text, "  %-28s %.5g\n", name.c_str(), scalar.value);
    out += text;
  }
  out += "largest errors\n";
  for (const std::string& row : fit.worst) out += "  " + row + "\n";
  return out;
}

}  // namespace plumbline

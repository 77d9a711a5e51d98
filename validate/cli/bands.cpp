#include "validate/cli/bands.hpp"

#include <ostream>

#include "arch/files.hpp"
#include "validate/fit/fit_bands.hpp"
#include "validate/step/card_spread.hpp"

namespace plumbline {

namespace {

BandRows rows_of(const std::vector<std::string>& lists, Half half) {
  std::vector<BandSource> sources;
  for (const std::string& file : lists) {
    for (BandSource& source : parse_band_sources(read_text_file(file), file)) sources.push_back(std::move(source));
  }
  return read_band_rows(sources, half);
}

}  // namespace

ExitCode run_fit_bands(const FitBandsRequest& request, std::ostream& out, std::ostream& messages) {
  if (request.gpu.empty()) throw BadInput("--gpu: expected the name of the GPU whose bands are found, found nothing");
  const Gpu gpu = load_gpu(request.gpu);
  const Calibration calibration = calibration_for(gpu, request.calibration_file);
  if (calibration.gpu != gpu.name) {
    throw BadInput("--calibration: expected one of " + gpu.name + ", found one of " + calibration.gpu);
  }
  std::vector<Calibration> donors{calibration};
  for (const std::string& name : json_file_names(data_folder() + "/calibration")) {
    if (name != gpu.name) donors.push_back(load_calibration(name, ""));
  }
  const BandRows rows = rows_of(request.lists, Half::train);
  show_messages(rows.refused, messages);
  BandFit fit = fit_bands(gpu, calibration, donors, rows.rows);
  std::vector<StepSource> steps;
  for (const std::string& file : request.lists) {
    for (StepSource& source : parse_step_sources(read_text_file(file), file)) steps.push_back(std::move(source));
  }
  add_card_spread(steps, fit.calibration);
  write_or_print({"table", request.report_file, {}}, band_report(fit), out);
  if (!request.out_file.empty()) write_text_file(request.out_file, to_json(fit.calibration));
  return ExitCode::done;
}

ExitCode run_coverage(const CoverageRequest& request, std::ostream& out) {
  const auto coverage = coverage_of(rows_of(request.lists, Half::heldout).rows, request.calibration_file);
  const std::string& format = request.report.format;
  write_or_print(request.report,
                 format == "csv"    ? coverage_csv(coverage)
                 : format == "json" ? coverage_json(coverage)
                                    : coverage_report(coverage),
                 out);
  return ExitCode::done;
}

}  // namespace plumbline

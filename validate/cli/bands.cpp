#include "validate/cli/bands.hpp"

#include <ostream>

#include "arch/files.hpp"
#include "model/report/columns.hpp"
#include "validate/fit/fit_bands.hpp"
#include "validate/printed.hpp"
#include "validate/step/card_spread.hpp"
#include "validate/step/fit_steps.hpp"

namespace plumbline {

namespace {

BandRows rows_of(const std::vector<std::string>& lists, Half half) {
  std::vector<BandSource> sources;
  for (const std::string& file : lists) {
    for (BandSource& source : parse_band_sources(read_text_file(file), file)) sources.push_back(std::move(source));
  }
  return read_band_rows(sources, half);
}

std::vector<StepSource> step_sources_of(const std::vector<std::string>& lists) {
  std::vector<StepSource> sources;
  for (const std::string& file : lists) {
    for (StepSource& source : parse_step_sources(read_text_file(file), file)) sources.push_back(std::move(source));
  }
  return sources;
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
  add_card_spread(step_sources_of(request.lists), fit.calibration);
  write_or_print({"table", request.report_file, {}}, band_report(fit), out);
  if (!request.out_file.empty()) write_text_file(request.out_file, to_json(fit.calibration));
  return ExitCode::done;
}

ExitCode run_fit_steps(const FitStepsRequest& request, std::ostream& out, std::ostream& messages) {
  const std::vector<StepSource> sources = step_sources_of(request.lists);
  std::vector<std::string> left_out;
  const StepBands bands = fit_step_bands(whole_steps(sources, Half::train, left_out));
  show_trouble(left_out, left_out.size(), "rows of steps left out", messages);
  using enum Columns::Align;
  Columns table({{"stack"}, {"models"}, {"steps", right}, {"5 %", right}, {"50 %", right}, {"95 %", right}});
  for (const auto& [name, band] : bands.all()) {
    table.add({name.first, name.second, std::to_string(band.rows), printed("%+.3f", band.low),
               printed("%+.3f", band.middle), printed("%+.3f", band.high)});
  }
  write_or_print({"table", request.report_file, {}},
                 "band of ln(measured / predicted) of whole steps\n" + table.text(0, {}), out);
  if (!request.out_file.empty()) write_text_file(request.out_file, to_json(bands));
  return ExitCode::done;
}

namespace {

std::string distance_table(const CoverageRequest& request) {
  std::vector<Calibration> donors;
  for (const std::string& name : json_file_names(data_folder() + "/calibration")) {
    donors.push_back(load_calibration(name, ""));
  }
  constexpr std::size_t kThreads = 2;
  const BandRows heldout = rows_of(request.lists, Half::heldout);
  const auto train_residuals = transfer_residuals(donors, rows_of(request.lists, Half::train).rows, kThreads);
  const auto heldout_residuals = transfer_residuals(donors, heldout.rows, kThreads);
  return distance_report(coverage_of(heldout.rows),
                         left_out_coverage(train_residuals, heldout_residuals, BandSection::near),
                         left_out_coverage(train_residuals, heldout_residuals, BandSection::far));
}

}  // namespace

ExitCode run_coverage(const CoverageRequest& request, std::ostream& out) {
  if (request.by_distance) {
    write_or_print(request.report, distance_table(request), out);
    return ExitCode::done;
  }
  auto coverage = coverage_of(rows_of(request.lists, Half::heldout).rows, request.calibration_file);
  std::vector<std::string> left_out;
  for (StepsInside& steps : steps_inside(whole_steps(step_sources_of(request.lists), Half::heldout, left_out))) {
    coverage.push_back({"any",
                        steps.stack == "own" ? KernelSet::own : KernelSet::library,
                        "step " + steps.stack + " " + steps.kind,
                        "measured",
                        steps.steps,
                        steps.inside,
                        steps.steps,
                        {}});
  }
  const std::string& format = request.report.format;
  write_or_print(request.report,
                 format == "csv"    ? coverage_csv(coverage)
                 : format == "json" ? coverage_json(coverage)
                                    : coverage_report(coverage),
                 out);
  return ExitCode::done;
}

}  // namespace plumbline

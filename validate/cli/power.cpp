#include "validate/cli/power.hpp"

#include <ostream>

#include "arch/files.hpp"
#include "validate/fit/fit_power.hpp"
#include "validate/fit/power_counts.hpp"

namespace plumbline {
namespace {

constexpr const char* kUsualGpu = "h200_sxm";

Gpu gpu_of(const AskedCard& card) { return load_gpu(card.gpu.empty() ? kUsualGpu : card.gpu, card.overrides); }

/// Rows of files are of kernels that only the user can tell: the library's unless the project's own are asked for.
std::vector<PowerRow> read_rows(const std::vector<std::string>& files, Seconds at_least, const Gpu& gpu) {
  std::vector<PowerRow> rows = read_power_rows(files, KernelSet::library, gpu.name);
  std::erase_if(rows, [&](const PowerRow& row) { return row.time < at_least; });
  if (rows.empty()) throw BadInput("no row is left: expected steady runs with a power");
  return rows;
}

}  // namespace

ExitCode run_fit_power(const FitPowerRequest& request, std::ostream& out, std::ostream& messages) {
  const Gpu gpu = gpu_of(request.card);
  std::vector<PowerRow> rows = read_rows(request.files, request.at_least, gpu);
  show_messages(refuse_held_out(rows, "--fit-power"), messages);  // recordings may hold both sides
  const std::string source = request.source.empty() ? "fitted by validate --fit-power" : request.source;
  PowerFit fit = fit_power(gpu, calibration_for(gpu, request.card.calibration_file), rows, source);
  add_power_bands(gpu, rows, source, fit.calibration);
  out << fit_report(fit);
  if (!request.out_file.empty()) write_text_file(request.out_file, to_json(fit.calibration));
  return ExitCode::done;
}

ExitCode run_power_table(const PowerTableRequest& request, std::ostream& out) {
  const Gpu gpu = gpu_of(request.card);
  PowerTableOptions options;
  options.least_power = request.least_cap_percent / 100;
  options.most_power = request.most_cap_percent / 100;
  const Calibration calibration = calibration_for(gpu, request.card.calibration_file);
  const std::vector<PowerRow> rows = read_rows(request.files, request.at_least, gpu);
  if (!request.rows_file.empty()) {
    write_text_file(request.rows_file, power_rows_csv(gpu, calibration, rows, options));
  }
  out << power_table(gpu, calibration, rows, options);
  return ExitCode::done;
}

}  // namespace plumbline

// `validate --fit-power` and `validate --power-table`.
#include <ostream>

#include "arch/files.hpp"
#include "validate/cli/commands.hpp"
#include "validate/compare/pricing.hpp"
#include "validate/fit/fit_power.hpp"
#include "validate/fit/power_counts.hpp"

namespace plumbline {
namespace {

constexpr const char* kUsualGpu = "h200_sxm";

Gpu gpu_asked(const ValidateRequest& request) {
  return load_gpu(request.gpu.empty() ? kUsualGpu : request.gpu, request.overrides);
}

/// Rows of files are of kernels that only the user can tell: the library's unless the project's own are asked for.
std::vector<PowerRow> rows_asked(const ValidateRequest& request, const Gpu& gpu) {
  std::vector<PowerRow> rows = read_power_rows(request.files, KernelSet::library, gpu.name);
  std::erase_if(rows, [&](const PowerRow& row) { return row.time < request.at_least; });
  if (rows.empty()) throw BadInput("no row is left: expected steady runs with a power");
  return rows;
}

}  // namespace

ExitCode run_fit_power(const ValidateRequest& request, std::ostream& out, std::ostream& messages) {
  const Gpu gpu = gpu_asked(request);
  std::vector<PowerRow> rows = rows_asked(request, gpu);
  show_messages(refuse_held_out(rows, "--fit-power"), messages);  // recordings may hold both sides
  const std::string source = request.source.empty() ? "fitted by validate --fit-power" : request.source;
  PowerFit fit = fit_power(gpu, calibration_for(gpu, request.calibration_file), rows, source);
  add_power_bands(gpu, rows, source, fit.calibration);
  out << fit_report(fit);
  if (!request.out_file.empty()) write_text_file(request.out_file, to_json(fit.calibration));
  return ExitCode::done;
}

ExitCode run_power_table(const ValidateRequest& request, std::ostream& out) {
  const Gpu gpu = gpu_asked(request);
  PowerTableOptions options;
  options.least_power = request.least_cap_percent / 100;
  options.most_power = request.most_cap_percent / 100;
  const Calibration calibration = calibration_for(gpu, request.calibration_file);
  const std::vector<PowerRow> rows = rows_asked(request, gpu);
  if (!request.rows_file.empty()) {
    write_text_file(request.rows_file, power_rows_csv(gpu, calibration, rows, options));
  }
  out << power_table(gpu, calibration, rows, options);
  return ExitCode::done;
}

}  // namespace plumbline

#include "validate/cli/power.hpp"

#include <algorithm>
#include <ostream>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "ops/table/text.hpp"
#include "validate/compare/report.hpp"
#include "validate/fit/fit_power.hpp"
#include "validate/fit/power_counts.hpp"
#include "validate/record/recorded.hpp"

namespace plumbline {
namespace {

constexpr const char* kUsualGpu = "h200_sxm";

/// The card that recordings among `files` were taken on; empty where none says.
std::string recorded_gpu(const std::vector<std::string>& files) {
  std::string gpu;
  for (const std::string& file : files) {
    if (!file.ends_with(".json")) continue;
    const std::string of_file = read_recording(file).session.gpu;
    if (of_file.empty() || of_file == gpu) continue;
    if (!gpu.empty()) throw BadInput("recordings of " + gpu + " and of " + of_file + ": expected --gpu NAME");
    gpu = of_file;
  }
  return gpu;
}

Gpu gpu_of(const AskedCard& card, const std::vector<std::string>& files) {
  std::string gpu = card.gpu.empty() ? recorded_gpu(files) : card.gpu;
  return load_gpu(gpu.empty() ? kUsualGpu : gpu, card.overrides);
}

/// What is known of a row of any file.
void need_column(const RowFilter& filter) {
  const std::vector<std::string> known{"op", "dtype", "shape", "cache", "clock"};
  if (std::find(known.begin(), known.end(), filter.column) != known.end()) return;
  throw BadInput("--where '" + filter.text + "': expected one of op, dtype, shape, cache, clock" +
                 did_you_mean(filter.column, known));
}

bool keeps_row(const std::vector<RowFilter>& where, const PowerRow& row) {
  StudyCase what;
  what.op = row.op;
  what.shape = shape_text(row.op);
  what.cache = row.warm ? CacheState::warm : CacheState::cold;
  what.clock = row.clock;
  return keeps_case(where, what, "");
}

/// Rows of files are of kernels that only the user can tell: the library's unless the project's own are asked for.
std::vector<PowerRow> read_rows(const std::vector<std::string>& files, const AskedRows& asked, const Gpu& gpu) {
  std::vector<PowerRow> rows = read_power_rows(files, KernelSet::library, gpu.name);
  const std::vector<RowFilter> where = filters_of(asked);
  for (const RowFilter& filter : where) need_column(filter);
  std::erase_if(rows, [&](const PowerRow& row) { return row.time < asked.at_least || !keeps_row(where, row); });
  if (rows.empty()) throw BadInput("no row is left: expected steady runs with a power");
  return rows;
}

}  // namespace

ExitCode run_fit_power(const FitPowerRequest& request, std::ostream& out, std::ostream& messages) {
  const Gpu gpu = gpu_of(request.card, request.files);
  std::vector<PowerRow> rows = read_rows(request.files, request.rows, gpu);
  show_messages(refuse_held_out(rows, "validate fit-power"), messages);  // recordings may hold both sides
  const std::string source = request.source.empty() ? "fitted by validate fit-power" : request.source;
  PowerFit fit = fit_power(gpu, calibration_for(gpu, request.card.calibration_file), rows, source);
  add_power_bands(gpu, rows, source, fit.calibration);
  write_or_print({"table", request.report_file, {}}, fit_report(fit), out);
  if (!request.out_file.empty()) write_text_file(request.out_file, to_json(fit.calibration));
  return ExitCode::done;
}

ExitCode run_power_table(const PowerTableRequest& request, std::ostream& out) {
  const Gpu gpu = gpu_of(request.card, request.files);
  PowerTableOptions options;
  options.least_power = request.least_cap_percent / 100;
  options.most_power = request.most_cap_percent / 100;
  const Calibration calibration = calibration_for(gpu, request.card.calibration_file);
  const std::vector<PowerRow> rows = read_rows(request.files, request.rows, gpu);
  if (!request.rows_file.empty()) {
    write_text_file(request.rows_file, power_rows_csv(gpu, calibration, rows, options));
  }
  const std::vector<PowerClass> classes = power_classes(gpu, calibration, rows, options);
  const std::string& format = request.report.format;
  write_or_print(request.report,
                 format == "csv"    ? power_csv(classes)
                 : format == "json" ? power_json(classes)
                                    : power_table(classes),
                 out);
  return ExitCode::done;
}

}  // namespace plumbline

#include "validate/cli/fit.hpp"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <ostream>
#include <set>

#include "arch/files.hpp"
#include "validate/cli/read_rows.hpp"
#include "validate/compare/pricing.hpp"

namespace plumbline {

namespace {

/// Today, or the day that SOURCE_DATE_EPOCH names (reproducible-builds.org), as 2026-11-20.
std::string today() {
  std::time_t now = std::time(nullptr);
  if (const char* fixed = std::getenv("SOURCE_DATE_EPOCH"); fixed != nullptr) now = std::strtoll(fixed, nullptr, 10);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

std::string joined(const std::set<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : " + ") + part;
  return text;
}

}  // namespace

ExitCode run_fit(const FitRequest& request, std::ostream& out, std::ostream& messages) {
  if (request.card.gpu.empty())
    throw BadInput("--gpu: expected the name of the GPU whose coefficients are fitted, found nothing");
  if (request.family.empty()) throw BadInput("--family: expected a kernel family, such as gemm, found nothing");
  if (request.kernels == KernelSet::ideal)
    throw BadInput("--kernels ideal: has no coefficients; expected own or library");
  Measurements measured = read_rows(request.files, filters_of(request.rows), request.kernels);
  long other_gpu = 0;
  measured.rows = rows_of_gpu(std::move(measured.rows), request.card.gpu, other_gpu);
  need_rows(measured, other_gpu);
  show_messages(refuse_held_out(measured.rows, "validate fit"), messages);
  show_trouble(measured.bad, measured.bad.size() + measured.rows.size(), "rows could not be read", messages);
  const Gpu gpu = load_gpu(request.card.gpu, request.card.overrides);
  CalibrationFitOptions options;
  options.kernels = request.kernels;
  options.family = request.family;
  options.free = request.free;
  options.clock = request.clock;
  options.at_least = request.rows.at_least;
  options.balance = request.balance;
  options.source =
      !request.source.empty() ? request.source : describe_rows(request.files, measured.rows, request.clock);
  for (const RowFilter& filter : filters_of(request.rows)) options.source += ", " + filter.text;
  options.date = today();
  const CalibrationFit fit =
      fit_calibration(gpu, calibration_for(gpu, request.card.calibration_file), measured.rows, options);
  write_or_print({"table", request.report_file, {}}, fit_report(fit), out);
  if (!request.out_file.empty()) write_text_file(request.out_file, to_json(fit.calibration));
  return measured.bad.empty() && fit.not_modelled == 0 ? ExitCode::done : ExitCode::not_modelled;
}

std::string describe_rows(const std::vector<std::string>& files, const std::vector<Measurement>& rows,
                          const std::optional<ClockMode>& clock) {
  std::set<std::string> names, stacks, clocks;
  for (const std::string& file : files) {
    // The last two folders say who measured which card: data/measurements/<who>/<gpu>/<op>.train.csv.
    const std::filesystem::path path(file);
    const std::filesystem::path folder = path.parent_path();
    std::string words = folder.parent_path().filename().string() + " " + folder.filename().string() + " ";
    words += path.stem().string();
    std::replace(words.begin(), words.end(), '.', ' ');
    names.insert(words.substr(words.find_first_not_of(' ')));
  }
  for (const Measurement& row : rows) {
    if (!row.origin.stack.empty()) stacks.insert(row.origin.stack);
    clocks.insert(std::string(text_of(clock_of(row, clock))));
  }
  std::string text = joined(names);
  if (!stacks.empty()) text += ", " + joined(stacks);
  return text + ", " + joined(clocks);
}

}  // namespace plumbline

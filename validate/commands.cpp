#include "validate/commands.hpp"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <map>
#include <ostream>
#include <set>
#include <utility>

#include "arch/files.hpp"
#include "validate/compare.hpp"
#include "validate/pricing.hpp"
#include "validate/report.hpp"

namespace plumbline {

namespace {

constexpr std::size_t kMessagesShown = 20, kMessagesOfAReason = 3;

Measurements read_all(const ValidateRequest& request) {
  Measurements measured;
  for (const std::string& file : request.files) {
    read_measurements(read_text_file(file), file, request.where, measured);
  }
  return measured;
}

/// The first messages of each reason, and how many more there are: a file full of one unknown operator must neither
/// flood the terminal nor hide the other reasons. A message is "file:line: reason".
void show(const std::vector<std::string>& lines, std::ostream& messages) {
  std::map<std::string, std::size_t> seen;
  std::size_t shown = 0;
  for (const std::string& line : lines) {
    const std::size_t end_of_place = line.find(": ");
    const std::string reason = end_of_place == std::string::npos ? line : line.substr(end_of_place);
    if (shown == kMessagesShown || ++seen[reason] > kMessagesOfAReason) continue;
    messages << line << "\n";
    ++shown;
  }
  if (lines.size() > shown) messages << "... and " << lines.size() - shown << " rows more\n";
}

void write_or_print(const std::string& file, const std::string& text, std::ostream& out) {
  if (file.empty()) {
    out << text;
  } else {
    write_text_file(file, text);
  }
}

std::string text_in(const ValidationReport& report, const std::string& format) {
  if (format == "json") return json_report(report);
  if (format == "csv") return csv_report(report);
  return table_report(report);
}

void need_rows(const Measurements& measured, long other_gpu) {
  if (!measured.rows.empty()) return;
  throw BadInput("no row is left: " + std::to_string(measured.bad.size()) + " could not be read, " +
                 std::to_string(measured.filtered) + " left out by filters, " + std::to_string(other_gpu) +
                 " of other GPUs" + (measured.bad.empty() ? "" : "; first: " + measured.bad.front()));
}

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

void refuse_held_out(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    if (file.find("heldout") != std::string::npos) {
      throw BadInput(file + ": --fit expected training rows; held-out rows are for --against");
    }
  }
}

std::string joined(const std::set<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : " + ") + part;
  return text;
}

}  // namespace

ExitCode run_against(const ValidateRequest& request, std::ostream& out, std::ostream& messages) {
  if (request.format == "html") throw NotModelled("--format html: not modelled yet; expected table, json or csv");
  Measurements measured = read_all(request);
  ValidationReport report;
  measured.rows = rows_of_gpu(std::move(measured.rows), request.gpu, report.other_gpu);
  const auto too_short = [&](const Measurement& row) { return row.time < request.at_least; };
  measured.filtered += static_cast<long>(std::erase_if(measured.rows, too_short));
  // A file of operators that we do not know is not modelled (3); a filter that leaves nothing is a mistake (2).
  if (measured.bad.empty()) need_rows(measured, report.other_gpu);
  PricingOptions pricing;
  pricing.gpu = request.gpu;
  pricing.overrides = request.overrides;
  pricing.kernels = request.kernels;
  pricing.clock = request.clock;
  pricing.calibration_file = request.calibration_file;
  const Priced priced = price(measured.rows, pricing);

  report.files = request.files;
  report.kernels = key_of(request.kernels);
  report.clock = request.clock ? std::string(text_of(*request.clock)) : "as measured";
  report.classes = summarize(priced.rows);
  report.assumptions = priced.assumptions;
  report.bad = static_cast<long>(measured.bad.size());
  report.filtered = measured.filtered;
  std::vector<std::string> trouble = measured.bad;
  for (const Comparison& row : priced.rows) {
    if (!row.modelled()) trouble.push_back(row.place + ": " + row.error);
  }
  report.not_modelled = static_cast<long>(trouble.size()) - report.bad;
  report.compared = static_cast<long>(priced.rows.size()) - report.not_modelled;
  show(trouble, messages);
  if (!request.rows_file.empty()) write_text_file(request.rows_file, csv_rows(measured.rows, priced.rows));
  write_or_print(request.out_file, text_in(report, request.format), out);
  if (request.fail_over_percent) {
    if (const ClassSummary* worse = worse_than(report.classes, *request.fail_over_percent / 100)) {
      messages << worse->gpu << " " << worse->op << " " << worse->dtype << " " << name(worse->size) << ": median error "
               << 100 * worse->median_error << " % is above the " << *request.fail_over_percent << " % asked for\n";
      return ExitCode::answered_no;
    }
  }
  return trouble.empty() ? ExitCode::done : ExitCode::not_modelled;
}

ExitCode run_fit(const ValidateRequest& request, std::ostream& out, std::ostream& messages) {
  refuse_held_out(request.files);
  if (request.gpu.empty()) throw BadInput("--fit: expected --gpu NAME");
  if (request.family.empty()) throw BadInput("--fit: expected --family NAME, such as gemm");
  if (request.kernels == KernelSet::ideal) throw BadInput("--kernels ideal: has no scalars; expected own or library");
  Measurements measured = read_all(request);
  long other_gpu = 0;
  measured.rows = rows_of_gpu(std::move(measured.rows), request.gpu, other_gpu);
  need_rows(measured, other_gpu);
  show(measured.bad, messages);
  const Gpu gpu = load_gpu(request.gpu, request.overrides);
  CalibrationFitOptions options;
  options.kernels = request.kernels;
  options.family = request.family;
  options.free = request.free;
  options.clock = request.clock;
  options.at_least = request.at_least;
  options.balance = request.balance;
  options.source =
      !request.source.empty() ? request.source : describe_rows(request.files, measured.rows, request.clock);
  for (const RowFilter& filter : request.where) options.source += ", " + filter.text;
  options.date = today();
  const CalibrationFit fit =
      fit_calibration(gpu, calibration_for(gpu, request.calibration_file), measured.rows, options);
  out << fit_report(fit);
  if (!request.out_file.empty()) write_text_file(request.out_file, to_json(fit.calibration));
  return measured.bad.empty() && fit.not_modelled == 0 ? ExitCode::done : ExitCode::not_modelled;
}

Override parse_override(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    throw BadInput("--set '" + text + "': expected PATH=VALUE, such as memory.bandwidth=6TB/s");
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
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
    if (!row.stack.empty()) stacks.insert(row.stack);
    clocks.insert(std::string(text_of(clock_of(row, clock))));
  }
  std::string text = joined(names);
  if (!stacks.empty()) text += ", " + joined(stacks);
  return text + ", " + joined(clocks);
}

}  // namespace plumbline

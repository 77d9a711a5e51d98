#include "validate/cli/commands.hpp"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <map>
#include <ostream>
#include <set>
#include <utility>

#include "arch/files.hpp"
#include "ops/op/text.hpp"
#include "validate/compare/accuracy.hpp"
#include "validate/compare/compare.hpp"
#include "validate/compare/pricing.hpp"
#include "validate/compare/report.hpp"
#include "validate/printed.hpp"
#include "validate/record/recorded.hpp"
#include "validate/record/study.hpp"

namespace plumbline {

namespace {

constexpr std::size_t kMessagesShown = 20, kMessagesOfAReason = 3;

/// The cases of a recording as rows. Filters are those of cases; which stack they mean is said for
/// files that hold several.
void add_recording(const std::string& file, const ValidateRequest& request, Measurements& into) {
  const Recording recording = read_recording(file);
  std::vector<RowFilter> where = request.where;
  std::erase_if(where, [](const RowFilter& filter) { return filter.column == "stack"; });
  for (const Measurement& c : recording.cases) {
    if (!c.fault.empty() || c.kernels != request.kernels) continue;
    if (!keeps_case(where, c.what, c.kernel)) {
      ++into.filtered;
      continue;
    }
    into.rows.push_back(c);
    Measurement& row = into.rows.back();
    row.plan.clear();  // a fit may choose another
    row.origin.stack = "validate";
    row.what.place = file + ": " + c.what.place;
  }
}

/// CSV files, and for a fit recordings.
Measurements read_all(const ValidateRequest& request) {
  Measurements measured;
  for (const std::string& file : request.files) {
    if (file.ends_with(".json")) {
      add_recording(file, request, measured);
      continue;
    }
    read_measurement_file(file, request.where, measured);
  }
  return measured;
}

void write_or_print(const std::string& file, const std::string& text, std::ostream& out) {
  if (file.empty()) {
    out << text;
  } else {
    write_text_file(file, text);
  }
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

std::string joined(const std::set<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : " + ") + part;
  return text;
}

}  // namespace

void show_messages(const std::vector<std::string>& lines, std::ostream& messages) {
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

ExitCode accuracy_answer(const std::vector<ClassSummary>& classes, const std::optional<double>& fail_over_percent,
                         std::ostream& messages, ExitCode otherwise) {
  if (!fail_over_percent) return otherwise;
  const ClassSummary* worse = worse_than(classes, *fail_over_percent / 100);
  if (worse == nullptr) return otherwise;
  messages << worse->gpu << " " << worse->op << " " << worse->dtype << " "
           << (worse->mode.empty() ? "" : worse->mode + " ") << name(worse->size) << ": median error "
           << 100 * worse->median_error << " % is above the " << *fail_over_percent << " % asked for\n";
  return ExitCode::answered_no;
}

ExitCode run_against(const ValidateRequest& request, std::ostream& out, std::ostream& messages) {
  Measurements measured = read_all(request);
  long other_gpu = 0;
  measured.rows = rows_of_gpu(std::move(measured.rows), request.gpu, other_gpu);
  const auto too_short = [&](const Measurement& row) { return row.time < request.at_least; };
  measured.filtered += static_cast<long>(std::erase_if(measured.rows, too_short));
  // A file of operators that we do not know is not modelled (3); a filter that leaves nothing is a mistake (2).
  if (measured.bad.empty()) need_rows(measured, other_gpu);
  PricingOptions pricing;
  pricing.gpu = request.gpu;
  pricing.overrides = request.overrides;
  pricing.kernels = request.kernels;
  pricing.clock = request.clock;
  pricing.calibration_file = request.calibration_file;
  std::vector<std::string> trouble = measured.bad;
  const std::unique_ptr<Report> report = compare_rows(std::move(measured), request.files, pricing);
  report->summary.other_gpu = other_gpu;
  for (const ReportRow& row : report->rows) {
    if (!row.compared.modelled()) trouble.push_back(row.compared.place + ": " + row.compared.error);
  }
  show_messages(trouble, messages);
  if (!request.rows_file.empty()) write_text_file(request.rows_file, csv_rows(*report));
  write_or_print(request.report_file.empty() ? request.out_file : request.report_file, text_in(*report, request.format),
                 out);
  return accuracy_answer(report->summary.classes, request.fail_over_percent, messages,
                         trouble.empty() ? ExitCode::done : ExitCode::not_modelled);
}

ExitCode run_fit(const ValidateRequest& request, std::ostream& out, std::ostream& messages) {
  if (request.gpu.empty()) throw BadInput("--fit: expected --gpu NAME");
  if (request.family.empty()) throw BadInput("--fit: expected --family NAME, such as gemm");
  if (request.kernels == KernelSet::ideal) throw BadInput("--kernels ideal: has no scalars; expected own or library");
  Measurements measured = read_all(request);
  long other_gpu = 0;
  measured.rows = rows_of_gpu(std::move(measured.rows), request.gpu, other_gpu);
  need_rows(measured, other_gpu);
  show_messages(refuse_held_out(measured.rows, "--fit"), messages);
  show_messages(measured.bad, messages);
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

ExitCode run_accuracy(const ValidateRequest& request, std::ostream& out, std::ostream& messages) {
  if (request.format != "table" && request.format != "csv") {
    throw BadInput("--format " + request.format + ": --accuracy expected table or csv");
  }
  const std::string file = request.files.empty() || request.files.front().empty()
                               ? (std::filesystem::path(data_folder()) / "studies" / "accuracy.json").string()
                               : request.files.front();
  const std::vector<AccuracyRow> rows = accuracy_of(read_accuracy_sets(file));
  write_or_print(request.report_file.empty() ? request.out_file : request.report_file,
                 request.format == "csv" ? accuracy_csv(rows) : accuracy_table(rows), out);
  ExitCode answer = ExitCode::done;
  for (const AccuracyRow& row : rows) {
    if (row.holds()) continue;
    messages << row.summary.gpu << " " << row.summary.op << ", " << row.label << ": median error "
             << percent_number(row.summary.median_error) << " % is above the " << percent_number(row.ceiling)
             << " % allowed\n";
    answer = ExitCode::answered_no;
  }
  return answer;
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
    if (!row.origin.stack.empty()) stacks.insert(row.origin.stack);
    clocks.insert(std::string(text_of(clock_of(row, clock))));
  }
  std::string text = joined(names);
  if (!stacks.empty()) text += ", " + joined(stacks);
  return text + ", " + joined(clocks);
}

}  // namespace plumbline

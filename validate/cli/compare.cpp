#include "validate/cli/compare.hpp"

#include <cmath>
#include <ostream>

#include "arch/files.hpp"
#include "validate/cli/read_rows.hpp"
#include "validate/compare/report.hpp"
#include "validate/printed.hpp"
#include "validate/step/model_report.hpp"
#include "validate/timeline/compare_timeline.hpp"

namespace plumbline {

ExitCode run_compare(const CompareRequest& request, std::ostream& out, std::ostream& messages) {
  Measurements measured = read_rows(request.files, filters_of(request.rows), kernels_of(request.stack));
  long other_gpu = 0;
  measured.rows = rows_of_gpu(std::move(measured.rows), request.card.gpu, other_gpu);
  const auto too_short = [&](const Measurement& row) { return row.time < request.rows.at_least; };
  measured.filtered += static_cast<long>(std::erase_if(measured.rows, too_short));
  // A file of operators that we do not know is not modelled (3); a filter that leaves nothing is a mistake (2).
  if (measured.bad.empty()) need_rows(measured, other_gpu);
  PricingOptions pricing;
  pricing.gpu = request.card.gpu;
  pricing.overrides = request.card.overrides;
  pricing.stack = request.stack;
  pricing.rows_attention = request.rows_attention;
  pricing.clock = request.clock;
  pricing.calibration_file = request.card.calibration_file;
  std::vector<std::string> trouble = measured.bad;
  const std::size_t rows = measured.rows.size() + measured.bad.size();
  const std::unique_ptr<Report> report = compare_rows(std::move(measured), request.files, pricing);
  report->summary.other_gpu = other_gpu;
  for (const ReportRow& row : report->rows) {
    if (!row.compared.modelled()) trouble.push_back(row.compared.place + ": " + row.compared.error);
  }
  show_trouble(trouble, rows, "rows could not be read or priced", messages);
  if (!request.rows_file.empty()) write_text_file(request.rows_file, csv_rows(*report));
  write_or_print(request.report, text_in(*report, request.report.format), out);
  return accuracy_answer(report->summary.classes, request.report.fail_over_percent, messages,
                         trouble.empty() ? ExitCode::done : ExitCode::not_modelled);
}

ExitCode run_compare_models(const CompareRequest& request, std::ostream& out, std::ostream& messages) {
  if (request.report.format == "html") {
    throw BadInput("--format: expected table, json or csv for rows of whole models, found 'html'");
  }
  ModelRows read;
  for (const std::string& file : request.files) {
    if (file.ends_with(".json")) throw BadInput(file + ": expected CSV, as the other files are of whole models");
    read_model_rows(read_text_file(file), file, request.rows.where, read);
  }
  if (read.rows.empty() && read.bad.empty())
    throw BadInput("no row is left: " + std::to_string(read.filtered) + " left out by filters");
  ModelPricing pricing{request.card.gpu,       request.card.overrides,        request.stack,
                       request.rows_attention, request.card.calibration_file, request.clock};
  std::vector<ModelComparison> rows = price_model_rows(read.rows, pricing);
  std::erase_if(rows, [&](const ModelComparison& row) {
    return row.compared.modelled() && row.compared.measured < request.rows.at_least;
  });
  std::vector<std::string> trouble = read.bad;
  for (const ModelComparison& row : rows) {
    if (!row.compared.modelled()) trouble.push_back(row.compared.place + ": " + row.compared.error);
  }
  show_trouble(trouble, rows.size() + read.bad.size(), "rows could not be read or priced", messages);
  if (!request.rows_file.empty()) write_text_file(request.rows_file, models_csv(rows));
  const std::string& format = request.report.format;
  write_or_print(request.report,
                 format == "json"  ? models_json(rows)
                 : format == "csv" ? models_csv(rows)
                                   : models_table(rows),
                 out);
  return accuracy_answer(summarize_models(rows), request.report.fail_over_percent, messages,
                         trouble.empty() ? ExitCode::done : ExitCode::not_modelled);
}

ExitCode run_timeline(const TimelineRequest& request, std::ostream& out, std::ostream& messages) {
  need_writable(request.out);
  ModelPricing pricing;
  pricing.gpu = request.card.gpu;
  pricing.overrides = request.card.overrides;
  pricing.stack = request.stack;
  pricing.calibration_file = request.card.calibration_file;
  pricing.clock = request.clock.value_or(ClockMode::burst);
  const TimelineReport report = compare_timeline(read_timeline(request.file), request.step, pricing);
  if (!request.out.empty()) write_text_file(request.out, both_traces(report));
  const std::string& format = request.report.format;
  write_or_print(request.report,
                 format == "json"  ? timeline_json(report)
                 : format == "csv" ? timeline_csv(report)
                                   : timeline_table(report),
                 out);
  if (!request.report.fail_over_percent) return ExitCode::done;
  if (report.matched() <= Seconds{}) {
    messages << "validate: no launch is an operator's: nothing was compared\n";
    return ExitCode::answered_no;
  }
  const double error = 100 * std::abs(std::log(report.predicted_matched() / report.matched()));
  if (error <= *request.report.fail_over_percent) return ExitCode::done;
  messages << "validate: matched launches: error of their sum " << printed("%.1f", error) << " % is above the "
           << printed("%g", *request.report.fail_over_percent) << " % asked for\n";
  return ExitCode::answered_no;
}

}  // namespace plumbline

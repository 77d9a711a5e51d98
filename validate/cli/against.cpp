#include "validate/cli/against.hpp"

#include <ostream>

#include "arch/files.hpp"
#include "validate/cli/read_rows.hpp"
#include "validate/compare/report.hpp"

namespace plumbline {

ExitCode run_against(const AgainstRequest& request, std::ostream& out, std::ostream& messages) {
  Measurements measured = read_rows(request.files, request.rows.where, request.kernels);
  long other_gpu = 0;
  measured.rows = rows_of_gpu(std::move(measured.rows), request.card.gpu, other_gpu);
  const auto too_short = [&](const Measurement& row) { return row.time < request.rows.at_least; };
  measured.filtered += static_cast<long>(std::erase_if(measured.rows, too_short));
  // A file of operators that we do not know is not modelled (3); a filter that leaves nothing is a mistake (2).
  if (measured.bad.empty()) need_rows(measured, other_gpu);
  PricingOptions pricing;
  pricing.gpu = request.card.gpu;
  pricing.overrides = request.card.overrides;
  pricing.kernels = request.kernels;
  pricing.clock = request.clock;
  pricing.calibration_file = request.card.calibration_file;
  std::vector<std::string> trouble = measured.bad;
  const std::unique_ptr<Report> report = compare_rows(std::move(measured), request.files, pricing);
  report->summary.other_gpu = other_gpu;
  for (const ReportRow& row : report->rows) {
    if (!row.compared.modelled()) trouble.push_back(row.compared.place + ": " + row.compared.error);
  }
  show_messages(trouble, messages);
  if (!request.rows_file.empty()) write_text_file(request.rows_file, csv_rows(*report));
  write_or_print(request.report.file(), text_in(*report, request.report.format), out);
  return accuracy_answer(report->summary.classes, request.report.fail_over_percent, messages,
                         trouble.empty() ? ExitCode::done : ExitCode::not_modelled);
}

}  // namespace plumbline

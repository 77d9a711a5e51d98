#include "validate/cli/accuracy.hpp"

#include <ostream>

#include "arch/error.hpp"
#include "validate/compare/accuracy.hpp"
#include "validate/printed.hpp"

namespace plumbline {

ExitCode run_accuracy(const AccuracyRequest& request, std::ostream& out, std::ostream& messages) {
  const std::vector<AccuracyRow> rows = accuracy_of(read_accuracy_sets(request.list));
  const std::string& format = request.report.format;
  if (request.by_gpu && format != "table") throw BadInput("--by-gpu: expected --format table, found " + format);
  write_or_print(request.report,
                 format == "csv"    ? accuracy_csv(rows)
                 : format == "json" ? accuracy_json(rows)
                 : request.by_gpu   ? accuracy_by_gpu(rows)
                                    : accuracy_table(rows),
                 out);
  ExitCode answer = ExitCode::done;
  for (const AccuracyRow& row : rows) {
    if (row.holds()) continue;
    messages << "validate: " << row.summary.gpu << " " << row.summary.op << ", " << row.label << ": median error "
             << percent_number(row.summary.median_error) << " % is above the " << percent_number(row.ceiling)
             << " % allowed\n";
    answer = ExitCode::answered_no;
  }
  return answer;
}

}  // namespace plumbline

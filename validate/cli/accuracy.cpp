#include "validate/cli/accuracy.hpp"

#include <filesystem>
#include <ostream>

#include "arch/files.hpp"
#include "validate/compare/accuracy.hpp"
#include "validate/printed.hpp"

namespace plumbline {

ExitCode run_accuracy(const AccuracyRequest& request, std::ostream& out, std::ostream& messages) {
  if (request.report.format != "table" && request.report.format != "csv") {
    throw BadInput("--format " + request.report.format + ": --accuracy expected table or csv");
  }
  const auto usual = [] { return (std::filesystem::path(data_folder()) / "studies" / "accuracy.json").string(); };
  const std::string file = request.list.empty() ? usual() : request.list;
  const std::vector<AccuracyRow> rows = accuracy_of(read_accuracy_sets(file));
  write_or_print(request.report.file(), request.report.format == "csv" ? accuracy_csv(rows) : accuracy_table(rows),
                 out);
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

}  // namespace plumbline

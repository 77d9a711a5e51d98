#include "validate/cli/links.hpp"

#include <ostream>

#include "validate/cli/read_rows.hpp"

namespace plumbline {
namespace {

/// Rows of our own collectives by either algorithm, cut as its plan says.
std::vector<RowFilter> compared_rows() {
  std::vector<RowFilter> filters;
  for (const char* text : {"op=all_reduce,all_gather,reduce_scatter,all_to_all", "stack=own", "status=ok",
                           "kernel!~.early", "kernel!~.other_plan", "plan!~beside", "plan!~alone"}) {
    filters.push_back(parse_row_filter(text));
  }
  return filters;
}

}  // namespace

ExitCode run_links(LinksRequest request, const MeasureLinks& measure, std::ostream& out, std::ostream& messages) {
  LinkOptions& links = request.links;
  if (links.out.empty()) throw BadInput("--out: expected FILE.csv for what is measured, found nothing");
  need_writable(links.out);
  need_writable(request.report.file);
  links.again = {"validate", "run", "--gpus", std::to_string(links.gpus)};
  const LinkResult result = measure(links);
  const ExitCode measured = result.faults == 0 ? ExitCode::done : ExitCode::not_modelled;
  // A section of a run has a process of its own: what there is to compare is for the one that started it.
  if (!links.only.empty()) return measured;
  if (result.faults > 0)
    messages << "validate: " << result.faults << " cases or sections of " << links.out << " had a fault\n";
  CompareRequest compared;
  compared.files = {links.out};
  compared.rows.where = compared_rows();
  if (read_rows(compared.files, compared.rows.where, KernelSet::own).rows.empty()) return measured;
  compared.card = request.card;
  if (compared.card.gpu.empty()) compared.card.gpu = result.gpu;
  compared.report = request.report;
  compared.stack = request.stack;
  const ExitCode code = run_compare(compared, out, messages);
  return code == ExitCode::done ? measured : code;
}

}  // namespace plumbline

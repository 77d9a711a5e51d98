// A step in the columns of PyTorch's profiler (torch/autograd/profiler_util.py: EventList.table()), so that the two can be
// laid side by side: operators by their total time, kernels without the gaps between them.
#include "model/report/monitor/profiler_table.hpp"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace plumbline {
namespace {

/// "1.234ms", as the profiler writes times.
std::string profiler_time(Seconds time) {
  const double us = time.in(units::us);
  char text[48];
  if (us >= 1e6) std::snprintf(text, sizeof text, "%.3fs", us / 1e6);
  else if (us >= 1e3) std::snprintf(text, sizeof text, "%.3fms", us / 1e3);
  else std::snprintf(text, sizeof text, "%.3fus", us);
  return text;
}

std::string profiler_percent(double part) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f%%", 100 * part);
  return text;
}

}  // namespace

std::string step_profiler(const StepReport& r) {
  using enum Columns::Align;
  struct Row {
    std::string name;
    Seconds total;
    std::int64_t calls = 0;
  };
  std::vector<Row> rows;
  Seconds all;
  for (const NodePrediction& n : r.step.nodes) {
    if (n.op.launch_count == 0) continue;
    rows.push_back({n.node->name, static_cast<double>(n.node->count) * kernel_time(n.op), n.node->count});
    all += rows.back().total;
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.total > b.total; });
  Columns table(
      {{"Name", right}, {"CUDA total", right}, {"CUDA %", right}, {"CUDA time avg", right}, {"# of Calls", right}});
  table.add_rule();
  for (const Row& row : rows) {
    table.add({row.name, profiler_time(row.total), profiler_percent(all > Seconds{} ? row.total / all : 0),
               profiler_time(1.0 / static_cast<double>(row.calls) * row.total), std::to_string(row.calls)});
  }
  table.add_rule();
  return table.text(0, {}) + "CUDA time total: " + profiler_time(all) + "\n";
}

}  // namespace plumbline

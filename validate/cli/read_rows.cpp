#include "validate/cli/read_rows.hpp"

#include "validate/compare/report.hpp"
#include "validate/record/recorded.hpp"

namespace plumbline {

namespace {

void add_recording(const std::string& file, std::vector<RowFilter> where, KernelSet kernels, Measurements& into) {
  const Recording recording = read_recording(file);
  std::erase_if(where, [](const RowFilter& filter) { return filter.column == "stack"; });
  for (const Measurement& c : recording.cases) {
    if (!c.fault.empty() || c.kernels != kernels) continue;
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

}  // namespace

Measurements read_rows(const std::vector<std::string>& files, const std::vector<RowFilter>& where, KernelSet kernels) {
  Measurements measured;
  for (const std::string& file : files) {
    if (file.ends_with(".json")) add_recording(file, where, kernels, measured);
    else read_measurement_file(file, where, measured);
  }
  return measured;
}

void need_rows(const Measurements& measured, long other_gpu) {
  if (!measured.rows.empty()) return;
  throw BadInput("no row is left: " + std::to_string(measured.bad.size()) + " could not be read, " +
                 std::to_string(measured.filtered) + " left out by filters, " + std::to_string(other_gpu) +
                 " of other GPUs" + (measured.bad.empty() ? "" : "; first: " + measured.bad.front()));
}

}  // namespace plumbline

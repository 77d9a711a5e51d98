#include "validate/compare/compare.hpp"

#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "validate/statistics.hpp"

namespace plumbline {

namespace {

double error_of(const Comparison& row) { return std::abs(row.log_ratio()); }

void add_power(const std::vector<const Comparison*>& rows, ClassSummary& out) {
  std::vector<double> errors;
  for (const Comparison* row : rows) {
    if (!row->measured_power || !row->predicted_power) continue;
    errors.push_back(std::abs(std::log(*row->predicted_power / *row->measured_power)));
  }
  out.power_count = static_cast<long>(errors.size());
  if (!errors.empty()) out.power_median_error = median(std::move(errors));
}

void add_library(const std::vector<const Comparison*>& rows, ClassSummary& out) {
  double sum = 0;
  for (const Comparison* row : rows) {
    if (!row->representative) ++out.unrepresentative;
    if (!row->library) continue;
    ++out.library_count;
    sum += std::log(*row->library / row->measured);
  }
  if (out.library_count > 0) out.library_ratio = std::exp(sum / static_cast<double>(out.library_count));
}

}  // namespace

SizeClass size_class(Seconds measured) {
  if (measured < 10.0 * units::us) return SizeClass::small;
  return measured < 100.0 * units::us ? SizeClass::middle : SizeClass::large;
}

std::string_view name(SizeClass size) {
  switch (size) {
    case SizeClass::small: return "<10us";
    case SizeClass::middle: return "10-100us";
    case SizeClass::large: return ">=100us";
    case SizeClass::all: break;
  }
  return "all";
}

double Comparison::log_ratio() const { return std::log(predicted / measured); }

ClassSummary summarize_class(const std::vector<const Comparison*>& rows) {
  ClassSummary out;
  std::vector<double> signed_errors, errors, percent, roofline_signed, roofline_errors, roofline_percent, measured,
      predicted;
  long inside = 0;
  const Comparison* worst = rows.front();
  for (const Comparison* row : rows) {
    signed_errors.push_back(row->log_ratio());
    errors.push_back(error_of(*row));
    percent.push_back(std::abs(row->predicted / row->measured - 1.0));
    roofline_signed.push_back(std::log(row->roofline / row->measured));
    roofline_errors.push_back(std::abs(roofline_signed.back()));
    roofline_percent.push_back(std::abs(row->roofline / row->measured - 1.0));
    measured.push_back(row->measured.in(units::s));
    predicted.push_back(row->predicted.in(units::s));
    if (row->low <= row->measured && row->measured <= row->high) ++inside;
    if (std::pair(error_of(*row), row->shape) > std::pair(error_of(*worst), worst->shape)) worst = row;
  }
  out.count = static_cast<long>(rows.size());
  out.mape = mean(percent);
  out.median_error = median(errors);
  out.p90_error = quantile(std::move(errors), 0.9);
  out.mean_bias = mean(signed_errors);
  out.median_bias = median(std::move(signed_errors));
  out.within_band = static_cast<double>(inside) / static_cast<double>(out.count);
  out.spearman = spearman(measured, predicted);
  out.roofline_median_error = median(std::move(roofline_errors));
  out.roofline_median_bias = median(std::move(roofline_signed));
  out.roofline_mape = mean(roofline_percent);
  out.worst = *worst;
  add_power(rows, out);
  add_library(rows, out);
  return out;
}

std::vector<ClassSummary> summarize(const std::vector<Comparison>& rows) {
  using ClassKey = std::tuple<std::string, std::string, std::string, std::string, SizeClass>;
  std::map<ClassKey, std::vector<const Comparison*>> classes;
  std::map<std::pair<std::string, std::string>, std::vector<const Comparison*>> totals;
  for (const Comparison& row : rows) {
    if (!row.modelled()) continue;
    classes[{row.gpu, row.op, row.dtype, row.mode, size_class(row.measured)}].push_back(&row);
    totals[{row.gpu, row.op}].push_back(&row);
  }
  std::vector<ClassSummary> out;
  for (const auto& [gpu_and_op, all_rows] : totals) {
    const std::size_t before = out.size();
    const auto& [gpu, op] = gpu_and_op;
    for (auto it = classes.lower_bound({gpu, op, "", "", SizeClass::small}); it != classes.end(); ++it) {
      if (std::get<0>(it->first) != gpu || std::get<1>(it->first) != op) break;
      out.push_back(summarize_class(it->second));
      ClassSummary& c = out.back();
      std::tie(c.gpu, c.op, c.dtype, c.mode, c.size) = it->first;
    }
    if (out.size() - before < 2) continue;
    out.push_back(summarize_class(all_rows));
    out.back().gpu = gpu;
    out.back().op = op;
    out.back().dtype = "all";
    if (!all_rows.front()->mode.empty()) out.back().mode = "all";
  }
  return out;
}

const ClassSummary* worse_than(const std::vector<ClassSummary>& classes, double limit) {
  for (const ClassSummary& c : classes) {
    if (c.size != SizeClass::all && c.median_error > limit) return &c;
  }
  return nullptr;
}

}  // namespace plumbline

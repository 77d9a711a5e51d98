#include <cstddef>
#include <initializer_list>

#include "arch/format.hpp"
#include "ops/csv.hpp"
#include "validate/compare/report.hpp"

namespace plumbline {

namespace {

void add_line(std::string& text, std::initializer_list<std::string> fields) {
  bool first = true;
  for (const std::string& one : fields) {
    if (!first) text += ',';
    append_csv_field(text, one);
    first = false;
  }
  text += '\n';
}

std::string us(Seconds value) { return format_exact(value.in(units::us)); }

}  // namespace

std::string csv_report(const ValidationReport& report) {
  std::string text;
  add_line(text, {"gpu", "op", "dtype", "size", "count", "mape", "median_abs_ln", "p90_abs_ln", "bias_mean_ln",
                  "bias_median_ln", "within_band", "spearman", "roofline_median_abs_ln", "worst_ratio", "worst_shape",
                  "worst_place"});
  for (const ClassSummary& c : report.classes) {
    add_line(text, {c.gpu, c.op, c.dtype, std::string(name(c.size)), std::to_string(c.count), format_exact(c.mape),
                    format_exact(c.median_error), format_exact(c.p90_error), format_exact(c.mean_bias),
                    format_exact(c.median_bias), format_exact(c.within_band),
                    c.spearman ? format_exact(*c.spearman) : "", format_exact(c.roofline_median_error),
                    format_exact(c.worst.predicted / c.worst.measured), c.worst.shape, c.worst.place});
  }
  return text;
}

std::string csv_rows(const std::vector<Measurement>& measured, const std::vector<Comparison>& rows) {
  std::string text;
  add_line(text, {"place", "id", "gpu", "op", "dtype", "shape", "stack", "kernel", "scope", "clock", "measured_us",
                  "predicted_us", "low_us", "high_us", "ratio", "limiter", "roofline_us", "provenance", "error"});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Measurement& m = measured[i];
    const Comparison& row = rows[i];
    const std::string clock = m.clock ? std::string(text_of(*m.clock)) : "";
    if (row.modelled()) {
      add_line(text, {row.place, m.id, row.gpu, row.op, row.dtype, row.shape, m.stack, m.kernel, m.scope, clock,
                      us(row.measured), us(row.predicted), us(row.low), us(row.high),
                      format_exact(row.predicted / row.measured), row.limiter, us(row.roofline), row.provenance, ""});
    } else {
      add_line(text, {row.place, m.id, row.gpu, row.op, row.dtype, row.shape, m.stack, m.kernel, m.scope, clock,
                      us(row.measured), "", "", "", "", "", "", "", row.error});
    }
  }
  return text;
}

}  // namespace plumbline

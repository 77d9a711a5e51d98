// Lines of classes, of cases (own time, library time, prediction and roofline side by side) and of rows. Times are
// microseconds.
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

std::string class_lines(const ReportSummary& report) {
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

constexpr const char* kCaseHeader =
    "gpu,op,dtype,shape,cache,clock,study,kernels,kernel,plan,measured_us,measured_low_us,measured_high_us,samples,"
    "library_us,of_library,library_kernel,predicted_us,predicted_low_us,predicted_high_us,ratio,roofline_us,"
    "roofline_ratio,limiter,provenance,achieved_TFLOP_per_s,achieved_GB_per_s,sm_clock_MHz,power_W,representative,"
    "reason,error\n";

class CsvLine {
 public:
  explicit CsvLine(std::string& text) : text_(text) {}
  ~CsvLine() { text_ += '\n'; }
  CsvLine(const CsvLine&) = delete;
  CsvLine& operator=(const CsvLine&) = delete;
  CsvLine& operator<<(std::string_view field) {
    if (!first_) text_ += ',';
    append_csv_field(text_, field);
    first_ = false;
    return *this;
  }
  CsvLine& operator<<(double value) { return *this << std::string_view(format_exact(value)); }
  void nothing(int fields) {
    for (int i = 0; i < fields; ++i) *this << std::string_view();
  }
  CsvLine& operator<<(Seconds value) { return *this << value.in(units::us); }

 private:
  std::string& text_;
  bool first_ = true;
};

void add_prediction(const Comparison& c, CsvLine& line) {
  if (!c.modelled()) {
    line.nothing(8);
    return;
  }
  line << c.predicted << c.low << c.high << c.predicted / c.measured << c.roofline << c.roofline / c.measured
       << c.limiter << c.provenance;
}

std::string case_lines(const Report& report) {
  std::string text = kCaseHeader;
  for (const ReportRow& row : report.rows) {
    const Measurement& m = row.measured;
    const Comparison& c = row.compared;
    CsvLine line(text);
    line << c.gpu << c.op << c.dtype << c.shape << name(m.what.cache) << text_of(m.what.clock) << m.what.study
         << report.summary.kernels << m.kernel << m.plan << m.time << m.low << m.high << std::to_string(m.samples);
    if (row.library) line << row.library->time << row.library->time / c.measured << row.library->kernel;
    else line.nothing(3);
    add_prediction(c, line);
    line << row.achieved.flop_rate.in(units::TFLOP_per_s) << row.achieved.bandwidth.in(units::GB_per_s);
    if (m.conditions.sm_clock) line << m.conditions.sm_clock->in(units::MHz);
    else line.nothing(1);
    if (m.conditions.power) line << m.conditions.power->in(units::W);
    else line.nothing(1);
    line << (c.representative ? "yes" : "no") << row.reason << c.error;
  }
  return text;
}

}  // namespace

std::string csv_report(const Report& report) {
  return report.session ? case_lines(report) : class_lines(report.summary);
}

std::string csv_rows(const Report& report) {
  std::string text;
  add_line(text, {"place", "id", "gpu", "op", "dtype", "shape", "stack", "kernel", "scope", "clock", "measured_us",
                  "predicted_us", "low_us", "high_us", "ratio", "limiter", "roofline_us", "provenance", "error"});
  for (const auto& [m, library, row, achieved, fraction, reason] : report.rows) {
    const RowOrigin& from = m.origin;
    const std::string clock = m.clock_known ? std::string(text_of(m.what.clock)) : "";
    if (row.modelled()) {
      add_line(text, {row.place, from.id, row.gpu, row.op, row.dtype, row.shape, from.stack, m.kernel, from.scope,
                      clock, us(row.measured), us(row.predicted), us(row.low), us(row.high),
                      format_exact(row.predicted / row.measured), row.limiter, us(row.roofline), row.provenance, ""});
    } else {
      add_line(text, {row.place, from.id, row.gpu, row.op, row.dtype, row.shape, from.stack, m.kernel, from.scope,
                      clock, us(row.measured), "", "", "", "", "", "", "", row.error});
    }
  }
  return text;
}

}  // namespace plumbline

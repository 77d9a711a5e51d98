// A line a case: own time, library time, prediction and roofline side by side. Times are microseconds.
#include "arch/format.hpp"
#include "ops/csv.hpp"
#include "validate/compare/report_cases.hpp"
#include "validate/record/measurement.hpp"

namespace plumbline {

namespace {

constexpr const char* kHeader =
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

}  // namespace

std::string csv_report(const CaseReport& report) {
  std::string text = kHeader;
  for (const CaseRow& row : report.rows) {
    const CaseMeasurement& m = row.measured;
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

}  // namespace plumbline

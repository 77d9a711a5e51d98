// Reports as CSV: a header with units, a row an operator, figures that no comma or quote can be in.
#include <string>

#include "model/report/ops_batch_row.hpp"
#include "model/report/report.hpp"
#include "model/words.hpp"
#include "ops/csv.hpp"
#include "ops/table/text.hpp"

namespace plumbline {
namespace {

/// A row under construction: fields with their commas.
class Row {
 public:
  Row& text(std::string_view value) {
    next();
    append_csv_field(line_, value);
    return *this;
  }
  Row& number(double value) {
    next();
    append_number(line_, value);
    return *this;
  }
  Row& empty() {
    next();
    return *this;
  }
  std::string finished() && { return std::move(line_) + "\n"; }

 private:
  void next() {
    if (!first_) line_ += ',';
    first_ = false;
  }
  std::string line_;
  bool first_ = true;
};

}  // namespace

std::string step_csv(const StepReport& report) {
  const StepPrediction& step = report.step;
  std::string out =
      "name,op,dtype,shape,pass,segment,stream,count,latency_us,latency_low_us,latency_high_us,gap_us,total_us,"
      "step_share,bound,limiter,limiter_share,flops,dram_bytes,intensity_FLOP_per_B,power_W,energy_J,sm_clock_MHz,"
      "provenance,tax_us,hidden_us,kernel_us,fits\n";
  for (const NodePrediction& n : step.nodes) {
    const double count = static_cast<double>(n.node->count);
    const Seconds total = count * n.on_path();
    Row row;
    row.text(n.node->name).text(op_name(n.node->op)).text(dtype_text(n.node->op)).text(shape_text(n.node->op));
    row.text(word_of(kPassWords, n.node->pass));
    row.text(step.graph.segments.at(static_cast<std::size_t>(n.node->segment)).name);
    row.number(n.node->stream).number(count);
    row.number(n.op.time.in(units::us)).number(n.op.low.in(units::us)).number(n.op.high.in(units::us));
    row.number(n.gap.in(units::us)).number(total.in(units::us)).number(total / step.latency);
    row.text(name(n.op.bound)).text(name(n.op.limiter)).number(n.op.limiter_share);
    row.number(n.op.flops.in(units::FLOP)).number(n.op.dram_bytes().in(units::B));
    if (n.op.dram_bytes() > 0.0 * units::B) row.number(n.op.intensity().in(units::FLOP_per_B));
    else row.empty();
    if (n.op.power) row.number(n.op.power->in(units::W));
    else row.empty();
    if (n.op.energy) row.number(n.op.energy->in(units::J));
    else row.empty();
    row.number(n.op.clock.in(units::MHz)).text(name(n.op.provenance));
    row.number(n.tax.in(units::us)).number(n.hidden.in(units::us));
    row.number(kernel_time(n.op).in(units::us)).text(report.fit.fits ? "true" : "false");
    out += std::move(row).finished();
  }
  return out;
}

std::string op_csv(const OpReport& report) {
  std::string out = "op,dtype,shape," + std::string(kFigureColumns) + "\n";
  Row row;
  row.text(op_name(report.op)).text(dtype_text(report.op)).text(shape_text(report.op));
  std::string line = std::move(row).finished();
  line.back() = ',';
  append_figures(line, report.prediction);
  return out + line + "\n";
}

}  // namespace plumbline

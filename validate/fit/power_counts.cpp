#include "validate/fit/power_counts.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "arch/error.hpp"
#include "model/engine/rates.hpp"
#include "ops/table/text.hpp"

namespace plumbline {

PowerPlanner::PowerPlanner(const Gpu& gpu, const Calibration& calibration) : gpu_(gpu), calibration_(calibration) {
  calibration_.power.clear();
}

const OpPrediction& PowerPlanner::operator()(const PowerRow& row) {
  auto& machine = machines_[row.kernels];
  if (!machine)
    machine = make_machine(gpu_, calibration_, MachineOptions{usual_stack(row.kernels), ClockMode::burst, {}, {}});
  predictor_.predict(row.op, *machine, *scratch_, {.warm = row.warm});
  return *scratch_;
}

PowerCounts count_work(const PowerRow& row, PowerPlanner& planner, const Gpu& gpu) {
  const OpPrediction& p = planner(row);
  PowerCounts c;
  double tensor_clk = 0;
  for (int i = 0; i < p.launch_count; ++i) {
    const LaunchPrediction& l = p.launches[static_cast<std::size_t>(i)];
    const Demand& d = l.demand;
    const Activity a = activity(d, p.tensor, p.math, gpu.sm);
    c.work.tensor += a.tensor;
    c.work.padded += a.padded;
    c.work.fp32 += a.fp32;
    c.work.lane_products += a.lane_products;
    c.work.sfu += a.sfu;
    c.work.instructions += a.instructions;
    c.work.smem += a.smem;
    c.work.l2 += a.l2;
    c.work.dram_read += a.dram_read;
    c.work.dram_write += a.dram_write;
    const Seconds took = l.time.total / p.time * row.time;
    c.work.polling += polled(d, took, static_cast<double>(gpu.sm_count), gpu.boost_clock);
    tensor_clk += static_cast<double>(d.plan.ctas) * d.plan.steps * d.tensor_clk;
  }
  c.math = p.math;
  c.time = row.time;
  c.data = row.data;
  c.row = &row;
  if (row.power) c.watts = row.power->in(units::W);
  const std::optional<Hertz> set = row.clock == ClockMode::burst ? gpu.boost_clock : row.board_clock;
  if (set) c.share = std::min(1.0, *set / gpu.boost_clock);
  if (set && row.sm_clock && tensor_clk > 0) c.cycles_left = std::min(1.0, *row.sm_clock / *set);
  return c;
}

namespace {

/// A number, or nothing.
template <class T, class U>
std::string cell(const std::optional<T>& value, U unit) {
  if (!value) return "";
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value->in(unit));
  return text;
}

std::string counts_text(const Activity& a) {
  char text[200];
  std::snprintf(text, sizeof text, "%.6g,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g", a.tensor.in(units::FLOP),
                a.padded.in(units::FLOP), a.fp32.in(units::FLOP), a.sfu, a.instructions, a.smem.in(units::B),
                a.l2.in(units::B), a.dram_read.in(units::B), a.dram_write.in(units::B));
  return text;
}

}  // namespace

std::string power_rows_csv(const Gpu& gpu, const Calibration& calibration, const std::vector<PowerRow>& rows,
                           const PowerTableOptions& options) {
  std::string out =
      "place,op,dtype,shape,cache,data,kernels,measured_us,measured_W,memory_W,board_MHz,sm_MHz,C,tensor_FLOP,"
      "padded_FLOP,fp32_FLOP,sfu,instructions,smem_B,l2_B,dram_read_B,dram_write_B,predicted_us,predicted_W,"
      "predicted_MHz,bound\n";
  PowerPlanner planner(gpu, calibration);
  for_steady_rows(gpu, calibration, rows, options, [&](const PowerRow& row, const OpPrediction& p) {
    const PowerCounts c = count_work(row, planner, gpu);
    char text[160];
    out += row.place + ',' + std::string(op_name(row.op)) + ',' + std::string(dtype_text(row.op)) + ',';
    out += shape_text(row.op) + ',' + (row.warm ? "warm," : "cold,") + std::string(name(row.data)) + ',';
    out += row.kernels == KernelSet::library ? "library," : "own,";
    std::snprintf(text, sizeof text, "%.6g,", row.time.in(units::us));
    out += text + cell(row.power, units::W) + ',' + cell(row.memory_power, units::W) + ',';
    out += cell(row.board_clock, units::MHz) + ',' + cell(row.sm_clock, units::MHz) + ',';
    if (row.temperature_C) {
      std::snprintf(text, sizeof text, "%.4g", *row.temperature_C);
      out += text;
    }
    out += ',' + counts_text(c.work);
    std::snprintf(text, sizeof text, ",%.6g,%.6g,%.6g,", p.time.in(units::us), p.power ? p.power->in(units::W) : 0.0,
                  p.clock.in(units::MHz));
    out += text;
    (out += name(p.limiter)) += '\n';
  });
  return out;
}

}  // namespace plumbline

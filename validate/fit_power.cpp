#include "validate/fit_power.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>

#include "arch/error.hpp"
#include "model/machine.hpp"
#include "validate/power_search.hpp"
#include "validate/statistics.hpp"

namespace plumbline {
namespace {

/// Columns of the least squares: watts a unit of each, joules a unit of work.
enum Column {
  kConstant,
  kClocked,
  kLeakage,
  kBf16,
  kFp8,
  kFp32,
  kSfu,
  kInstruction,
  kSmem,
  kL2,
  kRead,
  kWrite,
  kColumns
};
constexpr const char* kNames[kColumns] = {"constant_W",
                                          "clocked_W",
                                          "leakage_W_per_K",
                                          "tensor_bf16_J_per_FLOP",
                                          "tensor_fp8_J_per_FLOP",
                                          "fp32_J_per_FLOP",
                                          "sfu_J",
                                          "instruction_J",
                                          "smem_J_per_B",
                                          "l2_J_per_B",
                                          "dram_read_J_per_B",
                                          "dram_write_J_per_B"};
constexpr double kReference_C = 50;
/// Near the cap a row without a clock of its own may run at any.
constexpr double kSurelyBelowCap = 0.9;
/// So that columns are of a like size: pJ, and W.
constexpr double kPico = 1e-12;

/// What is searched beside the energies.
struct Shape {
  double knee = 0.6, floor_voltage = 0.8;
  std::array<double, kDataPatternCount> tensor{1, 0.5, 0.85, 1}, move{1, 0.8, 0.9, 1};
};

struct Counted {
  Activity work;  ///< of one execution
  DType math = DType::bf16;
  Seconds time;
  double share = 1;  ///< of the boost clock, as set
  double busy = 0;   ///< tensor units, of SM cycles
  double above_C = 0;
  DataPattern data = DataPattern::normal;
  double watts = 0;
  std::optional<double> kept;  ///< SM clock / clock set
  const PowerRow* row = nullptr;
};

/// Machines whose clock is the boost clock, for plans and demands.
class Planner {
 public:
  Planner(const Gpu& gpu, const Calibration& calibration) : gpu_(gpu), calibration_(calibration) {
    calibration_.power.clear();
  }
  const OpPrediction& operator()(const PowerRow& row) {
    auto& machine = machines_[row.kernels];
    if (!machine) machine = make_machine(gpu_, calibration_, MachineOptions{row.kernels, ClockMode::burst, {}, {}});
    predict(row.op, *machine, *scratch_, {.warm = row.warm});
    return *scratch_;
  }

 private:
  Gpu gpu_;
  Calibration calibration_;
  std::map<KernelSet, std::shared_ptr<const Machine>> machines_;
  std::unique_ptr<OpPrediction> scratch_ = std::make_unique<OpPrediction>();
};

/// The launches' work together; nothing for an op that has none.
std::optional<Counted> count(const PowerRow& row, Planner& planner, const Gpu& gpu) {
  const OpPrediction& p = planner(row);
  Counted c;
  double tensor_clk = 0;
  for (int i = 0; i < p.launch_count; ++i) {
    const Demand& d = p.launches[static_cast<std::size_t>(i)].demand;
    const Activity a = activity(d, d.tensor_clk > 0 ? p.tensor : Flops{}, p.math, gpu);
    c.work.tensor += a.tensor;
    c.work.padded += a.padded;
    c.work.fp32 += a.fp32;
    c.work.sfu += a.sfu;
    c.work.instructions += a.instructions;
    c.work.smem += a.smem;
    c.work.l2 += a.l2;
    c.work.dram_read += a.dram_read;
    c.work.dram_write += a.dram_write;
    tensor_clk += static_cast<double>(d.plan.ctas) * d.plan.steps * d.tensor_clk;
  }
  c.math = p.math;
  c.time = row.time;
  c.data = row.data;
  c.row = &row;
  if (row.power) c.watts = row.power->in(units::W);
  if (row.temperature_C) c.above_C = *row.temperature_C - kReference_C;
  const Hertz effective = row.sm_clock.value_or(gpu.boost_clock);
  c.busy = std::min(1.0, tensor_clk / (static_cast<double>(gpu.sm_count) * (effective * row.time)));
  const std::optional<Hertz> set = row.clock == ClockMode::burst ? gpu.boost_clock : row.board_clock;
  if (set) c.share = std::min(1.0, *set / gpu.boost_clock);
  if (set && row.sm_clock && tensor_clk > 0) c.kept = std::min(1.0, *row.sm_clock / *set);
  return c;
}

PowerScalars with_shape(const Shape& s) {
  PowerScalars p;
  p.knee = s.knee;
  p.floor_voltage = s.floor_voltage;
  p.tensor_toggle = s.tensor;
  p.move_toggle = s.move;
  return p;
}

/// The columns of one row under a shape, in watts a unit.
Eigen::RowVectorXd columns_of(const Counted& c, const Shape& s) {
  const PowerScalars p = with_shape(s);
  const double v = voltage_squared(p, c.share), per_s = v / c.time.in(units::s)*kPico;
  const auto pattern = static_cast<std::size_t>(c.data);
  const double zeros = s.tensor[static_cast<std::size_t>(DataPattern::zeros)];
  const double tensor = c.work.tensor.in(units::FLOP)*s.tensor[pattern] + c.work.padded.in(units::FLOP)*zeros;
  const double move = s.move[pattern];
  Eigen::RowVectorXd x = Eigen::RowVectorXd::Zero(kColumns);
  x[kConstant] = 1;
  x[kClocked] = c.share * v;
  x[kLeakage] = c.above_C;
  x[c.math == DType::fp8 ? kFp8 : kBf16] = tensor * per_s;
  x[kFp32] = c.work.fp32.in(units::FLOP)*per_s;
  x[kSfu] = c.work.sfu * per_s;
  x[kInstruction] = c.work.instructions * per_s;
  x[kSmem] = c.work.smem.in(units::B)*move * per_s;
  x[kL2] = c.work.l2.in(units::B)*move * per_s;
  x[kRead] = c.work.dram_read.in(units::B)*move * per_s / v;  // a supply of its own
  x[kWrite] = c.work.dram_write.in(units::B)*move * per_s / v;
  return x;
}

struct Solved {
  Eigen::VectorXd energies;
  std::vector<double> errors;  ///< ln(predicted / measured)
  double loss = 0;
};

Solved solve(const std::vector<Counted>& rows, const Shape& shape) {
  const auto n = static_cast<Eigen::Index>(rows.size());
  Eigen::MatrixXd a(n, kColumns);
  for (Eigen::Index i = 0; i < n; ++i) {
    a.row(i) = columns_of(rows[static_cast<std::size_t>(i)], shape) / rows[static_cast<std::size_t>(i)].watts;
  }
  Solved out;
  out.energies = non_negative_least_squares(a, Eigen::VectorXd::Ones(n));
  const Eigen::VectorXd predicted = a * out.energies;
  for (Eigen::Index i = 0; i < n; ++i) {
    out.errors.push_back(std::log(std::max(predicted[i], 1e-3)));
    const double e = std::abs(out.errors.back());
    constexpr double kAbsoluteFrom = 0.05;  // Huber's: a few odd rows must not bend the rest
    out.loss += e < kAbsoluteFrom ? e * e : kAbsoluteFrom * (2 * e - kAbsoluteFrom);
  }
  return out;
}

/// The searched numbers as a point and back; each is kept inside its bounds.
constexpr std::size_t kSearched = 8;
Shape shape_of(const std::vector<double>& x) {
  Shape s;
  s.knee = std::clamp(x[0], 0.3, 0.95);
  s.floor_voltage = std::clamp(x[1], 0.5, 1.0);
  s.tensor = {1, std::clamp(x[2], 0.1, 1.0), std::clamp(x[3], 0.1, 1.3), std::clamp(x[4], 0.1, 1.3)};
  s.move = {1, std::clamp(x[5], 0.1, 1.0), std::clamp(x[6], 0.1, 1.3), std::clamp(x[7], 0.1, 1.3)};
  return s;
}

/// Skipped share of SM cycles = droop + droop_active x busy x (bits beyond zeros'): two numbers, least squares.
Eigen::Vector2d fit_droop(const std::vector<Counted>& rows, const Shape& shape, double& median_error) {
  std::vector<const Counted*> used;
  for (const Counted& c : rows) {
    if (c.kept) used.push_back(&c);
  }
  median_error = 0;
  if (used.size() < 4) return {0, 0};
  const double zeros = shape.tensor[static_cast<std::size_t>(DataPattern::zeros)];
  Eigen::MatrixXd a(static_cast<Eigen::Index>(used.size()), 2);
  Eigen::VectorXd b(a.rows());
  for (Eigen::Index i = 0; i < a.rows(); ++i) {
    const Counted& c = *used[static_cast<std::size_t>(i)];
    const double toggle = zeros < 1 ? (shape.tensor[static_cast<std::size_t>(c.data)] - zeros) / (1 - zeros) : 1;
    a.row(i) << 1, c.busy * toggle;
    b[i] = 1 - *c.kept;
  }
  const Eigen::VectorXd d = non_negative_least_squares(a, b);
  std::vector<double> errors;
  for (Eigen::Index i = 0; i < a.rows(); ++i) errors.push_back(std::abs(std::log((1 - a.row(i).dot(d)) / (1 - b[i]))));
  median_error = median(std::move(errors));
  return d;
}

/// The chip's temperature as a straight line of power: reports and leakage need no more.
Eigen::Vector2d fit_temperature(const std::vector<Counted>& rows) {
  double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (const Counted& c : rows) {
    if (!c.row->temperature_C) continue;
    n += 1, sx += c.watts, sy += *c.row->temperature_C, sxx += c.watts * c.watts;
    sxy += c.watts * *c.row->temperature_C;
  }
  const double spread = n * sxx - sx * sx;
  if (n < 3 || spread <= 0) return {kReference_C, 0};
  const double slope = std::max(0.0, (n * sxy - sx * sy) / spread);
  return {(sy - slope * sx) / n, slope};
}

void store(const Solved& solved, const Shape& shape, const Eigen::Vector2d& droop, const Eigen::Vector2d& heat,
           const std::string& source, Calibration& into) {
  const auto set = [&](const std::string& name, double value, const std::string& why) {
    into.power[name] = Scalar{value, why};
  };
  for (int i = 0; i < kColumns; ++i) {
    const bool watts = i == kConstant || i == kClocked || i == kLeakage;
    const double value = solved.energies[i] * (watts ? 1 : kPico);
    set(kNames[i], value, value > 0 ? source : source + "; 0: other terms say it all");
  }
  set("reference_C", kReference_C, "the temperature at which constant_W holds");
  set("cool_C", heat[0], source + ", chip temperature as a line of power");
  set("thermal_K_per_W", heat[1], source + ", chip temperature as a line of power");
  set("knee_fraction", shape.knee, source);
  set("floor_voltage_fraction", shape.floor_voltage, source);
  for (std::size_t i = 1; i < kDataPatternCount; ++i) {
    const std::string pattern(name(static_cast<DataPattern>(i)));
    set("tensor_toggle_" + pattern, shape.tensor[i], source + "; energy of tensor FLOPs over that of normal data");
    set("move_toggle_" + pattern, shape.move[i], source + "; energy of moving data over that of normal data");
  }
  set("droop_ratio", droop[0], source + "; SM cycles skipped where tensor units work");
  set("droop_active_ratio", droop[1], source + "; and more of them, times how busy those are");
}

/// Power of a row without a clock of its own says little near the cap.
bool usable(const Counted& c, const Gpu& gpu) {
  if (c.watts <= 0 || c.row->clock != ClockMode::steady) return false;
  return c.row->board_clock || c.watts < kSurelyBelowCap * gpu.tdp.in(units::W);
}

}  // namespace

PowerFit fit_power(const Gpu& gpu, const Calibration& start, const std::vector<PowerRow>& rows,
                   const std::string& source) {
  Planner planner(gpu, start);
  std::vector<Counted> counted, powered;
  for (const PowerRow& row : rows) {
    try {
      if (const auto c = count(row, planner, gpu)) counted.push_back(*c);
    } catch (const Error&) {
      continue;  // not modelled: nothing to count
    }
  }
  std::copy_if(counted.begin(), counted.end(), std::back_inserter(powered),
               [&](const Counted& c) { return usable(c, gpu); });
  if (powered.size() < kColumns + kSearched) {
    throw BadInput("--fit-power: expected at least " + std::to_string(kColumns + kSearched) +
                   " steady rows with a power, found " + std::to_string(powered.size()));
  }
  const std::vector<double> best =
      simplex_search([&](const std::vector<double>& x) { return solve(powered, shape_of(x)).loss; },
                     {0.6, 0.8, 0.5, 0.85, 1, 0.8, 0.9, 1}, 0.1, 600);
  const Shape shape = shape_of(best);
  const Solved solved = solve(powered, shape);
  PowerFit fit;
  const Eigen::Vector2d droop = fit_droop(counted, shape, fit.droop_median);
  fit.calibration = start;
  fit.calibration.power.clear();
  store(solved, shape, droop, fit_temperature(powered), source, fit.calibration);
  fit.scalars = *read_power_scalars(fit.calibration);
  fit.power_rows = static_cast<long>(powered.size());
  fit.clock_rows = static_cast<long>(
      std::count_if(counted.begin(), counted.end(), [](const Counted& c) { return c.kept.has_value(); }));
  std::vector<double> errors;
  std::vector<std::pair<double, std::string>> by_error;
  for (std::size_t i = 0; i < powered.size(); ++i) {
    errors.push_back(std::abs(solved.errors[i]));
    char text[80];
    std::snprintf(text, sizeof text, "%+6.1f %%  %6.1f W  ", 100 * std::expm1(solved.errors[i]), powered[i].watts);
    by_error.emplace_back(errors.back(), text + powered[i].row->text);
  }
  std::sort(by_error.rbegin(), by_error.rend());
  for (std::size_t i = 0; i < std::min<std::size_t>(by_error.size(), 12); ++i) fit.worst.push_back(by_error[i].second);
  fit.power_median = median(errors);
  fit.power_p90 = quantile(std::move(errors), 0.9);
  return fit;
}

std::string fit_report(const PowerFit& fit) {
  char text[200];
  std::snprintf(text, sizeof text,
                "power: %ld rows, |ln| median %.2f %%, p90 %.2f %%; SM clock: %ld rows, median %.2f %%\n",
                fit.power_rows, 100 * fit.power_median, 100 * fit.power_p90, fit.clock_rows, 100 * fit.droop_median);
  std::string out = text;
  for (const auto& [name, scalar] : fit.calibration.power) {
    std::snprintf(text, sizeof text, "  %-28s %.5g\n", name.c_str(), scalar.value);
    out += text;
  }
  out += "largest errors\n";
  for (const std::string& row : fit.worst) out += "  " + row + "\n";
  return out;
}

}  // namespace plumbline

#include "validate/fit/fit_power.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "arch/error.hpp"
#include "validate/fit/power_cards.hpp"
#include "validate/fit/power_columns.hpp"
#include "validate/fit/power_counts.hpp"
#include "validate/fit/power_search.hpp"
#include "validate/statistics.hpp"

namespace plumbline {
namespace {

using namespace power_fit;

constexpr double kUsual_C = 50;  // of a chip whose rows say nothing of it
constexpr const char* kLeakage = "leakage_W_per_K";
/// Near the cap a row without a clock of its own may run at any.
constexpr double kSurelyBelowCap = 0.9;
/// What is searched beside the energies.
struct Shape {
  double knee = 0.6, floor_voltage = 0.8;
  double memory_supply = 0.35;  ///< not searched: from the memory's own reading
  std::array<double, kDataPatternCount> tensor{1, 0.5, 0.85, 1}, move{1, 0.8, 0.9, 1};
};

PowerScalars with_shape(const Shape& s) {
  PowerScalars p;
  p.knee = s.knee;
  p.floor_voltage = s.floor_voltage;
  p.memory_supply = s.memory_supply;
  p.tensor_toggle = s.tensor;
  p.move_toggle = s.move;
  return p;
}

/// The engine's power as a function of the energies, under one shape.
class Columns {
 public:
  explicit Columns(const Shape& shape) : units_(unit_scalars(kNames, with_shape(shape))) {}
  /// The columns of one row, in watts a unit.
  Eigen::RowVectorXd operator()(const PowerCounts& c) const {
    const std::vector<double> x = power_columns(units_, c.work, c.math, c.data, c.share, c.time);
    return Eigen::Map<const Eigen::RowVectorXd>(x.data(), kColumns);
  }

 private:
  std::vector<PowerScalars> units_;
};

Eigen::VectorXd non_negative(const Eigen::MatrixXd& a, const Eigen::VectorXd& b) {
  const std::vector<double> x =
      non_negative_least_squares({a.data(), a.data() + a.size()}, {b.data(), b.data() + b.size()});
  return Eigen::Map<const Eigen::VectorXd>(x.data(), static_cast<Eigen::Index>(x.size()));
}

struct Solved {
  Eigen::VectorXd energies;
  std::vector<double> errors;  ///< predicted / measured - 1
  double loss = 0;
};

/// Sum of absolute relative errors, rounded off below 3 %, by least squares with weights of the errors before: a few
/// odd rows (an L2 that does not keep what it should) must not bend the rest.
Solved solve(const std::vector<PowerCounts>& rows, const Shape& shape) {
  constexpr double kAbsoluteFrom = 0.03;
  constexpr int kRounds = 8;
  const auto n = static_cast<Eigen::Index>(rows.size());
  Eigen::MatrixXd a(n, kColumns);
  const Columns columns_of(shape);
  for (Eigen::Index i = 0; i < n; ++i) {
    const PowerCounts& c = rows[static_cast<std::size_t>(i)];
    a.row(i) = columns_of(c) / c.watts;
  }
  Solved out;
  Eigen::VectorXd weight = Eigen::VectorXd::Ones(n), error;
  for (int round = 0; round < kRounds; ++round) {
    const Eigen::VectorXd root = weight.cwiseSqrt();
    out.energies = non_negative(root.asDiagonal() * a, root);
    error = a * out.energies - Eigen::VectorXd::Ones(n);
    weight = error.cwiseAbs().cwiseMax(kAbsoluteFrom).cwiseInverse() * kAbsoluteFrom;
  }
  for (Eigen::Index i = 0; i < n; ++i) {
    const double e = std::abs(error[i]);
    out.errors.push_back(error[i]);
    out.loss += e < kAbsoluteFrom ? 0.5 * e * e / kAbsoluteFrom : e - 0.5 * kAbsoluteFrom;
  }
  return out;
}

/// The searched numbers as a point and back; each is kept inside its bounds.
constexpr std::size_t kSearched = 8;
constexpr std::array<double, kSearched> kStart{0.6, 0.8, 0.5, 0.85, 1, 0.7, 0.85, 0.9};
/// The knee no lower than any clock that dense work was seen at (1.2 GHz of 1.98): below it a falling voltage is a guess.
constexpr std::array<double, kSearched> kLow{0.62, 0.5, 0.1, 0.4, 0.9, 0.4, 0.5, 0.6};
constexpr std::array<double, kSearched> kHigh{0.9, 1, 0.9, 1.1, 1.1, 1, 1.1, 1.1};

std::vector<double> inside(std::vector<double> x) {
  for (std::size_t i = 0; i < kSearched; ++i) x[i] = std::clamp(x[i], kLow[i], kHigh[i]);
  return x;
}

Shape shape_of(const std::vector<double>& at, double memory_supply) {
  const std::vector<double> x = inside(at);
  Shape s;
  s.memory_supply = memory_supply;
  s.knee = x[0];
  s.floor_voltage = x[1];
  s.tensor = {1, x[2], x[3], x[4]};
  s.move = {1, x[5], x[6], x[7]};
  return s;
}

double search_loss(const std::vector<PowerCounts>& rows, const std::vector<double>& x, double memory_supply) {
  double outside = 0;
  const std::vector<double> in = inside(x);
  for (std::size_t i = 0; i < kSearched; ++i) outside += (x[i] - in[i]) * (x[i] - in[i]);
  return solve(rows, shape_of(x, memory_supply)).loss + 10 * outside;
}

/// From several voltage curves to begin with: a steep one below a late knee and one that bends nowhere are valleys of their own,
/// which one simplex does not leave.
Shape best_shape(const std::vector<PowerCounts>& rows, double memory_supply, int steps) {
  constexpr std::array<std::array<double, 2>, 3> kCurves{{{0.6, 0.8}, {0.72, 0.85}, {0.8, 0.85}}};
  const auto loss = [&](const std::vector<double>& x) { return search_loss(rows, x, memory_supply); };
  std::vector<double> best;
  double least = 0;
  for (const auto& [knee, floor] : kCurves) {
    std::vector<double> start(kStart.begin(), kStart.end());
    start[0] = knee;
    start[1] = floor;
    const std::vector<double> found = simplex_search(loss, start, 0.1, steps);
    const double at = loss(found);
    if (best.empty() || at < least) {
      best = found;
      least = at;
    }
  }
  return shape_of(best, memory_supply);
}

/// What the SMs skip of their cycles where tensor units work.
struct SkippedCycles {
  double usual = 0, per_W = 0, from_W = 0, median_error = 0;
};

/// Cycles left at that power: the engine's load line, with power as it is and so no more to settle.
double cycles_left_at(const SkippedCycles& skipped, double watts) {
  PowerScalars p;
  p.skipped_cycles = skipped.usual;
  p.skipped_per_W = skipped.per_W;
  p.skipped_more_from = skipped.from_W * units::W;
  return cycles_left(p, watts * units::W, watts * units::W);
}

/// `usual` from rows of moderate power; then the threshold by trial and the slope by least squares. Power of bursts is
/// the model's, at the measured time.
SkippedCycles fit_skipped_cycles(const std::vector<PowerCounts>& rows, const Shape& shape,
                                 const Eigen::VectorXd& energies, double leakage_W_per_K, const HeatLine& heat) {
  constexpr double kModerate_W = 750, kLeast_W = 700, kMost_W = 1000, kTrial_W = 5;
  std::vector<double> watts, skipped, moderate;
  const Columns columns_of(shape);
  for (const PowerCounts& c : rows) {
    if (!c.cycles_left) continue;
    watts.push_back(with_heat(columns_of(c).dot(energies), leakage_W_per_K, heat));
    skipped.push_back(1 - *c.cycles_left);
    if (watts.back() < kModerate_W) moderate.push_back(skipped.back());
  }
  SkippedCycles best;
  if (moderate.empty()) return best;
  best.usual = median(std::move(moderate));
  double least = -1;
  for (double from = kLeast_W; from <= kMost_W; from += kTrial_W) {
    double xx = 0, xy = 0, error = 0;
    for (std::size_t i = 0; i < watts.size(); ++i) {
      const double x = std::max(0.0, watts[i] - from);
      xx += x * x;
      xy += x * (skipped[i] - best.usual);
    }
    const double slope = xx > 0 ? std::max(0.0, xy / xx) : 0;
    for (std::size_t i = 0; i < watts.size(); ++i) {
      error += std::abs(1 - skipped[i] - cycles_left_at({best.usual, slope, from}, watts[i]));
    }
    if (least >= 0 && error >= least) continue;
    least = error;
    best.per_W = slope;
    best.from_W = from;
  }
  std::vector<double> errors;
  for (std::size_t i = 0; i < watts.size(); ++i) {
    errors.push_back(std::abs(std::log(cycles_left_at(best, watts[i]) / (1 - skipped[i]))));
  }
  best.median_error = median(std::move(errors));
  return best;
}

/// Mean power of rows whose clock the regulator holds down, over the cap. Zeros are held down below it as well, by what
/// we do not know; they do not count.
double fit_aim(const std::vector<PowerCounts>& rows, const Gpu& gpu) {
  constexpr double kHeldDown = 0.97;
  std::vector<double> shares;
  for (const PowerCounts& c : rows) {
    if (c.watts > 0 && c.row->board_clock && c.share < kHeldDown && c.data == DataPattern::normal) {
      shares.push_back(c.watts / gpu.tdp.in(units::W));
    }
  }
  return shares.empty() ? 1 : std::min(1.0, median(std::move(shares)));
}

/// What the estimate of tensor work comes to where the clock is held down though power is far from the cap. 0: nowhere.
double fit_tensor_limit(const std::vector<PowerCounts>& rows, const Shape& shape, const Eigen::VectorXd& energies,
                        const Gpu& gpu) {
  constexpr double kHeldDown = 0.97, kFarFromCap = 0.75;
  const std::vector<PowerScalars> units = unit_scalars(kNames, with_shape(shape));
  const PowerScalars &bf16 = units[kBf16], &fp8 = units[kFp8];
  std::vector<double> watts;
  for (const PowerCounts& c : rows) {
    if (c.watts <= 0 || !c.row->board_clock || c.share >= kHeldDown) continue;
    if (c.watts > kFarFromCap * gpu.tdp.in(units::W)) continue;
    const Joules at_boost = estimated_tensor_energy(c.work, c.math, bf16) * energies[kBf16] +
                            estimated_tensor_energy(c.work, c.math, fp8) * energies[kFp8];
    watts.push_back((at_boost * voltage_squared(bf16, c.share) / c.time).in(units::W));
  }
  return watts.empty() ? 0 : median(std::move(watts));
}

/// What is fitted after the energies.
struct Rest {
  SkippedCycles skipped;
  double aim = 1, tensor_limit = 0, leakage_W_per_K = 0;
  HeatLine heat;
};

void store(const Gpu& gpu, const Solved& solved, const Shape& shape, const Rest& rest, const std::string& source,
           Calibration& into) {
  const SkippedCycles& skipped = rest.skipped;
  const auto set = [&](const std::string& name, double value, const std::string& why) {
    into.power[name] = Scalar{value, why};
  };
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    const bool watts = is_watts(kNames[i]);
    const double value = solved.energies[static_cast<Eigen::Index>(i)] * (watts ? 1 : kPico);
    set(kNames[i], value, value > 0 ? source : source + "; 0: other terms say it all");
  }
  set("boost_clock_Hz", gpu.boost_clock.in(units::Hz), "the boost clock at whose voltage the energies hold");
  set("reference_C", rest.heat.cool_C, "the temperature at which constant_W holds: the chip's at 0 W");
  set("cool_C", rest.heat.cool_C, source + ", chip temperature as a line of power");
  set("thermal_K_per_W", rest.heat.kelvin_per_W, source + ", chip temperature as a line of power");
  set("memory_supply_fraction", shape.memory_supply, source + "; from the reading of the memory's domain");
  set("knee_fraction", shape.knee, source);
  set("floor_voltage_fraction", shape.floor_voltage, source);
  for (std::size_t i = 1; i < kDataPatternCount; ++i) {
    const std::string pattern(name(static_cast<DataPattern>(i)));
    set("tensor_toggle_" + pattern, shape.tensor[i], source + "; energy of tensor FLOPs over that of normal data");
    set("move_toggle_" + pattern, shape.move[i], source + "; energy of moving data over that of normal data");
  }
  set("droop_ratio", skipped.usual, source + "; SM cycles skipped where tensor units work");
  set("droop_from_W", skipped.from_W, source + "; beyond this power more are skipped");
  set("droop_ratio_per_W", skipped.per_W, source + "; and so many more a watt");
  set("regulator_aim_fraction", rest.aim, source + "; mean power of runs that the regulator holds down / the cap");
  if (rest.tensor_limit > 0) {
    set("tensor_limit_W", rest.tensor_limit,
        source +
            "; tensor power as if on normal data, where runs on zeros are held down below three quarters of the cap");
  }
}

double leakage_of(const Calibration& calibration) {
  const auto slope = calibration.power.find(kLeakage);
  return slope == calibration.power.end() ? 0 : slope->second.value;
}

/// Nothing runs, clocks at their lowest: tells what goes with the clock from what does not.
PowerCounts at_rest(const PowerRow& row, const Gpu& gpu) {
  PowerCounts resting;
  resting.row = &row;
  resting.time = 1.0 * units::s;
  resting.share = kLowestClockShare;
  resting.watts = gpu.idle_power.in(units::W);
  return resting;
}

/// Median, p90 and the worst rows.
void add_errors(const std::vector<PowerCounts>& powered, const Solved& solved, PowerFit& fit) {
  std::vector<double> errors;
  std::vector<std::pair<double, std::string>> by_error;
  for (std::size_t i = 0; i < powered.size(); ++i) {
    errors.push_back(std::abs(solved.errors[i]));
    char text[80];
    std::snprintf(text, sizeof text, "%+6.1f %%  %6.1f W  ", 100 * solved.errors[i], powered[i].watts);
    by_error.emplace_back(errors.back(), text + powered[i].row->text);
  }
  std::sort(by_error.rbegin(), by_error.rend());
  for (std::size_t i = 0; i < std::min<std::size_t>(by_error.size(), 12); ++i) fit.worst.push_back(by_error[i].second);
  fit.power_median = median(errors);
  fit.power_p90 = quantile(std::move(errors), 0.9);
}

/// Power of a row without a clock of its own says little near the cap.
bool usable(const PowerCounts& c, const Gpu& gpu) {
  if (c.watts <= 0 || c.row->clock != ClockMode::steady) return false;
  return c.row->board_clock || c.watts < kSurelyBelowCap * gpu.tdp.in(units::W);
}

/// Rates over the window of the power, waits for the host among it. Runs that waited for more than a tenth count where
/// the regulator had nothing to hold down: else their clock was another one than that of the kernels alone.
std::vector<PowerRow> over_their_windows(const std::vector<PowerRow>& as_read, const Gpu& gpu) {
  constexpr double kLeastBusy = 0.9, kFree = 0.75;
  std::vector<PowerRow> rows;
  for (const PowerRow& row : as_read) {
    if (row.power && row.busy<kLeastBusy&& * row.power> kFree * gpu.tdp) continue;
    rows.push_back(row);
    if (row.power) rows.back().time = row.time / row.busy;
  }
  return rows;
}

}  // namespace

PowerFit fit_power(const Gpu& gpu, const Calibration& start, const std::vector<PowerRow>& as_read,
                   const std::string& source, int steps) {
  const std::vector<PowerRow> rows = over_their_windows(as_read, gpu);
  PowerPlanner planner(gpu, start);
  PowerRow idle;
  idle.text = "idle";
  std::vector<PowerCounts> counted, powered;
  for (const PowerRow& row : rows) {
    try {
      counted.push_back(count_work(row, planner, gpu));
    } catch (const Error&) {
      continue;  // not modelled: nothing to count
    }
  }
  std::copy_if(counted.begin(), counted.end(), std::back_inserter(powered),
               [&](const PowerCounts& c) { return usable(c, gpu); });
  if (powered.size() < kColumns + kSearched) {
    throw BadInput("expected at least " + std::to_string(kColumns + kSearched) + " steady rows with a power, found " +
                   std::to_string(powered.size()));
  }
  const MemoryLine memory = memory_line(powered);
  const double per_byte = memory.pJ_per_B;
  count_traffic_of_warm_rows(memory, powered);
  powered.push_back(at_rest(idle, gpu));
  Rest rest;
  rest.heat = fit_temperature(powered, kUsual_C);
  rest.leakage_W_per_K = leakage_of(start);
  without_heat(rest.leakage_W_per_K, rest.heat, powered);
  const std::map<std::string, double> cards = memory_of_cards(powered);
  Shape shape;
  Solved solved;
  double supply = shape.memory_supply;
  for (int round = 0; round < 2; ++round) {  // the share needs the whole energy of a byte, which hardly depends on it
    const std::vector<PowerCounts> on_one_card = as_on_one_card(powered, cards, supply);
    shape = best_shape(on_one_card, supply, steps);
    solved = solve(on_one_card, shape);
    const double whole = 0.5 * (solved.energies[kRead] + solved.energies[kWrite]);
    if (per_byte > 0 && whole > 0) supply = std::clamp(per_byte / whole, 0.05, 1.0);
  }
  PowerFit fit;
  rest.skipped = fit_skipped_cycles(counted, shape, solved.energies, rest.leakage_W_per_K, rest.heat);
  rest.aim = fit_aim(counted, gpu);
  rest.tensor_limit = fit_tensor_limit(counted, shape, solved.energies, gpu);
  fit.skipped_median = rest.skipped.median_error;
  fit.calibration = start;
  fit.calibration.power.clear();
  if (rest.leakage_W_per_K > 0) fit.calibration.power[kLeakage] = start.power.at(kLeakage);
  store(gpu, solved, shape, rest, source, fit.calibration);
  fit.scalars = *read_power_scalars(fit.calibration);
  fit.power_rows = static_cast<long>(powered.size());
  fit.clock_rows = static_cast<long>(
      std::count_if(counted.begin(), counted.end(), [](const PowerCounts& c) { return c.cycles_left.has_value(); }));
  add_errors(powered, solved, fit);
  return fit;
}

}  // namespace plumbline

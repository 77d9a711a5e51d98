#include "validate/fit/fit_calibration.hpp"
#include "validate/record/study.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "validate/compare/pricing.hpp"
#include "validate/parallel.hpp"
#include "validate/statistics.hpp"

namespace plumbline {

namespace {

constexpr std::string_view kMachine = "machine";

std::string family_key(const CalibrationFitOptions& options) {
  return std::string(key_of(options.kernels)) + "." + options.family;
}

/// The section of `calibration` that a free scalar's name points into, and its name there.
std::map<std::string, Scalar>& section_of(Calibration& calibration, const CalibrationFitOptions& options,
                                          const std::string& name, std::string& name_there) {
  const std::size_t dot = name.find('.');
  name_there = dot == std::string::npos ? name : name.substr(dot + 1);
  if (dot == std::string::npos) return calibration.families[family_key(options)];
  const std::string section = name.substr(0, dot);
  if (section == kMachine) return calibration.machine;
  return calibration.families[std::string(key_of(options.kernels)) + "." + section];
}

/// The scalar of that name in `calibration`, made when missing.
Scalar& scalar_of(Calibration& calibration, const CalibrationFitOptions& options, const std::string& name) {
  std::string name_there;
  auto& section = section_of(calibration, options, name, name_there);
  return section[name_there];
}

std::vector<std::string> known_scalars(const Calibration& calibration, const CalibrationFitOptions& options) {
  std::vector<std::string> names;
  for (const auto& [key, scalars] : calibration.families) {
    const std::size_t dot = key.find('.');
    if (key.substr(0, dot) != key_of(options.kernels)) continue;
    const std::string prefix = key == family_key(options) ? "" : key.substr(dot + 1) + ".";
    for (const auto& [name, scalar] : scalars) names.push_back(prefix + name);
  }
  for (const auto& [name, scalar] : calibration.machine) names.push_back(std::string(kMachine) + "." + name);
  return names;
}

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

/// Twenty times either way is as good as no bound for a number that has a start. Shares of something end at 1, and so
/// does a p-norm's p, from above (model/engine/rates.hpp).
FitParameter bounded(const FreeScalar& free, double start) {
  FitParameter out{free.name, start, free.low, free.high};
  if (out.low <= 0) out.low = ends_with(free.name, "overlap") ? std::min(1.0, start) : start / 20;
  const bool share = ends_with(free.name, "_fraction") || ends_with(free.name, "exposed");
  if (out.high <= 0) out.high = share ? std::max(1.0, start) : start * 20;
  return out;
}

FitParameter parameter_of(const FreeScalar& free, const Calibration& calibration,
                          const CalibrationFitOptions& options) {
  if (free.start > 0) return bounded(free, free.start);
  const std::vector<std::string> known = known_scalars(calibration, options);
  if (std::find(known.begin(), known.end(), free.name) == known.end()) {
    throw BadInput("--free " + free.name + ": not a scalar of " + family_key(options) + " or the machine" +
                   did_you_mean(free.name, known) + "; expected a known name, or NAME=START");
  }
  Calibration copy = calibration;
  const double start = scalar_of(copy, options, free.name).value;
  if (start <= 0) throw BadInput("--free " + free.name + ": is not above 0 now; expected NAME=START");
  return bounded(free, start);
}

std::vector<FitParameter> parameters_of(const CalibrationFitOptions& options, const Calibration& calibration) {
  std::vector<FreeScalar> free = options.free;
  if (free.empty()) {
    const auto at = calibration.families.find(family_key(options));
    if (at == calibration.families.end() || at->second.empty()) {
      throw BadInput("--family " + options.family + ": the calibration has no scalar of " + family_key(options) +
                     "; expected --free NAME=START");
    }
    for (const auto& [name, scalar] : at->second) {
      if (scalar.value > 0) free.push_back({name, 0, 0, 0});
    }
  }
  std::vector<FitParameter> parameters;
  for (const FreeScalar& one : free) parameters.push_back(parameter_of(one, calibration, options));
  return parameters;
}

/// The engine as the fitter sees it: numbers in, seconds out; a row that is not modelled gives NaN.
class EnginePredictor {
 public:
  EnginePredictor(const Gpu& gpu, Calibration calibration, const std::vector<Measurement>& rows,
                  const CalibrationFitOptions& options, const std::vector<FitParameter>& parameters)
      : gpu_(gpu), calibration_(std::move(calibration)), rows_(rows), options_(options) {
    // References into maps stay valid while the fit goes on: nothing is erased.
    for (const FitParameter& p : parameters) {
      free_.push_back(&scalar_of(calibration_, options, p.name).value);
    }
    for (const Measurement& row : rows)
      kinds_.push_back({clock_of(row, options.clock), stack_of(usual_stack(options.kernels), row)});
  }
  EnginePredictor(const EnginePredictor&) = delete;
  EnginePredictor& operator=(const EnginePredictor&) = delete;

  void operator()(const std::vector<double>& values, const std::vector<std::size_t>& which,
                  std::vector<double>& predicted_s) {
    for (std::size_t j = 0; j < free_.size(); ++j) *free_[j] = values[j];
    std::map<Kind, std::optional<Machine>> machines;
    for (const Kind& kind : kinds_) {
      auto& machine = machines[kind];
      if (machine) continue;
      MachineOptions machine_options;
      machine_options.clock = kind.first;
      machine_options.stack = kind.second;
      machine = make_machine(gpu_, calibration_, machine_options);
    }
    in_parts(which.size(), options_.threads, [&](std::size_t first, std::size_t last) {
      const auto scratch = std::make_unique<OpPrediction>();
      Predictor predictor;
      for (std::size_t i = first; i < last; ++i) {
        predicted_s[i] = seconds(rows_[which[i]], *machines.at(kinds_[which[i]]), predictor, *scratch);
      }
    });
  }

 private:
  static double seconds(const Measurement& row, const Machine& machine, Predictor& predictor, OpPrediction& scratch) {
    try {
      return predict_as_measured(row, machine, predictor, scratch).in(units::s);
    } catch (const Error&) {
      return std::numeric_limits<double>::quiet_NaN();
    }
  }

  const Gpu& gpu_;
  Calibration calibration_;
  const std::vector<Measurement>& rows_;
  const CalibrationFitOptions& options_;
  std::vector<double*> free_;
  using Kind = std::pair<ClockMode, StackChoice>;
  std::vector<Kind> kinds_;  ///< of the rows
};

/// Values of all rows under `values`, as ln(predicted / measured).
std::vector<double> log_ratios(const FitProblem& problem, const std::vector<std::size_t>& rows,
                               const std::vector<double>& values) {
  std::vector<double> predicted(rows.size());
  problem.predict(values, rows, predicted);
  for (std::size_t i = 0; i < rows.size(); ++i) predicted[i] = std::log(predicted[i] / problem.measured_s[rows[i]]);
  return predicted;
}

double median_size(std::vector<double> values) {
  for (double& value : values) value = std::abs(value);
  return median(std::move(values));
}

/// Which rows take part: all that the engine models have a residual, the long enough ones are trained on.
struct Selection {
  std::vector<std::size_t> modelled, trained;
};

/// `ratios`: ln(predicted / measured) of the modelled rows under `values`.
Selection select(const FitProblem& problem, const std::vector<double>& values, const std::vector<Measurement>& rows,
                 const CalibrationFitOptions& options, std::vector<double>& ratios) {
  std::vector<std::size_t> every(rows.size());
  std::iota(every.begin(), every.end(), std::size_t{0});
  const std::vector<double> tried = log_ratios(problem, every, values);
  Selection out;
  for (std::size_t i : every) {
    if (!std::isfinite(tried[i])) continue;
    out.modelled.push_back(i);
    ratios.push_back(tried[i]);
    if (rows[i].time < options.at_least) continue;
    out.trained.push_back(i);
  }
  return out;
}

/// "trtllm" of "trtllm-1.3.0rc20".
std::string stack_name(const Measurement& row) { return row.origin.stack.substr(0, row.origin.stack.find('-')); }

/// Size classes count equally (`balance`), and so do the stacks that measured: a library is no one vendor's kernels.
std::vector<double> weights_of(const std::vector<Measurement>& rows, const Selection& chosen, bool balance) {
  std::vector<Seconds> times;
  for (std::size_t i : chosen.trained) times.push_back(rows[i].time);
  const std::vector<double> trained = size_weights(times, balance);
  std::map<std::string, double> rows_of_stack;
  for (const std::size_t row : chosen.trained) rows_of_stack[stack_name(rows[row])] += 1;
  const double even = static_cast<double>(chosen.trained.size()) / static_cast<double>(rows_of_stack.size());
  std::vector<double> weights(rows.size(), 1.0);
  for (std::size_t i = 0; i < chosen.trained.size(); ++i) {
    const std::size_t row = chosen.trained[i];
    weights[row] = trained[i] * even / rows_of_stack[stack_name(rows[row])];
  }
  return weights;
}

struct Residuals {
  std::vector<double> before, after;  ///< ln(predicted / measured)
};

std::vector<FittedClass> classes_of(const std::vector<Measurement>& measured, const std::vector<std::size_t>& rows,
                                    const Residuals& residuals) {
  std::vector<FittedClass> classes;
  for (SizeClass size : {SizeClass::small, SizeClass::middle, SizeClass::large, SizeClass::all}) {
    std::vector<double> before, after;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (size != SizeClass::all && size_class(measured[rows[i]].time) != size) continue;
      before.push_back(residuals.before[i]);
      after.push_back(residuals.after[i]);
    }
    if (before.empty()) continue;
    FittedClass out;
    out.size = size;
    out.rows = static_cast<long>(before.size());
    out.median_before = median_size(std::move(before));
    out.bias_after = median(after);
    out.median_after = median_size(std::move(after));
    classes.push_back(out);
  }
  return classes;
}

/// The start with the fitted scalars. What a card inherited is kept, and each number says from whom.
Calibration filled_in(const Gpu& gpu, const Calibration& start, const CalibrationFitOptions& options,
                      const CalibrationFit& fit) {
  Calibration out = start;
  if (out.inherited || out.gpu != gpu.name) {
    const std::string from = "inherited from " + start.gpu + ": ";
    for (auto& [name, scalar] : out.machine) scalar.source = from + scalar.source;
    for (auto& [family, scalars] : out.families) {
      for (auto& [name, scalar] : scalars) scalar.source = from + scalar.source;
    }
    out.bands.clear();  // another card's residuals are not this one's
    out.gpu = gpu.name;
    out.inherited = false;
  }
  const std::string source = "fitted on " + options.source + ", n=" + std::to_string(fit.trained) + ", " + options.date;
  for (std::size_t j = 0; j < fit.scalars.size(); ++j) {
    std::string said = source;
    if (fit.scalars[j].at_bound) said += ", at its bound: not determined by these rows";
    scalar_of(out, options, fit.scalars[j].name) = Scalar{fit.result.values[j], said};
  }
  return out;
}

double number_in(std::string_view text, const std::string& whole) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0) || !std::isfinite(value)) {
    throw BadInput("--free " + whole + ": expected NAME, NAME=START or NAME=START:LOW:HIGH with numbers above 0");
  }
  return value;
}

}  // namespace

FreeScalar parse_free_scalar(const std::string& text) {
  FreeScalar out;
  const std::size_t equals = text.find('=');
  out.name = text.substr(0, equals);
  if (out.name.empty() || out.name.back() == '.')
    throw BadInput("--free '" + text + "': expected NAME[=START[:LOW:HIGH]]");
  if (equals == std::string::npos) return out;
  const std::string_view numbers = std::string_view(text).substr(equals + 1);
  const std::size_t first = numbers.find(':');
  out.start = number_in(numbers.substr(0, first), text);
  if (first == std::string_view::npos) return out;
  const std::size_t second = numbers.find(':', first + 1);
  out.low = number_in(numbers.substr(first + 1, second == std::string_view::npos ? second : second - first - 1), text);
  out.high = number_in(second == std::string_view::npos ? std::string_view() : numbers.substr(second + 1), text);
  return out;
}

std::vector<double> size_weights(const std::vector<Seconds>& measured, bool balance) {
  std::vector<double> weights(measured.size(), 1.0);
  if (!balance) return weights;
  std::array<double, 4> counts{};
  for (Seconds time : measured) counts[static_cast<std::size_t>(size_class(time))] += 1;
  const auto occurring =
      static_cast<double>(std::count_if(counts.begin(), counts.end(), [](double n) { return n > 0; }));
  for (std::size_t i = 0; i < measured.size(); ++i) {
    weights[i] =
        static_cast<double>(measured.size()) / (occurring * counts[static_cast<std::size_t>(size_class(measured[i]))]);
  }
  return weights;
}

CalibrationFit fit_calibration(const Gpu& gpu, const Calibration& start, const std::vector<Measurement>& rows,
                               const CalibrationFitOptions& options) {
  FitProblem problem;
  problem.parameters = parameters_of(options, start);
  const auto engine = std::make_shared<EnginePredictor>(gpu, start, rows, options, problem.parameters);
  problem.predict = [engine](const auto& values, const auto& which, auto& out) { (*engine)(values, which, out); };
  for (const Measurement& row : rows) problem.measured_s.push_back(row.time.in(units::s));
  std::vector<double> first;
  for (const FitParameter& p : problem.parameters) first.push_back(p.start);
  Residuals residuals;
  const Selection chosen = select(problem, first, rows, options, residuals.before);
  problem.weights = weights_of(rows, chosen, options.balance);

  CalibrationFit out;
  out.result = fit(problem, chosen.trained);
  out.trained = static_cast<long>(chosen.trained.size());
  out.not_modelled = static_cast<long>(rows.size() - chosen.modelled.size());
  for (std::size_t j = 0; j < first.size(); ++j) {
    const auto& bound = out.result.at_bound;
    const bool at_bound = std::find(bound.begin(), bound.end(), j) != bound.end();
    out.scalars.push_back({problem.parameters[j].name, first[j], out.result.values[j], at_bound});
  }
  residuals.after = log_ratios(problem, chosen.modelled, out.result.values);
  out.classes = classes_of(rows, chosen.modelled, residuals);
  out.calibration = filled_in(gpu, start, options, out);
  return out;
}

}  // namespace plumbline

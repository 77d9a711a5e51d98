// What value of a number meets targets: a grid from one end to the other, then halving between the last value that does not
// and the first that does.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/gpu/number.hpp"
#include "model/study/columns.hpp"
#include "model/study/costs.hpp"
#include "model/study/points.hpp"

namespace plumbline {
namespace {

constexpr int kGrid = 48;
constexpr int kHalvings = 24;
constexpr double kUsualFactor = 16;
constexpr double kMostWhole = 65'536;
constexpr std::string_view kNumber = "set.";

/// Whole numbers that a solution may be one of: those that only some values are legal of are tried one by one.
bool is_degree(const std::string& name) {
  for (const char* degree : {"gpus", "tp", "pp", "dp", "ep", "cp"}) {
    if (name == degree) return true;
  }
  return false;
}

class Solver {
 public:
  Solver(const Study& study, const SolveQuestion& question)
      : question_(single_question(study)), asked_(question), asker_(inputs_) {
    for (const std::string& each : question.targets) {
      targets_.push_back(parse_condition(each, "--target"));
      if (targets_.back().comparison < FigureComparison::holds && !targets_.back().numeric) {
        throw BadInput("--target: expected a number behind the comparison, found '" + each + "'");
      }
      figure_column(study.of_op, targets_.back().name, "--target");
    }
    if (targets_.empty()) throw BadInput("--target is required");
    machine_ = asker_.machine_of(question_);
    choose_number();
  }

  Solution run() {
    std::vector<double> grid = values();
    if (asked_.largest) std::reverse(grid.begin(), grid.end());
    std::optional<double> before;
    for (const double value : grid) {
      if (meets(value)) return found(before ? between(*before, value) : value);
      before = value;
    }
    return not_found();
  }

 private:
  void choose_number() {
    if (asked_.name.starts_with(kNumber)) {
      const std::string path = asked_.name.substr(kNumber.size());
      place_ = number_place(path);
      std::vector<std::string> paths;
      for (const GpuParameter& each : gpu_parameters()) {
        paths.push_back(each.path);
        if (each.path == path) unit_ = each.unit;
      }
      if (!place_) {
        throw BadInput("--vary: '" + path + "': expected a number of the descriptor or a whole number such as batch" +
                       did_you_mean(path, paths));
      }
      present_ = number_at(machine_->numbers(), *place_);
      whole_ = place_->whole;
      return;
    }
    const std::vector<std::string> names{"batch", "prompt", "context", "output", "gpus",         "tp",
                                         "pp",    "dp",     "ep",      "cp",     "micro-batches"};
    const bool known = !question_.of_op && std::find(names.begin(), names.end(), asked_.name) != names.end();
    if (!known && !question_.of_op) {
      throw BadInput("--vary: '" + asked_.name + "': expected batch, context, gpus or a number of the descriptor" +
                     did_you_mean(asked_.name, names));
    }
    whole_ = true;
    set_question(question_, asked_.name, "1", "--vary");  // refuses a name that no operator has
  }

  /// From least to most.
  std::vector<double> values() const {
    double from = asked_.from, to = asked_.to;
    if (from == 0) from = place_ && present_ > 0 ? present_ / kUsualFactor : 1;
    if (to == 0) to = place_ && present_ > 0 ? present_ * kUsualFactor : kMostWhole;
    if (!(from > 0) || to < from) throw BadInput("--vary: expected FROM:TO with FROM above 0 and TO no less");
    std::vector<double> out;
    if (is_degree(asked_.name)) {
      constexpr double kOneByOne = 64;
      for (double n = std::ceil(from); n <= std::min(to, kOneByOne); ++n) out.push_back(n);
      for (double n = 2 * kOneByOne; n <= std::min(to, 1024.0); n *= 2) {
        if (n >= from) out.push_back(n);
      }
      return out;
    }
    for (int i = 0; i <= kGrid; ++i) {
      double value = from * std::pow(to / from, static_cast<double>(i) / kGrid);
      if (whole_) value = std::round(value);
      if (out.empty() || value > out.back()) out.push_back(value);
    }
    return out;
  }

  /// Halves between a value that does not meet the targets and one that does.
  double between(double bad, double good) {
    if (is_degree(asked_.name)) return good;
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = whole_ ? std::floor((bad + good) / 2) : std::sqrt(bad * good);
      if (middle == bad || middle == good) break;
      (meets(middle) ? good : bad) = middle;
    }
    return good;
  }

  bool ask(double value) {
    try {
      if (place_) {
        const Gpu& plain = inputs_.gpu(question_.machine.gpu).plain();
        asker_.ask(question_, machine_->with(with_numbers(plain, machine_->numbers(), {{*place_, value}})));
      } else {
        set_question(question_, asked_.name, std::to_string(std::llround(value)), "--vary");
        asker_.ask(question_, *machine_);
      }
      return true;
    } catch (const Error& refusal) {
      refusal_ = refusal.what();
      return false;
    }
  }

  StudyFigure figure(const Condition& target) const {
    return figure_column(question_.of_op, target.name, "--target").get(asker_);
  }

  /// By how much a target is missed, as ln; 0 where it is met.
  double missed_by(const Condition& target) const {
    const StudyFigure reached = figure(target);
    if (target.holds(reached)) return 0;
    const auto* number = std::get_if<double>(&reached);
    if (number == nullptr || !(*number > 0) || !(target.number > 0)) return std::numeric_limits<double>::max();
    return std::abs(std::log(*number / target.number));
  }

  bool meets(double value) {
    if (!ask(value)) return false;
    double missed = asker_.fits() ? 0 : kNotFitting;
    SolveTrial trial;
    for (const Condition& each : targets_) {
      missed = std::max(missed, missed_by(each));
      const StudyFigure reached = figure(each);
      const auto* number = std::get_if<double>(&reached);
      trial.figures.push_back(number != nullptr ? *number : 0);
    }
    trial.value = value;
    trial.fits = asker_.fits();
    trial.met = missed == 0;
    tried_.push_back(std::move(trial));
    if (!nearest_ || missed < nearest_missed_) {
      nearest_ = value;
      nearest_missed_ = missed;
    }
    return missed == 0;
  }

  void describe(Solution& out) const {
    out.present = present_;
    out.unit = unit_;
    out.tried = tried_;
    std::stable_sort(out.tried.begin(), out.tried.end(),
                     [](const SolveTrial& a, const SolveTrial& b) { return a.value < b.value; });
    double worst = 0;
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      const StudyFigure reached = figure(targets_[i]);
      const auto* number = std::get_if<double>(&reached);
      out.reached.emplace_back(targets_[i].name, number != nullptr ? *number : 0);
      out.limits.push_back(targets_[i].numeric ? std::optional(targets_[i].number) : std::nullopt);
      const double missed = missed_by(targets_[i]);
      if (missed > worst) {
        worst = missed;
        out.unmet = asked_.targets[i];
      }
    }
    out.fits = asker_.fits();
    out.bound = word_of_figure(asker_, "bound");
    const std::vector<OperatorCost> costs = costs_of(asker_);
    out.longest = longest_of(costs).name;
    out.limiter = longest_of(costs).limiter;
  }

  Solution found(double value) {
    Solution out;
    ask(value);
    out.found = true;
    out.value = value;
    describe(out);
    return out;
  }

  Solution not_found() {
    if (!nearest_) throw BadInput("--vary: no value can be predicted: " + refusal_);
    Solution out;
    ask(*nearest_);
    out.value = *nearest_;
    describe(out);
    if (!out.fits && out.unmet.empty()) out.unmet = "fits";
    return out;
  }

  static constexpr double kNotFitting = 1e3;  // farther off than any figure

  Inquiry question_;
  SolveQuestion asked_;
  StudyInputs inputs_;
  Asker asker_;
  std::optional<Machine> machine_;
  std::vector<Condition> targets_;
  std::vector<SolveTrial> tried_;
  std::optional<NumberPlace> place_;
  bool whole_ = false;
  double present_ = 0;
  std::string unit_, refusal_;
  std::optional<double> nearest_;
  double nearest_missed_ = 0;
};

}  // namespace

Solution solve(const Study& study, const SolveQuestion& question) { return Solver(study, question).run(); }

}  // namespace plumbline

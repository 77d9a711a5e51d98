// Two questions side by side: operator by operator, and where one overtakes the other.
#include <algorithm>
#include <cmath>
#include <optional>

#include "arch/error.hpp"
#include "model/study/costs.hpp"
#include "model/study/points.hpp"

namespace plumbline {
namespace {

DifferenceSide side_of(const Asker& a) {
  DifferenceSide side;
  side.latency_s = number_of_figure(a, "latency_s");
  side.latency_low_s = number_of_figure(a, "latency_low_s");
  side.latency_high_s = number_of_figure(a, "latency_high_s");
  side.energy_J = number_of_figure(a, "energy_J");
  side.power_W = number_of_figure(a, "power_W");
  side.bound = word_of_figure(a, "bound");
  side.fits = a.fits();
  if (!a.of_op()) side.tokens_per_s = number_of_figure(a, "tokens_per_s");
  return side;
}

bool same_but_numbers(const Inquiry& a, const Inquiry& b) {
  MachineKey x = a.machine, y = b.machine;
  x.overrides.clear();
  y.overrides.clear();
  return !(x < y) && !(y < x);
}

/// Both sides as they are with one size changed.
class Race {
 public:
  Race(const Inquiry& first, const Inquiry& second, Asker& asker, Asker& other)
      : sides_{first, second}, askers_{&asker, &other} {}

  /// Above 0 where the second is faster; nothing where one of them can't be predicted.
  std::optional<double> lead(const std::string& name, std::int64_t value) {
    double latency[2] = {0, 0};
    for (int i = 0; i < 2; ++i) {
      try {
        Inquiry asked = sides_[i];
        set_question(asked, name, std::to_string(value), name);
        askers_[i]->ask(asked);
        latency[i] = number_of_figure(*askers_[i], "latency_s");
      } catch (const Error&) {
        return std::nullopt;
      }
    }
    return latency[0] - latency[1];
  }

 private:
  Inquiry sides_[2];
  Asker* askers_[2];  // each keeps its side's machine
};

constexpr double kAlike = 1e-9;  ///< of equal sides nobody is ahead

/// Where the lead changes, on a grid of doublings and then by halving.
void add_cross_overs(Race& race, const std::string& name, std::int64_t least, std::int64_t most, StudyDifference& out) {
  std::optional<double> last;
  std::int64_t before = 0;
  for (std::int64_t value = least; value <= most; value *= 2) {
    const std::optional<double> lead = race.lead(name, value);
    if (!lead || std::abs(*lead) < kAlike * out.before.latency_s) continue;
    if (last && (*last > 0) != (*lead > 0)) {
      std::int64_t bad = before, good = value;
      while (good - bad > 1) {
        const std::int64_t middle = bad + (good - bad) / 2;
        const std::optional<double> there = race.lead(name, middle);
        if (!there) break;
        ((*there > 0) == (*lead > 0) ? good : bad) = middle;
      }
      out.cross_overs.push_back({name, good, *lead > 0});
    }
    last = lead;
    before = value;
  }
}

void put_operators(std::vector<OperatorCost> before, const std::vector<OperatorCost>& after, StudyDifference& out) {
  std::vector<bool> taken(after.size(), false);
  for (OperatorCost& cost : before) {
    OperatorDifference difference;
    for (std::size_t i = 0; i < after.size(); ++i) {
      if (taken[i] || after[i].name != cost.name || after[i].phase != cost.phase) continue;
      difference.after = after[i];
      taken[i] = true;
      break;
    }
    difference.before = std::move(cost);
    out.operators.push_back(std::move(difference));
  }
  for (std::size_t i = 0; i < after.size(); ++i) {
    if (!taken[i]) out.operators.push_back({{}, after[i]});
  }
  const auto change = [](const OperatorDifference& d) { return std::abs(d.after.time_s - d.before.time_s); };
  std::stable_sort(out.operators.begin(), out.operators.end(),
                   [&](const OperatorDifference& a, const OperatorDifference& b) { return change(a) > change(b); });
}

/// Bands of two predictions that err by themselves.
BandedRatio independent(const DifferenceSide& a, const DifferenceSide& b) {
  const double ratio = b.latency_s / a.latency_s;
  const double below = std::hypot(std::log(b.latency_s / b.latency_low_s), std::log(a.latency_high_s / a.latency_s));
  const double above = std::hypot(std::log(b.latency_high_s / b.latency_s), std::log(a.latency_s / a.latency_low_s));
  return {ratio, ratio * std::exp(-below), ratio * std::exp(above)};
}

bool same_sizes(const Workload& a, const Workload& b) {
  return a.phase == b.phase && a.batch == b.batch && a.prompt == b.prompt && a.context == b.context &&
         a.cached == b.cached && a.parallel == b.parallel && a.precision_given == b.precision_given &&
         (!a.precision_given || a.precision == b.precision) && a.kv_dtype_given == b.kv_dtype_given &&
         a.kv_dtype == b.kv_dtype && a.fusion == b.fusion && a.overlap == b.overlap;
}

}  // namespace

StudyDifference difference(const Study& before, const Study& after) {
  if (before.of_op != after.of_op) throw BadInput("--against: expected llm against llm, or op against op");
  const Inquiry first = single_question(before), second = single_question(after);
  StudyInputs inputs;
  Asker asker(inputs), other(inputs);
  asker.ask(first);
  other.ask(second);
  StudyDifference out;
  out.before = side_of(asker);
  out.after = side_of(other);
  const bool alike = before.of_op
                         ? asker.shape() == other.shape()
                         : same_sizes(asker.workload(), other.workload()) && first.llm.model == second.llm.model &&
                               first.llm.runtime == second.llm.runtime && first.llm.output == second.llm.output;
  out.same_machine = alike && same_but_numbers(first, second);
  out.latency_ratio = independent(out.before, out.after);
  if (out.same_machine) {
    const RatioWidths widths = ratio_widths(other, asker.machine().numbers());
    out.latency_ratio.low = out.latency_ratio.value * std::exp(widths.low);
    out.latency_ratio.high = out.latency_ratio.value * std::exp(widths.high);
  }
  put_operators(costs_of(asker), costs_of(other), out);
  const bool step = !before.of_op && asker.whole() == nullptr && other.whole() == nullptr;
  if (!step || first.llm.phase != second.llm.phase) return out;
  Race race(first, second, asker, other);
  constexpr std::int64_t kMostBatch = 1024, kLeastLength = 128, kMostLength = 131'072;
  if (first.llm.workload.batch == second.llm.workload.batch) add_cross_overs(race, "batch", 1, kMostBatch, out);
  if (first.llm.phase == AskedPhase::decode) {
    if (first.llm.workload.context == second.llm.workload.context) {
      add_cross_overs(race, "context", kLeastLength, kMostLength, out);
    }
  } else if (first.llm.workload.prompt == second.llm.workload.prompt) {
    add_cross_overs(race, "prompt", kLeastLength, kMostLength / 4, out);
  }
  return out;
}

}  // namespace plumbline

// Which number of the descriptor matters: each 10 % down and up, by itself and the first ones together.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "arch/error.hpp"
#include "arch/gpu/number.hpp"
#include "arch/gpu/peaks.hpp"
#include "model/study/costs.hpp"
#include "model/study/points.hpp"

namespace plumbline {
namespace {

constexpr double kStep = 0.1;
constexpr std::size_t kTogether = 3;

struct Figures {
  double latency = 0, energy = 0, tokens_per_s = 0, tokens_per_J = 0;
};

Figures figures_of(const Asker& a) {
  Figures f;
  f.latency = number_of_figure(a, "latency_s");
  f.energy = number_of_figure(a, "energy_J");
  if (a.of_op()) return f;
  f.tokens_per_s = number_of_figure(a, "tokens_per_s");
  f.tokens_per_J = number_of_figure(a, "tokens_per_J");
  return f;
}

/// d ln y / d ln x between two points; 0 where there is no figure.
double slope(double y0, double y1, double x0, double x1) {
  if (!(y0 > 0) || !(y1 > 0) || x0 == x1) return 0;
  return std::log(y1 / y0) / std::log(x1 / x0);
}

using Changes = std::vector<std::pair<NumberPlace, double>>;

class Sensitivities {
 public:
  explicit Sensitivities(const Study& study) : question_(single_question(study)), asker_(inputs_) {
    machine_ = asker_.machine_of(question_);
    asker_.ask(question_, *machine_);
    before_ = figures_of(asker_);
    costs_ = costs_of(asker_);
    out_.latency_s = before_.latency;
    out_.energy_J = before_.energy;
    out_.tokens_per_s = before_.tokens_per_s;
    out_.tokens_per_J = before_.tokens_per_J;
    out_.bound = word_of_figure(asker_, "bound");
  }

  Sensitivity run() {
    for (const GpuParameter& each : gpu_parameters()) out_.parameters.push_back(effect_of(each));
    std::stable_sort(out_.parameters.begin(), out_.parameters.end(),
                     [](const ParameterEffect& a, const ParameterEffect& b) { return size_of(a) > size_of(b); });
    put_interactions();
    return std::move(out_);
  }

 private:
  static double size_of(const ParameterEffect& e) {
    return std::max(std::abs(e.latency), std::abs(std::log(e.latency_ratio.value)));
  }

  /// What of the numbers a parameter changes; several for a rate of all formats.
  std::vector<NumberPlace> places_of(const std::string& path) const {
    std::vector<NumberPlace> places;
    if (const auto place = number_place(path)) places.push_back(*place);
    if (path == "tensor_bf16") {
      for (const GpuParameter& each : gpu_parameters()) {
        if (each.path.starts_with("sm.tensor_flop_per_clk.")) places.push_back(*number_place(each.path));
      }
    }
    std::erase_if(places, [this](NumberPlace place) { return number_at(machine_->numbers(), place) == 0; });
    return places;
  }

  /// As far as the number goes by so much: a count moves by one at least.
  double moved(NumberPlace place, double by) const {
    const double value = number_at(machine_->numbers(), place);
    if (!place.whole) return (1 + by) * value;
    const double rounded = std::round((1 + by) * value);
    return rounded != value ? rounded : value + (by > 0 ? 1 : -1);
  }

  Changes moved_all(const std::vector<NumberPlace>& places, double by) const {
    Changes changes;
    for (const NumberPlace place : places) changes.emplace_back(place, moved(place, by));
    return changes;
  }

  /// The answer under changes; nothing where they are no machine, with the reason.
  std::optional<Figures> ask(const Changes& changes, std::string& why_not) {
    try {
      const Machine changed =
          machine_->with(with_numbers(inputs_.gpu(question_.machine.gpu).plain(), machine_->numbers(), changes));
      asker_.ask(question_, changed);
      return figures_of(asker_);
    } catch (const Error& refusal) {
      why_not = refusal.what();
      return std::nullopt;
    }
  }

  static std::string why_without_effect(const std::string& path) {
    if (path.starts_with("datasheet.")) return "a datasheet's number, which decides nothing but what MFU is a share of";
    if (path == "l2.bytes_per_sm_clk") return "gives l2.bandwidth where nobody measured it: see there";
    if (path == "idle_power_fraction") return "gives idle_power where nobody measured it: see there";
    if (path.ends_with("_generation") || path == "links.nvlink_link_rate") {
      return "says what links carry where the descriptor does not: see links.nvlink_per_direction, "
             "links.pcie_per_direction";
    }
    if (path == "process.energy_ratio") return "decides how energies are taken over: --set process.energy_ratio=x1.1";
    return "0 on this card";
  }

  ParameterEffect effect_of(const GpuParameter& parameter) {
    ParameterEffect e;
    e.path = parameter.path;
    e.unit = parameter.unit;
    const std::vector<NumberPlace> places = places_of(parameter.path);
    if (places.empty()) {
      e.why_not = why_without_effect(parameter.path);
      return e;
    }
    e.value = number_at(machine_->numbers(), places.front());
    e.changed = moved(places.front(), kStep);
    double less = moved(places.front(), -kStep);
    if (parameter.path == "tensor_bf16") {  // of all formats at once
      const GpuNumbers& n = machine_->numbers();
      e.value = tensor_peak(n, DType::bf16, n.boost_clock).in(units::FLOP_per_s);
      e.changed = (1 + kStep) * e.value;
      less = (1 - kStep) * e.value;
    }
    const std::optional<Figures> down = less > 0 ? ask(moved_all(places, -kStep), e.why_not) : std::nullopt;
    const std::optional<Figures> up = ask(moved_all(places, kStep), e.why_not);
    if (!down && !up) return e;
    e.why_not.clear();
    const Figures low = down.value_or(before_), high = up.value_or(before_);
    const double from = down ? less : e.value, to = up ? e.changed : e.value;
    e.latency = slope(low.latency, high.latency, from, to);
    e.energy = slope(low.energy, high.energy, from, to);
    e.tokens_per_s = slope(low.tokens_per_s, high.tokens_per_s, from, to);
    e.tokens_per_J = slope(low.tokens_per_J, high.tokens_per_J, from, to);
    if (up) put_change(*up, e);
    return e;
  }

  /// Of the answer at the changed number, which is the asker's last one.
  void put_change(const Figures& up, ParameterEffect& e) {
    e.latency_ratio.value = up.latency / before_.latency;
    if (before_.energy > 0) e.energy_ratio = up.energy / before_.energy;
    const RatioWidths widths = ratio_widths(asker_, machine_->numbers(), e.changed / e.value);
    e.latency_ratio.low = e.latency_ratio.value * std::exp(widths.low);
    e.latency_ratio.high = e.latency_ratio.value * std::exp(widths.high);
    e.bound = word_of_figure(asker_, "bound");
    const std::vector<OperatorCost> after = costs_of(asker_);
    e.limiter = longest_of(after).limiter;
    for (const OperatorCost& cost : costs_) {
      const auto same = std::find_if(after.begin(), after.end(), [&](const OperatorCost& each) {
        return each.name == cost.name && each.phase == cost.phase;
      });
      if (same == after.end()) continue;
      OperatorCost saved = *same;
      saved.time_s = cost.time_s - same->time_s;
      saved.energy_J = cost.energy_J - same->energy_J;
      if (saved.time_s != 0 || saved.energy_J != 0) e.saved.push_back(std::move(saved));
    }
    std::stable_sort(e.saved.begin(), e.saved.end(), [](const OperatorCost& a, const OperatorCost& b) {
      return std::abs(a.time_s) > std::abs(b.time_s);
    });
  }

  void put_interaction(const std::vector<const ParameterEffect*>& effects) {
    ParameterInteraction interaction;
    Changes changes;
    for (const ParameterEffect* each : effects) {
      for (const auto& change : moved_all(places_of(each->path), kStep)) changes.push_back(change);
      interaction.paths.push_back(each->path);
      interaction.product *= each->latency_ratio.value;
    }
    std::string why_not;
    const std::optional<Figures> together = ask(changes, why_not);
    if (!together) return;
    interaction.together = together->latency / before_.latency;
    out_.interactions.push_back(std::move(interaction));
  }

  /// Pairs of the numbers with the largest effect, and all of them.
  void put_interactions() {
    std::vector<const ParameterEffect*> first;
    for (const ParameterEffect& each : out_.parameters) {
      // the tensor rate of one format is a part of that of all
      const bool part = each.path == "tensor_bf16";
      if (!part && each.latency_ratio.value != 1 && first.size() < kTogether) first.push_back(&each);
    }
    for (std::size_t i = 0; i < first.size(); ++i) {
      for (std::size_t j = i + 1; j < first.size(); ++j) put_interaction({first[i], first[j]});
    }
    if (first.size() == kTogether) put_interaction(first);
  }

  Inquiry question_;
  StudyInputs inputs_;
  Asker asker_;
  std::optional<Machine> machine_;
  Figures before_;
  std::vector<OperatorCost> costs_;
  Sensitivity out_;
};

}  // namespace

Sensitivity sensitivity(const Study& study) { return Sensitivities(study).run(); }

}  // namespace plumbline

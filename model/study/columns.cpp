#include "model/study/columns.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "model/report/report.hpp"
#include "ops/table/text.hpp"

namespace plumbline {
namespace {

using Get = StudyFigure (*)(const Asker&);

template <class Q>
StudyFigure figure(const std::optional<Q>& value, Q unit) {
  if (!value) return {};
  return value->in(unit);
}

StudyFigure yes(bool value) { return value; }

StudyFigure latency(const Asker& a) {
  if (a.of_op()) return a.op().time.in(units::s);
  return (a.whole() != nullptr ? a.whole()->latency : a.step().latency).in(units::s);
}
StudyFigure latency_low(const Asker& a) {
  if (a.of_op()) return a.op().low.in(units::s);
  return (a.whole() != nullptr ? a.whole()->low : a.step().low).in(units::s);
}
StudyFigure latency_high(const Asker& a) {
  if (a.of_op()) return a.op().high.in(units::s);
  return (a.whole() != nullptr ? a.whole()->high : a.step().high).in(units::s);
}

std::optional<Joules> energy(const Asker& a) {
  if (a.of_op()) return a.op().energy;
  return a.whole() != nullptr ? a.whole()->energy : a.step().energy;
}
std::optional<Watts> power(const Asker& a) {
  if (a.of_op()) return a.op().power;
  return a.whole() != nullptr ? a.whole()->power() : a.step().power;
}
double tokens(const Asker& a) { return a.whole() != nullptr ? a.whole()->tokens : a.step().graph.tokens; }

double tokens_per_s(const Asker& a) {
  return a.whole() != nullptr ? a.whole()->tokens / a.whole()->latency.in(units::s) : a.step().tokens_per_s;
}

StudyFigure tokens_per_J(const Asker& a) {
  const std::optional<Joules> joules = energy(a);
  if (!joules || !(tokens(a) > 0)) return {};
  return tokens(a) / joules->in(units::J);
}
StudyFigure energy_per_token(const Asker& a) {
  const std::optional<Joules> joules = energy(a);
  if (!joules || !(tokens(a) > 0)) return {};
  return joules->in(units::J) / tokens(a);
}

const TimeShare& share(const Asker& a) { return a.whole() != nullptr ? a.whole()->share : a.step().share; }

/// What most of a step's time goes to.
std::string_view bound_word(const Asker& a) {
  if (a.of_op()) return name(a.op().bound);
  const TimeShare& s = share(a);
  const std::array<std::pair<double, std::string_view>, 5> all{{{s.compute, "compute"},
                                                                {s.memory, "memory"},
                                                                {s.network, "network"},
                                                                {s.latency, "latency"},
                                                                {s.launch, "launch"}}};
  return std::max_element(all.begin(), all.end(), [](const auto& x, const auto& y) { return x.first < y.first; })
      ->second;
}

StudyFigure tpot(const Asker& a) {
  if (a.whole() == nullptr) return {};
  return figure(a.whole()->tpot(), units::s);
}
StudyFigure ttft(const Asker& a) {
  if (a.whole() == nullptr) return {};
  return a.whole()->ttft().in(units::s);
}

/// Of one step; a whole answer has none.
template <class F>
StudyFigure of_step(const Asker& a, F get) {
  if (a.whole() != nullptr) return {};
  return get(a.step());
}

/// Time in operators whose names begin with one of these, of a step.
StudyFigure time_in(const Asker& a, const std::array<std::string_view, 2>& kinds) {
  if (a.whole() != nullptr) return {};
  Seconds sum;
  for (const NodePrediction& n : a.step().nodes) {
    const std::string_view kind = op_name(n.node->op);
    const bool counts =
        std::any_of(kinds.begin(), kinds.end(), [&](std::string_view k) { return kind.starts_with(k); });
    if (counts) sum += static_cast<double>(n.node->count) * n.on_path();
  }
  return sum.in(units::s);
}

/// Time of one pass of an iteration, of all operators or of matrix products alone; other phases have no passes.
StudyFigure time_of_pass(const Asker& a, Pass pass, bool products = false) {
  if (a.whole() != nullptr || a.workload().phase != Phase::train) return {};
  Seconds sum;
  for (const NodePrediction& n : a.step().nodes) {
    if (n.node->pass != pass || (products && !op_name(n.node->op).starts_with("gemm"))) continue;
    sum += static_cast<double>(n.node->count) * n.on_path();
  }
  return sum.in(units::s);
}

const MemoryNeed& memory(const Asker& a) {
  const bool later = a.whole() != nullptr && a.whole()->steps > 0;
  return later ? a.whole()->last.graph.memory : a.step().graph.memory;
}

std::string text(std::string_view word) { return std::string(word); }

constexpr auto kLess = Better::less, kMore = Better::more, kNone = Better::neither;

constexpr auto kFigures = std::to_array<FigureColumn>({
      {"latency_s", true, true, kLess, latency},
      {"latency_low_s", true, true, kLess, latency_low},
      {"latency_high_s", true, true, kLess, latency_high},
      {"tokens_per_s", true, false, kMore, [](const Asker& a) -> StudyFigure { return tokens_per_s(a); }},
      {"tokens_per_s_per_gpu", true, false, kMore,
       [](const Asker& a) -> StudyFigure { return tokens_per_s(a) / a.gpus(); }},
      {"tokens_per_J", true, false, kMore, tokens_per_J},
      {"energy_J", true, true, kLess, [](const Asker& a) { return figure(energy(a), units::J); }},
      {"energy_per_token_J", true, false, kLess, energy_per_token},
      {"power_W", true, true, kLess, [](const Asker& a) { return figure(power(a), units::W); }},
      {"power_low_W", true, true, kLess,
       [](const Asker& a) {
         return a.of_op() ? figure(a.op().power_low, units::W) : figure(a.step().power_low, units::W);
       }},
      {"power_high_W", true, true, kLess,
       [](const Asker& a) {
         return a.of_op() ? figure(a.op().power_high, units::W) : figure(a.step().power_high, units::W);
       }},
      {"sm_clock_Hz", true, true, kNone,
       [](const Asker& a) -> StudyFigure { return (a.of_op() ? a.op().clock : a.step().clock).in(units::Hz); }},
      {"power_limited", true, true, kNone,
       [](const Asker& a) { return yes(a.of_op() ? a.op().power_limited : a.step().power_limited); }},
      {"fits", true, false, kMore, [](const Asker& a) { return yes(a.fits()); }},
      {"gpus", true, false, kLess, [](const Asker& a) -> StudyFigure { return a.gpus(); }},
      {"bound", true, true, kNone, [](const Asker& a) -> StudyFigure { return text(bound_word(a)); }},
      {"ttft_s", true, false, kLess, ttft},
      {"tpot_s", true, false, kLess, tpot},
      {"flops", true, true, kNone,
       [](const Asker& a) -> StudyFigure {
         if (a.of_op()) return a.op().flops.in(units::FLOP);
         return (a.whole() != nullptr ? a.whole()->flops : a.step().flops).in(units::FLOP);
       }},
      {"dram_bytes", true, true, kNone,
       [](const Asker& a) -> StudyFigure {
         if (a.of_op()) return a.op().dram_bytes().in(units::B);
         return (a.whole() != nullptr ? a.whole()->dram_bytes : a.step().dram_bytes).in(units::B);
       }},
      {"mfu", true, false, kMore,
       [](const Asker& a) {
         return of_step(a, [&](const StepPrediction& s) { return StudyFigure(mfu_of(s, a.machine().gpu()).value); });
       }},
      {"mbu", true, false, kMore,
       [](const Asker& a) { return of_step(a, [](const StepPrediction& s) { return StudyFigure(s.mbu); }); }},
      {"gemm_s", true, false, kLess,
       [](const Asker& a) {
         return time_in(a, {"gemm", "grouped_gemm"});
       }},
      {"attention_s", true, false, kLess,
       [](const Asker& a) {
         return time_in(a, {"attention", "mla"});
       }},
      {"forward_s", true, false, kLess, [](const Asker& a) { return time_of_pass(a, Pass::forward); }},
      {"backward_s", true, false, kLess, [](const Asker& a) { return time_of_pass(a, Pass::backward); }},
      {"update_s", true, false, kLess, [](const Asker& a) { return time_of_pass(a, Pass::update); }},
      {"forward_gemm_s", true, false, kLess, [](const Asker& a) { return time_of_pass(a, Pass::forward, true); }},
      {"backward_gemm_s", true, false, kLess, [](const Asker& a) { return time_of_pass(a, Pass::backward, true); }},
      {"bubble_s", true, false, kLess,
       [](const Asker& a) {
         return of_step(a, [](const StepPrediction& s) { return StudyFigure(s.bubble.in(units::s)); });
       }},
      {"network_s.exposed", true, false, kLess,
       [](const Asker& a) {
         return of_step(a, [](const StepPrediction& s) { return StudyFigure(s.network_exposed.in(units::s)); });
       }},
      {"network_s.hidden", true, false, kNone,
       [](const Asker& a) {
         return of_step(a, [](const StepPrediction& s) { return StudyFigure(s.network_hidden.in(units::s)); });
       }},
      {"time_share.compute", true, false, kNone, [](const Asker& a) -> StudyFigure { return share(a).compute; }},
      {"time_share.memory", true, false, kNone, [](const Asker& a) -> StudyFigure { return share(a).memory; }},
      {"time_share.network", true, false, kNone, [](const Asker& a) -> StudyFigure { return share(a).network; }},
      {"time_share.latency", true, false, kNone, [](const Asker& a) -> StudyFigure { return share(a).latency; }},
      {"time_share.launch", true, false, kNone, [](const Asker& a) -> StudyFigure { return share(a).launch; }},
      {"memory_bytes.total", true, false, kLess,
       [](const Asker& a) -> StudyFigure { return memory(a).total().in(units::B); }},
      {"memory_bytes.weights", true, false, kLess,
       [](const Asker& a) -> StudyFigure { return memory(a).weights.in(units::B); }},
      {"memory_bytes.kv", true, false, kLess,
       [](const Asker& a) -> StudyFigure { return memory(a).kv_cache.in(units::B); }},
      {"kernel_s", false, true, kLess, [](const Asker& a) -> StudyFigure { return kernel_time(a.op()).in(units::s); }},
      {"roofline_s", false, true, kLess, [](const Asker& a) -> StudyFigure { return a.op().roofline.in(units::s); }},
      {"limiter", false, true, kNone, [](const Asker& a) -> StudyFigure { return text(name(a.op().limiter)); }},
      {"limiter_share", false, true, kNone, [](const Asker& a) -> StudyFigure { return a.op().limiter_share; }},
      {"provenance", true, true, kNone,
       [](const Asker& a) -> StudyFigure {
         return text(name(a.of_op() ? a.op().provenance : a.machine().provenance()));
       }},
      {"provider", false, true, kNone, [](const Asker& a) -> StudyFigure { return text(a.op().provider); }}});

std::vector<std::string> known_names(bool of_op) {
  std::vector<std::string> names;
  for (const FigureColumn& each : kFigures) {
    if (of_op ? each.of_op : each.of_llm) names.emplace_back(each.name);
  }
  return names;
}

struct Sign {
  std::string_view text;
  FigureComparison comparison;
};
/// The longer ones first.
constexpr std::array<Sign, 7> kSigns{{{"<=", FigureComparison::at_most},
                                      {">=", FigureComparison::at_least},
                                      {"!=", FigureComparison::unequal},
                                      {"==", FigureComparison::equal},
                                      {"<", FigureComparison::less},
                                      {">", FigureComparison::more},
                                      {"=", FigureComparison::equal}}};

std::string without_blanks(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != ' ') out += c;
  }
  return out;
}

bool compares(double a, FigureComparison comparison, double b) {
  switch (comparison) {
    case FigureComparison::less: return a < b;
    case FigureComparison::at_most: return a <= b;
    case FigureComparison::equal: return a == b;
    case FigureComparison::unequal: return a != b;
    case FigureComparison::at_least: return a >= b;
    case FigureComparison::more: return a > b;
    case FigureComparison::holds: return a != 0;
    case FigureComparison::holds_not: return a == 0;
  }
  return false;
}

}  // namespace

const FigureColumn& figure_column(bool of_op, const std::string& name, const std::string& place) {
  for (const FigureColumn& each : kFigures) {
    if (each.name == name && (of_op ? each.of_op : each.of_llm)) return each;
  }
  throw BadInput(place + ": '" + name + "': unknown figure of " + (of_op ? "op" : "llm") +
                 did_you_mean(name, known_names(of_op)));
}

std::vector<std::string> usual_columns(bool of_op) {
  if (of_op) return {"latency_s", "latency_low_s", "latency_high_s", "limiter", "power_W", "energy_J", "provenance"};
  return {"latency_s", "latency_low_s", "latency_high_s", "tokens_per_s", "energy_J", "power_W", "fits", "bound"};
}

bool Condition::holds(const StudyFigure& figure) const {
  if (const auto* value = std::get_if<double>(&figure)) {
    return (numeric || comparison >= FigureComparison::holds) && compares(*value, comparison, number);
  }
  if (const auto* yes = std::get_if<bool>(&figure)) {
    return (numeric || comparison >= FigureComparison::holds) && compares(*yes ? 1 : 0, comparison, number);
  }
  const auto* said = std::get_if<std::string>(&figure);
  if (said == nullptr) return false;
  return comparison == FigureComparison::unequal ? *said != word
                                                 : comparison == FigureComparison::equal && *said == word;
}

Condition parse_condition(const std::string& given, const std::string& place) {
  const std::string condition = without_blanks(given);
  Condition out;
  for (const Sign& sign : kSigns) {
    const std::size_t at = condition.find(sign.text);
    if (at == std::string::npos || at == 0) continue;
    out.name = condition.substr(0, at);
    out.comparison = sign.comparison;
    out.word = condition.substr(at + sign.text.size());
    const char* end = out.word.data() + out.word.size();
    const auto [after, error] = std::from_chars(out.word.data(), end, out.number);
    out.numeric = error == std::errc() && after == end && std::isfinite(out.number);
    const bool by_word = sign.comparison == FigureComparison::equal || sign.comparison == FigureComparison::unequal;
    if (out.word.empty() || (!out.numeric && !by_word)) {
      throw BadInput(place + ": expected a number behind '" + std::string(sign.text) + "', in SI units; found '" +
                     given + "'");
    }
    return out;
  }
  const bool negated = condition.starts_with('!');
  out.name = negated ? condition.substr(1) : condition;
  out.comparison = negated ? FigureComparison::holds_not : FigureComparison::holds;
  if (out.name.empty()) throw BadInput(place + ": expected a condition such as latency_s<=0.05 or fits, found ''");
  return out;
}

Objective parse_objective(bool of_op, const std::string& given, const std::string& place) {
  const std::size_t blank = given.find(' ');
  const std::string word = blank == std::string::npos ? "" : given.substr(0, blank);
  const std::string name = blank == std::string::npos ? given : without_blanks(given.substr(blank));
  if (!word.empty() && word != "max" && word != "min") {
    throw BadInput(place + ": expected 'max NAME' or 'min NAME', found '" + given + "'");
  }
  const Better better = figure_column(of_op, name, place).better;
  if (word.empty() && better == Better::neither) {
    throw BadInput(place + ": expected 'max " + name + "' or 'min " + name + "', found '" + given + "'");
  }
  return {name, word.empty() ? better == Better::more : word == "max"};
}

}  // namespace plumbline

// The laws that compare predictions, over pairs of a machine and an operator that are drawn from
// a number: a better machine is never slower, more work is never faster, no band begins under the roofline. The test in
// CI draws some thousands, tests/laws/laws.cpp as many as it is asked for.
#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "arch/error.hpp"
#include "model/predict.hpp"
#include "model/report/rule_loss.hpp"
#include "tests/support/random_op.hpp"

namespace plumbline::testing_support {

/// One number of a descriptor made better.
struct Change {
  const char* name;
  void (*better)(GpuNumbers&);
};

inline const std::vector<Change>& changes() {
  static const std::vector<Change> all{
      {"sm_count x1.02", [](GpuNumbers& g) { g.sm_count += std::max<std::int64_t>(1, g.sm_count / 50); }},
      {"sm_count x1.25", [](GpuNumbers& g) { g.sm_count += std::max<std::int64_t>(1, g.sm_count / 4); }},
      {"sm_count x2", [](GpuNumbers& g) { g.sm_count *= 2; }},
      {"memory.bandwidth x1.05", [](GpuNumbers& g) { g.memory.bandwidth *= 1.05; }},
      {"memory.bandwidth x3", [](GpuNumbers& g) { g.memory.bandwidth *= 3; }},
      {"memory.latency x0.5", [](GpuNumbers& g) { g.memory.latency *= 0.5; }},
      {"boost_clock x1.2", [](GpuNumbers& g) { g.boost_clock *= 1.2; }},
      {"tensor rates x1.3",
       [](GpuNumbers& g) {
         for (std::size_t i = 0; i < kDTypeCount; ++i) g.sm.tensor_flop_per_clk[static_cast<DType>(i)] *= 1.3;
       }},
      {"tensor rates x3",
       [](GpuNumbers& g) {
         for (std::size_t i = 0; i < kDTypeCount; ++i) g.sm.tensor_flop_per_clk[static_cast<DType>(i)] *= 3;
       }},
      {"l2.bandwidth x2", [](GpuNumbers& g) { g.l2.bandwidth *= 2; }},
      {"l2.size x2", [](GpuNumbers& g) { g.l2.size *= 2; }},
      {"l2.latency x0.7", [](GpuNumbers& g) { g.l2.latency *= 0.7; }},
      {"sm.smem_bytes_per_clk x1.5", [](GpuNumbers& g) { g.sm.smem_bytes_per_clk *= 1.5; }},
      {"tdp x1.3", [](GpuNumbers& g) { g.tdp *= 1.3; }}};
  return all;
}

/// What held or did not, of one change of the machine or the work.
struct LawCount {
  long compared = 0, broken = 0, by_1 = 0, by_10 = 0, by_25 = 0;
  double worst = 1;
  std::string worst_case;

  /// `slower` / `faster` is to be no more than `allowed`.
  bool see(double ratio, double allowed, const std::string& what) {
    ++compared;
    if (ratio > worst) {
      worst = ratio;
      worst_case = what;
    }
    by_1 += ratio > 1.01;
    by_10 += ratio > 1.10;
    by_25 += ratio > 1.25;
    broken += ratio > allowed;
    return ratio <= allowed;
  }
  LawCount& operator+=(const LawCount& other) {
    compared += other.compared, broken += other.broken, by_1 += other.by_1, by_10 += other.by_10, by_25 += other.by_25;
    if (other.worst > worst) worst = other.worst, worst_case = other.worst_case;
    return *this;
  }
};

/// Draws pairs of one stack and counts.
class MachineLaws {
 public:
  explicit MachineLaws(std::string stack) : stack_(std::move(stack)), cards_(gpu_names()) {}

  static constexpr double kAllowed = 1.001;          ///< a better machine may be slower by
  static constexpr double kMoreWorkAllowed = 1.001;  ///< more work may be faster by

  std::map<std::string, LawCount> better, more;  ///< by change; by key that grows
  std::map<std::string, long> broken;            ///< by change, operator and provider
  long pairs = 0, refused = 0, under_roofline = 0;
  /// Of the broken ones of better machines: more SMs, on which work that is dealt out once fills SMs less evenly (as was
  /// measured: model/engine/body.hpp, uneven_fill), or whose CTAs ask for their first loads more at a time.
  long dealt_once = 0;
  long unexplained = 0;  ///< slower by more than a quarter, and no rule of a library that loses is named
  std::string under, unexplained_case;

  /// The pair number `seed`: a card as shipped or with numbers changed, burst or steady, and an operator.
  void look_at(std::uint64_t seed) {
    rc::Random random(seed), of_op = random.split();
    const bool served = random.next() % 2 != 0;
    const auto draw = served ? rc::gen::exec(random_served_op) : rc::gen::exec(random_op);
    const Op op = rc::gen::resize(rc::kNominalSize, draw)(of_op, rc::kNominalSize).value();
    const std::string& card = cards_[random.next() % cards_.size()];
    const ClockMode clock = random.next() % 2 != 0 ? ClockMode::burst : ClockMode::steady;
    try {
      const Machine& shipped = machine_of(card, clock);
      std::string words = card + (clock == ClockMode::steady ? " steady" : "");
      const Machine machine = random.next() % 2 != 0 ? shipped : changed(shipped, random, words);
      compare(op, machine, random,
              words + " " + std::string(op_name(op)) + " " + std::string(dtype_text(op)) + " " + shape_text(op));
      ++pairs;
    } catch (const Error&) {
      ++refused;
    }
  }

 private:
  static double uniform(rc::Random& random) { return static_cast<double>(random.next() >> 11) * 0x1p-53; }
  /// Log-uniform between 1 / `most` and `most`.
  static double spread(rc::Random& random, double most) { return std::exp((2 * uniform(random) - 1) * std::log(most)); }

  const Machine& machine_of(const std::string& card, ClockMode clock) {
    const auto key = std::pair(card, clock);
    const auto known = machines_.find(key);
    if (known != machines_.end()) return known->second;
    MachineOptions options;
    options.stack = stack_;
    options.clock = clock;
    return machines_.emplace(key, make_machine(load_gpu(card), options)).first->second;
  }

  static Machine changed(const Machine& shipped, rc::Random& random, std::string& words) {
    GpuNumbers g = shipped.numbers();
    g.sm_count = std::max<std::int64_t>(1, std::llround(static_cast<double>(g.sm_count) * spread(random, 2)));
    g.memory.bandwidth *= spread(random, 2);
    g.memory.latency *= spread(random, 1.3);
    g.l2.size *= spread(random, 2);
    const double clock = spread(random, 1.3);
    g.boost_clock *= clock;
    g.base_clock *= clock;
    g.tdp *= spread(random, 1.4);
    const auto set = [&words](const char* path, double value, const char* unit) {
      char text[96];
      std::snprintf(text, sizeof text, " --set %s=%.17g%s", path, value, unit);
      words += text;
    };
    set("sm_count", static_cast<double>(g.sm_count), "");
    set("memory.bandwidth", g.memory.bandwidth.in(units::GB_per_s), "GB/s");
    set("memory.latency", g.memory.latency.in(units::ns), "ns");
    set("l2.size", g.l2.size.in(units::MiB), "MiB");
    set("boost_clock", g.boost_clock.in(units::MHz), "MHz");
    set("tdp", g.tdp.in(units::W), "W");
    return shipped.with(g);
  }

  void compare(const Op& op, const Machine& machine, rc::Random& random, const std::string& what) {
    predictor_.predict(op, machine, here_);
    if (here_.low < here_.roofline * (1 - 1e-9) || here_.time < here_.roofline * (1 - 1e-9)) {
      ++under_roofline;
      under = what;
    }
    for (const Change& change : changes()) {
      GpuNumbers g = machine.numbers();
      change.better(g);
      const Machine improved = machine.with(g);
      predictor_.predict(op, improved, other_);
      if (other_.time > 1.25 * here_.time && !rule_loss(op, improved) && cheapest(op, improved) > 1.25 * here_.time) {
        ++unexplained;
        unexplained_case = std::string(change.name) + ": " + what;
      }
      if (!better[change.name].see(other_.time / here_.time, kAllowed, what)) {
        dealt_once += improved.numbers().sm_count > machine.numbers().sm_count && is_dealt_once(other_) ? 1 : 0;
        ++broken[std::string(change.name) + " " + std::string(op_name(op)) + " " + std::string(here_.provider)];
      }
    }
    const auto larger = grown(op, random);
    if (!larger) return;
    predictor_.predict(larger->first, machine, other_);
    const std::string grew = larger->second + " " + std::string(op_name(op));
    if (!more[grew].see(here_.time / other_.time, kMoreWorkAllowed, what)) {
      ++broken["more " + grew + " " + std::string(here_.provider)];
    }
  }

  /// Were its kernels cut into what is cheapest there, and not as the library's rule of tiles says.
  Seconds cheapest(const Op& op, const Machine& machine) {
    OpPrediction by_time;
    predictor_.predict(op, machine, by_time, PredictOptions{.cut_by_time = true});
    return by_time.time;
  }

  static bool is_dealt_once(const OpPrediction& op) {
    const auto* end = op.launches.data() + op.launch_count;
    return std::any_of(op.launches.data(), end,
                       [](const LaunchPrediction& l) { return l.demand.dealt_once || l.demand.dealt_clk > 0; });
  }

  /// The operator with one of its sizes doubled, and that size's name; nothing where it has none, where relations between
  /// keys change more, or where rows are whole 16-byte units before or after only.
  static std::optional<std::pair<Op, std::string>> grown(const Op& op, rc::Random& random) {
    constexpr std::string_view kSizes[] = {"M", "N", "K", "rows",   "cols",  "B",
                                           "S", "T", "n", "tokens", "bytes", "batch"};
    constexpr std::string_view kRowLengths[] = {"N", "K", "cols", "n"};
    if (std::holds_alternative<Spmv>(op)) return std::nullopt;  // its work is the count of what is not zero
    // more tokens that like few experts may reach fewer of them
    if (const auto* experts = std::get_if<Moe>(&op); experts != nullptr && experts->alpha_percent > 0)
      return std::nullopt;
    std::vector<const Key*> sizes;
    for (const Key& key : keys_of(op)) {
      if (std::find(std::begin(kSizes), std::end(kSizes), key.name) != std::end(kSizes)) sizes.push_back(&key);
    }
    if (sizes.empty()) return std::nullopt;
    const Key& key = *sizes[random.next() % sizes.size()];
    const double size = key.get(shape_address(op));
    constexpr double kUnit = 32;  // elements of 16 bytes at 4 bits
    const bool row = std::find(std::begin(kRowLengths), std::end(kRowLengths), key.name) != std::end(kRowLengths);
    if (row && std::fmod(size, kUnit) != 0) return std::nullopt;
    Op larger = op;
    key.set(shape_address(larger), 2 * size);
    if (broken_relation(larger) != nullptr) return std::nullopt;
    return std::pair(larger, std::string(key.name));
  }

  std::string stack_;
  std::vector<std::string> cards_;
  std::map<std::pair<std::string, ClockMode>, Machine> machines_;
  Predictor predictor_;
  OpPrediction here_, other_;
};

}  // namespace plumbline::testing_support

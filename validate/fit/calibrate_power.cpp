// Energies from steady runs of one kind of work each, by least squares on the engine's own P(f) (power_columns.hpp). An FMA's energy is its instruction's: on whole kernels, too, the two cannot
// be told apart.
#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>

#include "model/engine/power.hpp"
#include "validate/fit/calibrate.hpp"
#include "validate/fit/power_columns.hpp"
#include "validate/fit/power_search.hpp"
#include "validate/statistics.hpp"

namespace plumbline {
namespace {

enum Column { kConstant, kBf16, kFp8, kInstruction, kSmem, kL2, kLoadStore, kRead, kWrite, kColumns };
constexpr std::array<const char*, kColumns> kNames{
    "constant_W", "tensor_bf16_J_per_FLOP", "tensor_fp8_J_per_FLOP", "instruction_J",     "smem_J_per_B",
    "l2_J_per_B", "load_store_J_per_B",     "dram_read_J_per_B",     "dram_write_J_per_B"};
/// A run below this share of the boost clock, and above this one of the cap, was held down by the cap. (Dense work on
/// zeros settles below the boost clock far from the cap.)
constexpr double kFullClock = 0.985, kNearCap = 0.9;
/// Where neither this card nor one like it says: as on a GH100 (data/calibration/h200_sxm.json).
constexpr double kUsualKnee = 0.68, kUsualFloor = 0.86, kUsualSupply = 0.3;

struct Run {
  std::string load, kind, data;
  double watts = 0, share = 1;        ///< of the boost clock, as set
  std::optional<double> cycles_left;  ///< SMs' own clock over the one set
  std::optional<double> memory_W;
  std::array<double, kColumns> rate{};  ///< a second; constant: 1
  double tensor_rate() const { return rate[kBf16] + rate[kFp8]; }
};

std::vector<Run> runs_of(const ProbeRun& probes, const Gpu& gpu) {
  std::vector<Run> runs;
  for (const Record* power : records_of(probes, "steady_power_W")) {
    const auto reading = [&](const char* name) -> std::optional<double> {
      const auto found = records_of(probes, name, [&](const Record& r) { return r.setting == power->setting; });
      return found.empty() ? std::nullopt : std::optional(found.front()->value.median);
    };
    Run run;
    run.load = setting_of(*power, "load");
    run.kind = setting_of(*power, "kind");
    run.data = setting_of(*power, "data");
    run.watts = power->value.median;
    const std::optional<double> set = reading("steady_board_clock_Hz"), real = reading("steady_sm_clock_Hz");
    if (set) run.share = std::min(1.0, *set / gpu.boost_clock.in(units::Hz));
    if (set && real) run.cycles_left = std::min(1.0, *real / *set);
    run.memory_W = reading("steady_memory_W");
    run.rate[kConstant] = 1;
    run.rate[run.kind == "fp8" ? kFp8 : kBf16] = reading("steady_tensor_FLOP_per_s").value_or(0);
    run.rate[kInstruction] = reading("steady_instructions_per_s").value_or(0);
    run.rate[kSmem] = reading("steady_smem_B_per_s").value_or(0);
    run.rate[kL2] = reading("steady_l2_B_per_s").value_or(0);
    const bool bulk = run.load.find("l2_fill") != run.load.npos;  // copies that no thread's registers see
    run.rate[kLoadStore] = bulk ? 0 : run.rate[kL2];
    run.rate[kRead] = reading("steady_dram_read_B_per_s").value_or(0);
    run.rate[kWrite] = reading("steady_dram_write_B_per_s").value_or(0);
    runs.push_back(run);
  }
  return runs;
}

struct Curve {
  double knee = kUsualKnee, floor = kUsualFloor, supply = kUsualSupply;
  PowerScalars shape() const {
    PowerScalars p;
    p.knee = knee;
    p.floor_voltage = floor;
    p.memory_supply = supply;
    return p;
  }
};

/// The engine's power as a function of the energies (power_columns.hpp). What a load or a store takes beside its bytes
/// the engine does not know: on the chip, as bytes through L2.
class Columns {
 public:
  explicit Columns(const Curve& curve) {
    std::array<const char*, kColumns> names = kNames;
    names[kLoadStore] = names[kL2];
    units_ = unit_scalars(names, curve.shape());
  }
  /// Watts a unit of each column.
  Eigen::RowVectorXd operator()(const Run& run) const {
    Eigen::RowVectorXd x(kColumns);
    for (int k = 0; k < kColumns; ++k) {
      const auto at = static_cast<std::size_t>(k);
      x[k] = power_columns({&units_[at], 1}, work_of(run, k), k == kFp8 ? DType::fp8 : DType::bf16, DataPattern::normal,
                           run.share, 1.0 * units::s)[0];
    }
    return x;
  }

 private:
  /// What the run does a second of the kind that column `k` counts.
  static Activity work_of(const Run& run, int k) {
    const double rate = run.rate[static_cast<std::size_t>(k)];
    Activity a;
    if (k == kBf16 || k == kFp8) a.tensor = rate * units::FLOP;
    if (k == kInstruction) a.instructions = rate;
    if (k == kSmem) a.smem = rate * units::B;
    if (k == kL2 || k == kLoadStore) a.l2 = rate * units::B;
    if (k == kRead) a.dram_read = rate * units::B;
    if (k == kWrite) a.dram_write = rate * units::B;
    return a;
  }
  std::vector<PowerScalars> units_;
};

struct Solved {
  std::vector<double> energies;  ///< W, then pJ
  std::vector<double> errors;    ///< predicted / measured - 1
};

Solved solve(const std::vector<Run>& runs, const Curve& curve) {
  const auto n = static_cast<Eigen::Index>(runs.size());
  Eigen::MatrixXd a(n, kColumns);
  const Columns columns(curve);
  for (Eigen::Index i = 0; i < n; ++i) {
    const Run& run = runs[static_cast<std::size_t>(i)];
    a.row(i) = columns(run) / run.watts;
  }
  Solved out;
  out.energies = non_negative_least_squares({a.data(), a.data() + a.size()}, std::vector<double>(runs.size(), 1.0));
  const Eigen::VectorXd e =
      a * Eigen::Map<const Eigen::VectorXd>(out.energies.data(), kColumns) - Eigen::VectorXd::Ones(n);
  out.errors.assign(e.data(), e.data() + e.size());
  return out;
}

class PowerFit {
 public:
  PowerFit(const Gpu& gpu, const ProbeRun& run, const Scalars& base)
      : cap_W_(run.session.power_limit_W),
        boost_Hz_(gpu.boost_clock.in(units::Hz)),
        base_(base),
        where_("steady runs of probes, " + run.session.date) {
    for (Run& r : runs_of(run, gpu)) {
      (r.data == "normal" ? normal_ : others_).push_back(std::move(r));
    }
  }

  Scalars fit() {
    if (normal_.size() < kColumns) return {};
    curve_.knee = base_or("knee_fraction", kUsualKnee);
    curve_.floor = base_or("floor_voltage_fraction", kUsualFloor);
    curve_.supply = base_or("memory_supply_fraction", kUsualSupply);
    fit_curve();
    solved_ = solve(normal_, curve_);
    for (std::size_t k = 0; k < kColumns; ++k) {
      double value = solved_.energies[k] * (k == kConstant ? 1 : kPico);
      std::string how = "non-negative least squares";
      if (k == kConstant) value = std::max(0.0, value - base_or("clocked_W", 0));
      if (value <= 0) how += "; 0: other terms say it all";
      put(kNames[k], value, how, rms(solved_.errors), normal_.size());
    }
    for (const char* name : {"clocked_W", "fp32_J_per_FLOP", "sfu_J"}) {
      if (base_.count(name) == 0) put(name, 0, "0: not told apart by these runs", {}, 0);
    }
    put("boost_clock_Hz", boost_Hz_, "the clock at whose voltage these energies hold", {}, 0);
    fold_load_store();
    fit_memory_supply();
    fit_toggle("zeros");
    fit_toggle("ternary");
    fit_regulator();
    return std::move(out_);
  }

 private:
  double base_or(const char* name, double otherwise) const {
    const auto it = base_.find(name);
    return it == base_.end() ? otherwise : it->second.value;
  }
  void put(const std::string& name, double value, const std::string& how, std::optional<double> residual,
           std::size_t rows) {
    out_[name] = Scalar{value, where_ + ": " + how, residual, static_cast<long>(rows)};
  }
  bool held_down(const Run& run) const { return run.share < kFullClock && cap_W_ > 0 && run.watts > kNearCap * cap_W_; }
  static const Run* find(const std::vector<Run>& runs, std::string_view load, std::string_view data = "normal") {
    for (const Run& r : runs) {
      if (r.load == load && r.data == data) return &r;
    }
    return nullptr;
  }

  /// The voltage curve from runs that the cap held down. The knee is looked for among their clocks; below the least of
  /// them nothing was seen. The misfit has several valleys: the best of a few starts.
  void fit_curve() {
    double least = 1;
    std::size_t capped = 0;
    for (const Run& r : normal_) {
      if (!held_down(r)) continue;
      least = std::min(least, r.share);
      ++capped;
    }
    constexpr std::size_t kEnough = 3;  // two numbers, and one run to hold them to
    if (capped < kEnough) {
      put("knee_fraction", curve_.knee, "too few runs were held down by the cap, as before", {}, 0);
      put("floor_voltage_fraction", curve_.floor, "too few runs were held down by the cap, as before", {}, 0);
      return;
    }
    const auto with = [&](const std::vector<double>& x) {
      Curve c = curve_;
      c.knee = std::clamp(x[0], least, 0.98);
      c.floor = std::clamp(x[1], 0.5, 1.0);
      return c;
    };
    const auto misfit = [&](const std::vector<double>& x) { return rms(solve(normal_, with(x)).errors); };
    std::vector<double> best{least, curve_.floor};
    for (const double knee : {least, 0.75 * least + 0.25, 0.5 * least + 0.5}) {
      const std::vector<double> at = simplex_search(misfit, {knee, knee}, 0.03, 160);
      if (misfit(at) < misfit(best)) best = at;
    }
    curve_ = with(best);
    char text[120];
    std::snprintf(text, sizeof text, "runs that the cap held down, to %.3f of the boost clock", least);
    put("knee_fraction", curve_.knee, text, misfit(best), capped);
    put("floor_voltage_fraction", curve_.floor, text, misfit(best), capped);
  }

  /// The engine's DRAM streams go by threads' loads and stores, whose own energy it does not know: in its DRAM
  /// energies.
  void fold_load_store() {
    const double each = solved_.energies[kLoadStore];
    if (each <= 0) return;
    out_.at("load_store_J_per_B").source +=
        "; between L2 and registers, not read by the engine: within its DRAM energies";
    for (const Column k : {kRead, kWrite}) {
      Scalar& dram = out_.at(kNames[k]);
      dram.value += each * kPico;
      dram.source += ", load_store_J_per_B added";
    }
  }

  void fit_memory_supply() {
    const Run *idle = find(normal_, "idle"), *read = find(normal_, "dram_read");
    if (idle == nullptr || read == nullptr || !idle->memory_W || !read->memory_W) return;
    const double own = *read->memory_W - *idle->memory_W;
    const double all = read->rate[kRead] * (solved_.energies[kRead] + solved_.energies[kLoadStore]) * kPico;
    if (own > 0 && own < all)
      put("memory_supply_fraction", own / all, "the memory's domain, reading against idle", {}, 2);
  }

  /// What another pattern takes of normal data's energy: of moving from a stream, of tensor work from a tensor loop.
  void fit_toggle(const std::string& data) {
    double move = base_or(("move_toggle_" + data).c_str(), 1);
    if (const Run* stream = find(others_, "dram_read", data)) {
      const auto [moved, rest] = watts_of(*stream);
      if (moved > 0)
        put("move_toggle_" + data, move = std::max(0.0, stream->watts - rest) / moved, "DRAM reads", {}, 1);
    }
    if (const Run* tensor = find(others_, "tensor", data)) {
      const auto [moved, rest] = watts_of(*tensor);
      const Eigen::RowVectorXd x = Columns(curve_)(*tensor);
      const double normal = x[kBf16] * solved_.energies[kBf16] + x[kFp8] * solved_.energies[kFp8];
      const double left = tensor->watts - (rest - normal) - move * moved;
      if (normal > 0) put("tensor_toggle_" + data, std::max(0.0, left) / normal, tensor->kind + " loop", {}, 1);
      if (data == "zeros" && tensor->cycles_left && *tensor->cycles_left < 1) {
        put("droop_ratio", 1 - *tensor->cycles_left, "cycles that the SMs skip of the clock set, zeros", {}, 1);
      }
    }
  }

  /// What normal data would take: for moving it, and for the rest.
  std::pair<double, double> watts_of(const Run& run) const {
    const Eigen::RowVectorXd x = Columns(curve_)(run);
    double moved = 0, rest = 0;
    for (int k = 0; k < kColumns; ++k) {
      const bool moves = k == kSmem || k == kL2 || k == kLoadStore || k == kRead || k == kWrite;
      (moves ? moved : rest) += x[k] * solved_.energies[static_cast<std::size_t>(k)];
    }
    return {moved, rest};
  }

  void fit_regulator() {
    std::vector<double> aims;
    for (const Run& run : normal_) {
      if (held_down(run)) aims.push_back(run.watts / cap_W_);
    }
    if (aims.empty()) return;
    std::vector<double> errors;
    for (const double aim : aims) errors.push_back(aim / mean(aims) - 1);
    put("regulator_aim_fraction", std::min(1.0, mean(aims)), "mean power of the runs that the cap held down / the cap",
        rms(errors), aims.size());
  }

  const double cap_W_, boost_Hz_;
  const Scalars& base_;
  const std::string where_;
  std::vector<Run> normal_, others_;
  Curve curve_;
  Solved solved_;
  Scalars out_;
};

}  // namespace

Scalars fit_power_scalars(const Gpu& gpu, const ProbeRun& run, const Scalars& base) {
  return PowerFit(gpu, run, base).fit();
}

}  // namespace plumbline

#include "validate/fit/fit_bands.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "arch/error.hpp"
#include "model/engine/rates.hpp"
#include "ops/table/text.hpp"
#include "validate/compare/pricing.hpp"
#include "validate/fit/fit.hpp"
#include "validate/fit/fit_calibration.hpp"
#include "validate/parallel.hpp"
#include "validate/record/study.hpp"

namespace plumbline {

namespace {

constexpr std::string_view kFitted = "fitted on";

/// What is kept of a row's prediction.
struct PricedRow {
  Seconds time;  ///< 0: not modelled
  std::size_t band_class = 0;
  Bound bound = Bound::latency;
  std::string_view family;
  KernelSet kernels = KernelSet::library;
  double roofline_share = 0;
  bool alike = false;
};

/// Prices rows of any card with one calibration, as if other cards had none of their own.
class Pricer {
 public:
  Pricer(const std::vector<BandRow>& rows, std::size_t threads) : rows_(rows), threads_(threads) {}

  std::vector<PricedRow> operator()(const Calibration& calibration, const std::vector<std::size_t>& which) {
    std::map<ClassKey, std::optional<Machine>> machines;
    std::vector<const Machine*> machine_of;
    for (const std::size_t i : which) {
      const BandRow& row = rows_[i];
      const ClassKey key{row.gpu, stack_of(usual_stack(row.kernels), row.measured), clock_of(row.measured, {})};
      auto& machine = machines[key];
      if (!machine) machine = make(calibration, key);
      machine_of.push_back(&*machine);
    }
    std::vector<PricedRow> out(which.size());
    in_parts(which.size(), threads_, [&](std::size_t first, std::size_t last) {
      const auto scratch = std::make_unique<OpPrediction>();
      Predictor predictor;
      for (std::size_t i = first; i < last; ++i) out[i] = price(rows_[which[i]], *machine_of[i], predictor, *scratch);
    });
    return out;
  }

  static const Gpu& gpu(const std::string& name) { return machines().gpu(name); }

 private:
  using ClassKey = std::tuple<std::string, StackChoice, ClockMode>;

  Machine make(const Calibration& calibration, const ClassKey& key) {
    const auto& [name, stack, clock] = key;
    const Gpu& card = gpu(name);
    MachineOptions options;
    options.stack = stack;
    options.clock = clock;
    if (name == calibration.gpu) return make_machine(card, calibration, options);
    Calibration taken_over = calibration;
    taken_over.inherited = true;
    return make_machine(card, taken_over, options);
  }

  static PricedRow price(const BandRow& row, const Machine& machine, Predictor& predictor, OpPrediction& scratch) {
    Seconds time;
    try {
      time = predict_as_measured(row.measured, machine, predictor, scratch);
    } catch (const Error&) {
      return {};
    }
    return {time,           scratch.band_class,   scratch.bound,
            scratch.family, scratch.band_kernels, scratch.roofline / scratch.time,
            scratch.alike};
  }

  const std::vector<BandRow>& rows_;
  std::size_t threads_;
};

/// Tokens of one execution, to the nearest power of two: what a step's operators have in common.
struct Tokens {
  double operator()(const Gemm& s) const { return static_cast<double>(s.m); }
  double operator()(const GroupedGemm& s) const { return static_cast<double>(s.tokens); }
  double operator()(const GemmDynamic& s) const { return static_cast<double>(s.m); }
  double operator()(const Moe& s) const { return static_cast<double>(s.tokens); }
  double operator()(const AttentionPrefill& s) const { return static_cast<double>(s.batch * s.q_len); }
  double operator()(const AttentionDecode& s) const { return static_cast<double>(s.batch); }
  double operator()(const AttentionBackward& s) const { return static_cast<double>(s.batch * s.q_len); }
  double operator()(const MlaDecode& s) const { return static_cast<double>(s.batch); }
  double operator()(const Rowwise& s) const { return static_cast<double>(s.rows); }
  double operator()(const TopK& s) const { return static_cast<double>(s.rows); }
  double operator()(const SoftmaxTopK& s) const { return static_cast<double>(s.rows); }
  double operator()(const Embedding& s) const { return static_cast<double>(s.rows); }
  double operator()(const EmbeddingBackward& s) const { return static_cast<double>(s.rows); }
  template <class Other>
  double operator()(const Other&) const {
    return 0;
  }
};

std::string context_of(const BandRow& row) {
  const double tokens = std::visit(Tokens{}, row.measured.what.op);
  return row.gpu + "|" + row.measured.origin.stack + "|" + std::string(text_of(clock_of(row.measured, {}))) +
         (row.measured.warm() ? "|warm|" : "|cold|") +
         (tokens > 0 ? std::to_string(std::lround(std::log2(tokens))) : "");
}

BandResidual residual_of(const BandRow& row, const PricedRow& priced, BandSection section) {
  BandResidual r;
  r.kernels = priced.kernels;
  r.section = section;
  r.band_class = priced.band_class;
  r.format = dtype_text(row.measured.what.op);
  r.size = band_size(priced.time);
  r.bound = priced.bound;
  r.value = std::log(row.measured.time / priced.time);
  r.roofline_share = priced.roofline_share;
  r.stack = row.gpu + "|" + row.measured.origin.stack;
  r.group = std::string(op_name(row.measured.what.op)) + " " + shape_group(row.measured.what.op);
  r.context = context_of(row);
  return r;
}

// --- cross-validation -----------------------------------------------------------------------------------------------

/// Scalars that one fit made: their sources say the same.
struct FittedTogether {
  std::vector<std::pair<std::string, std::string>> scalars;  ///< section ("machine" or "library.gemm") and name
  std::set<std::pair<KernelSet, std::string>> families;
};

double& value_in(Calibration& calibration, const std::pair<std::string, std::string>& at) {
  auto& section = at.first == "machine" ? calibration.machine : calibration.families.at(at.first);
  return section.at(at.second).value;
}

/// The scalars whose source says that they were fitted to rows, by the fit that made them.
std::vector<FittedTogether> fits_behind(const Calibration& calibration) {
  std::map<std::string, FittedTogether> by_source;
  const auto add = [&](const std::string& section, const std::map<std::string, Scalar>& scalars) {
    for (const auto& [name, scalar] : scalars) {
      if (scalar.source.rfind(kFitted, 0) != 0 || scalar.value <= 0) continue;
      FittedTogether& fit = by_source[scalar.source.substr(0, scalar.source.find(", at its bound"))];
      fit.scalars.emplace_back(section, name);
      if (section == "machine") continue;
      const std::size_t dot = section.find('.');
      fit.families.emplace(section.substr(0, dot) == "own" ? KernelSet::own : KernelSet::library,
                           section.substr(dot + 1));
    }
  };
  add("machine", calibration.machine);
  for (const auto& [section, scalars] : calibration.families) add(section, scalars);
  std::vector<FittedTogether> out;
  for (auto& [source, fit] : by_source) out.push_back(std::move(fit));
  return out;
}

/// Within a factor of four of what it is; shares end at 1, a p-norm's p from above.
FitParameter parameter_of(const std::string& name, double value) {
  FitParameter p{name, value, value / 4, value * 4};
  if (name.find("_fraction") != std::string::npos) p.high = std::max(1.0, value);
  if (name == "overlap") p.low = std::min(value, std::max(1.0, value / 4));
  return p;
}

/// Whether every fold leaves rows enough to a fit of `scalars`, and there are two at least.
bool leave_enough(const std::vector<int>& fold_of, int folds, std::size_t scalars) {
  std::vector<std::size_t> counts(static_cast<std::size_t>(folds));
  for (const int fold : fold_of) ++counts[static_cast<std::size_t>(fold)];
  const std::size_t most = *std::max_element(counts.begin(), counts.end());
  return fold_of.size() - most >= std::max<std::size_t>(scalars, 1);
}

/// The fold of each row: shapes that differ in what varies from call to call stay together, unless they are so few that
/// a fold would take nearly all rows with it ("one model's layer at every batch"): each shape is dealt on its own then.
/// Nothing where not even that leaves a fit its rows: what one shape says can't be held against others.
std::optional<std::vector<int>> folds_of(const std::vector<BandRow>& rows, const std::vector<std::size_t>& of_fit,
                                         int folds, std::size_t scalars) {
  const auto dealt = [&](const auto& text_of_op) {
    std::vector<std::string> texts;
    for (const std::size_t i : of_fit) {
      const Op& op = rows[i].measured.what.op;
      texts.push_back(std::string(op_name(op)) + " " + text_of_op(op));
    }
    return deal_folds(texts, folds);
  };
  std::vector<int> fold_of = dealt([](const Op& op) { return shape_group(op); });
  if (!leave_enough(fold_of, folds, 5 * scalars)) fold_of = dealt([](const Op& op) { return shape_text(op); });
  if (!leave_enough(fold_of, folds, scalars)) return std::nullopt;
  return fold_of;
}

/// Adds to the residuals what the fit would have predicted otherwise had it not seen the row's fold.
/// False where the rows are of too few shapes to be dealt.
bool cross_validate(const FittedTogether& fitted, const Calibration& calibration, const std::vector<BandRow>& rows,
                    const std::vector<std::size_t>& of_fit, Pricer& pricer, const BandFitOptions& options,
                    std::vector<double>& change) {
  const std::optional<std::vector<int>> folds = folds_of(rows, of_fit, options.folds, fitted.scalars.size());
  if (!folds) return false;
  Calibration varied = calibration;
  FitProblem problem;
  std::vector<double*> free;
  std::vector<double> start;
  for (const auto& at : fitted.scalars) {
    free.push_back(&value_in(varied, at));
    start.push_back(*free.back());
    problem.parameters.push_back(parameter_of(at.second, start.back()));
  }
  problem.predict = [&](const std::vector<double>& values, const std::vector<std::size_t>& which,
                        std::vector<double>& out) {
    for (std::size_t j = 0; j < free.size(); ++j) *free[j] = values[j];
    std::vector<std::size_t> at;
    for (const std::size_t i : which) at.push_back(of_fit[i]);
    const std::vector<PricedRow> priced = pricer(varied, at);
    for (std::size_t i = 0; i < which.size(); ++i) out[i] = priced[i].time.in(units::s);
  };
  std::vector<std::size_t> every;
  for (std::size_t i = 0; i < of_fit.size(); ++i) {
    const Measurement& row = rows[of_fit[i]].measured;
    problem.measured_s.push_back(row.time.in(units::s));
    problem.weights.push_back(1);
    every.push_back(i);
  }
  FitOptions quick;
  quick.max_steps = 6;  // from where the fit of all rows ended; a fifth fewer rows moves it little
  quick.polished = false;
  const std::vector<bool> trained(of_fit.size(), true);
  const std::vector<double> unseen =
      cross_validated_residuals(problem, every, trained, *folds, options.folds, start, quick);
  // The same fit of all rows, in as many steps from the same start and as unpolished as folds are: what differs is the
  // fold alone.
  const std::vector<int> one_fold(of_fit.size(), 1);
  std::vector<double> seen(of_fit.size());
  problem.predict(fit(problem, every, quick).values, every, seen);
  for (std::size_t i = 0; i < of_fit.size(); ++i) {
    change[of_fit[i]] += unseen[i] - std::log(problem.measured_s[i] / seen[i]);
  }
  return true;
}

}  // namespace

std::string shape_group(const Op& op) {
  static constexpr std::array<std::string_view, 11> kVarying{"M",      "T", "B",  "S",  "Skv",      "rows",
                                                             "tokens", "n", "tp", "ep", "alpha_pct"};
  const std::string shape = shape_text(op);
  std::string out;
  for (std::size_t first = 0; first < shape.size();) {
    const std::size_t end = std::min(shape.find(';', first), shape.size());
    const std::string_view part = std::string_view(shape).substr(first, end - first);
    if (std::find(kVarying.begin(), kVarying.end(), part.substr(0, part.find('='))) == kVarying.end()) {
      out += (out.empty() ? "" : ";") + std::string(part);
    }
    first = end + 1;
  }
  return out.empty() ? shape : out;
}

namespace {

struct PricedRows {
  std::vector<std::size_t> rows;  ///< numbers of those that have a prediction
  std::vector<PricedRow> priced;
  std::size_t not_modelled = 0;
};

/// The rows that `takes` chooses.
template <class Takes>
PricedRows price_rows(const Calibration& calibration, const std::vector<BandRow>& rows, Pricer& pricer,
                      const Takes& takes) {
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (takes(rows[i])) which.push_back(i);
  }
  const std::vector<PricedRow> priced = pricer(calibration, which);
  PricedRows out;
  for (std::size_t i = 0; i < which.size(); ++i) {
    if (priced[i].time <= Seconds{}) {
      ++out.not_modelled;
      continue;
    }
    out.rows.push_back(which[i]);
    out.priced.push_back(priced[i]);
  }
  return out;
}

/// Residuals of the card's own rows, each as of scalars that did not see its fold.
void add_own_card(const Gpu& gpu, const Calibration& calibration, const std::vector<BandRow>& rows, Pricer& pricer,
                  const BandFitOptions& options, BandFit& out) {
  const PricedRows here =
      price_rows(calibration, rows, pricer, [&](const BandRow& row) { return row.gpu == gpu.name; });
  out.not_modelled = here.not_modelled;
  std::vector<double> change(rows.size(), 0.0);
  for (const FittedTogether& fitted : fits_behind(calibration)) {
    std::vector<std::size_t> of_fit;
    for (std::size_t i = 0; i < here.rows.size(); ++i) {
      const KernelSet kernels = rows[here.rows[i]].kernels;
      if (here.priced[i].kernels != kernels || band_class_is_unfitted(here.priced[i].band_class)) continue;
      if (fitted.families.count({kernels, std::string(here.priced[i].family)}) == 0) continue;
      of_fit.push_back(here.rows[i]);
    }
    if (of_fit.size() < 5 * fitted.scalars.size()) continue;
    if (cross_validate(fitted, calibration, rows, of_fit, pricer, options, change)) {
      out.refitted += fitted.scalars.size();
    }
  }
  for (std::size_t i = 0; i < here.rows.size(); ++i) {
    out.residuals.push_back(residual_of(rows[here.rows[i]], here.priced[i], BandSection::own_card));
    out.residuals.back().value += change[here.rows[i]];
  }
}

/// Residuals of the rows that `donor` was not made for. Each pair of cards and stack is a "stack": cards err as cards,
/// so that each counts equally.
void add_transfers(const Calibration& donor, const std::vector<BandRow>& rows, Pricer& pricer,
                   std::vector<BandResidual>& out) {
  const std::string generation = load_gpu(donor.gpu).generation;
  const PricedRows there = price_rows(donor, rows, pricer, [&](const BandRow& row) {
    return row.gpu != donor.gpu && row.kernels == KernelSet::library;
  });
  for (std::size_t i = 0; i < there.rows.size(); ++i) {
    const BandRow& row = rows[there.rows[i]];
    const std::string& of_row = pricer.gpu(row.gpu).generation;
    const bool near = of_row == generation;
    // Where the donor has no planner for it, an operator is priced by its bytes: that measures no kernel.
    if (there.priced[i].band_class == band_class_of_name("rowwise")) continue;
    BandResidual r = residual_of(row, there.priced[i], near ? BandSection::near : BandSection::far);
    r.stack = donor.gpu + ">" + r.stack;
    r.context = donor.gpu + ">" + r.context;
    r.card = row.gpu;
    r.in_sample = fitted_on(donor, KernelSet::library, there.priced[i].family, row.gpu);
    r.alike = there.priced[i].alike;
    r.generation = of_row;
    out.push_back(std::move(r));
  }
}

/// Which classes were measured in which formats, here and on other cards. A pair of cards of another generation than
/// `gpu` is near to each other and far from it.
void write_measured(const Gpu& gpu, BandFit& out) {
  std::map<std::string, std::set<std::string>> formats;
  for (const BandResidual& r : out.residuals) {
    const bool near = r.section == BandSection::near && r.generation == gpu.generation;
    const std::string distance = r.section == BandSection::own_card ? "" : near ? "near." : "far.";
    const std::string name = std::string(key_of(r.kernels)) + "." + std::string(band_class_name(r.band_class));
    if (r.format.empty()) formats[distance + name].insert(std::string(kAnyFormat));  // bytes, of whatever type
    else if (parse_precision(r.format)) formats[distance + name].insert(r.format);
  }
  // What the list has no rows of stays: scalars may have been fitted to rows that no band is found from.
  std::erase_if(out.calibration.measured,
                [](const auto& entry) { return entry.first.starts_with("near.") || entry.first.starts_with("far."); });
  for (const auto& [name, found] : formats) out.calibration.measured[name].assign(found.begin(), found.end());
}

void write_bands(BandFit& out) {
  Calibration& c = out.calibration;
  c.bands.clear();
  c.transfer_bands.clear();
  c.band_correlation.clear();
  for (const KernelSet kernels : {KernelSet::own, KernelSet::library}) {
    for (const BandSection section : {BandSection::own_card, BandSection::near, BandSection::far}) {
      const auto bands = bands_of(out.residuals, kernels, section);
      if (bands.empty()) continue;
      const bool here = section == BandSection::own_card;
      const std::string distance = here ? "" : section == BandSection::near ? "near." : "far.";
      auto& into = here ? c.bands : c.transfer_bands;
      for (const auto& [key, band] : bands) into[distance + key] = band;
      c.band_correlation[distance + std::string(key_of(kernels))] =
          correlation_of(out.residuals, bands, kernels, section);
    }
  }
}

}  // namespace

bool fitted_on(const Calibration& calibration, KernelSet kernels, std::string_view family, const std::string& card) {
  static constexpr std::array<std::string_view, 3> kOfRows{kFitted, "found by steps on", "taken over from"};
  const auto at = calibration.families.find(std::string(key_of(kernels)) + "." + std::string(family));
  if (at == calibration.families.end()) return false;
  return std::any_of(at->second.begin(), at->second.end(), [&](const auto& entry) {
    const std::string& source = entry.second.source;
    return std::any_of(kOfRows.begin(), kOfRows.end(),
                       [&](std::string_view said) { return source.starts_with(said); }) &&
           source.find(card) != std::string::npos;
  });
}

std::vector<BandResidual> transfer_residuals(const std::vector<Calibration>& donors, const std::vector<BandRow>& rows,
                                             std::size_t threads) {
  Pricer pricer(rows, threads);
  std::vector<BandResidual> out;
  for (const Calibration& donor : donors) add_transfers(donor, rows, pricer, out);
  return out;
}

BandFit fit_bands(const Gpu& gpu, const Calibration& calibration, const std::vector<Calibration>& donors,
                  const std::vector<BandRow>& rows, const BandFitOptions& options) {
  Pricer pricer(rows, options.threads);
  BandFit out;
  out.calibration = calibration;
  add_own_card(gpu, calibration, rows, pricer, options, out);
  if (out.residuals.empty()) throw BadInput("no training row of " + gpu.name + " is modelled: no bands");
  for (const Calibration& donor : donors) add_transfers(donor, rows, pricer, out.residuals);
  write_bands(out);
  write_measured(gpu, out);
  return out;
}

}  // namespace plumbline

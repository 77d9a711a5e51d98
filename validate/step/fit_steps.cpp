#include "validate/step/fit_steps.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "arch/files.hpp"
#include "model/machines.hpp"
#include "model/stacks/stack.hpp"
#include "validate/fit/fit_bands.hpp"
#include "validate/record/held_out.hpp"
#include "validate/statistics.hpp"
#include "validate/step/model_report.hpp"
#include "validate/step/step_report.hpp"

namespace plumbline {
namespace {

constexpr double kEngineReserve = 0.15;
constexpr std::size_t kFewestSteps = 5;  ///< of fewer the range says nothing: the other stacks' bands stand in

std::string_view kind_of(const StepCase& what) {
  Graph graph;
  lower(step_llm(what), what.workload, graph);
  return step_kind(graph);
}

void add_recorded(const StepSource& source, Half half, std::vector<WholeStep>& out) {
  const StepRecording recording = parse_step_recording(read_text_file(source.recording), source.recording);
  for (const StepRow& row : compare_steps(recording, MachineKey{source.gpu}).rows) {
    const bool trains = held_out(row.measured.what) == HeldOut::no;
    if (!row.good() || trains != (half == Half::train)) continue;
    const Seconds t = row.measured.time;
    out.push_back({source.gpu, "own", std::string(kind_of(row.measured.what)), row.measured.what.place,
                   std::log(t / row.predicted), row.low <= t && t <= row.high});
  }
}

void add_published(const StepSource& source, Half half, std::vector<WholeStep>& out,
                   std::vector<std::string>& left_out) {
  const std::string file = source.rows + (half == Half::train ? ".train.csv" : ".heldout.csv");
  ModelRows rows;
  read_model_rows(read_text_file(file), file, {}, rows);
  if (!rows.bad.empty()) throw BadInput(rows.bad.front());
  ModelPricing pricing;
  pricing.gpu = source.gpu;
  pricing.reserve = kEngineReserve;
  for (const ModelComparison& row : price_model_rows(rows.rows, pricing)) {
    if ((row.row.held_out == HeldOut::no) != (half == Half::train)) {
      left_out.push_back(row.row.place + ": stands on the other side of the rule");
      continue;
    }
    const Comparison& c = row.compared;
    if (!c.modelled()) {
      left_out.push_back(c.place + ": " + c.error);
      continue;
    }
    out.push_back({source.gpu, row.row.stack.empty() ? c.mode : row.row.stack, std::string(row.kind), c.place,
                   std::log(c.measured / c.predicted), c.low <= c.measured && c.measured <= c.high});
  }
}

}  // namespace

std::vector<WholeStep> whole_steps(const std::vector<StepSource>& sources, Half half,
                                   std::vector<std::string>& left_out) {
  std::vector<WholeStep> out;
  for (const StepSource& source : sources) {
    if (source.rows.empty()) add_recorded(source, half, out);
    else add_published(source, half, out, left_out);
  }
  return out;
}

namespace {

/// A stack of ours that launches each operator of a model's source by itself. (Rows may name stacks of their own.)
bool launches_apart(const std::string& name) {
  const std::vector<std::string> known = stack_names();
  if (std::find(known.begin(), known.end(), name) == known.end()) return false;
  const Stack& stack = machines().stack(name);
  return stack.rewrites != nullptr && stack.fusion == Fusion::none;
}

/// Of fewer than 19 rows the outermost ones hold less than nine in ten of the next: as much wider as the range of one more
/// row is by Student's t, beside that of as many rows as one likes (to 0.02 from 8 rows on).
Band widened_for_few(Band band) {
  if (band.rows >= static_cast<long>(kRowsForBand)) return band;
  const double by = 1 + 1.7 / static_cast<double>(band.rows);
  constexpr double kDigits = 1e4;  // as residual_band() rounds
  band.low = std::floor((band.middle - by * (band.middle - band.low)) * kDigits) / kDigits;
  band.high = std::ceil((band.middle + by * (band.high - band.middle)) * kDigits) / kDigits;
  return band;
}

/// How far nine in ten rows lie from the median of their stack: the outermost of fewer than 19.
double reach_about_median(const std::vector<double>& values) {
  const Band band = residual_band(values);
  return std::max(band.high - band.middle, band.middle - band.low);
}

/// Stacks alike (launched one by one, or not) of one kind of steps: how far rows of the middle one lie from its median.
class LikeStacks {
 public:
  void add(bool apart, const std::string& kind, const std::vector<double>& values) {
    of_[{apart, kind}].push_back(reach_about_median(values));
  }
  double reach(bool apart, const std::string& kind) const {
    const auto reaches = of_.find({apart, kind});
    return reaches == of_.end() ? 0 : median(reaches->second);
  }

 private:
  std::map<std::pair<bool, std::string>, std::vector<double>> of_;
};

/// A stack of few rows is nowhere narrower, about its median, than the middle one of stacks like it.
Band at_least_like_others(Band band, double reach) {
  if (band.rows >= static_cast<long>(kRowsForBand)) return band;
  constexpr double kDigits = 1e4;
  band.low = std::min(band.low, std::floor((band.middle - reach) * kDigits) / kDigits);
  band.high = std::max(band.high, std::ceil((band.middle + reach) * kDigits) / kDigits);
  return band;
}

}  // namespace

StepBands fit_step_bands(const std::vector<WholeStep>& steps) {
  std::map<std::pair<std::string, std::string>, std::vector<double>> residuals;
  for (const WholeStep& step : steps) residuals[{step.stack, step.kind}].push_back(step.residual);
  LikeStacks like;
  for (const auto& [name, values] : residuals) {
    if (values.size() >= kFewestSteps) like.add(launches_apart(name.first), name.second, values);
  }
  StepBands bands;
  for (const auto& [name, values] : residuals) {
    const bool apart = launches_apart(name.first);
    if (values.size() < kFewestSteps && !apart) continue;
    const Band band = widened_for_few(residual_band(values));
    bands.set(name.first, name.second, at_least_like_others(band, like.reach(apart, name.second)));
    if (apart) bands.stand_apart(name.first);
  }
  return bands;
}

std::vector<StepsInside> steps_inside(const std::vector<WholeStep>& steps) {
  std::map<std::pair<std::string, std::string>, StepsInside> counts;
  for (const WholeStep& step : steps) {
    StepsInside& count = counts[{step.stack, step.kind}];
    ++count.steps;
    count.inside += step.inside ? 1 : 0;
  }
  std::vector<StepsInside> out;
  for (auto& [name, count] : counts) out.push_back({name.first, name.second, count.steps, count.inside});
  return out;
}

}  // namespace plumbline

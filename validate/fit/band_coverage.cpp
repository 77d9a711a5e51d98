// Held-out rows against the bands that stand with their predictions, and the two reports.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "validate/compare/pricing.hpp"
#include "validate/fit/fit_bands.hpp"
#include "validate/fit/fit_calibration.hpp"
#include "validate/record/study.hpp"
#include "validate/records.hpp"

namespace plumbline {

namespace {

/// printf into a string; a report's line is short.
template <class... Values>
std::string line(const char* pattern, Values... values) {
  char text[200];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

}  // namespace

std::vector<Coverage> coverage_of(const std::vector<BandRow>& rows, const std::string& calibration_file) {
  const std::string calibrated =
      calibration_file.empty() ? "" : parse_calibration(read_text_file(calibration_file), calibration_file).gpu;
  std::map<std::tuple<std::string, KernelSet, std::string, std::string>, Coverage> classes;
  std::set<std::string> shapes;
  const auto scratch = std::make_unique<OpPrediction>();
  Predictor predictor;
  for (const BandRow& row : rows) {
    MachineKey key{row.gpu, {}, row.gpu == calibrated ? calibration_file : ""};
    key.options.stack = stack_of(usual_stack(row.kernels), row.measured);
    key.options.clock = clock_of(row.measured, {});
    const Machine machine = machines().get(key);
    double as_timed = 1;  // over one plain execution
    try {
      as_timed = predict_as_measured(row.measured, machine, predictor, *scratch) / scratch->time;
    } catch (const Error&) {
      continue;
    }
    const std::string name(band_class_name(scratch->band_class)), provenance(plumbline::name(scratch->provenance));
    Coverage& c = classes[{row.gpu, row.kernels, name, provenance}];
    c.gpu = row.gpu;
    c.kernels = row.kernels;
    c.band_class = name;
    c.provenance = provenance;
    ++c.rows;
    c.half_widths.push_back(std::log(scratch->high / scratch->low) / 2);
    if (shapes.insert(c.gpu + name + provenance + std::string(key_of(row.kernels)) + row.measured.what.shape).second) {
      ++c.shapes;
    }
    if (as_timed * scratch->low <= row.measured.time && row.measured.time <= as_timed * scratch->high) ++c.inside;
  }
  std::vector<Coverage> out;
  for (auto& [key, c] : classes) out.push_back(std::move(c));
  return out;
}

std::string coverage_report(const std::vector<Coverage>& coverage) {
  std::string text =
      "gpu         kernels  class                                provenance   rows shapes  in band%  (99% range of "
      "90%)\n";
  for (const Coverage& c : coverage) {
    const CountRange range = binomial_range(c.shapes, 0.9, 0.99);
    const auto percent = [&](long count) { return 100.0 * static_cast<double>(count) / static_cast<double>(c.shapes); };
    text += line("%-11s %-8s %-36s %-11s %5ld %6ld  %8.0f  %3.0f to %3.0f", c.gpu.c_str(),
                 std::string(key_of(c.kernels)).c_str(), c.band_class.c_str(), c.provenance.c_str(), c.rows, c.shapes,
                 100 * c.share(), percent(range.least), percent(range.most));
    const double share = 100 * c.share();
    text += share < percent(range.least) ? "  below\n" : share > percent(range.most) ? "  above\n" : "\n";
  }
  return text;
}

std::string distance_report(const std::vector<Coverage>& here, const std::vector<DistanceCoverage>& near,
                            const std::vector<DistanceCoverage>& far) {
  std::map<std::pair<std::string, int>, DistanceCoverage> rows;
  const auto add = [&](const std::string& name, int distance, long count, long inside,
                       const std::vector<double>& widths) {
    DistanceCoverage& c = rows[{name, distance}];
    c.rows += count;
    c.inside += inside;
    c.half_widths.insert(c.half_widths.end(), widths.begin(), widths.end());
  };
  for (const Coverage& c : here) {
    if (c.provenance != "measured" || c.half_widths.empty()) continue;
    add((c.kernels == KernelSet::own ? "own " : "") + c.band_class, 0, c.rows, c.inside, c.half_widths);
  }
  for (const DistanceCoverage& c : near) add(c.band_class, 1, c.rows, c.inside, c.half_widths);
  for (const DistanceCoverage& c : far) add(c.band_class, 2, c.rows, c.inside, c.half_widths);
  constexpr std::array<const char*, 3> kDistances{"measured here", "same generation", "other generation"};
  std::string text = "| class | distance | rows | in band % | half-width |\n|---|---|--:|--:|--:|\n";
  for (auto& [key, c] : rows) {
    std::sort(c.half_widths.begin(), c.half_widths.end());
    text +=
        line("| %s | %s | %ld | %.0f | %.2f |\n", key.first.c_str(), kDistances[static_cast<std::size_t>(key.second)],
             c.rows, 100 * static_cast<double>(c.inside) / static_cast<double>(c.rows),
             c.half_widths[c.half_widths.size() / 2]);
  }
  return text;
}

namespace {

std::vector<FieldRecord> records_of(const std::vector<Coverage>& coverage) {
  std::vector<FieldRecord> records;
  for (const Coverage& c : coverage) {
    const CountRange range = binomial_range(c.shapes, 0.9, 0.99);
    const auto share = [&](long count) { return static_cast<double>(count) / static_cast<double>(c.shapes); };
    records.push_back({{"gpu", c.gpu},
                       {"kernels", std::string(key_of(c.kernels))},
                       {"class", c.band_class},
                       {"provenance", c.provenance},
                       {"rows", c.rows},
                       {"shapes", c.shapes},
                       {"within_band", c.share()},
                       {"least_by_chance", share(range.least)},
                       {"most_by_chance", share(range.most)}});
  }
  return records;
}

}  // namespace

std::string coverage_csv(const std::vector<Coverage>& coverage) { return records_csv(records_of(coverage)); }

std::string coverage_json(const std::vector<Coverage>& coverage) {
  return records_json("plumbline.validate.coverage.v1", "classes", records_of(coverage));
}

std::string band_report(const BandFit& fit) {
  std::string text = line("%zu rows, %zu scalars fitted again in folds, %zu rows not modelled\n", fit.residuals.size(),
                          fit.refitted, fit.not_modelled);
  const auto lines = [&](const std::map<std::string, Band>& bands) {
    for (const auto& [key, band] : bands) {
      if (!band.pooled.empty()) continue;
      text += line("%-52s %6ld   %+.3f %+.3f %+.3f\n", key.c_str(), band.rows, band.low, band.middle, band.high);
    }
  };
  text += "band of ln(measured / predicted), own rows           rows      5%    50%    95%\n";
  lines(fit.calibration.bands);
  lines(fit.calibration.transfer_bands);
  for (const auto& [key, c] : fit.calibration.band_correlation) {
    text += line("correlation %-20s same class %.2f, other %.2f (%ld rows); a card adds %.3f of a step's time\n",
                 key.c_str(), c.same_class, c.other_class, c.rows, c.card);
  }
  return text;
}

}  // namespace plumbline

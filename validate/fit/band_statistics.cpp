// From residuals to bands and correlations: no engine in here.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "arch/error.hpp"
#include "validate/fit/fit_bands.hpp"
#include "validate/fit/fit_calibration.hpp"
#include "validate/record/study.hpp"

namespace plumbline {

namespace {

constexpr double kTail = 0.05;
constexpr std::size_t kAnySize = kBandSizes.size() - 1;
constexpr int kAnyBound = -1;

/// Residuals of one cell, with who measured them.
struct Cell {
  std::vector<double> values;
  std::vector<std::string> stacks;
  void add(const BandResidual& r) {
    values.push_back(r.value);
    stacks.push_back(r.stack);
  }
};

/// Stacks with enough rows for a band count equally; a row of a smaller one counts as one of the largest stack.
std::vector<double> stack_weights(const std::vector<std::string>& stacks) {
  std::map<std::string, std::size_t> counts;
  for (const std::string& stack : stacks) ++counts[stack];
  std::size_t most = 0;
  for (const auto& [stack, count] : counts) most = std::max(most, count);
  std::vector<double> weights;
  for (const std::string& stack : stacks) {
    const std::size_t count = counts[stack];
    weights.push_back(1.0 / static_cast<double>(count < kRowsForBand ? most : count));
  }
  return weights;
}

/// The band of a cell's rows. On other cards it is cards that vary: there are far fewer than kRowsForBand pairs of a
/// donor and an heir, so the band is the whole range of the pairs' bands.
Band band_in(const Cell& cell, BandSection section) {
  Band band = residual_band(cell.values, stack_weights(cell.stacks));
  if (section == BandSection::own_card) return band;
  std::map<std::string, std::vector<double>> pairs;
  for (std::size_t i = 0; i < cell.values.size(); ++i) pairs[cell.stacks[i]].push_back(cell.values[i]);
  for (const auto& [pair, values] : pairs) {
    if (values.size() < kRowsForBand) continue;
    const Band one = residual_band(values);
    band.low = std::min(band.low, one.low);
    band.high = std::max(band.high, one.high);
  }
  return band;
}

/// Class (or kind, or "all"), size class, bound.
struct CellKey {
  std::size_t number = 0, size = 0;
  int bound = kAnyBound;
  auto operator<=>(const CellKey&) const = default;
};

std::optional<CellKey> parent_of(const CellKey& key) {
  if (key.bound != kAnyBound) return CellKey{key.number, key.size, kAnyBound};
  const std::size_t up = band_parent(key.number);
  const bool is_class = band_parent(up) != up;  // a class's parent is a kind, whose parent is "all"
  if (key.size != kAnySize && (key.number == up || !is_class)) return CellKey{key.number, kAnySize, kAnyBound};
  if (key.number == up) return std::nullopt;
  return CellKey{up, key.size, kAnyBound};
}

std::string text_of(KernelSet kernels, const CellKey& key) {
  std::string text = std::string(key_of(kernels)) + "." + std::string(band_class_name(key.number)) + "." +
                     std::string(kBandSizes[key.size]);
  if (key.bound != kAnyBound) text += "." + std::string(name(static_cast<Bound>(key.bound)));
  return text;
}

using Cells = std::map<CellKey, Cell>;

Cells cells_of(const std::vector<BandResidual>& residuals, KernelSet kernels, BandSection section) {
  Cells cells;
  for (const BandResidual& r : residuals) {
    if (r.kernels != kernels || r.section != section) continue;
    cells[{r.band_class, r.size, static_cast<int>(r.bound)}].add(r);
    cells[{r.band_class, r.size, kAnyBound}].add(r);
    for (std::size_t up = band_parent(r.band_class);; up = band_parent(up)) {
      cells[{up, r.size, kAnyBound}].add(r);
      cells[{up, kAnySize, kAnyBound}].add(r);
      if (band_parent(up) == up) break;
    }
  }
  return cells;
}

/// The cell's own quantiles, or those of the nearest wider class that has enough rows, widened to hold these.
Band resolve(const Cells& cells, const CellKey& key, KernelSet kernels, BandSection section) {
  const Cell& cell = cells.at(key);
  std::optional<CellKey> up = parent_of(key);
  if (cell.values.size() >= kRowsForBand || !up) return band_in(cell, section);
  while (cells.at(*up).values.size() < kRowsForBand && parent_of(*up)) up = parent_of(*up);
  const Cell& wider = cells.at(*up);
  Band band = band_in(wider, section);
  band.pooled = text_of(kernels, *up);
  const Band own = residual_band(cell.values);
  band.low = std::min(band.low, own.low);
  band.high = std::max(band.high, own.high);
  return band;
}

/// A band that says nothing beyond the wider class's is left out: the model goes up the same way.
bool same(const Band& a, const Band& b) { return a.low == b.low && a.high == b.high && a.middle == b.middle; }

/// The band that the model will take.
const Band& band_for(const BandResidual& r, const std::map<std::string, Band>& bands) {
  std::optional<CellKey> key = CellKey{r.band_class, r.size, static_cast<int>(r.bound)};
  for (; key; key = parent_of(*key)) {
    if (const auto at = bands.find(text_of(r.kernels, *key)); at != bands.end()) return at->second;
  }
  throw Error(ExitCode::our_bug, "no band for " + std::string(band_class_name(r.band_class)));
}

/// Sums over the pairs of one context.
struct PairSums {
  double sum = 0, squares = 0;
  std::map<std::size_t, std::array<double, 3>> of_class;  // sum, squares, rows
  double rows = 0;
  void add(std::size_t band_class, double z) {
    sum += z;
    squares += z * z;
    rows += 1;
    auto& c = of_class[band_class];
    c[0] += z;
    c[1] += z * z;
    c[2] += 1;
  }
};

/// Mean of contexts' mean products, each context as often as it has rows.
struct MeanProduct {
  double sum = 0, weight = 0;
  void add(double products, double pairs, double rows) {
    if (pairs <= 0) return;
    sum += rows * products / pairs;
    weight += rows;
  }
  double value() const { return weight > 0 ? sum / weight : 0; }
};

}  // namespace

Band residual_band(const std::vector<double>& values, const std::vector<double>& weights) {
  const std::size_t n = values.size();
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  const auto weight = [&](std::size_t i) { return weights.empty() ? 1.0 : weights[i]; };
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < n; ++i) {
    sum += weight(i);
    squares += weight(i) * weight(i);
  }
  const double further = squares / sum;                               // the weight of one more row
  const double most_outside = kTail * (sum + further) * (1 + 1e-12);  // rounding: 0.05 x 20 rows is one row
  // The value up to which, itself included, at most that weight lies.
  const auto tail = [&](auto first, auto last) {
    double below = 0;
    double value = values[*first];
    for (; first != last; ++first) {
      below += weight(*first);
      if (below > most_outside) break;
      value = values[*first];
    }
    return value;
  };
  Band band;
  band.low = tail(order.begin(), order.end());
  band.high = tail(order.rbegin(), order.rend());
  double below = 0;
  for (const std::size_t i : order) {
    band.middle = values[i];
    below += weight(i);
    if (below >= sum / 2 * (1 - 1e-12)) break;
  }
  // As written to a file: rounded outwards.
  constexpr double kDigits = 1e4;
  band.low = std::floor(band.low * kDigits) / kDigits;
  band.middle = std::round(band.middle * kDigits) / kDigits;
  band.high = std::ceil(band.high * kDigits) / kDigits;
  band.rows = static_cast<long>(n);
  return band;
}

std::map<std::string, Band> bands_of(const std::vector<BandResidual>& residuals, KernelSet kernels,
                                     BandSection section) {
  const Cells cells = cells_of(residuals, kernels, section);
  std::map<CellKey, Band> resolved;
  for (const auto& [key, cell] : cells) resolved[key] = resolve(cells, key, kernels, section);
  std::map<std::string, Band> bands;
  for (const auto& [key, band] : resolved) {
    const std::optional<CellKey> up = parent_of(key);
    if (!up || key.size == kAnySize || !same(band, resolved.at(*up))) bands[text_of(kernels, key)] = band;
  }
  return bands;
}

BandCorrelation correlation_of(const std::vector<BandResidual>& residuals, const std::map<std::string, Band>& bands,
                               KernelSet kernels, BandSection section) {
  constexpr double kMost = 1.5;  // half-widths: one wild row is no evidence on thousands of pairs
  std::map<std::string, PairSums> contexts;
  BandCorrelation out;
  double squares = 0;
  for (const BandResidual& r : residuals) {
    if (r.kernels != kernels || r.section != section) continue;
    const Band& band = band_for(r, bands);
    const double off = r.value - band.middle;
    const double width = off < 0 ? band.middle - band.low : band.high - band.middle;
    const double z = width > 0 ? std::clamp(off / width, -kMost, kMost) : 0;
    contexts[r.context].add(r.band_class, z);
    squares += z * z;
    ++out.rows;
  }
  if (squares <= 0) return out;
  MeanProduct same, other;
  for (const auto& [context, c] : contexts) {
    double in_class = 0, pairs_in_class = 0, class_sums = 0, class_pairs = 0;
    for (const auto& [band_class, sums] : c.of_class) {
      in_class += sums[0] * sums[0] - sums[1];
      pairs_in_class += sums[2] * (sums[2] - 1);
      class_sums += sums[0] * sums[0];
      class_pairs += sums[2] * sums[2];
    }
    same.add(in_class, pairs_in_class, c.rows);
    other.add(c.sum * c.sum - class_sums, c.rows * c.rows - class_pairs, c.rows);
  }
  const double mean_square = squares / static_cast<double>(out.rows);
  out.same_class = std::clamp(same.value() / mean_square, 0.0, 1.0);
  out.other_class = std::clamp(other.value() / mean_square, 0.0, out.same_class);
  return out;
}

CountRange binomial_range(long count, double chance, double inside) {
  const double tail = (1 - inside) / 2;
  const auto probability = [&](long k) {
    const auto n = static_cast<double>(count), x = static_cast<double>(k);
    return std::exp(std::lgamma(n + 1) - std::lgamma(x + 1) - std::lgamma(n - x + 1) + x * std::log(chance) +
                    (n - x) * std::log1p(-chance));
  };
  CountRange range{0, count};
  double below = 0, above = 0;
  while (range.least < count && below + probability(range.least) < tail) below += probability(range.least++);
  while (range.most > 0 && above + probability(range.most) < tail) above += probability(range.most--);
  return range;
}

}  // namespace plumbline

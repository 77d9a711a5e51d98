// From residuals to bands and correlations: no engine in here.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "arch/error.hpp"
#include "validate/fit/band_cells.hpp"
#include "validate/fit/fit.hpp"
#include "validate/fit/fit_bands.hpp"
#include "validate/fit/fit_calibration.hpp"
#include "validate/record/study.hpp"

namespace plumbline {

namespace {

/// A further row may lie beyond either end as often as that; smaller ones are for classes whose shapes differ much.
constexpr std::array<double, 5> kTails{kBandTail, 0.04, 0.03, 0.02, 0.01};
constexpr int kGroupFolds = 5;

/// The share of the cell's weight inside bands of that tail that the row's group of shapes was not behind.
double share_of_unseen(const BandCell& cell, double tail, const std::vector<int>& fold_of, int folds) {
  double inside = 0, all = 0;
  const std::vector<double> weights = stack_weights(cell.stacks);
  for (int fold = 0; fold < folds; ++fold) {
    std::vector<double> values;
    std::vector<std::string> stacks;
    for (std::size_t i = 0; i < fold_of.size(); ++i) {
      if (fold_of[i] == fold) continue;
      values.push_back(cell.values[i]);
      stacks.push_back(cell.stacks[i]);
    }
    if (values.empty()) continue;
    const Band band = residual_band(values, stack_weights(stacks), tail);
    for (std::size_t i = 0; i < fold_of.size(); ++i) {
      if (fold_of[i] != fold) continue;
      all += weights[i];
      if (band.low <= cell.values[i] && cell.values[i] <= band.high) inside += weights[i];
    }
  }
  return all > 0 ? inside / all : 1;
}

/// Rows of one group of shapes (a model's layer at every batch) err alike, so that a hundred rows of five groups say less
/// than a hundred rows: the widest tails with which groups that were left out lie inside nine times in ten.
double tail_of(const BandCell& cell) {
  const std::set<std::string> groups(cell.groups.begin(), cell.groups.end());
  const int folds = std::min(kGroupFolds, static_cast<int>(groups.size()));
  if (folds < 2) return kBandTail;
  const std::vector<int> fold_of = deal_folds(cell.groups, folds);
  for (const double tail : kTails) {
    if (share_of_unseen(cell, tail, fold_of, folds) >= 1 - 2 * kBandTail) return tail;
  }
  return kTails.back();
}

Band band_in(const BandCell& cell) { return residual_band(cell.values, stack_weights(cell.stacks), tail_of(cell)); }

void widen(Band& band, const Band& by) {
  band.low = std::min(band.low, by.low);
  band.high = std::max(band.high, by.high);
}

/// Whether other classes are of it. A class may be of no kind ("rowwise"): its parent is "all".
bool is_kind(std::size_t number) {
  for (std::size_t i = 0; i < band_class_count(); ++i) {
    if (i != number && band_parent(i) == number) return true;
  }
  return false;
}

std::optional<BandCellKey> parent_of(const BandCellKey& key) {
  if (key.bound != kAnyBandBound) return BandCellKey{key.number, key.size, kAnyBandBound};
  const std::size_t up = band_parent(key.number);
  const bool is_class = !is_kind(key.number);
  if (key.size != kAnyBandSize && (key.number == up || !is_class))
    return BandCellKey{key.number, kAnyBandSize, kAnyBandBound};
  if (key.number == up) return std::nullopt;
  return BandCellKey{up, key.size, kAnyBandBound};
}

using Cells = std::map<BandCellKey, BandCell>;

Cells cells_of(const std::vector<BandResidual>& residuals, KernelSet kernels) {
  Cells cells;
  for (const BandResidual& r : residuals) {
    if (r.kernels != kernels || r.section != BandSection::own_card) continue;
    cells[{r.band_class, r.size, static_cast<int>(r.bound)}].add(r);
    cells[{r.band_class, r.size}].add(r);
    for (std::size_t up = band_parent(r.band_class);; up = band_parent(up)) {
      cells[{up, r.size}].add(r);
      cells[{up, kAnyBandSize}].add(r);
      if (band_parent(up) == up) break;
    }
  }
  return cells;
}

/// The next wider cell that has rows.
std::optional<BandCellKey> wider(const Cells& cells, const BandCellKey& key) {
  std::optional<BandCellKey> up = parent_of(key);
  while (up && cells.count(*up) == 0) up = parent_of(*up);
  return up;
}

/// The cell's own quantiles, or those of the nearest wider class that has enough rows, widened to hold these.
Band resolve(const Cells& cells, const BandCellKey& key, KernelSet kernels) {
  const BandCell& cell = cells.at(key);
  std::optional<BandCellKey> up = wider(cells, key);
  if (cell.values.size() >= kRowsForBand || !up) return band_in(cell);
  while (cells.at(*up).values.size() < kRowsForBand && wider(cells, *up)) up = wider(cells, *up);
  Band band = band_in(cells.at(*up));
  band.pooled = text_of(kernels, *up);
  widen(band, residual_band(cell.values));
  return band;
}

/// A band that says nothing beyond the wider class's is left out: the model goes up the same way.
bool same(const Band& a, const Band& b) { return a.low == b.low && a.high == b.high && a.middle == b.middle; }

/// The band that the model will take; null where nothing of the kind is on file.
const Band* find_band(const BandResidual& r, const std::map<std::string, Band>& bands) {
  std::optional<BandCellKey> key = BandCellKey{r.band_class, r.size, static_cast<int>(r.bound)};
  for (; key; key = parent_of(*key)) {
    if (const auto at = bands.find(text_of(r.kernels, *key)); at != bands.end()) return &at->second;
  }
  return nullptr;
}

const Band& band_for(const BandResidual& r, const std::map<std::string, Band>& bands) {
  if (const Band* band = find_band(r, bands)) return *band;
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

double in_units_of_band(const BandResidual& r) {
  return r.section == BandSection::far ? r.value / unknown_share(r.roofline_share) : r.value;
}

void BandCell::add(const BandResidual& r) {
  values.push_back(in_units_of_band(r));
  stacks.push_back(r.stack);
  groups.push_back(r.group);
  in_sample += r.in_sample && !band_class_is_unfitted(r.band_class) ? 1 : 0;
}

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

std::string text_of(KernelSet kernels, const BandCellKey& key) {
  std::string text = std::string(key_of(kernels)) + "." + std::string(band_class_name(key.number)) + "." +
                     std::string(kBandSizes[key.size]);
  if (key.bound != kAnyBandBound) text += "." + std::string(name(static_cast<Bound>(key.bound)));
  return text;
}

Band residual_band(const std::vector<double>& values, const std::vector<double>& weights, double share_outside) {
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
  const double further = squares / sum;                                       // the weight of one more row
  const double most_outside = share_outside * (sum + further) * (1 + 1e-12);  // rounding: 0.05 x 20 rows is one row
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
  if (section != BandSection::own_card) return transfer_bands(residuals, kernels, section);
  const Cells cells = cells_of(residuals, kernels);
  std::map<BandCellKey, Band> resolved;
  for (const auto& [key, cell] : cells) resolved[key] = resolve(cells, key, kernels);
  std::map<std::string, Band> bands;
  for (const auto& [key, band] : resolved) {
    const std::optional<BandCellKey> up = wider(cells, key);
    if (!up || key.size == kAnyBandSize || !same(band, resolved.at(*up))) bands[text_of(kernels, key)] = band;
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
    const double off = in_units_of_band(r) - band.middle;
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

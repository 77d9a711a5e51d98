// From residuals to bands and correlations: no engine in here.
#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
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

/// What at most a tenth of the weight exceeds in size, as residual_band() corrects for a further row.
double reach_of(const Cell& cell) {
  const std::vector<double> weights = stack_weights(cell.stacks);
  std::vector<std::pair<double, double>> sizes;
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sizes.emplace_back(std::abs(cell.values[i]), weights[i]);
    sum += weights[i];
    squares += weights[i] * weights[i];
  }
  std::sort(sizes.rbegin(), sizes.rend());
  const double most_outside = 2 * kTail * (sum + squares / sum) * (1 + 1e-12);
  double outside = 0, reach = sizes.front().first;
  for (const auto& [size, weight] : sizes) {
    outside += weight;
    if (outside > most_outside) break;
    reach = size;
  }
  constexpr double kDigits = 1e4;
  return std::ceil(reach * kDigits) / kDigits;
}

/// The band of a cell's rows. On other cards it goes as far to either side: which way a further card is off, nobody
/// knows (prefill attention from A100 to Hopper is predicted too fast, from Hopper to A100 too slow). Pairs of cards
/// count equally.
Band band_in(const Cell& cell, BandSection section) {
  if (section == BandSection::own_card) return residual_band(cell.values, stack_weights(cell.stacks));
  const double reach = reach_of(cell);
  return Band{-reach, reach, static_cast<long>(cell.values.size()), 0, ""};
}

void widen(Band& band, const Band& by) {
  band.low = std::min(band.low, by.low);
  band.high = std::max(band.high, by.high);
}

/// Class (or kind, or "all"), size class, bound.
struct CellKey {
  std::size_t number = 0, size = 0;
  int bound = kAnyBound;
  auto operator<=>(const CellKey&) const = default;
};

/// Whether other classes are of it. A class may be of no kind ("rowwise"): its parent is "all".
bool is_kind(std::size_t number) {
  for (std::size_t i = 0; i < band_class_count(); ++i) {
    if (i != number && band_parent(i) == number) return true;
  }
  return false;
}

bool is_all(std::size_t number) { return band_parent(number) == number; }

std::optional<CellKey> parent_of(const CellKey& key) {
  if (key.bound != kAnyBound) return CellKey{key.number, key.size, kAnyBound};
  const std::size_t up = band_parent(key.number);
  const bool is_class = !is_kind(key.number);
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
    // What bound a kernel is on another card is itself a guess.
    if (section == BandSection::own_card) cells[{r.band_class, r.size, static_cast<int>(r.bound)}].add(r);
    cells[{r.band_class, r.size, kAnyBound}].add(r);
    for (std::size_t up = band_parent(r.band_class);; up = band_parent(up)) {
      cells[{up, r.size, kAnyBound}].add(r);
      cells[{up, kAnySize, kAnyBound}].add(r);
      if (band_parent(up) == up) break;
    }
  }
  return cells;
}

/// The next wider cell that has rows.
std::optional<CellKey> wider(const Cells& cells, const CellKey& key) {
  std::optional<CellKey> up = parent_of(key);
  while (up && cells.count(*up) == 0) up = parent_of(*up);
  return up;
}

/// Of another generation the few pairs of cards that were measured say little of one class: where its kind errs more, it
/// is taken to err halfway as much. Found by leaving out generations (data/calibration/README.md).
void lean_on_kind(const Cells& cells, const CellKey& key, Band& band) {
  const auto kind = cells.find({band_parent(key.number), key.size, kAnyBound});
  if (is_kind(key.number) || is_all(band_parent(key.number)) || kind == cells.end()) return;
  if (kind->second.values.size() < kRowsForBand) return;
  const double halfway = (band.high + reach_of(kind->second)) / 2;
  if (halfway > band.high) band.low = -(band.high = std::ceil(halfway * 1e4) / 1e4);
}

/// The cell's own quantiles, or those of the nearest wider class that has enough rows, widened to hold these.
Band resolve(const Cells& cells, const CellKey& key, KernelSet kernels, BandSection section) {
  const Cell& cell = cells.at(key);
  std::optional<CellKey> up = wider(cells, key);
  Band band = band_in(cell, section);
  if (cell.values.size() >= kRowsForBand || !up) {
    if (section == BandSection::far) lean_on_kind(cells, key, band);
    return band;
  }
  while (cells.at(*up).values.size() < kRowsForBand && wider(cells, *up)) up = wider(cells, *up);
  const Band own = section == BandSection::own_card ? residual_band(cell.values) : band;
  band = band_in(cells.at(*up), section);
  if (section == BandSection::far) lean_on_kind(cells, *up, band);
  band.pooled = text_of(kernels, *up);
  widen(band, own);
  return band;
}

/// A band that says nothing beyond the wider class's is left out: the model goes up the same way.
bool same(const Band& a, const Band& b) { return a.low == b.low && a.high == b.high && a.middle == b.middle; }

/// The band that the model will take; null where nothing of the kind is on file.
const Band* find_band(const BandResidual& r, const std::map<std::string, Band>& bands) {
  std::optional<CellKey> key = CellKey{r.band_class, r.size, static_cast<int>(r.bound)};
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
    const std::optional<CellKey> up = wider(cells, key);
    if (!up || key.size == kAnySize || !same(band, resolved.at(*up))) bands[text_of(kernels, key)] = band;
  }
  return bands;
}

void DistanceCoverage::add(double half_width, bool is_inside) {
  ++rows;
  inside += is_inside ? 1 : 0;
  half_widths.push_back(half_width);
}

std::vector<DistanceCoverage> left_out_coverage(const std::vector<BandResidual>& train,
                                                const std::vector<BandResidual>& heldout, BandSection section) {
  std::map<std::string, std::vector<const BandResidual*>> by_card;
  for (const BandResidual& r : heldout) {
    if (r.section == section) by_card[r.left_out].push_back(&r);
  }
  std::map<std::string, DistanceCoverage> classes;
  for (const auto& [card, rows] : by_card) {
    std::vector<BandResidual> others;
    std::copy_if(train.begin(), train.end(), std::back_inserter(others),
                 [&name = card](const BandResidual& r) { return r.left_out != name; });
    const auto bands = bands_of(others, KernelSet::library, section);
    for (const BandResidual* r : rows) {
      const Band* band = find_band(*r, bands);
      if (band == nullptr || band->rows == 0) continue;  // no other pair of cards ran anything like it
      classes[std::string(band_class_name(r->band_class))].add((band->high - band->low) / 2,
                                                               band->low <= r->value && r->value <= band->high);
    }
  }
  std::vector<DistanceCoverage> out;
  for (auto& [name, c] : classes) {
    c.band_class = name;
    out.push_back(std::move(c));
  }
  return out;
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

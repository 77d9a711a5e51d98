// Bands of cards that were never measured, and how many rows of a card that is left out they hold.
#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "validate/fit/band_cells.hpp"

namespace plumbline {

namespace {

/// What at most a tenth of the weight exceeds in size, as residual_band() corrects for a further row: how far one card's
/// rows reach. It goes to either side: which way a further card is off, nobody knows.
double reach_of(const BandCell& cell) {
  const std::vector<double> weights = stack_weights(cell.stacks);
  std::vector<std::pair<double, double>> sizes;
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sizes.emplace_back(std::abs(cell.values[i]), weights[i]);
    sum += weights[i];
    squares += weights[i] * weights[i];
  }
  std::sort(sizes.rbegin(), sizes.rend());
  const double most_outside = 2 * kBandTail * (sum + squares / sum) * (1 + 1e-12);
  double outside = 0, reach = sizes.front().first;
  for (const auto& [size, weight] : sizes) {
    outside += weight;
    if (outside > most_outside) break;
    reach = size;
  }
  return reach;
}

/// The mean of reaches, or of their logarithms. A card with fewer rows than a band needs is that part of one.
struct MeanReach {
  double sum = 0, cards = 0;
  long rows = 0;
  void add(double reach, double weight, long count) {
    sum += weight * reach;
    cards += weight;
    rows += count;
  }
  double mean() const { return sum / cards; }
};
using Reaches = std::map<BandCellKey, MeanReach>;

/// What is averaged. Cards of one generation are one chip: what one kernel's rows reach on either is alike within a
/// third, and classes of a kind differ by factors, so that logarithms are: their mean is not that of the one class that
/// some stack's host made three times as wide. Of another generation the card's own error counts most, which adds:
/// plain means (geometric ones leave 10 of 34 classes of training rows below 80 %, plain ones 4).
class Scale {
 public:
  explicit Scale(BandSection section) : section_(section), logarithms_(section == BandSection::near) {}
  BandSection section() const { return section_; }
  double of(double reach) const { return logarithms_ ? std::log(std::max(reach, kLeastReach)) : reach; }
  double reach(double mean) const { return logarithms_ ? std::exp(mean) : mean; }

 private:
  static constexpr double kLeastReach = 1e-3;  // a row that is right to the last digit
  BandSection section_;
  bool logarithms_;
};

/// A class in a size (or any) and a unit: cards (near) or generations (far) that rows are of.
using UnitCells = std::map<std::pair<BandCellKey, std::string>, BandCell>;

UnitCells unit_cells(const std::vector<BandResidual>& residuals, KernelSet kernels, BandSection section,
                     bool in_sample) {
  UnitCells cells;
  for (const BandResidual& r : residuals) {
    const bool near = section == BandSection::near;  // one chip: rows that its scalars were fitted to count like others
    if (r.kernels != kernels || r.section != section || (r.in_sample && !near) != in_sample) continue;
    const std::string& unit = near ? r.card : r.generation;
    cells[{{r.band_class, r.size}, unit}].add(r);
    cells[{{r.band_class, kAnyBandSize}, unit}].add(r);
  }
  return cells;
}

/// Rows that a card's scalars were fitted to reach less far than those of a card that takes the scalars over: 1.22
/// times as far reach the H100's where the H200's alone were fitted (the mean of logarithms over 29 classes and sizes
/// of 19 training rows and more; 0.96 over 13 where both were). The next card is in no sample. Of a class that no
/// family is fitted to, no card's rows are. Of another generation what was fitted is another kernel.
double unseen_reach(const BandCell& cell, BandSection section) {
  constexpr double kUnseen = 1.22;
  if (section != BandSection::near) return reach_of(cell);
  return reach_of(cell) * std::pow(kUnseen, cell.in_sample / static_cast<double>(cell.values.size()));
}

void add_cell(MeanReach& reach, const BandCell& cell, const Scale& scale) {
  const auto rows = static_cast<double>(cell.values.size());
  reach.add(scale.of(unseen_reach(cell, scale.section())), std::min(1.0, rows / static_cast<double>(kRowsForBand)),
            static_cast<long>(cell.values.size()));
}

Reaches class_reaches(const UnitCells& cells, const Scale& scale) {
  Reaches reaches;
  for (const auto& [key, cell] : cells) add_cell(reaches[key.first], cell, scale);
  return reaches;
}

/// Kinds and "all": the mean of their classes, whatever their rows.
Reaches kind_reaches(const Reaches& classes) {
  Reaches kinds;
  for (const auto& [key, reach] : classes) {
    for (std::size_t up = band_parent(key.number);; up = band_parent(up)) {
      kinds[{up, key.size}].add(reach.mean(), std::min(1.0, reach.cards), reach.rows);
      if (band_parent(up) == up) break;
    }
  }
  return kinds;
}

/// Rows that the scalars were fitted to reach less far than a transfer does: where they reach further than the class's other
/// units, or its kind's classes, they say at least as much; else nothing.
void add_in_sample(const UnitCells& cells, const UnitCells& transfers, const Scale& scale, Reaches& classes,
                   Reaches& kinds) {
  const Reaches known = classes;
  for (const auto& [key, cell] : cells) {
    const auto own = known.find(key.first);
    if (own != known.end() && transfers.count(key) == 0 && scale.of(reach_of(cell)) > own->second.mean()) {
      add_cell(classes[key.first], cell, scale);
    }
  }
  kinds = kind_reaches(classes);
  Reaches with_lone = classes;  // a class that no transfer is of has its kind's band
  for (const auto& [key, cell] : cells) {
    const auto kind = kinds.find({band_parent(key.first.number), key.first.size});
    if (known.count(key.first) > 0 || kind == kinds.end()) continue;
    if (scale.of(reach_of(cell)) > kind->second.mean()) add_cell(with_lone[key.first], cell, scale);
  }
  kinds = kind_reaches(with_lone);
}

/// What stands beside a class's own cards (its kind, every class of any size) and beside a kind's classes (all kernels), in
/// cards, and how much of what a card errs by is drawn anew for the next: as a further draw of a normal distribution that
/// share of the variance is 1 + 1 / draws of one's.
///
/// On one chip kernels and scalars are the same, and so is most of the error: the class knows far more of it than its
/// kind does. But a class that reaches further than most on one card reaches less far on the next, and the other way
/// round (held-out rows of 130 classes and sizes by the other card's training rows, logarithms: a slope of 0.67), so that
/// every class is pulled to the mean of all.
/// Another generation is rarely more than one further draw of a class (most kernels are on file for two generations),
/// whose reach says little of the next one's: there the kind counts as three cards, beside a kind all kernels as much as
/// its classes, and half of the error is the card's. Chosen on training rows by leaving out cards and generations
/// (docs/calibration/bands.md).
struct Pooling {
  double kind, every, all, own_share;
};
Pooling pooling_of(BandSection section) {
  return section == BandSection::near ? Pooling{0.1, 0.15, 0, 0.05} : Pooling{3, 0, 1, 0.5};
}

/// As far to either side, as written to a file: rounded outwards.
Band to_either_side(double reach, long rows, std::string pooled = "") {
  constexpr double kDigits = 1e4;
  const double written = std::ceil(reach * kDigits * (1 - 1e-12)) / kDigits;
  return Band{-written, written, rows, 0, std::move(pooled)};
}

Band further_card(double mean, double draws, double own_share, long rows) {
  return to_either_side(mean * std::sqrt(1 + own_share / draws), rows);
}

/// Classes of which no transfer is on file, as all their rows in other generations were fitted to or taken over from:
/// that their scalars go over has been seen on no card, so that a class is a further draw of its kind as the card is
/// one, if a lesser one: a fifth of the variance more (docs/calibration/bands.md).
void add_never_moved(const UnitCells& fitted, const Reaches& transfers, const Reaches& kinds, KernelSet kernels,
                     std::map<std::string, Band>& bands) {
  const double further_class = std::sqrt(1.2);
  for (const auto& [key, cell] : fitted) {
    const std::size_t number = key.first.number;
    if (key.first.size != kAnyBandSize || transfers.count({number, kAnyBandSize}) > 0) continue;
    for (std::size_t size = 0; size < kAnyBandSize; ++size) {
      const BandCellKey kind{band_parent(number), size};
      if (kinds.count(kind) == 0) continue;
      const std::string name = text_of(kernels, kind);
      const Band& of_kind = bands.at(name);
      bands[text_of(kernels, {number, size})] = to_either_side(further_class * of_kind.high, of_kind.rows, name);
    }
  }
}

}  // namespace

/// A class that was measured on no card of another generation takes its kind's reach with that of all kernels as one
/// more beside it, no less than the mean over sizes: how its error goes with size nobody knows either. Of the same
/// generation it has its kind's word alone. It is a draw by itself, so that all of its error is drawn anew.
std::map<std::string, Band> transfer_bands(const std::vector<BandResidual>& residuals, KernelSet kernels,
                                           BandSection section) {
  const Scale scale(section);
  const UnitCells transfers = unit_cells(residuals, kernels, section, false);
  const UnitCells fitted = unit_cells(residuals, kernels, section, true);
  Reaches classes = class_reaches(transfers, scale), kinds = kind_reaches(classes);
  add_in_sample(fitted, transfers, scale, classes, kinds);
  const bool far = section == BandSection::far;
  const Pooling pooling = pooling_of(section);
  const auto of_all = [&](const BandCellKey& key, std::size_t size) {
    std::size_t up = key.number;
    while (band_parent(up) != up) up = band_parent(up);
    return kinds.at({up, size}).mean();
  };
  const auto with_all = [&](const BandCellKey& key) {
    return (kinds.at(key).mean() + pooling.all * of_all(key, key.size)) / (1 + pooling.all);
  };
  std::map<std::string, Band> bands;
  for (const auto& [key, kind] : kinds) {
    double reach = with_all(key);
    if (far) {
      MeanReach sizes;
      for (std::size_t size = 0; size < kAnyBandSize; ++size) {
        const auto of_size = kinds.find({key.number, size});
        if (of_size == kinds.end()) continue;
        sizes.add(with_all(of_size->first), 1, 0);
      }
      reach = std::max(reach, sizes.mean());
    }
    bands[text_of(kernels, key)] = further_card(scale.reach(reach), 1, 1, kind.rows);
  }
  add_never_moved(fitted, classes, kinds, kernels, bands);
  for (const auto& [key, own] : classes) {
    if (key.size == kAnyBandSize) continue;
    const BandCellKey up{band_parent(key.number), key.size};
    const double draws = own.cards + pooling.kind;
    const double sum = own.sum + pooling.kind * kinds.at(up).mean() + pooling.every * of_all(key, kAnyBandSize);
    Band band = further_card(scale.reach(sum / (draws + pooling.every)), draws, pooling.own_share, own.rows);
    if (own.rows < static_cast<long>(kRowsForBand)) band.pooled = text_of(kernels, up);
    bands[text_of(kernels, key)] = std::move(band);
  }
  return bands;
}

void DistanceCoverage::add(double half_width, bool is_inside) {
  ++rows;
  inside += is_inside ? 1 : 0;
  half_widths.push_back(half_width);
}

namespace {

/// What a user gets for a card of which none of `residuals` is.
class LeftOutBands {
 public:
  LeftOutBands(const std::vector<BandResidual>& residuals, BandSection section) {
    Calibration calibration;
    for (const auto& [distance, name] : {std::pair{BandSection::near, "near."}, {BandSection::far, "far."}}) {
      for (auto& [key, band] : transfer_bands(residuals, KernelSet::library, distance)) {
        calibration.transfer_bands[name + key] = std::move(band);
      }
    }
    for (const BandResidual& r : residuals) known_.insert(r.band_class);
    there_ = BandTable(calibration, section);
    never_ = BandTable(calibration, BandSection::never);
  }
  bool knows(const BandResidual& r) const { return !r.alike && known_.count(r.band_class) > 0; }
  /// Empty where no other pair of cards ran anything like it.
  std::optional<BandEnds> find(const BandResidual& r) const {
    constexpr std::array<double, 3> kMicroseconds{5, 50, 500};  // of each size
    const BandTable& table = knows(r) ? there_ : never_;
    const Seconds time = kMicroseconds[r.size] * units::us;
    if (table.find(KernelSet::library, r.band_class, time, r.bound).rows == 0) return std::nullopt;
    return table.ends(KernelSet::library, r.band_class, time, r.bound, r.roofline_share);
  }

 private:
  std::set<std::size_t> known_;
  BandTable there_, never_;
};

}  // namespace

std::vector<DistanceCoverage> left_out_coverage(const std::vector<BandResidual>& train,
                                                const std::vector<BandResidual>& heldout, BandSection section) {
  const auto unit = [&](const BandResidual& r) { return section == BandSection::near ? r.card : r.generation; };
  std::map<std::string, std::vector<const BandResidual*>> units;
  for (const BandResidual& r : heldout) {
    if (r.section == section && (section == BandSection::near || !r.in_sample)) units[unit(r)].push_back(&r);
  }
  std::map<std::size_t, DistanceCoverage> classes;
  for (const auto& [name, rows] : units) {
    std::vector<BandResidual> others;
    std::copy_if(train.begin(), train.end(), std::back_inserter(others),
                 [&left_out = name, &unit](const BandResidual& r) { return unit(r) != left_out; });
    const LeftOutBands bands(others, section);
    for (const BandResidual* r : rows) {
      if (r->in_sample && !bands.knows(*r)) continue;
      const std::optional<BandEnds> band = bands.find(*r);
      if (!band) continue;
      classes[r->band_class].add((band->high - band->low) / 2, band->low <= r->value && r->value <= band->high);
    }
  }
  std::vector<DistanceCoverage> out;
  for (auto& [number, c] : classes) {
    c.band_class = std::string(band_class_name(number));
    out.push_back(std::move(c));
  }
  return out;
}

}  // namespace plumbline

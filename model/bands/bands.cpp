#include "model/bands/bands.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <variant>

#include "arch/error.hpp"
#include "model/stacks/providers.hpp"

namespace plumbline {
namespace {

struct ClassOfKernels {
  std::string_view name, kind;
  bool fitted = true;
};

constexpr auto kOthers = std::to_array<ClassOfKernels>({
    {"rope", "stream"},
    {"embedding", "stream"},
    {"embedding_backward", "stream"},
    {"topk", "select_scan"},
    {"softmax_topk", "select_scan"},
    {"sum_all", "select_scan"},
    {"cumsum", "select_scan"},
    {"norm_all", "select_scan"},
    {"rowwise", "all"},  // every other operator that is priced as a stream: nothing of its kind was measured
    {"collective", "all"},
    {"host", "all"},
    {"matrix", "all"},
    {"attention", "all"},  // what is neither of the next two: linear attention, quantizing what attention reads
    {"prompts", "all"},    // attention paced by products: of whole prompts, encoders, backward
    {"decode", "all"},     // attention that streams a cache
    {"stream", "all"},
    {"row_statistics", "all"},
    {"softmax_like", "all"},
    {"select_scan", "all"},
    {"all", "all"},
});

/// Classes of kernel families as their providers declare them, each row-wise kind, the other operators, the kinds, all.
/// The kind of a class says whose kernels work alike (ops/shape/shape.hpp, Pattern): what is known of one says most about
/// the others.
class Classes {
 public:
  Classes() {
    for (const Provider* provider : providers()) {
      for (const FamilyDeclaration& family : provider->families()) {
        for (const BandClass& each : family.classes) {
          if (number_of(each.name) == rows_.size()) rows_.push_back({each.name, family.kind, each.fitted});
        }
      }
    }
    first_rowwise_ = rows_.size();
    for (const RowwiseRow& row : kRowwiseRows) rows_.push_back({row.name, name(row.pattern)});
    rows_.insert(rows_.end(), kOthers.begin(), kOthers.end());
    for (const ClassOfKernels& row : rows_) parents_.push_back(number_of(row.kind));
    if (rows_.size() > kMostBandClasses) throw Error(ExitCode::our_bug, "more band classes than a step's sum holds");
  }
  std::size_t number_of(std::string_view name) const {
    std::size_t i = 0;
    while (i < rows_.size() && rows_[i].name != name) ++i;
    return i;
  }
  std::size_t size() const { return rows_.size(); }
  const ClassOfKernels& operator[](std::size_t number) const { return rows_[number]; }
  std::size_t parent(std::size_t number) const { return parents_[number]; }
  std::size_t of(RowwiseKind kind) const { return first_rowwise_ + static_cast<std::size_t>(kind); }

 private:
  std::vector<ClassOfKernels> rows_;
  std::vector<std::size_t> parents_;
  std::size_t first_rowwise_ = 0;
};

const Classes& classes() {
  static const Classes all;
  return all;
}

/// Operators that a stream prices; `rowwise` where no class is theirs.
struct OperatorClass {
  std::size_t operator()(const Rowwise& op) const { return classes().of(op.kind); }
  std::size_t operator()(const Rope&) const { return numbers().rope; }
  std::size_t operator()(const Embedding&) const { return numbers().embedding; }
  std::size_t operator()(const EmbeddingBackward&) const { return numbers().embedding_backward; }
  std::size_t operator()(const TopK&) const { return numbers().topk; }
  std::size_t operator()(const SoftmaxTopK&) const { return numbers().softmax_topk; }
  std::size_t operator()(const Scan& op) const {
    if (op.kind == ScanKind::norm_all) return numbers().norm_all;
    return op.kind == ScanKind::sum_all ? numbers().sum_all : numbers().cumsum;
  }
  template <class Other>
  std::size_t operator()(const Other&) const {
    return numbers().rowwise;
  }

 private:
  struct Numbers {
    std::size_t rope = number("rope"), embedding = number("embedding"),
                embedding_backward = number("embedding_backward"), topk = number("topk"),
                softmax_topk = number("softmax_topk"), sum_all = number("sum_all"), cumsum = number("cumsum"),
                norm_all = number("norm_all"), rowwise = number("rowwise");
    static std::size_t number(std::string_view name) { return classes().number_of(name); }
  };
  static const Numbers& numbers() {
    static const Numbers all;
    return all;
  }
};

constexpr std::array<Bound, 4> kBoundKeys{Bound::compute, Bound::memory, Bound::network, Bound::latency};

std::size_t bound_place(Bound bound) {
  const auto at = std::find(kBoundKeys.begin(), kBoundKeys.end(), bound);
  return at == kBoundKeys.end() ? kBoundKeys.size() - 1 : static_cast<std::size_t>(at - kBoundKeys.begin());
}

constexpr std::size_t kAnyBound = kBoundKeys.size(), kAnySize = kBandSizes.size() - 1;

/// The bands on file of one kernel set: by class, size class ("any" last) and bound (any last); null where there is
/// none.
class OnFile {
 public:
  OnFile(const std::map<std::string, Band>& found, std::string_view prefix) {
    for (auto at = found.lower_bound(std::string(prefix)); at != found.end(); ++at) {
      const std::string_view name = at->first;
      if (name.substr(0, prefix.size()) != prefix) break;
      if (at->second.rows > 0) add(name.substr(prefix.size()), at->second);
    }
  }
  const Band* at(std::size_t number, std::size_t size, std::size_t bound = kAnyBound) const {
    return bands_[(number * kBandSizes.size() + size) * (kAnyBound + 1) + bound];
  }
  /// Of the class in that size, else of the next wider one.
  const Band* general(std::size_t number, std::size_t size) const {
    const Band* band = at(number, size);
    for (std::size_t up = number; band == nullptr;) {
      if (up != number || classes().parent(up) == up) band = at(up, kAnySize);
      if (band != nullptr || classes().parent(up) == up) break;
      up = classes().parent(up);
      band = at(up, size);
    }
    return band;
  }

 private:
  /// "gemm.large.memory" or "gemm.large".
  void add(std::string_view name, const Band& band) {
    const std::size_t dot = name.find('.');
    std::string_view rest = name.substr(std::min(dot, name.size() - 1) + 1);
    const std::size_t next = rest.find('.');
    const std::size_t number = classes().number_of(name.substr(0, dot)),
                      size = place_of(kBandSizes, rest.substr(0, next));
    std::size_t bound = kAnyBound;
    if (next != std::string_view::npos) {
      bound = 0;
      while (bound < kBoundKeys.size() && plumbline::name(kBoundKeys[bound]) != rest.substr(next + 1)) ++bound;
    }
    if (number == classes().size() || size == kBandSizes.size()) return;  // a class of another version
    bands_[(number * kBandSizes.size() + size) * (kAnyBound + 1) + bound] = &band;
  }
  template <class Names>
  static std::size_t place_of(const Names& names, std::string_view name) {
    return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
  }
  std::vector<const Band*> bands_ = std::vector<const Band*>(classes().size() * kBandSizes.size() * (kAnyBound + 1));
};

}  // namespace

std::size_t band_size(Seconds time) {
  if (time < 10.0 * units::us) return 0;
  return time < 100.0 * units::us ? 1 : 2;
}

double unknown_share(double roofline_share) {
  constexpr double kClaimed = 0.8;
  return roofline_share < kClaimed ? std::sqrt(1 - std::max(0.0, roofline_share)) : 1;
}

std::string_view band_class_name(std::size_t number) { return classes()[number].name; }
std::size_t band_class_count() { return classes().size(); }
std::size_t band_parent(std::size_t number) { return classes().parent(number); }
bool band_class_is_unfitted(std::size_t number) { return !classes()[number].fitted; }
std::size_t band_class_of_name(std::string_view name) { return classes().number_of(name); }
std::size_t band_class_of_operator(const Op& op) { return std::visit(OperatorClass{}, op); }

BandTable::BandTable(const Calibration& calibration, BandSection section) {
  static_assert(kBounds == kBoundKeys.size());
  bands_.push_back(Band{-0.5, 0.5, 0, 0, ""});
  // A file of measured scalars and no residuals is as good as one taken over.
  const bool own_card = section == BandSection::own_card && !calibration.bands.empty();
  const auto& transfers = calibration.transfer_bands;
  const bool near =
      section != BandSection::far && section != BandSection::never && transfers.lower_bound("near.") != transfers.end();
  const std::string distance = own_card ? "" : near ? "near." : "far.";
  fill(calibration.bands, "own.", own_);
  if (own_card) {
    fill(calibration.bands, "library.", library_);
  } else {
    own_near_ = own_;
    fill_transfers(transfers, distance, near ? "far." : "near.");
    if (section == BandSection::never) widen_to_never(library_, transfers);
    widen(own_, library_);
    widen(own_near_, library_near_);
  }
  const auto correlation = [&](const std::string& key) {
    const auto at = calibration.band_correlation.find(key);
    return at == calibration.band_correlation.end() ? BandCorrelation{} : at->second;
  };
  library_correlation_ = correlation(distance + "library");
  own_correlation_ = own_card ? correlation("own") : library_correlation_;
}

std::vector<bool> BandTable::fill(const std::map<std::string, Band>& found, std::string_view prefix, Cells& cells) {
  cells.assign(classes().size() * kSizes * kBounds, 0);
  std::vector<bool> of_class(cells.size(), false);
  const OnFile on_file(found, prefix);
  std::map<const Band*, std::uint32_t> placed;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::size_t number = i / (kSizes * kBounds), size = i / kBounds % kSizes, bound = i % kBounds;
    const Band* exact = on_file.at(number, size, bound);
    const Band* band = exact != nullptr ? exact : on_file.general(number, size);
    if (band == nullptr) continue;
    of_class[i] = exact != nullptr || on_file.at(number, size) != nullptr;
    const auto [at, is_new] = placed.emplace(band, static_cast<std::uint32_t>(bands_.size()));
    if (is_new) bands_.push_back(*band);
    cells[i] = at->second;
  }
  return of_class;
}

void BandTable::fill_transfers(const std::map<std::string, Band>& found, const std::string& distance,
                               const std::string& other) {
  Cells others;
  const std::vector<bool> here = fill(found, distance + "library.", library_);
  const std::vector<bool> there = fill(found, other + "library.", others);
  library_near_ = library_;
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (distance == "far.") library_near_[i] = there[i] ? others[i] : 0;
    const Band &known = bands_[library_[i]], &of_other = bands_[others[i]];
    const bool less = distance == "far." && (of_other.low < known.low || of_other.high > known.high);
    if (!there[i] || (here[i] && !less)) others[i] = 0;  // nothing to add
  }
  widen(library_, others);
}

/// The hull of both: for our kernels on a card where only the library's were compared, and for a class that was
/// compared at the other distance only. Middle and count are those of `by`.
void BandTable::widen(Cells& cells, const Cells& by) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    Band hull = bands_[by[i]];
    if (hull.rows == 0) continue;
    if (const Band& present = bands_[cells[i]]; present.rows > 0) {
      hull.low = std::min(hull.low, present.low);
      hull.high = std::max(hull.high, present.high);
    }
    cells[i] = static_cast<std::uint32_t>(bands_.size());
    bands_.push_back(std::move(hull));
  }
}

/// The kind's band is for one further card, sqrt(2) of the mean reach of its classes (validate/fit/transfer_bands.cpp).
/// What was measured nowhere is a further class of it as well, and classes of a kind differ more than cards do: 1.4 times
/// as far holds nine rows in ten of most classes of training rows whose generation is left out and never ran them. Where
/// nothing of its kind went over either (linear attention), it is a further kind: half as far again.
void BandTable::widen_to_never(Cells& cells, const std::map<std::string, Band>& found) {
  constexpr double kFurtherClass = 1.4, kFurtherKind = 1.5;
  constexpr std::size_t kOfClass = kSizes * kBounds;
  const OnFile on_file(found, "far.library.");
  Cells kinds(cells.size(), 0);
  std::vector<double> times(classes().size(), kFurtherKind);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::size_t number = i / kOfClass, kind = classes().parent(number);
    if (classes().parent(kind) == kind) continue;
    kinds[i] = cells[kind * kOfClass + i % kOfClass];
    for (std::size_t size = 0; size <= kAnySize; ++size) {
      if (on_file.at(kind, size) != nullptr) times[number] = kFurtherClass;
    }
  }
  widen(cells, kinds);
  scale(cells, times);
  scale(library_near_, times);
}

void BandTable::scale(Cells& cells, const std::vector<double>& times) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    Band band = bands_[cells[i]];
    if (band.rows == 0) continue;
    band.low *= times[i / (kSizes * kBounds)];
    band.high *= times[i / (kSizes * kBounds)];
    cells[i] = static_cast<std::uint32_t>(bands_.size());
    bands_.push_back(std::move(band));
  }
}

std::size_t BandTable::place_of(std::size_t band_class, Seconds predicted, Bound bound) {
  return (band_class * kSizes + band_size(predicted)) * kBounds + bound_place(bound);
}

const Band& BandTable::find(KernelSet kernels, std::size_t band_class, Seconds predicted, Bound bound) const {
  const Cells& cells = kernels == KernelSet::own ? own_ : library_;
  return bands_[cells[place_of(band_class, predicted, bound)]];
}

BandEnds BandTable::ends(KernelSet kernels, std::size_t band_class, Seconds predicted, Bound bound,
                         double roofline_share) const {
  const Band& band = find(kernels, band_class, predicted, bound);
  const Cells& of_near = kernels == KernelSet::own ? own_near_ : library_near_;
  if (of_near.empty() || band.rows == 0) return {band.low, band.high};
  const double share = unknown_share(roofline_share);
  const Band& near = bands_[of_near[place_of(band_class, predicted, bound)]];
  if (near.rows == 0) return {share * band.low, share * band.high};
  return {std::min(near.low, share * band.low), std::max(near.high, share * band.high)};
}

const BandCorrelation& BandTable::correlation(KernelSet kernels) const {
  return kernels == KernelSet::own ? own_correlation_ : library_correlation_;
}

// --- steps ----------------------------------------------------------------------------------------------------------

void StepBandSum::Side::add(std::size_t band_class, double half_width) {
  squares += half_width * half_width;
  sum += half_width;
  of_class[band_class] += half_width;
}

double StepBandSum::Side::half_width(const BandCorrelation& r) const {
  double classes = 0;
  for (const double width : of_class) classes += width * width;
  return std::sqrt((1 - r.same_class) * squares + (r.same_class - r.other_class) * classes + r.other_class * sum * sum);
}

void StepBandSum::add(std::size_t band_class, Seconds time, const Band& band) {
  add(band_class, time, band.low, band.middle, band.high);
}

void StepBandSum::add(std::size_t band_class, Seconds time, double low, double middle, double high) {
  const double s = time.in(units::s), center = std::exp(middle);
  shift_ += s * (center - 1);
  below_.add(band_class, s * (center - std::exp(low)));
  above_.add(band_class, s * (std::exp(high) - center));
}

Seconds StepBandSum::low(Seconds predicted, const BandCorrelation& correlation) const {
  const double below = std::max(0.0, below_.half_width(correlation) - shift_);
  return predicted - std::hypot(below, correlation.card * predicted.in(units::s)) * units::s;
}

Seconds StepBandSum::high(Seconds predicted, const BandCorrelation& correlation) const {
  const double above = std::max(0.0, above_.half_width(correlation) + shift_);
  return predicted + std::hypot(above, correlation.card * predicted.in(units::s)) * units::s;
}

}  // namespace plumbline

#include "model/bands/bands.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <variant>

#include "arch/error.hpp"

namespace plumbline {
namespace {

struct ClassOfKernels {
  std::string_view name, kind;
};

// A kernel family's or an operator's name, and the kind whose kernels work alike (ops/op/shape.hpp, Pattern): what is
// known of one says most about the others.
constexpr auto kFamilies = std::to_array<ClassOfKernels>({
    {"gemm", "matrix"},
    {"gemm_portable", "matrix"},
    {"grouped_gemm", "matrix"},
    {"gemm_8bit", "matrix"},
    {"gemm_ragged", "matrix"},  // our kernels, K no multiple of a step: boxes that reach beyond the operands
    {"gemm_sparse24", "matrix"},
    {"attention_prefill", "attention"},
    {"attention_prefill_alone", "attention"},
    {"attention_decode", "attention"},
    {"attention_decode_single", "attention"},
    {"attention_decode_8bit", "attention"},
    {"mla_decode", "attention"},
    {"flash_prefill", "attention"},
    {"flash_decode", "attention"},
    // the libraries' attention on what its families' scalars were not fitted to (band_class)
    {"attention_prefill_8bit", "attention"},
    {"attention_prefill_fp8", "attention"},
    {"attention_encoder", "attention"},
    {"mla_prefill", "attention"},
    {"flash_prefill_8bit", "attention"},
    {"flash_encoder", "attention"},
    {"attention_decode_single_8bit", "attention"},
    {"attention_decode_wide", "attention"},
    {"attention_decode_short", "attention"},
    {"flash_decode_8bit", "attention"},
    {"flash_decode_wide", "attention"},
    {"flash_decode_short", "attention"},
    {"mla_decode_8bit", "attention"},
});
constexpr std::size_t kFirstUnfitted = 14;  // of them
constexpr auto kOthers = std::to_array<ClassOfKernels>({
    {"rope", "stream"},
    {"embedding", "stream"},
    {"topk", "select_scan"},
    {"softmax_topk", "select_scan"},
    {"sum_all", "select_scan"},
    {"cumsum", "select_scan"},
    {"rowwise", "all"},  // every other operator that is priced as a stream: nothing of its kind was measured
    {"matrix", "all"},
    {"attention", "all"},
    {"stream", "all"},
    {"row_statistics", "all"},
    {"softmax_like", "all"},
    {"select_scan", "all"},
    {"all", "all"},
});

/// Kernel families, each row-wise kind, the other operators, the kinds, all.
constexpr auto all_classes() {
  std::array<ClassOfKernels, kFamilies.size() + kRowwiseRows.size() + kOthers.size()> out{};
  auto end = std::copy(kFamilies.begin(), kFamilies.end(), out.begin());
  for (const RowwiseRow& row : kRowwiseRows) *end++ = {row.name, name(row.pattern)};
  std::copy(kOthers.begin(), kOthers.end(), end);
  return out;
}
constexpr auto kClasses = all_classes();

constexpr std::size_t number_of(std::string_view name) {
  for (std::size_t i = 0; i < kClasses.size(); ++i) {
    if (kClasses[i].name == name) return i;
  }
  return kClasses.size();
}

constexpr std::array<std::size_t, kClasses.size()> parents() {
  std::array<std::size_t, kClasses.size()> out{};
  for (std::size_t i = 0; i < kClasses.size(); ++i) out[i] = number_of(kClasses[i].kind);
  return out;
}
constexpr auto kParents = parents();
constexpr std::size_t kAll = kClasses.size() - 1;

static_assert(kClasses[kAll].name == "all");
static_assert(kFamilies[kFirstUnfitted].name == "attention_prefill_8bit");
static_assert(std::all_of(kRowwiseRows.begin(), kRowwiseRows.end(), [](const RowwiseRow& row) {
  return kClasses[kFamilies.size() + static_cast<std::size_t>(row.kind)].name == row.name;
}));
static_assert(std::all_of(kParents.begin(), kParents.end(), [](std::size_t p) { return p < kClasses.size(); }));

/// Operators that a stream prices; `rowwise` where no class is theirs.
struct RowClass {
  std::size_t operator()(const Rowwise& op) const { return kFamilies.size() + static_cast<std::size_t>(op.kind); }
  std::size_t operator()(const Rope&) const { return number_of("rope"); }
  std::size_t operator()(const Embedding&) const { return number_of("embedding"); }
  std::size_t operator()(const TopK&) const { return number_of("topk"); }
  std::size_t operator()(const SoftmaxTopK&) const { return number_of("softmax_topk"); }
  std::size_t operator()(const Scan& op) const {
    return op.kind == ScanKind::sum_all ? number_of("sum_all") : number_of("cumsum");
  }
  template <class Other>
  std::size_t operator()(const Other&) const {
    return number_of("rowwise");
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
      if (up != number || kParents[up] == up) band = at(up, kAnySize);
      if (band != nullptr || kParents[up] == up) break;
      up = kParents[up];
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
    const std::size_t number = number_of(name.substr(0, dot)), size = place_of(kBandSizes, rest.substr(0, next));
    std::size_t bound = kAnyBound;
    if (next != std::string_view::npos) {
      bound = 0;
      while (bound < kBoundKeys.size() && plumbline::name(kBoundKeys[bound]) != rest.substr(next + 1)) ++bound;
    }
    if (number == kClasses.size() || size == kBandSizes.size()) return;  // a class of another version
    bands_[(number * kBandSizes.size() + size) * (kAnyBound + 1) + bound] = &band;
  }
  template <class Names>
  static std::size_t place_of(const Names& names, std::string_view name) {
    return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
  }
  std::array<const Band*, kClasses.size() * kBandSizes.size() * (kAnyBound + 1)> bands_{};
};

}  // namespace

std::size_t band_size(Seconds time) {
  if (time < 10.0 * units::us) return 0;
  return time < 100.0 * units::us ? 1 : 2;
}

std::string_view band_class_name(std::size_t number) { return kClasses[number].name; }
std::size_t band_class_count() { return kClasses.size(); }
std::size_t band_parent(std::size_t number) { return kParents[number]; }
bool band_class_is_unfitted(std::size_t number) { return number >= kFirstUnfitted && number < kFamilies.size(); }
std::size_t band_class_of_name(std::string_view name) { return number_of(name); }

namespace {

/// The class of a library's attention where its rows are of other kernels, or err in another way, than those that the
/// family was fitted to; "" where they are not. Limits as the fits have them (tools/fit_calibration.sh).
struct AttentionClass {
  bool flash = false, single = false;

  std::string_view operator()(const AttentionPrefill& s) const {
    if (bits(s.dtype) <= 8) return "attention_prefill_fp8";
    if (s.qk_dim != s.v_dim) return "mla_prefill";
    if (!s.causal && s.q_len == s.kv_len) return flash ? "flash_encoder" : "attention_encoder";
    if (bits(s.kv_dtype) <= 8) return flash ? "flash_prefill_8bit" : "attention_prefill_8bit";
    return "";
  }
  std::string_view operator()(const AttentionDecode& s) const {
    constexpr std::int64_t kMostGrouped = 16, kFewKeys = 127;
    if (s.context < kFewKeys) return flash ? "flash_decode_short" : "attention_decode_short";
    if (s.q_heads > kMostGrouped * s.kv_heads) return flash ? "flash_decode_wide" : "attention_decode_wide";
    if (bits(s.kv_dtype) > 8) return "";
    return flash ? "flash_decode_8bit" : single ? "attention_decode_single_8bit" : "attention_decode_8bit";
  }
  std::string_view operator()(const MlaDecode& s) const { return bits(s.kv_dtype) <= 8 ? "mla_decode_8bit" : ""; }
  template <class Other>
  std::string_view operator()(const Other&) const {
    return "";
  }
};

}  // namespace

std::size_t band_class(const Op& op, std::string_view family, BandKernel kernel) {
  if (family == "rowwise") return std::visit(RowClass{}, op);
  if (kernel != BandKernel::plain) {
    const AttentionClass attention{family.rfind("flash", 0) == 0, family == "attention_decode_single"};
    const std::string_view own_class = std::visit(attention, op);
    if (!own_class.empty()) return number_of(own_class);
  }
  if (kernel == BandKernel::library_alone && family == "attention_prefill") return number_of("attention_prefill_alone");
  if (std::holds_alternative<GemmSparse24>(op)) return number_of("gemm_sparse24");
  if (const auto* gemm = std::get_if<Gemm>(&op); gemm != nullptr && (family == "gemm" || family == "gemm_mma")) {
    // other kernels, and scales to apply
    if (gemm->precision.math == DType::fp8 || gemm->precision.math == DType::int8) return number_of("gemm_8bit");
  }
  const std::size_t number = number_of(family == "gemm_mma" ? "gemm" : family);
  return number < kClasses.size() ? number : kAll;
}

BandTable::BandTable(const Calibration& calibration, BandSection section) {
  static_assert(kBounds == kBoundKeys.size() && kClasses.size() <= 80);
  bands_.push_back(Band{-0.5, 0.5, 0, 0, ""});
  // A file of measured scalars and no residuals is as good as one taken over.
  const bool own_card = section == BandSection::own_card && !calibration.bands.empty();
  const auto& transfers = calibration.transfer_bands;
  const bool near = section != BandSection::far && transfers.lower_bound("near.") != transfers.end();
  const std::string distance = own_card ? "" : near ? "near." : "far.";
  if (own_card) {
    fill(calibration.bands, "library.", library_);
    fill(calibration.bands, "own.", own_);
  } else {
    fill_transfers(transfers, distance, near ? "far." : "near.");
    fill(calibration.bands, "own.", own_);
    widen(own_, library_);
  }
  const auto correlation = [&](const std::string& key) {
    const auto at = calibration.band_correlation.find(key);
    return at == calibration.band_correlation.end() ? BandCorrelation{} : at->second;
  };
  library_correlation_ = correlation(distance + "library");
  own_correlation_ = own_card ? correlation("own") : library_correlation_;
}

std::vector<bool> BandTable::fill(const std::map<std::string, Band>& found, std::string_view prefix, Cells& cells) {
  cells.assign(kClasses.size() * kSizes * kBounds, 0);
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
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (here[i] || !there[i]) others[i] = 0;  // nothing to add
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

const Band& BandTable::find(KernelSet kernels, std::size_t band_class, Seconds predicted, Bound bound) const {
  const Cells& cells = kernels == KernelSet::own ? own_ : library_;
  return bands_[cells[(band_class * kSizes + band_size(predicted)) * kBounds + bound_place(bound)]];
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
  const double s = time.in(units::s), middle = std::exp(band.middle);
  shift_ += s * (middle - 1);
  below_.add(band_class, s * (middle - std::exp(band.low)));
  above_.add(band_class, s * (std::exp(band.high) - middle));
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

// Error bands: which class of operators a prediction belongs to, what the residuals of that class say, and how the
// bands of a step's operators add up.
//
// A class is a kernel's, as its provider declares it (model/stacks/provider.hpp): "gemm", "attention_decode"; or, of
// kernels that stream, an operator's: "softmax". Classes of like kernels form a kind ("stream" reads and
// writes once, "softmax_like" waits for a row's statistics, ...), and all of a kernel set "all". A prediction takes the
// first of these that is on file, in this order:
//
//   class, size class and bound -> class and size class -> kind and size class -> kind, any size -> all, size class ->
//   all, any size
//
// The fit (validate/fit/fit_bands.hpp) writes quantiles for a class that has enough rows of its own; one with fewer
// takes the next in that order, widened to hold its own rows.
//
// Sections of a calibration: `bands` for the card itself; `transfer_bands` for a card that takes the scalars over
// ("near": same compute capability, "far": another) and, as "near", for the card itself when its descriptor was
// changed. These hold the residuals of every measured card priced with every other card's scalars, as nobody knows
// which way a further card will be off. A class that one of the two distances knows nothing of takes the hull of its
// wider class there and of the same class at the other, and a card of another generation is in no class less
// uncertain than one of the same. Such a band goes as far to either side, since which way a further card is off
// nobody knows. What was measured on no card is nowhere narrower than its kind, and wider by a further draw. A
// kernel set of ours has been measured on no other card: there it takes the hull of its own band and the library's
// transfer band.
//
// What another generation's rows say is scaled by how much of the predicted time is the roofline (unknown_share()).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "arch/calibration/calibration.hpp"
#include "arch/units.hpp"
#include "model/types.hpp"
#include "ops/shape/shapes.hpp"

namespace plumbline {

inline constexpr std::array<std::string_view, 4> kBandSizes{"10us", "100us", "large", "any"};

/// Index of kBandSizes: below 10 us, 10-100 us, from 100 us.
std::size_t band_size(Seconds predicted);

/// Names by number: first the classes, then the kinds, last "all".
std::string_view band_class_name(std::size_t number);
std::size_t band_class_count();
inline constexpr std::size_t kMostBandClasses = 160;  ///< no more of them fit in a step's sum
/// Number of the class's kind, of a kind "all"; of "all" itself.
std::size_t band_parent(std::size_t number);
/// Whether no family's scalars are fitted to rows of the class, so that its residuals are out of sample as they are.
bool band_class_is_unfitted(std::size_t number);
/// Number of the class that `name` says; band_class_count() when there is none.
std::size_t band_class_of_name(std::string_view name);
/// Class of an operator whose kernels have none of their own: the operator's name, "rowwise" where that is no class.
std::size_t band_class_of_operator(const Op& op);

/// How much of the error of a kernel without a roofline one is left where the roofline takes that share of the predicted
/// time, on a card of another generation. The data sheet says the roofline, scalars of another card the rest, so that the
/// variance is the rest's part. Of one class and generation nine training rows in ten reach 0.89, 0.68 and 0.52 times as
/// far where the share is 0.2-0.4, 0.4-0.6 and 0.6-0.8 as below 0.2 (means of logarithms over 24, 22 and 12 classes); this
/// says 0.88, 0.75 and 0.58. From a share of 0.8 on nothing is taken off: few kernels come as near to what none passes, and
/// that another card's do is itself taken over (Hopper's products by an A100's scalars are 22 % slower in the median there).
double unknown_share(double roofline_share);

/// The ends of a band for one prediction.
struct BandEnds {
  double low = 0, high = 0;
};

/// Where a machine's bands come from. `never`: of kernels that were measured on no card, or in no such format: those of
/// another generation, nowhere narrower than their kind's, 1.4 times as wide (1.5 where nothing of their kind went over
/// either): a further kernel on a further card.
enum class BandSection { own_card, near, far, never };

/// The bands of one machine, every class resolved.
class BandTable {
 public:
  BandTable() = default;
  BandTable(const Calibration& calibration, BandSection section);

  /// Never null; a band of 0 rows is a factor of e^0.5 either way, where nothing of the kind was ever measured. It
  /// lives in the table.
  const Band& find(KernelSet kernels, std::size_t band_class, Seconds predicted, Bound bound) const;
  /// Of find()'s band: what is of another generation narrowed by unknown_share(), never below what is of the same or of
  /// the kernels themselves.
  BandEnds ends(KernelSet kernels, std::size_t band_class, Seconds predicted, Bound bound, double roofline_share) const;
  const BandCorrelation& correlation(KernelSet kernels) const;

 private:
  static constexpr std::size_t kSizes = 3, kBounds = 4;
  using Cells = std::vector<std::uint32_t>;  // per class, size, bound: a place in bands_
  /// Returns which cells say something of their class itself.
  std::vector<bool> fill(const std::map<std::string, Band>& found, std::string_view prefix, Cells& cells);
  void fill_transfers(const std::map<std::string, Band>& found, const std::string& distance, const std::string& other);
  void widen(Cells& cells, const Cells& by);
  void widen_to_never(Cells& cells, const std::map<std::string, Band>& found);
  void scale(Cells& cells, const std::vector<double>& times);  // by class
  static std::size_t place_of(std::size_t band_class, Seconds predicted, Bound bound);
  std::vector<Band> bands_;
  Cells own_, library_;
  Cells own_near_, library_near_;  // the part of each that is of no other generation; empty where all of it is
  BandCorrelation own_correlation_, library_correlation_;
};

/// The band of a sum of operators. Executions of one operator err together (same kernel, same shape). Of different
/// operators the middles add; half-widths w add as those of correlated quantities do,
///
///   W^2 = sum_ij r_ij w_i w_j,  r = 1 (the same operator), same_class or other_class
///
/// below and above on their own: exact where errors are normal, and always between the root of the summed squares
/// (independent errors) and the plain sum (one common error). One operator gets its own band. As for one operator the
/// predicted time is inside, by widening. What the card itself adds (BandCorrelation::card) is independent of both
/// sides.
class StepBandSum {
 public:
  /// `time`: of all executions of one operator.
  void add(std::size_t band_class, Seconds time, const Band& band);
  void add(std::size_t band_class, Seconds time, double low, double middle, double high);
  Seconds low(Seconds predicted, const BandCorrelation& correlation) const;
  Seconds high(Seconds predicted, const BandCorrelation& correlation) const;

 private:
  struct Side {
    double squares = 0, sum = 0;
    std::array<double, kMostBandClasses> of_class{};
    void add(std::size_t band_class, double half_width);
    double half_width(const BandCorrelation& correlation) const;
  };
  Side below_, above_;
  double shift_ = 0;  // of the middle from the predicted time, seconds
};

}  // namespace plumbline

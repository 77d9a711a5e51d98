// The measured scalars of a GPU and of the kernel families that run on it, and where each came from.
//
// Four kinds of number live in data/calibration/<gpu>.json:
//  - machine scalars (`machine`): fractions of datasheet peaks and fixed times that belong to the card;
//  - family scalars (`families.<kernel set>.<family>`): at most a handful per kernel family, fitted on training
//    rows by `validate fit`, never per shape;
//  - power scalars (`power`): energies of operations, voltage over clock, what data changes;
//  - error bands (`bands`, `transfer_bands`, `band_correlation`): residual quantiles by kernel set, class of operators,
//    size class and bound, and how far they agree with each other (model/bands/bands.hpp); with the classes and number
//    formats that were measured at all (`measured`).
// A GPU without a file of its own reads the one its descriptor names in `calibration`, as fractions, with wider bands.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arch/units.hpp"

namespace plumbline {

enum class KernelSet { own, library, ideal };

/// In place of a number format, where operators move bytes of any type.
inline constexpr std::string_view kAnyFormat = "any";

/// Quantiles of ln(measured / predicted) of rows that the prediction had not been fitted to: 5 %, 95 % and the median.
struct Band {
  double low = 0, high = 0;
  long rows = 0;         ///< measured rows behind it
  double middle = 0;     ///< low <= middle <= high
  std::string pooled{};  ///< the wider class whose rows these are, where the class has too few of its own; else empty
};

/// How far residuals of two operators of a step agree, each in units of its band: a correlation; 1 means they err
/// together. Never smaller for operators of the same class.
struct BandCorrelation {
  double same_class = 1, other_class = 1;
  long rows = 0;
  /// Half-width, as a share of a step's time, of what all operators of a step have in common beside their bands: one
  /// card of a kind is not another.
  double card = 0;
};

/// A named scalar with its provenance. `value` is SI or a ratio; the name ends in its unit ("launch_s").
struct Scalar {
  double value = 0;
  std::string source;
  /// Relative (root mean square) misfit of the records behind it, and how many they are; nothing for a number that was
  /// not fitted to several.
  std::optional<double> residual = std::nullopt;
  long rows = 0;
};

struct Calibration {
  std::string gpu;         ///< whose numbers these are
  bool inherited = false;  ///< true when they were taken over from another GPU
  /// Whose families and bands these are, where the card's own machine scalars were measured but its kernels were not;
  /// empty: its own. Bands are widened then as for an inherited calibration.
  std::string families_of;
  std::string note;                               ///< one line for people
  std::map<std::string, std::string> conditions;  ///< of measuring: card, driver, clocks, temperature, date
  std::map<std::string, Scalar> machine;
  /// Energies, voltage and what data does to them (model/engine/power.hpp); empty where nothing was measured.
  std::map<std::string, Scalar> power;
  /// "library.gemm" -> "fixed_s" -> scalar
  std::map<std::string, std::map<std::string, Scalar>> families;
  /// "library.gemm.100us", "library.gemm.100us.memory" -> band (size classes: "10us" below 10, "100us" 10-100, "large"
  /// from 100 us predicted, "any")
  std::map<std::string, Band> bands;
  /// The same for cards that take these scalars over, found on measured ones: "near.library.gemm.100us" where the card
  /// is of the same generation, "far...." where it is not.
  std::map<std::string, Band> transfer_bands;
  /// Number formats of the rows behind the bands, by kernel set and class: "library.gemm" -> "bf16", "fp16"; on other
  /// cards "near.library.gemm", "far...." as in transfer_bands. What is in no list was never measured.
  std::map<std::string, std::vector<std::string>> measured;
  /// "own", "library", "near.library", "far.library" -> correlation
  std::map<std::string, BandCorrelation> band_correlation;
};

/// The calibration of `gpu_name`, or of `fallback` marked as inherited. Throws BadInput when neither can be read.
Calibration load_calibration(const std::string& gpu_name, const std::string& fallback);
/// The GPU's calibration, or the one in `file` if that is not empty: marked as inherited when it is of another GPU on
/// file. Throws BadInput for a file of a GPU that is neither `gpu` nor on file.
struct Gpu;
Calibration calibration_for(const Gpu& gpu, const std::string& file);
Calibration parse_calibration(const std::string& json_text, const std::string& place);
/// JSON text that `parse_calibration` reads back.
std::string to_json(const Calibration& calibration);

}  // namespace plumbline

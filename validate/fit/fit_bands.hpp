// Error bands from measured rows: what a prediction of a class of operators may be off by (model/bands/bands.hpp).
//
// Bands of the card whose calibration it is come from rows of that card. Scalars that were fitted to rows are fitted
// again without each fifth of the shapes (shapes that differ in length or batch alone stay together), and a row's
// residual takes the change that this makes to its prediction: no row is judged by scalars that saw it. Quantiles are those
// of split conformal prediction: the order statistics between which a further row of the class falls with at least 90 %
// chance, whatever the distribution (Lei et al., JASA 113, 2018); further out where groups of shapes that are left out
// would lie inside less often.
//
// Transfer bands come from the rows of every card, priced with every other card's scalars as if its own had not been
// measured; they go by class and size, of another generation by the roofline's share of the time as well (unknown_share()),
// as far to either side. A card errs as a card, so that not rows are counted but cards (near) or generations (far): each
// says how far nine in ten of its rows reach, a class's band is the mean of those and of its kind's, which counts as one
// more (near: a tenth of one, and every class as 0.15), widened as a further card is a further draw.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "arch/calibration/calibration.hpp"
#include "arch/gpu/gpu.hpp"
#include "model/bands/bands.hpp"
#include "validate/fit/band_rows.hpp"

namespace plumbline {

/// Fewer values than this have no value outside their 90 % interval: both tails need 0.05 (n + 1) >= 1.
inline constexpr std::size_t kRowsForBand = 19;

/// Band of `values` (not empty); fewer than kRowsForBand give their whole range. `weights`: none, or one a value; they
/// count as (sum w)^2 / sum w^2 values, and the further one as one of those. `share_outside`: beyond either end.
Band residual_band(const std::vector<double>& values, const std::vector<double>& weights = {},
                   double share_outside = 0.05);

/// One row's ln(measured / predicted) and what it is grouped by.
struct BandResidual {
  KernelSet kernels = KernelSet::library;
  BandSection section = BandSection::own_card;
  std::size_t band_class = 0, size = 0;
  Bound bound = Bound::latency;
  double value = 0;
  double roofline_share = 0;     ///< of the predicted time
  std::string format;            ///< of numbers: "bf16", "w4a16"
  std::string stack;             ///< who measured; those with enough rows count equally
  std::string group;             ///< operator and shape without what varies from call to call: rows of one err alike
  std::string card, generation;  ///< of the row, on other cards: what is left out to judge a band
  bool in_sample = false;  ///< by scalars of another card's file that were fitted to this card's rows (fitted_on())
  bool alike = false;      ///< by scalars of other kernels, as the other card's file has none of these
  std::string context;     ///< what a step's operators have in common: card, stack, clock, cache state, tokens
};

/// In units of its band: what another generation's band is narrowed by where the roofline says part of the time, a
/// residual is widened by.
double in_units_of_band(const BandResidual& r);

struct BandFitOptions {
  int folds = 5;
  std::size_t threads = 2;
};

struct BandFit {
  Calibration calibration;  ///< the one given, with bands in place of those it had
  std::vector<BandResidual> residuals;
  std::size_t refitted = 0;  ///< scalars that were fitted again without each fold
  std::size_t not_modelled = 0;
};

/// Whether a scalar of the family was fitted to rows of that card, or taken over from its file: so its source says. What such
/// scalars predict for the card is no transfer.
bool fitted_on(const Calibration& calibration, KernelSet kernels, std::string_view family, const std::string& card);

/// `rows`: training rows of any cards; `donors`: calibrations of all cards that have one, the given one among them.
/// Throws BadInput when no row is of `gpu`.
BandFit fit_bands(const Gpu& gpu, const Calibration& calibration, const std::vector<Calibration>& donors,
                  const std::vector<BandRow>& rows, const BandFitOptions& options = {});

/// Bands of one kernel set and section, by key without its distance ("library.gemm.large.memory").
std::map<std::string, Band> bands_of(const std::vector<BandResidual>& residuals, KernelSet kernels,
                                     BandSection section);

/// How the residuals of one kernel set and section hang together: over pairs of rows of one context, the mean product
/// of residuals from the middle of their bands in units of the half-width, over their mean square.
BandCorrelation correlation_of(const std::vector<BandResidual>& residuals, const std::map<std::string, Band>& bands,
                               KernelSet kernels, BandSection section);

/// Residuals of every card's rows with every other card's scalars, as if its own had not been measured.
std::vector<BandResidual> transfer_residuals(const std::vector<Calibration>& donors, const std::vector<BandRow>& rows,
                                             std::size_t threads);

/// How many held-out rows lie in their bands, each card with the calibration that a user would get.
struct Coverage {
  std::string gpu;
  KernelSet kernels = KernelSet::library;
  std::string band_class, provenance;
  long rows = 0, inside = 0;
  long shapes = 0;  ///< different ones: rows of one shape (other stacks, clocks, cache states) err alike
  std::vector<double> half_widths{};  ///< of ln(measured / predicted), one a row of an operator
  double share() const { return static_cast<double>(inside) / static_cast<double>(rows); }
};
/// Held-out rows in bands of one distance, by class.
struct DistanceCoverage {
  std::string band_class;
  long rows = 0, inside = 0;
  std::vector<double> half_widths;  ///< of ln(measured / predicted), one a row
  void add(double half_width, bool is_inside);
};
/// Of each card (near) or generation (far) in turn, its held-out rows in bands that none of its rows was behind. Rows
/// that the scalars were fitted to are no transfer. Cards of one generation share scalars as one chip, so that among
/// them such rows count all the same, but not those of a class that no other card ran: of these nothing was left out.
std::vector<DistanceCoverage> left_out_coverage(const std::vector<BandResidual>& train,
                                                const std::vector<BandResidual>& heldout, BandSection section);
/// The table of `coverage --by-distance`: class and distance, rows, in band %, median half-width. `here`: held-out rows
/// in the bands that a user gets.
std::string distance_report(const std::vector<Coverage>& here, const std::vector<DistanceCoverage>& near,
                            const std::vector<DistanceCoverage>& far);

/// "N=4096;K=4096": the shape without what varies from call to call (batch, tokens, lengths).
std::string shape_group(const Op& op);

/// By card, kernel set, class and provenance. `calibration_file`: in place of its own, of the card that it names.
std::vector<Coverage> coverage_of(const std::vector<BandRow>& rows, const std::string& calibration_file = {});

/// The least and the most of `count` that the central 99 % of a binomial distribution of chance 0.9 hold.
struct CountRange {
  long least = 0, most = 0;
};
CountRange binomial_range(long count, double chance, double inside);

std::string band_report(const BandFit& fit);
std::string coverage_report(const std::vector<Coverage>& coverage);
/// One line or one object a class, fractions; with the range of 99 % of chance at 90 %.
std::string coverage_csv(const std::vector<Coverage>& coverage);
std::string coverage_json(const std::vector<Coverage>& coverage);

}  // namespace plumbline

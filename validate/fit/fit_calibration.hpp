// Scalars of a calibration fitted to measured rows through the engine. (A few scalars a kernel family, never
// a shape.) Error bands are found afterwards, on all classes at once: fit_bands.hpp.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "arch/calibration/calibration.hpp"
#include "arch/gpu/gpu.hpp"
#include "model/predict.hpp"
#include "validate/compare/compare.hpp"
#include "validate/fit/fit.hpp"
#include "validate/record/measurement.hpp"

namespace plumbline {

/// A scalar to fit: "name" or "name=START" or "name=START:LOW:HIGH". A plain name is one of the family, "machine.name"
/// one of the card, "second.name" one of another family of the same kernel set.
struct FreeScalar {
  std::string name;
  double start = 0, low = 0, high = 0;  ///< 0: not given
};
FreeScalar parse_free_scalar(const std::string& text);

struct CalibrationFitOptions {
  KernelSet kernels = KernelSet::library;
  std::string family;              ///< "gemm"
  std::vector<FreeScalar> free;    ///< empty: every scalar that the family has
  std::optional<ClockMode> clock;  ///< empty: each row's own
  Seconds at_least;                ///< shorter rows are not trained on
  bool balance = true;             ///< each size class counts equally
  std::string source;              ///< what the rows are, for the provenance text
  std::string date;                ///< of the fit, likewise
  std::size_t threads = 2;
};

struct FittedScalar {
  std::string name;
  double before = 0, after = 0;
  bool at_bound = false;
};

struct FittedClass {
  SizeClass size = SizeClass::all;
  long rows = 0;
  double median_before = 0, median_after = 0, bias_after = 0;  ///< of ln(predicted / measured)
};

struct CalibrationFit {
  Calibration calibration;  ///< `start` with the fitted scalars in it
  std::vector<FittedScalar> scalars;
  std::vector<FittedClass> classes;
  FitResult result;
  long trained = 0, not_modelled = 0;
};

/// Throws BadInput when a free scalar is unknown and no start is given, or when too few rows are left.
CalibrationFit fit_calibration(const Gpu& gpu, const Calibration& start, const std::vector<Measurement>& rows,
                               const CalibrationFitOptions& options);

/// Weights that make every size class that occurs count the same, or all 1.
std::vector<double> size_weights(const std::vector<Seconds>& measured, bool balance);

/// What the fit did, in lines for people.
std::string fit_report(const CalibrationFit& fit);

}  // namespace plumbline

// Predictions beside measurements, by class of operator: how far off, which way, how often inside the stated band, and
// the same for the datasheet roofline. Pure functions; the engine is in pricing.hpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arch/units.hpp"

namespace plumbline {

/// By measured time: below 10 us, 10 to 100 us, 100 us and more. `all` is for rows that sum over classes.
enum class SizeClass { small, middle, large, all };
SizeClass size_class(Seconds measured);
/// "<10us", "10-100us", ">=100us", "all".
std::string_view name(SizeClass size);

/// One measured row and what was predicted for it. With an `error` the row was not modelled and has no prediction.
struct Comparison {
  std::string gpu, op, dtype, shape;
  std::string mode;   ///< "cold burst", "warm burst", "cold steady"; empty where a file does not say
  std::string place;  ///< "file.csv:17"
  Seconds measured, predicted, low, high, roofline;
  std::optional<Watts> measured_power, predicted_power;
  std::optional<Seconds> library;  ///< the vendor library's kernel on the same shape, measured the same way
  bool representative = true;      ///< false: the kernel is below what is demanded of it
  std::string limiter, provenance;
  std::string error;

  bool modelled() const { return error.empty(); }
  /// ln(predicted / measured): 0.1 is 10 % too slow a prediction, -0.1 as much too fast.
  double log_ratio() const;
};

/// Errors are natural logarithms of predicted / measured, so that twice and half count the same.
struct ClassSummary {
  std::string gpu, op, dtype, mode;
  SizeClass size = SizeClass::all;
  long count = 0;
  double mape = 0;          ///< mean of |predicted - measured| / measured
  double median_error = 0;  ///< median of |ln(predicted / measured)|
  double p90_error = 0;     ///< its 90th percentile
  double mean_bias = 0;     ///< mean of ln(predicted / measured)
  double median_bias = 0;
  double within_band = 0;  ///< share of rows with low <= measured <= high
  std::optional<double> spearman;
  double roofline_median_error = 0;  ///< median of |ln(roofline / measured)|
  double roofline_median_bias = 0;
  double roofline_mape = 0;
  long library_count = 0;    ///< rows that have the library's time beside them
  double library_ratio = 0;  ///< geometric mean of library time / measured time: 1 is as fast as the library
  long unrepresentative = 0;
  Comparison worst;      ///< largest |ln(predicted / measured)|
  long power_count = 0;  ///< rows with both powers
  double power_median_error = 0;
};

/// The statistics of one set of modelled rows (not empty); names and size are left to the caller.
ClassSummary summarize_class(const std::vector<const Comparison*>& rows);

/// One summary per GPU, op, dtype, mode and size class that occurs, in that order, then for each GPU and op with more
/// than one of them an "all" row. Rows that were not modelled are left out.
std::vector<ClassSummary> summarize(const std::vector<Comparison>& rows);

/// The first class (not "all" row) whose median error is above `limit`, or null.
const ClassSummary* worse_than(const std::vector<ClassSummary>& classes, double limit);

}  // namespace plumbline

// Robust fit of a few positive scalars to measured times. Knows no operator and no GPU: a function predicts.
//
// What is minimized is sum of w_i rho(r_i), r_i = ln(predicted_i / measured_i), rho the absolute value rounded off
// below `absolute_from` (Huber's function), because reports give medians: a few rows from another kernel must not bend
// the rest. Each step solves the least squares with weights w_i / max(|r_i|, absolute_from), which lies above rho and
// touches it at the present r (Lange, Hunter, Yang: Optimization transfer, J. Comput. Graph. Stat. 9, 2000), damped as
// by Levenberg (1944) and Marquardt (1963), in the logarithms of the scalars, inside their bounds.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace plumbline {

struct FitParameter {
  std::string name;
  double start = 1, low = 0, high = 0;  ///< 0 < low <= start <= high
};

/// Predicted seconds of the rows numbered `rows` under `values` (one a parameter), into `predicted_s` (same length).
/// Must be deterministic.
using FitPredictor = std::function<void(const std::vector<double>& values, const std::vector<std::size_t>& rows,
                                        std::vector<double>& predicted_s)>;

struct FitProblem {
  std::vector<FitParameter> parameters;
  std::vector<double> measured_s;  ///< > 0, by row number
  std::vector<double> weights;     ///< > 0, by row number
  FitPredictor predict;
};

struct FitOptions {
  int max_steps = 40;
  double absolute_from = 0.01;  ///< |r| from which the loss grows linearly
  double difference = 2e-3;     ///< step of the central differences, in ln(parameter)
  double tolerance = 1e-6;      ///< stop when the loss falls by less than this part of it
  bool polished = true;         ///< scalars varied one by one where steps end, and once more from there
};

struct FitResult {
  std::vector<double> values;         ///< one a parameter
  std::vector<std::size_t> at_bound;  ///< numbers of parameters that ended on a bound: their value is not determined
  double loss_before = 0, loss_after = 0;
  double median_before = 0, median_after = 0;  ///< of |ln(predicted / measured)|, unweighted
  int steps = 0;
};

/// Throws BadInput when there are fewer rows than parameters or a start is outside its bounds.
FitResult fit(const FitProblem& problem, const std::vector<std::size_t>& rows, const FitOptions& options = {});

/// ln(measured / predicted) of every row in `rows`, each predicted by a fit that did not see its fold. Rows of `rows`
/// that are not in `trained` are only predicted. `fold_of` is by row number.
/// The fits start from `start` (the values of a fit of all rows: folds differ little from it).
std::vector<double> cross_validated_residuals(const FitProblem& problem, const std::vector<std::size_t>& rows,
                                              const std::vector<bool>& trained, const std::vector<int>& fold_of,
                                              int folds, const std::vector<double>& start,
                                              const FitOptions& options = {});

/// Deals rows to folds by a hash of their text, so that folds are equally large, do not follow the order of the file,
/// and equal texts (the same shape measured twice) fall together.
std::vector<int> deal_folds(const std::vector<std::string>& texts, int folds);

}  // namespace plumbline

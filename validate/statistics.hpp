// Order statistics and rank correlation as free functions on vectors.
#pragma once

#include <optional>
#include <vector>

namespace plumbline {

/// The q-quantile, linear between order statistics (type 7 of Hyndman and Fan, The American Statistician 50(4), 1996).
/// `values` is not empty, q in [0, 1].
double quantile(std::vector<double> values, double q);
double median(std::vector<double> values);
/// `values` is not empty.
double mean(const std::vector<double>& values);
/// Root of the mean square; 0 of none.
double rms(const std::vector<double>& values);

/// Ranks from 1; equal values share the mean of their ranks.
std::vector<double> ranks(const std::vector<double>& values);

/// Spearman's rank correlation: Pearson's on the ranks, so that ties are right. Nothing for fewer than three pairs or
/// when one side does not vary.
std::optional<double> spearman(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace plumbline

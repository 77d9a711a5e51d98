// Cells that residuals fall into: a class of kernels (or a kind of them, or all), a size, perhaps what binds.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "arch/calibration/calibration.hpp"
#include "model/types.hpp"
#include "validate/fit/fit_bands.hpp"

namespace plumbline {

inline constexpr double kBandTail = 0.05;  ///< beyond either end of a band
inline constexpr std::size_t kAnyBandSize = kBandSizes.size() - 1;
inline constexpr int kAnyBandBound = -1;

/// Residuals of one cell, with who measured them and of which shapes.
struct BandCell {
  std::vector<double> values;
  std::vector<std::string> stacks, groups;
  double in_sample = 0;  ///< rows that the scalars were fitted to; none of a class that no family is fitted to
  void add(const BandResidual& r);
};

/// Stacks with enough rows for a band count equally; a row of a smaller one counts as one of the largest stack.
std::vector<double> stack_weights(const std::vector<std::string>& stacks);

/// Class (or kind, or "all"), size class, bound.
struct BandCellKey {
  std::size_t number = 0, size = 0;
  int bound = kAnyBandBound;
  auto operator<=>(const BandCellKey&) const = default;
};

/// As in a calibration: "library.gemm.large.memory".
std::string text_of(KernelSet kernels, const BandCellKey& key);

/// Bands of other cards, from residuals of one distance (near or far).
std::map<std::string, Band> transfer_bands(const std::vector<BandResidual>& residuals, KernelSet kernels,
                                           BandSection section);

}  // namespace plumbline

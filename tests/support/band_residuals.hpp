// Residuals for tests of how bands are found from them.
#pragma once

#include <string>
#include <vector>

#include "validate/fit/fit_bands.hpp"

namespace plumbline::band_residuals {

inline BandResidual residual(const char* band_class, std::size_t size, double value, const std::string& context = "") {
  BandResidual r;
  r.kernels = KernelSet::own;
  r.band_class = band_class_of_name(band_class);
  r.size = size;
  r.bound = Bound::memory;
  r.value = value;
  r.context = context;
  return r;
}

inline std::vector<BandResidual> rows_of_card(const char* band_class, const char* card, double value, int count) {
  std::vector<BandResidual> rows;
  for (int i = 0; i < count; ++i) {
    rows.push_back(residual(band_class, 2, i % 2 == 0 ? value : -value));
    rows.back().kernels = KernelSet::library;
    rows.back().section = BandSection::near;
    rows.back().card = rows.back().generation = card;
    rows.back().stack = card;
  }
  return rows;
}

inline void append(std::vector<BandResidual>& to, const std::vector<BandResidual>& rows) {
  to.insert(to.end(), rows.begin(), rows.end());
}

}  // namespace plumbline::band_residuals

// The comparison as text, JSON or CSV, and the rows behind it: one writer a format.
#pragma once

#include <string>
#include <vector>

#include "validate/compare/compare.hpp"
#include "validate/record/measurement.hpp"

namespace plumbline {

struct ValidationReport {
  std::vector<std::string> files;
  std::string kernels;  ///< "own", "library", "ideal"
  std::string clock;    ///< "burst", "steady" or "as measured"
  std::vector<ClassSummary> classes;
  std::vector<std::string> assumptions;
  long compared = 0, bad = 0, not_modelled = 0, filtered = 0, other_gpu = 0;
  long not_measured = 0;  ///< cases of a recording that have a fault instead of a time
};

/// Aligned columns; errors in percent as 100 x |ln(predicted / measured)|.
std::string table_report(const ValidationReport& report);
/// Schema "plumbline.validate.v1": SI units, errors as natural logarithms, shares as fractions.
std::string json_report(const ValidationReport& report);
/// One line a class, the JSON's figures.
std::string csv_report(const ValidationReport& report);

/// Every measured row with its prediction, to find out what is wrong. `rows` is parallel to `measured`.
std::string csv_rows(const std::vector<Measurement>& measured, const std::vector<Comparison>& rows);

}  // namespace plumbline

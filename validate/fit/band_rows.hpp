// The measured rows that error bands are found on and checked on: data/studies/bands.json.
#pragma once

#include <string>
#include <vector>

#include "model/predict.hpp"
#include "validate/record/measurement.hpp"
#include "validate/record/row_filter.hpp"

namespace plumbline {

/// One file of rows. Either a recording, whose cases are on the side that validate/record/held_out.hpp says, or
/// `<rows>.train.csv` with `<rows>.heldout.csv` beside it; both are below data/measurements.
struct BandSource {
  std::string gpu;
  KernelSet kernels = KernelSet::library;
  std::string recording, rows;
  std::vector<RowFilter> where;
  Seconds at_least;  ///< shorter rows are left out
};
std::vector<BandSource> parse_band_sources(const std::string& json_text, const std::string& place);

/// Whole steps (`steps` of the list): a recording of our own kernels, or published rows in `<rows>.train.csv` with
/// `<rows>.heldout.csv` beside it.
struct StepSource {
  std::string gpu, recording, rows;  ///< paths, one of which is empty
};
std::vector<StepSource> parse_step_sources(const std::string& json_text, const std::string& place);

struct BandRow {
  Measurement measured;
  std::string gpu;  ///< short name of the descriptor
  KernelSet kernels = KernelSet::library;
};

enum class Half { train, heldout };

struct BandRows {
  std::vector<BandRow> rows;
  std::vector<std::string> refused;  ///< held-out rows of training files, each with its place and the rule
};

/// The rows of all sources; cases on data other than standard normal are left out. Throws BadInput for a row that
/// cannot be read and for a row of a held-out file that the rule calls a training row.
BandRows read_band_rows(const std::vector<BandSource>& sources, Half half);

}  // namespace plumbline

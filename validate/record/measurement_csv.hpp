// Measured operator times read from a CSV: the ops CSV of the contract (`op,dtype,shape`) plus `measured_us`, and
// optionally `measured_W`, `board_MHz`, `gpu`, `clock`, `stack`, `kernel`, `scope`, `id`, `data`, `cache`, `plan`,
// `held_out`. Other columns are ignored, but rows may be chosen by any column.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "validate/record/measurement.hpp"
#include "validate/record/row_filter.hpp"

namespace plumbline {

struct Measurements {
  std::vector<Measurement> rows;
  std::vector<std::string> bad;  ///< one message a row that could not be read, each with its line
  long filtered = 0;             ///< rows that the filters left out
};

/// Appends the rows of a file (`place` is its name). A bad row becomes a message; a file without a column that is
/// needed, or with a filter on a column that it does not have, throws BadInput.
void read_measurements(std::string_view csv, const std::string& place, const std::vector<RowFilter>& where,
                       Measurements& into);
/// The same from disk, with how the source timed its rows (validate/record/protocol.hpp).
void read_measurement_file(const std::string& file, const std::vector<RowFilter>& where, Measurements& into);

}  // namespace plumbline

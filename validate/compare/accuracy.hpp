// The accuracy that the README states, from committed measurements alone: a list of held-out sets (file, card, kernels,
// filters), each operator of a set summarized and held against the worst median error that is allowed of it. One list
// for the README's table and for the gate in the tests, so that neither can say what the other does not hold.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/predict.hpp"
#include "validate/compare/compare.hpp"
#include "validate/record/row_filter.hpp"

namespace plumbline {

/// One set of measurements. A `.csv` holds anyone's rows (`validate compare`), a `.json` a recording (`validate replay`).
struct AccuracySet {
  std::string label;  ///< who measured it, how: "TensorRT-LLM"
  std::string file;   ///< below the data folder
  std::string gpu;    ///< descriptor's short name
  KernelSet kernels = KernelSet::library;
  std::vector<RowFilter> where;
  std::vector<std::string> filters;  ///< `where` as it is written
  Seconds at_least;
  std::optional<Seconds> below;
  /// No training row is of this kind: neither a scalar nor a band was found on any.
  bool never_measured = false;
  /// Operator, and the median of |ln(predicted / measured)| that it may have at most, as a fraction. An operator that
  /// is not named is left out of the set; "all" are the rows of all of them together.
  std::vector<std::pair<std::string, double>> ceilings;
};

/// Reads "plumbline.accuracy.v1". Throws BadInput: unknown keys, operators and kernel sets, ceilings that are no
/// percentages above 0.
std::vector<AccuracySet> read_accuracy_sets(const std::string& path);

/// One operator of one set.
struct AccuracyRow {
  std::string label;
  KernelSet kernels = KernelSet::library;
  ClassSummary summary;
  double ceiling = 0;
  std::string kept;  ///< what the set's filters leave of its file: "dtype=bf16, S>=127, >= 10 us"; "" for all of it
  bool holds() const { return summary.median_error <= ceiling; }
};

/// In the order of the list. Throws BadInput when a file is missing, has rows that can't be read or modelled, or when
/// an operator of a set has no row: a gate that lost its rows must not pass.
std::vector<AccuracyRow> accuracy_of(const std::vector<AccuracySet>& sets);

/// What the filters of a set say, but for who measured (`stack`, `study`), which its label says.
std::string kept_rows(const AccuracySet& set);

/// As Markdown, errors in percent; each row with what its set's filters leave of the measurements.
std::string accuracy_table(const std::vector<AccuracyRow>& rows);
/// The same in a line for each GPU and set of kernels: median errors of matrix products and attention, of the first set
/// that the list has of each, and how many of their rows lie in their bands.
std::string accuracy_by_gpu(const std::vector<AccuracyRow>& rows);
/// One line or one object a row, fractions and natural logarithms.
std::string accuracy_csv(const std::vector<AccuracyRow>& rows);
std::string accuracy_json(const std::vector<AccuracyRow>& rows);

}  // namespace plumbline

// The rows that `compare` and `fit` are given.
#pragma once

#include <string>
#include <vector>

#include "validate/cli/asked.hpp"
#include "validate/record/measurement_csv.hpp"

namespace plumbline {

/// CSV files, and recordings, whose cases of `kernels` become rows of the stack "validate". Filters are those of the
/// columns, for a recording those of cases; one on `stack` says which of a CSV's stacks is meant, and nothing of
/// recordings.
Measurements read_rows(const std::vector<std::string>& files, const std::vector<RowFilter>& where, KernelSet kernels);

/// Throws BadInput, with the counts of what was left out, when no row is left.
void need_rows(const Measurements& measured, long other_gpu);

}  // namespace plumbline

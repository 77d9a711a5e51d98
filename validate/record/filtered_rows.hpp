// The rows of a CSV that filters keep, one after the other.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/csv.hpp"
#include "validate/record/row_filter.hpp"

namespace plumbline {

/// Given a row's fields, as many as the header has, and where it stands: "file.csv:7".
using TakeRow = std::function<void(std::span<const std::string_view> fields, const std::string& place)>;

/// Hands each row behind the header that all of `where` keep to `take`. A row of another width, and one that `take`
/// refuses with an Error, becomes a message in `bad`; rows that the filters leave out are counted in `filtered`. Throws
/// BadInput for a filter on a column that the file does not have, and for text that is no CSV.
void take_rows(CsvReader& reader, const CsvHeader& header, const std::vector<RowFilter>& where, const TakeRow& take,
               std::vector<std::string>& bad, long& filtered);

}  // namespace plumbline

#include "validate/record/filtered_rows.hpp"

#include <cstddef>

#include "arch/error.hpp"
#include "arch/printable.hpp"

namespace plumbline {

void take_rows(CsvReader& reader, const CsvHeader& header, const std::vector<RowFilter>& where, const TakeRow& take,
               std::vector<std::string>& bad, long& filtered) {
  std::vector<std::size_t> columns;
  for (const RowFilter& filter : where) columns.push_back(header.require(filter.column));
  while (reader.next()) {
    const auto fields = reader.fields();
    const std::string place = reader.place() + ":" + std::to_string(reader.line());
    if (fields.size() != header.size()) {
      bad.push_back(place + ": expected " + std::to_string(header.size()) + " fields, found " +
                    std::to_string(fields.size()));
      continue;
    }
    bool kept = true;
    for (std::size_t i = 0; i < where.size(); ++i) kept = kept && where[i].keeps(fields[columns[i]]);
    if (!kept) {
      ++filtered;
      continue;
    }
    try {
      take(fields, place);
    } catch (const Error& error) {
      bad.push_back(printable(place + ": " + error.what()));  // a quoted field may hold line ends
    }
  }
}

}  // namespace plumbline

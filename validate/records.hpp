// Figures as records: the same names and values as lines of CSV and as JSON objects, for reports that are plain tables.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace plumbline {

/// One line: names and values in order; all records of a list have the same names. Units are in the names. No value: an
/// empty field, null.
using FieldRecord = std::vector<std::pair<std::string, std::variant<std::monostate, std::string, long, double>>>;

/// A header and a line a record. Empty without records.
std::string records_csv(const std::vector<FieldRecord>& records);

/// {"schema": SCHEMA, KEY: [...]}; text that is no UTF-8 is replaced, a number that is not finite is null.
std::string records_json(std::string_view schema, std::string_view key, const std::vector<FieldRecord>& records);

}  // namespace plumbline

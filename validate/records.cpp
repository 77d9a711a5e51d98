#include "validate/records.hpp"

#include "arch/format.hpp"
#include "ops/csv.hpp"

namespace plumbline {

namespace {

std::string text_of(const FieldRecord::value_type::second_type& value) {
  if (std::holds_alternative<std::monostate>(value)) return "";
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* whole = std::get_if<long>(&value)) return std::to_string(*whole);
  return format_exact(std::get<double>(value));
}

}  // namespace

std::string records_csv(const std::vector<FieldRecord>& records) {
  std::string out;
  const auto add_line = [&out](const FieldRecord& record, bool names) {
    for (const auto& field : record) {
      if (&field != &record.front()) out += ',';
      append_csv_field(out, names ? field.first : text_of(field.second));
    }
    out += '\n';
  };
  if (!records.empty()) add_line(records.front(), true);
  for (const FieldRecord& record : records) add_line(record, false);
  return out;
}

}  // namespace plumbline

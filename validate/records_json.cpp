#include <nlohmann/json.hpp>

#include "validate/records.hpp"

namespace plumbline {

std::string records_json(std::string_view schema, std::string_view key, const std::vector<FieldRecord>& records) {
  nlohmann::ordered_json out = {{"schema", schema}}, list = nlohmann::ordered_json::array();
  for (const FieldRecord& record : records) {
    nlohmann::ordered_json& object = list.emplace_back();
    for (const auto& [name, value] : record) {
      object[name] = nullptr;
      if (const auto* text = std::get_if<std::string>(&value)) object[name] = *text;
      else if (const auto* whole = std::get_if<long>(&value)) object[name] = *whole;
      else if (const auto* real = std::get_if<double>(&value)) object[name] = *real;
    }
  }
  out[std::string(key)] = std::move(list);
  return out.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace plumbline

#include "validate/record/probe_run.hpp"

#include <charconv>

namespace plumbline {

std::string_view setting_of(const Record& record, std::string_view key) {
  std::string_view rest = record.setting;
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(';'));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    const std::size_t equals = part.find('=');
    if (equals != part.npos && part.substr(0, equals) == key) return part.substr(equals + 1);
  }
  return {};
}

std::optional<double> number_of(const Record& record, std::string_view key) {
  const std::string_view text = setting_of(record, key);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<const Record*> records_of(const ProbeRun& run, std::string_view name, const RecordTest& test) {
  std::vector<const Record*> found;
  for (const Record& r : run.records) {
    if (r.name == name && (!test || test(r))) found.push_back(&r);
  }
  return found;
}

const Record* best_of(const std::vector<const Record*>& records) {
  const Record* found = nullptr;
  for (const Record* r : records) {
    if (found == nullptr || r->value.median > found->value.median) found = r;
  }
  return found;
}

}  // namespace plumbline

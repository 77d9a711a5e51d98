#include "ops/family/table_sizes.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include "arch/files.hpp"
#include "ops/config/config.hpp"
#include "ops/rewrite/expression.hpp"

namespace plumbline {
namespace {

/// A size of a file: a number, a switch, or the first of a list of numbers (pictures that are no squares have two).
double size_of(const JsonValue& value) {
  if (value.is_boolean()) return value.as_bool() ? 1.0 : 0.0;
  if (value.is_array()) {
    if (value.size() == 0) value.fail("expected a number, found an empty list");
    return size_of(value.elements()[0]);
  }
  const double number = value.as_number();
  if (number < 0 || number > static_cast<double>(LlmConfig::kLargestDim)) value.fail("expected a size from 0 to 2^31");
  return number;
}

std::optional<JsonValue> member(const JsonValue& value, const std::string& name) {
  if (value.is_object()) return value.find(name);
  const bool digit = name.size() == 1 && name[0] >= '0' && name[0] <= '9';
  if (!digit) return std::nullopt;
  if (!value.is_array()) return value;  // one number for all sides
  const auto all = value.elements();
  const auto index = static_cast<std::size_t>(name[0] - '0');
  return index < all.size() ? std::optional(all[index]) : std::nullopt;
}

}  // namespace

std::optional<JsonValue> value_at(const JsonValue& object, const std::string& path) {
  const std::size_t slash = path.find('/');
  const auto found = member(object, path.substr(0, slash));
  if (!found || found->is_null()) return std::nullopt;
  return slash == std::string::npos ? found : value_at(*found, path.substr(slash + 1));
}

namespace {

/// Behind the name of its own.
std::string paths_of(const std::string& key) {
  const std::size_t named = key.find('=');
  return named == std::string::npos ? key : key.substr(named + 1);
}

/// Alternatives of a key stand behind each other: "hidden_size|embed_dim"; the first gives the name, without its path.
std::optional<JsonValue> first_of(const JsonValue& object, std::string names) {
  while (true) {
    const std::size_t bar = names.find('|');
    if (auto found = value_at(object, names.substr(0, bar))) return found;
    if (bar == std::string::npos) return std::nullopt;
    names.erase(0, bar + 1);
  }
}

std::string variable(const std::string& key) {
  const std::size_t named = key.find('=');
  if (named != std::string::npos) return key.substr(0, named);
  const std::string first = key.substr(0, key.find('|'));
  return first.substr(first.rfind('/') + 1);
}

}  // namespace

void Sizes::set(const std::string& name, double value) {
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found != names_.end()) {
    values_[static_cast<std::size_t>(found - names_.begin())] = value;
    return;
  }
  names_.push_back(name);
  values_.push_back(value);
}

double Sizes::of(const std::string& text) const { return Expression(text, names_)(values_); }

void read_keys(const JsonValue& entry, const char* which, const JsonValue& object, const std::string& prefix,
               Sizes& sizes) {
  const auto keys = entry.find(which);
  if (!keys) return;
  const bool lists = std::string_view(which) == "lists" || std::string_view(which) == "counts";
  const bool members = std::string_view(which) == "members";
  for (const std::string& key : keys->keys()) {
    const auto found = first_of(object, paths_of(key));
    const double fallback = keys->at(key).as_number();
    if (members) {
      double inside = 0;
      if (found && found->is_array()) {
        for (const JsonValue& one : found->elements()) inside += one.is_array() ? static_cast<double>(one.size()) : 1.0;
      }
      sizes.set(prefix + variable(key), found ? inside : fallback);
    } else if (lists) {
      sizes.set(prefix + variable(key), found && found->is_array() ? static_cast<double>(found->size()) : fallback);
    } else {
      sizes.set(prefix + variable(key), found ? size_of(*found) : fallback);
    }
  }
}

void read_words(const JsonValue& entry, const JsonValue& object, Sizes& sizes) {
  const auto words = entry.find("words");
  if (!words) return;
  for (const std::string& key : words->keys()) {
    const auto found = first_of(object, paths_of(key));
    const std::string text = found && found->is_string() ? found->as_string() : "";
    sizes.set(variable(key), text == words->at(key).as_string() ? 1.0 : 0.0);
  }
}

void read_lets(const JsonValue& entry, Sizes& sizes) {
  const auto lets = entry.find("let");
  if (!lets) return;
  for (const JsonValue& one : lets->elements()) {
    const auto pair = one.elements();
    sizes.set(pair.at(0).as_string(), sizes.of(pair.at(1)));
  }
}

std::vector<std::string> missing_keys(const JsonValue& entry, const JsonValue& object) {
  std::vector<std::string> missing;
  const auto keys = entry.find("keys");
  if (!keys) return missing;
  for (const std::string& key : keys->keys()) {
    const std::string paths = paths_of(key);
    if (!first_of(object, paths)) missing.push_back(paths.substr(0, paths.find('|')) + " " + keys->at(key).dump());
  }
  return missing;
}

std::vector<std::string> asked_keys(const JsonValue& entry) {
  std::vector<std::string> asked;
  for (const char* which : {"keys", "lists", "counts", "members", "words", "only", "must"}) {
    const auto keys = entry.find(which);
    if (!keys) continue;
    for (const std::string& key : keys->keys()) {
      std::string rest = paths_of(key);
      while (!rest.empty()) {
        const std::string one = rest.substr(0, rest.find('|'));
        asked.push_back(one.substr(0, one.find('/')));
        rest.erase(0, std::min(rest.size(), one.size() + 1));
      }
    }
  }
  if (const auto unread = entry.find_list("unread")) {
    for (const JsonValue& key : unread->elements()) asked.push_back(key.as_string());
  }
  return asked;
}

JsonValue family_table(const std::string& file) {
  static std::mutex mutex;
  static std::map<std::string, JsonDocument> files;
  const std::string path = data_folder() + "/families/" + file;
  const std::lock_guard lock(mutex);
  auto found = files.find(path);
  if (found == files.end()) found = files.emplace(path, JsonDocument::read_file(path)).first;
  return found->second.root();
}

}  // namespace plumbline

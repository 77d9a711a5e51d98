#include "arch/json_reader.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/format.hpp"
#include "arch/json_text.hpp"
#include "arch/printable.hpp"

namespace plumbline {
namespace {

using nlohmann::json;

constexpr double kExactIntegerLimit = 9007199254740992.0;  // 2^53

const json& as_json(const void* node) { return *static_cast<const json*>(node); }

std::string shortened(const std::string& text) {
  constexpr std::size_t kLongest = 60;
  return text.size() <= kLongest ? text : text.substr(0, kLongest - 3) + "...";
}

json parse_text(const std::string& text, const std::string& place) {
  try {
    const std::string tamed = tame_json(text, place);
    if (tamed.find_first_not_of(" \t\r\n") == std::string::npos) {
      throw BadInput(place + ": not JSON: the file is empty");
    }
    json root = json::parse(tamed);
    refuse_keys_twice(tamed, place);
    return root;
  } catch (const json::exception& e) {
    // "[json.exception.parse_error.101] parse error at line 3, column 5: ..." -> what follows the bracket, one line
    std::string what = e.what();
    if (const auto bracket = what.find("] "); bracket != std::string::npos) what = what.substr(bracket + 2);
    std::replace(what.begin(), what.end(), '\n', ' ');
    throw BadInput(place + ": not JSON: " + what);
  }
}

/// Adds to `path` how one gets from `from` to what it holds at the address `wanted`. False, and nothing added, where it
/// holds no such thing.
bool search(const json& from, const void* wanted, std::string& path) {
  const std::size_t length = path.size();
  const auto ends_in = [&](const json& value, std::string_view key) {
    path = child_path(path, key);
    if (&value == wanted || search(value, wanted, path)) return true;
    path.resize(length);
    return false;
  };
  // The value itself first: most places are known step by step.
  if (from.is_array()) {
    for (const bool itself : {true, false}) {
      for (std::size_t i = 0; i < from.size(); ++i) {
        if ((&from[i] == wanted) == itself && ends_in(from[i], std::to_string(i))) return true;
      }
    }
  } else if (from.is_object()) {
    for (const bool itself : {true, false}) {
      for (const auto& [key, value] : from.items()) {
        if ((&value == wanted) == itself && ends_in(value, key)) return true;
      }
    }
  }
  return false;
}

void merge(json& base, const json& patch) {
  if (!base.is_object() || !patch.is_object()) {
    base = patch;
    return;
  }
  for (const auto& [key, value] : patch.items()) {
    if (base.contains(key)) merge(base[key], value);
    else base[key] = value;
  }
}

}  // namespace

JsonValue::Kind JsonValue::kind() const {
  const json& node = as_json(node_);
  if (node.is_null()) return Kind::null;
  if (node.is_boolean()) return Kind::boolean;
  if (node.is_number()) return Kind::number;
  if (node.is_string()) return Kind::string;
  return node.is_array() ? Kind::array : Kind::object;
}

std::optional<JsonValue> JsonValue::find(std::string_view key) const {
  const json& node = as_json(node_);
  if (!node.is_object()) return std::nullopt;
  const auto it = node.find(key);
  if (it == node.end() || it->is_null()) return std::nullopt;
  return inner(&*it);
}

std::optional<std::string> JsonValue::find_string(std::string_view key) const {
  const auto found = find(key);
  return found ? std::optional(found->as_string()) : std::nullopt;
}

std::optional<bool> JsonValue::find_bool(std::string_view key) const {
  const auto found = find(key);
  return found ? std::optional(found->as_bool()) : std::nullopt;
}

std::optional<JsonValue> JsonValue::find_object(std::string_view key) const {
  auto found = find(key);
  if (found && !found->is_object()) found->fail("expected an object, found " + shortened(found->dump()));
  return found;
}

std::optional<JsonValue> JsonValue::find_list(std::string_view key) const {
  auto found = find(key);
  if (found && !found->is_array()) found->fail("expected a list, found " + shortened(found->dump()));
  return found;
}

JsonValue JsonValue::at(std::string_view key) const {
  if (auto found = find(key)) return *std::move(found);
  if (!is_object()) fail("expected an object with key '" + std::string(key) + "', found " + shortened(dump()));
  throw BadInput(place() + ": missing key '" + std::string(key) + "'" + did_you_mean(key, keys()));
}

std::vector<std::string> JsonValue::keys() const {
  std::vector<std::string> names;
  const json& node = as_json(node_);
  if (!node.is_object()) return names;
  names.reserve(node.size());
  for (const auto& [key, value] : node.items()) names.push_back(key);  // nlohmann's map is sorted
  return names;
}

std::vector<JsonValue> JsonValue::elements() const {
  const json& node = as_json(node_);
  if (!node.is_array()) fail("expected a list, found " + shortened(dump()));
  std::vector<JsonValue> values;
  values.reserve(node.size());
  for (std::size_t i = 0; i < node.size(); ++i) {
    values.push_back(inner(&node[i]));
  }
  return values;
}

std::size_t JsonValue::size() const { return as_json(node_).size(); }

std::string JsonValue::as_string() const {
  if (!is_string()) fail("expected a string, found " + shortened(dump()));
  return printable(as_json(node_).get_ref<const std::string&>());
}

bool JsonValue::as_bool() const {
  if (!is_boolean()) fail("expected true or false, found " + shortened(dump()));
  return as_json(node_).get<bool>();
}

double JsonValue::as_number() const {
  if (!is_number()) fail("expected a number, found " + shortened(dump()));
  const double value = as_json(node_).get<double>();
  if (!std::isfinite(value)) fail("expected a finite number, found " + shortened(dump()));
  return value;
}

std::int64_t JsonValue::as_integer() const {
  const double value = as_number();
  if (value != std::floor(value)) fail("expected a whole number, found " + shortened(dump()));
  if (std::abs(value) > kExactIntegerLimit) fail("expected a whole number up to 2^53, found " + shortened(dump()));
  return static_cast<std::int64_t>(value);
}

namespace {

template <class Parse>
auto quantity(const JsonValue& value, const char* example, Parse parse) {
  if (!value.is_string()) value.fail(std::string("expected ") + example + ", found " + shortened(value.dump()));
  try {
    return parse(value.as_string());
  } catch (const BadInput& e) {
    value.fail(e.what());
  }
}

}  // namespace

Bytes JsonValue::as_bytes() const { return quantity(*this, "a size with its unit such as \"141 GiB\"", parse_bytes); }
Bandwidth JsonValue::as_bandwidth() const {
  return quantity(*this, "a bandwidth with its unit such as \"4.8 TB/s\"", parse_bandwidth);
}
Seconds JsonValue::as_seconds() const {
  return quantity(*this, "a time with its unit such as \"330 ns\"", parse_seconds);
}
Hertz JsonValue::as_hertz() const { return quantity(*this, "a clock with its unit such as \"1980 MHz\"", parse_hertz); }
Watts JsonValue::as_watts() const { return quantity(*this, "a power with its unit such as \"700 W\"", parse_watts); }
FlopRate JsonValue::as_flop_rate() const {
  return quantity(*this, "a rate with its unit such as \"989 TFLOP/s\"", parse_flop_rate);
}

void JsonValue::refuse_unknown_keys(std::initializer_list<std::string_view> allowed) const {
  const json& node = as_json(node_);
  if (!node.is_object()) fail("expected an object, found " + shortened(dump()));
  for (const auto& [key, value] : node.items()) {
    if (std::find(allowed.begin(), allowed.end(), key) != allowed.end()) continue;
    const std::vector<std::string> names(allowed.begin(), allowed.end());
    throw BadInput(*file_ + ": " + child_path(path(), key) + ": unknown key" + did_you_mean(key, names));
  }
}

JsonValue JsonValue::inner(const void* node) const {
  JsonValue value(node, file_);
  value.above_ = above_;
  value.depth_ = depth_ + 1;
  if (depth_ < kMostAbove) value.above_.at(depth_) = node_;
  return value;
}

std::string JsonValue::path() const {
  std::string path;
  for (std::size_t i = 0; i < std::min(depth_, kMostAbove); ++i) {
    const void* next = i + 1 < std::min(depth_, kMostAbove) ? above_.at(i + 1) : node_;
    search(as_json(above_.at(i)), next, path);
  }
  return path;
}

std::string JsonValue::place() const {
  const std::string inside = path();
  return *file_ + ": " + (inside.empty() ? "/" : inside);
}

void JsonValue::fail(const std::string& expected_and_found) const {
  // what stands there, where whoever refuses it says nothing of it
  const json& node = as_json(node_);
  const bool says =
      !expected_and_found.starts_with("expected") || expected_and_found.find("found") != std::string::npos;
  throw BadInput(place() + ": " + expected_and_found +
                 (says || node.is_structured() ? "" : ", found " + shortened(dump())));
}

std::string JsonValue::dump() const { return as_json(node_).dump(-1, ' ', false, json::error_handler_t::replace); }

struct JsonDocument::Impl {
  json root;
  std::string place;
};

JsonDocument::JsonDocument(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
JsonDocument::JsonDocument(JsonDocument&&) noexcept = default;
JsonDocument& JsonDocument::operator=(JsonDocument&&) noexcept = default;
JsonDocument::~JsonDocument() = default;

JsonDocument JsonDocument::parse(const std::string& text, const std::string& place) {
  auto impl = std::make_unique<Impl>();
  impl->root = parse_text(text, place);
  impl->place = place;
  return JsonDocument(std::move(impl));
}

JsonDocument JsonDocument::read_file(const std::string& path) { return parse(read_text_file(path), path); }

JsonValue JsonDocument::root() const { return JsonValue(&impl_->root, &impl_->place); }

JsonDocument JsonDocument::merged_with(const JsonDocument& patch) const {
  auto impl = std::make_unique<Impl>(*impl_);
  merge(impl->root, patch.impl_->root);
  impl->place = patch.impl_->place;
  return JsonDocument(std::move(impl));
}

void JsonDocument::set(const std::string& dotted_path, const std::string& value) {
  json* node = &impl_->root;
  std::size_t begin = 0;
  std::string walked;
  for (;;) {
    const std::size_t dot = dotted_path.find('.', begin);
    const std::string key = dotted_path.substr(begin, dot == std::string::npos ? dot : dot - begin);
    if (!node->is_object()) throw BadInput("set " + dotted_path + ": '" + walked + "' has no members");
    if (dot == std::string::npos) {
      json parsed = json::parse(value, nullptr, false);
      const bool plain = parsed.is_number() || parsed.is_boolean() || parsed.is_null();
      (*node)[key] = plain ? std::move(parsed) : json(value);
      return;
    }
    if (!node->contains(key)) {
      throw BadInput("set " + dotted_path + ": no '" + key + "' there" + did_you_mean(key, root().keys()));
    }
    node = &(*node)[key];
    walked += (walked.empty() ? "" : ".") + key;
    begin = dot + 1;
  }
}

}  // namespace plumbline

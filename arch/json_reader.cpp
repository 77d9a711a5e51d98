#include "arch/json_reader.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/format.hpp"
#include "arch/printable.hpp"

namespace plumbline {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 200;
constexpr double kExactIntegerLimit = 9007199254740992.0;  // 2^53

const json& as_json(const void* node) { return *static_cast<const json*>(node); }

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

/// The length of a bare NaN, Infinity or -Infinity at `i`, or 0.
std::size_t python_number(const std::string& text, std::size_t i) {
  for (const char* word : {"NaN", "-Infinity", "Infinity"}) {
    const std::size_t n = std::strlen(word);
    if (text.compare(i, n, word) == 0 && (i + n >= text.size() || !is_word(text[i + n]))) return n;
  }
  return 0;
}

/// Bare NaN, Infinity and -Infinity outside strings become null; absurd nesting is refused (the parser recurses).
std::string tame(const std::string& text, const std::string& place) {
  std::string out;
  out.reserve(text.size() + 16);
  int depth = 0;
  std::size_t i = text.compare(0, 3, "\xEF\xBB\xBF") == 0 ? 3 : 0;
  while (i < text.size()) {
    const char c = text[i];
    std::size_t n = 1;
    if (c == '"') {
      while (i + n < text.size() && text[i + n] != '"') n += text[i + n] == '\\' ? 2 : 1;
      n = std::min(n + 1, text.size() - i);
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxDepth) throw BadInput(place + ": nested deeper than " + std::to_string(kMaxDepth) + " levels");
    } else if (c == '}' || c == ']') {
      --depth;
    } else if (c == 'N' || c == 'I' || c == '-') {
      if (const std::size_t word = python_number(text, i); word > 0) {
        out += "null";
        i += word;
        continue;
      }
    }
    out.append(text, i, n);
    i += n;
  }
  return out;
}

std::string shortened(const std::string& text) {
  constexpr std::size_t kLongest = 60;
  return text.size() <= kLongest ? text : text.substr(0, kLongest - 3) + "...";
}

/// "/memory/bandwidth" + key, with the pointer escapes of RFC 6901.
std::string child_path(const std::string& path, std::string_view key) {
  std::string out = path + "/";
  for (const char c : key) {
    if (c == '~') out += "~0";
    else if (c == '/') out += "~1";
    else out += c;
  }
  return out;
}

/// Looks through sound JSON for an object that has a key twice: the parser keeps the last one and says nothing.
class DuplicateKeys {
 public:
  DuplicateKeys(std::string_view text, const std::string& place) : text_(text), place_(place) {}

  void refuse() {
    for (std::size_t i = 0; i < text_.size(); ++i) {
      switch (text_[i]) {
        case '"': i = string(i); break;
        case '{':
        case '[': open(text_[i] == '{'); break;
        case '}':
        case ']': close(); break;
        case ',': next(); break;
        default: break;
      }
    }
  }

 private:
  struct Level {
    bool object = false;
    std::size_t first_key = 0;  // in keys_
    std::size_t index = 0;      // of a list
  };

  /// The last byte of the string that starts at `i`.
  std::size_t string(std::size_t i) {
    std::size_t end = i + 1;
    for (; text_[end] != '"'; ++end) {
      if (text_[end] == '\\') ++end;
    }
    if (expects_key_) keys_.push_back(text_.substr(i + 1, end - i - 1));
    expects_key_ = false;
    return end;
  }

  void open(bool object) {
    levels_.push_back({object, keys_.size(), 0});
    expects_key_ = object;
  }

  void next() {
    if (levels_.back().object) expects_key_ = true;
    else ++levels_.back().index;
  }

  void close() {
    const auto first = keys_.begin() + static_cast<std::ptrdiff_t>(levels_.back().first_key);
    const bool escaped = std::any_of(first, keys_.end(), [](auto key) { return key.find('\\') != key.npos; });
    if (escaped) {  // "\u0061" is "a"
      std::vector<std::string> read(first, keys_.end());
      for (std::string& key : read) key = decoded(key);
      refuse_twice(read);
    } else {
      refuse_twice(std::span(first, keys_.end()));  // sorts: their order is not asked for again
    }
    keys_.erase(first, keys_.end());
    levels_.pop_back();
    expects_key_ = false;
  }

  template <class Keys>
  void refuse_twice(Keys&& keys) const {
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice != keys.end()) throw BadInput(place_ + ": " + child_path(path(), *twice) + ": the key is there twice");
  }

  static std::string decoded(std::string_view key) {
    return json::parse("\"" + std::string(key) + "\"").get<std::string>();
  }

  /// Of the object that is open: the last key of each level above it is the one it stands under.
  std::string path() const {
    std::string out;
    for (std::size_t i = 0; i + 1 < levels_.size(); ++i) {
      if (!levels_[i].object) out += "/" + std::to_string(levels_[i].index);
      else out = child_path(out, decoded(keys_[levels_[i + 1].first_key - 1]));
    }
    return out;
  }

  std::string_view text_;
  const std::string& place_;
  std::vector<Level> levels_;
  std::vector<std::string_view> keys_;  // of the objects that are open, as written
  bool expects_key_ = false;
};

json parse_text(const std::string& text, const std::string& place) {
  try {
    const std::string tamed = tame(text, place);
    json root = json::parse(tamed);
    DuplicateKeys(tamed, place).refuse();
    return root;
  } catch (const json::exception& e) {
    // "[json.exception.parse_error.101] parse error at line 3, column 5: ..." -> what follows the bracket, one line
    std::string what = e.what();
    if (const auto bracket = what.find("] "); bracket != std::string::npos) what = what.substr(bracket + 2);
    std::replace(what.begin(), what.end(), '\n', ' ');
    throw BadInput(place + ": not JSON: " + what);
  }
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
  const auto it = node.find(std::string(key));
  if (it == node.end() || it->is_null()) return std::nullopt;
  return JsonValue(&*it, file_, child_path(path_, key));
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
  throw BadInput(*file_ + ": " + (path_.empty() ? "/" : path_) + ": missing key '" + std::string(key) + "'" +
                 did_you_mean(key, keys()));
}

std::vector<std::string> JsonValue::keys() const {
  std::vector<std::string> names;
  const json& node = as_json(node_);
  if (!node.is_object()) return names;
  for (const auto& [key, value] : node.items()) names.push_back(key);
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<JsonValue> JsonValue::elements() const {
  const json& node = as_json(node_);
  if (!node.is_array()) fail("expected a list, found " + shortened(dump()));
  std::vector<JsonValue> values;
  for (std::size_t i = 0; i < node.size(); ++i) {
    values.push_back(JsonValue(&node[i], file_, path_ + "/" + std::to_string(i)));
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
  if (value != std::floor(value) || std::abs(value) > kExactIntegerLimit) {
    fail("expected a whole number, found " + shortened(dump()));
  }
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
    throw BadInput(*file_ + ": " + child_path(path_, key) + ": unknown key" + did_you_mean(key, names));
  }
}

std::string JsonValue::place() const { return *file_ + ": " + (path_.empty() ? "/" : path_); }

void JsonValue::fail(const std::string& expected_and_found) const {
  throw BadInput(place() + ": " + expected_and_found);
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

JsonValue JsonDocument::root() const { return JsonValue(&impl_->root, &impl_->place, ""); }

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

// Typed reading of a JSON document with the key path in every message. nlohmann_json stays behind this header.
//
// A `JsonValue` is a cheap view into a parsed `JsonDocument` (which must outlive it). Every accessor that fails throws
// BadInput: `data/gpus/h200.json: /memory/bandwidth: expected a bandwidth such as "4.8 TB/s", found 4.8`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arch/units.hpp"

namespace plumbline {

class JsonValue {
 public:
  enum class Kind { null, boolean, number, string, array, object };

  Kind kind() const;
  bool is_null() const { return kind() == Kind::null; }
  bool is_object() const { return kind() == Kind::object; }
  bool is_array() const { return kind() == Kind::array; }
  bool is_string() const { return kind() == Kind::string; }
  bool is_number() const { return kind() == Kind::number; }
  bool is_boolean() const { return kind() == Kind::boolean; }

  /// Members and elements. `find` gives nothing for a missing key and for `null` (null means absent).
  std::optional<JsonValue> find(std::string_view key) const;
  JsonValue at(std::string_view key) const;  ///< throws with the nearest key when missing
  bool has(std::string_view key) const { return find(key).has_value(); }
  /// As `find`, but what is there must be of this kind.
  std::optional<std::string> find_string(std::string_view key) const;
  std::optional<bool> find_bool(std::string_view key) const;
  std::optional<JsonValue> find_object(std::string_view key) const;
  std::optional<JsonValue> find_list(std::string_view key) const;
  std::vector<std::string> keys() const;  ///< sorted (file order is not kept)
  std::vector<JsonValue> elements() const;
  std::size_t size() const;

  std::string as_string() const;  ///< printable (arch/printable.hpp): "\u001b" never gets any further
  bool as_bool() const;
  double as_number() const;         ///< finite
  std::int64_t as_integer() const;  ///< a whole number (8 or 8.0), within +-2^53

  /// Quantities are strings with their unit, parsed by `parse_quantity`: "4.8 TB/s", "141 GiB", "1980 MHz", "330 ns".
  Bytes as_bytes() const;
  Bandwidth as_bandwidth() const;
  Seconds as_seconds() const;
  Hertz as_hertz() const;
  Watts as_watts() const;
  FlopRate as_flop_rate() const;

  /// Throws naming the first key that is not in `allowed`, with the nearest allowed one.
  void refuse_unknown_keys(std::initializer_list<std::string_view> allowed) const;

  /// "/memory/bandwidth", with the pointer escapes of RFC 6901; "" of the whole document. Worked out when it is asked for.
  std::string path() const;
  /// Is it the same place of the same document?
  bool is_same_as(const JsonValue& other) const { return node_ == other.node_; }
  std::string place() const;  ///< "file: /path"
  [[noreturn]] void fail(const std::string& expected_and_found) const;
  std::string dump() const;  ///< compact text of this value

 private:
  friend class JsonDocument;
  static constexpr std::size_t kMostAbove = 8;
  JsonValue(const void* node, const std::string* file) : node_(node), file_(file) {}
  JsonValue inner(const void* node) const;  ///< a member or element of this one
  const void* node_;                        // nlohmann::json
  const std::string* file_;                 // owned by the document
  // What it stands in, from the root on; of deeper places the outermost ones.
  std::array<const void*, kMostAbove> above_{};
  std::size_t depth_ = 0;
};

class JsonDocument {
 public:
  /// Strict JSON but for what Hugging Face files really hold: a BOM, and bare NaN, Infinity, -Infinity (read as null)
  /// outside strings. Nesting deeper than 200 is refused, and so is a key that an object has twice: which of the two is
  /// meant nobody knows. Throws BadInput with line and column, or with the path of the object.
  static JsonDocument parse(const std::string& text, const std::string& place);
  static JsonDocument read_file(const std::string& path);

  JsonDocument(JsonDocument&&) noexcept;
  JsonDocument& operator=(JsonDocument&&) noexcept;
  ~JsonDocument();

  JsonValue root() const;
  /// This document with `patch`'s members merged over it, object by object; lists and values are replaced whole. The
  /// result's messages name `patch`'s place. (RFC 7386, but null replaces.)
  JsonDocument merged_with(const JsonDocument& patch) const;
  /// Replaces or adds the value at a dotted path ("memory.bandwidth"); every parent must exist and be an object.
  /// `value` is taken as JSON if it parses as a number, boolean or null, else as a string.
  void set(const std::string& dotted_path, const std::string& value);

 private:
  struct Impl;
  explicit JsonDocument(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace plumbline

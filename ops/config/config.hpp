// Looking keys up in a config.json: several names for one thing, null = absent, ranges, and a log of what was assumed.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "arch/json_reader.hpp"
#include "ops/config/family.hpp"

namespace plumbline {

/// One object of the file (the language model's), with the outer one behind it for the few keys that live there, and what
/// the class of its model_type says of keys that neither it nor any other name of the same thing states, not even by null.
/// Every key asked for counts as known; `unknown_keys` gives what is left and looks like a dimension.
class LlmConfig {
 public:
  using Names = std::initializer_list<std::string_view>;
  static constexpr std::int64_t kLargestDim = std::int64_t{1} << 31;
  static constexpr std::int64_t kMostLayers = 10000;
  static constexpr std::size_t kMostNamed = 100;  ///< unknown keys of a file, one by one

  LlmConfig(JsonValue inner, JsonValue outer, Family family);

  const Family& family() const { return family_; }
  bool is(std::string_view type) const { return family_.type == type; }
  const JsonValue& inner() const { return inner_; }
  const JsonValue& outer() const { return outer_; }

  /// The first of the names that is there and not null; where none is, not even as null, the class default of the first
  /// that has one.
  std::optional<JsonValue> find(Names names) const;
  /// As `find`; what is there must be an object.
  std::optional<JsonValue> find_object(Names names) const;
  /// As `find`, then the outer object.
  std::optional<JsonValue> find_anywhere(Names names) const;
  bool has(Names names) const { return find(names).has_value(); }

  /// A size in [1, 2^31]; `dim` throws naming all accepted keys when none is there.
  std::int64_t dim(Names names, const char* meaning) const;
  std::optional<std::int64_t> maybe_dim(Names names) const;
  std::int64_t dim_or(Names names, std::int64_t fallback) const { return maybe_dim(names).value_or(fallback); }
  /// A size in [0, 2^31]: 0 means "none".
  std::int64_t count_or(Names names, std::int64_t fallback) const;
  std::int64_t layers(Names names) const;          ///< in [1, 10000]
  bool flag_or(Names names, bool fallback) const;  ///< true, false, 1 or 0
  std::string text_or(Names names, const std::string& fallback) const;

  /// What was asked of another object of the same keys counts as asked here.
  void know_keys_of(const LlmConfig& other) const {
    asked_.insert(other.asked_.begin(), other.asked_.end());
    filled_.insert(other.filled_.begin(), other.filled_.end());
  }

  /// One sentence for the report; the same sentence is kept once.
  void assume(const std::string& sentence) const;
  const std::vector<std::string>& assumptions() const { return assumptions_; }
  /// The sizes that were asked for and came from the class, "head_dim 256, ..."; "" where the file states all.
  std::string filled_text() const;
  /// Those of them that a file is expected to state: vocabulary, width, layers and heads.
  std::string filled_main_text() const;
  /// a x b, refused above 2^40 in the name of `key`.
  std::int64_t product(std::int64_t a, std::int64_t b, const char* key) const;

  /// Keys never asked for that look like a dimension (docs/sources.md: models) and are not switched off; the first
  /// `most` of them.
  std::vector<std::string> unknown_keys(std::size_t most = kMostNamed) const;
  /// Keys never asked for that are `true` and not known to be harmless: they may switch a block on.
  std::vector<std::string> unknown_switches(std::size_t most = kMostNamed) const;
  /// Keys never asked for that may describe a part: objects that tell sizes, words for another kind of layer, factors of a
  /// width (ops/config/unread_parts.cpp).
  std::vector<std::string> unknown_parts(std::size_t most = kMostNamed) const;
  /// Does a key's name say that it holds a size or a count?
  static bool looks_like_size(std::string_view key);
  /// All keys never asked for that hold something, the first `most` of them.
  std::vector<std::string> ignored_keys(std::size_t most = kMostNamed) const;

 private:
  /// The class default of the first of the names that has one, when the file is silent of all of them.
  std::optional<JsonValue> class_default(Names names) const;
  /// As `find`; a number that the class gave is kept for `filled_text`.
  std::optional<JsonValue> find_size(Names names) const;

  JsonValue inner_, outer_;
  Family family_;
  std::optional<JsonValue> defaults_;
  std::set<std::string, std::less<>> stated_;  ///< keys of the file, null ones too; none without defaults
  mutable std::set<std::string> filled_;
  mutable std::set<std::string, std::less<>> asked_;
  mutable std::vector<std::string> assumptions_;
};

/// A whole number in [low, high], else BadInput.
std::int64_t integer_within(const JsonValue& value, std::int64_t low, std::int64_t high);

}  // namespace plumbline

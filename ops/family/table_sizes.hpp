// Sizes that tables of data/families read from a file: keys with the class's defaults, words, arithmetic over both.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "arch/json_reader.hpp"

namespace plumbline {

/// Names and their values, in the order in which they came.
class Sizes {
 public:
  void set(const std::string& name, double value);
  double of(const JsonValue& text) const { return of(text.as_string()); }
  double of(const std::string& text) const;
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<double>& values() const { return values_; }

 private:
  std::vector<std::string> names_;
  std::vector<double> values_;
};

/// "vision/hidden_size" or "patch_size/0" in nested objects and lists; none where it is missing or null.
std::optional<JsonValue> value_at(const JsonValue& object, const std::string& path);

/// Keys of a table's entry: `which` is "keys" (numbers and switches), "lists" or "counts" (lengths of lists), "members" (of the
/// lists in a list). A key is a path
/// ("vision/hidden_size", "patch_size/0"), alternatives stand behind "|", a name in front of "=" where the path has none of
/// its own. What the file lacks, or has as null, is the class's default.
void read_keys(const JsonValue& entry, const char* which, const JsonValue& object, const std::string& prefix,
               Sizes& sizes);
/// Words of the file that stand for a switch ("words"): 1 where it has the one that the table names.
void read_words(const JsonValue& entry, const JsonValue& object, Sizes& sizes);
/// "let": a list of [name, arithmetic].
void read_lets(const JsonValue& entry, Sizes& sizes);
/// Keys that the file lacks, with what stands for them: "hidden_size 768".
std::vector<std::string> missing_keys(const JsonValue& entry, const JsonValue& object);
/// Keys of the file that an entry asks for, without what is inside them.
std::vector<std::string> asked_keys(const JsonValue& entry);
/// A table of data/families, read once a data folder.
JsonValue family_table(const std::string& file);

}  // namespace plumbline

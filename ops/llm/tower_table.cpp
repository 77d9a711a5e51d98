#include "ops/llm/tower_table.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "arch/files.hpp"
#include "ops/llm/parts.hpp"
#include "ops/rewrite/expression.hpp"

namespace plumbline {
namespace {

/// The table, read once a data folder.
JsonValue table() {
  static std::mutex mutex;
  static std::map<std::string, JsonDocument> files;
  const std::string path = data_folder() + "/families/towers.json";
  const std::lock_guard lock(mutex);
  auto file = files.find(path);
  if (file == files.end()) file = files.emplace(path, JsonDocument::read_file(path)).first;
  return file->second.root();
}

/// Names and their values, in the order in which they came.
class Sizes {
 public:
  void set(const std::string& name, double value) {
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found != names_.end()) {
      values_[static_cast<std::size_t>(found - names_.begin())] = value;
      return;
    }
    names_.push_back(name);
    values_.push_back(value);
  }
  double of(const JsonValue& text) const { return Expression(text.as_string(), names_)(values_); }

 private:
  std::vector<std::string> names_;
  std::vector<double> values_;
};

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

/// "vision/hidden_size" in nested objects; none where it is missing or null.
std::optional<JsonValue> at_path(const JsonValue& object, const std::string& path) {
  const std::size_t slash = path.find('/');
  const auto found = object.find(path.substr(0, slash));
  if (!found || found->is_null() || slash == std::string::npos) {
    return found && !found->is_null() ? found : std::nullopt;
  }
  return found->is_object() ? at_path(*found, path.substr(slash + 1)) : std::nullopt;
}

/// Alternatives of a key stand behind each other: "hidden_size|embed_dim"; the first gives the name, without its path.
std::optional<JsonValue> first_of(const JsonValue& object, std::string names) {
  while (true) {
    const std::size_t bar = names.find('|');
    if (auto found = at_path(object, names.substr(0, bar))) return found;
    if (bar == std::string::npos) return std::nullopt;
    names.erase(0, bar + 1);
  }
}

std::string variable(const std::string& key) {
  const std::string first = key.substr(0, key.find('|'));
  return first.substr(first.rfind('/') + 1);
}

/// Keys of `entry` (by the name that the table has for such) from `object`, the class's default where it lacks one.
void read_keys(const JsonValue& entry, const char* which, const JsonValue& object, const std::string& prefix,
               Sizes& sizes) {
  const auto keys = entry.find(which);
  if (!keys) return;
  const bool lists = std::string_view(which) == "lists" || std::string_view(which) == "counts";
  for (const std::string& key : keys->keys()) {
    const auto found = first_of(object, key);
    const double fallback = keys->at(key).as_number();
    if (lists) {
      sizes.set(prefix + variable(key), found && found->is_array() ? static_cast<double>(found->size()) : fallback);
    } else {
      sizes.set(prefix + variable(key), found ? size_of(*found) : fallback);
    }
  }
}

/// Words of the file that stand for a switch: 1 where it has the one that the table names.
void read_words(const JsonValue& entry, const JsonValue& object, Sizes& sizes) {
  const auto words = entry.find("words");
  if (!words) return;
  for (const std::string& key : words->keys()) {
    sizes.set(key, object.find_string(key).value_or("") == words->at(key).as_string() ? 1.0 : 0.0);
  }
}

/// `let` is a list of [name, arithmetic].
void read_lets(const JsonValue& entry, Sizes& sizes) {
  const auto lets = entry.find("let");
  if (!lets) return;
  for (const JsonValue& one : lets->elements()) {
    const auto pair = one.elements();
    sizes.set(pair.at(0).as_string(), sizes.of(pair.at(1)));
  }
}

double count_of(const JsonValue& entry, Sizes& sizes, const JsonValue& blamed) {
  constexpr double kMost = 1e15;
  const auto text = entry.find("params");
  const double count = text ? sizes.of(*text) : 0.0;
  if (!(count >= 0 && count <= kMost)) blamed.fail("these sizes give no number of parameters from 0 to 10^15");
  return count;
}

std::optional<JsonValue> model_entry(const JsonValue& outer) {
  return table().at("models").find(outer.find_string("model_type").value_or(""));
}

}  // namespace

std::optional<TableTower> table_tower(const LlmConfig& config, const std::string& key, const JsonValue& tower) {
  const auto model = model_entry(config.outer());
  const auto part = model ? model->find(key) : std::nullopt;
  // "Llama4ForCausalLM" is the language model alone.
  if (!part) return std::nullopt;
  if (first_architecture(config.outer()).ends_with("ForCausalLM") && !part->has("in_causal")) return std::nullopt;
  const JsonValue towers = table().at("towers");
  const std::string own = tower.find_string("model_type").value_or("");
  const auto stated = part->find_string("tower");
  const std::string name = towers.has(own) ? own : stated.value_or("");
  const auto entry = towers.find(name);
  if (stated && !entry) return std::nullopt;
  Sizes sizes;
  sizes.set("hidden", static_cast<double>(config.dim({"hidden_size", "n_embd", "d_model", "emb_dim", "dim"}, "width")));
  TableTower count;
  if (entry) {
    read_keys(*entry, "keys", tower, "", sizes);
    read_keys(*entry, "lists", tower, "", sizes);
    read_words(*entry, tower, sizes);
    read_lets(*entry, sizes);
    count.tower = count_of(*entry, sizes, tower);
  }
  sizes.set("tower", count.tower);
  read_keys(*part, "keys", config.outer(), "", sizes);
  read_keys(*part, "counts", config.outer(), "", sizes);
  read_keys(*part, "own", tower, "", sizes);
  read_keys(*part, "text", config.inner(), "t_", sizes);
  read_lets(*part, sizes);
  count.projector = count_of(*part, sizes, tower);
  return count;
}

std::vector<std::string> further_parts(const JsonValue& outer) {
  std::vector<std::string> names;
  const auto model = model_entry(outer);
  if (!model) return names;
  for (const std::string& key : model->keys()) {
    if (key != "vision_config" && key != "audio_config") names.push_back(key);
  }
  return names;
}

}  // namespace plumbline

// Towers for pictures and sound that a table describes: keys with the class's defaults, and parameters by arithmetic
// (data/families/towers.json).
#pragma once

#include <optional>
#include <string>

#include "ops/config/config.hpp"

namespace plumbline {

/// Parameters of a tower and of what brings its output to the language model, where the table knows the model around both.
struct TableTower {
  double tower = 0, projector = 0;
};
/// `key`: under which name the file around the language model holds the tower's config. Throws BadInput naming the key: a
/// size that is none.
std::optional<TableTower> table_tower(const LlmConfig& config, const std::string& key, const JsonValue& tower);
/// Names of further parts of the model around the language model that are not called vision_config or audio_config.
/// Whether towers of models of that type are counted, by this table or by readers of their own.
bool knows_towers_of(const std::string& model_type);
std::vector<std::string> further_parts(const JsonValue& outer);
/// What the class of the model makes of such a part where the file lacks it, if that is not the tower's own default.
std::optional<JsonValue> usual_part(const JsonValue& outer, const std::string& key);
/// All of them, those too.
std::vector<std::string> parts_of_model(const JsonValue& outer);

}  // namespace plumbline

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
std::vector<std::string> further_parts(const JsonValue& outer);

}  // namespace plumbline

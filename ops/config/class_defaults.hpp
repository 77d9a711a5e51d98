// What a configuration class gives a key that a file leaves out.
#pragma once

#include <optional>
#include <string>

#include "arch/json_reader.hpp"

namespace plumbline {

/// Sizes and counts by key that Hugging Face transformers' class of this model_type has by itself
/// (data/families/class_defaults.json), or none for other types. Values that a class works out of other keys are none of
/// them: the readers do that.
std::optional<JsonValue> class_defaults(const std::string& model_type);

}  // namespace plumbline

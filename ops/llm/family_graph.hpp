// Kinds of models that a table describes as graphs whose numbers come from the keys of the config (data/families/graphs.json).
#pragma once

#include <string>

#include "ops/config/config.hpp"
#include "ops/llm/llm.hpp"

namespace plumbline {

/// Whether the table has a kind of that name: a model_type, or a `_class_name` of diffusers.
bool has_family_graph(const std::string& type);
/// Reads the file as the kind of that name. Throws BadInput at what is not understood.
void build_family_graph(const LlmConfig& config, const std::string& type, Llm& llm);

}  // namespace plumbline

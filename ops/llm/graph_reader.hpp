// Reads a model from a graph file ("schema": "plumbline.graph.v1", docs/graphs.md).
#pragma once

#include <string_view>

#include "arch/json_reader.hpp"
#include "ops/llm/llm.hpp"

namespace plumbline {

inline constexpr std::string_view kGraphSchema = "plumbline.graph.v1";

/// Without `file`. Throws BadInput at what is not understood.
Llm read_graph(const JsonValue& root);
/// The same of a graph that a table of data/families makes, without the sums (finish_totals).
Llm read_family_graph(const JsonValue& root);

}  // namespace plumbline

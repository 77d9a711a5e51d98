// A model as a graph file (docs/graphs.md), which load_llm reads back.
#pragma once

#include <string>

#include "ops/llm/llm.hpp"

namespace plumbline {

/// Layers by kind, each part a block with its sizes; the blocks that data/blocks has written out stand in the file too.
/// Throws NotModelled for a part that has no name there (one of a program's own).
std::string graph_form(const Llm& llm);

}  // namespace plumbline

// What was understood of a model's layers, in the field's words: "24 x mamba2, 8 x gqa + moe(8 of 64)".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/llm/llm.hpp"

namespace plumbline {

/// Layers of a stack that have the same parts; their sizes may differ.
struct LayerKind {
  StackSpec::Role role = StackSpec::Role::decoder;
  std::string text;        ///< "gqa + swiglu"
  std::int64_t count = 0;  ///< of the stack's layers
  std::int64_t sizes = 0;  ///< how many of them differ in sizes
};

/// Stack by stack, each kind where it comes first.
std::vector<LayerKind> layer_kinds(const Llm& llm);
/// All of them in a line; stacks beside the main one are named.
std::string layers_text(const std::vector<LayerKind>& kinds);

std::string_view word_of(StackSpec::Role role);

}  // namespace plumbline

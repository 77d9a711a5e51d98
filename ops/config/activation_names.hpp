// Which activation a feed-forward part has, by the names of transformers' ACT2FN (activations.py of 5.17): an eager framework
// runs some of them as one kernel and writes others out, operator by operator, so that "gelu" and "gelu_new" are alike in their
// arithmetic alone.
#pragma once

#include <string>
#include <string_view>

#include "ops/config/config.hpp"

namespace plumbline {

/// What the file or, where it is silent, the class of its model_type calls the activation; other names of the same thing are
/// one ("swish" is "silu"). Empty where neither says it, or where the class has its own code for it (BLOOM).
std::string activation_name(const LlmConfig& config, std::string_view model_type);

/// Whether ACT2FN has it.
bool is_activation_name(std::string_view name);

/// " (did you mean 'gelu_new'?)", or "".
std::string nearest_activation(std::string_view name);

}  // namespace plumbline

// Flags that have a meaning in training alone, for command lines and studies alike.
#pragma once

#include <string>

#include "model/question/question.hpp"

namespace plumbline {

/// `flag` stands before messages. Each throws BadInput for a value that it can't take.
void set_micro_batch(LlmQuestion& question, const std::string& flag, const std::string& text);
void set_optimizer(LlmQuestion& question, const std::string& flag, const std::string& text);
void set_gradient(LlmQuestion& question, const std::string& flag, const std::string& text);
void set_clipping(LlmQuestion& question, const std::string& flag, const std::string& text);
void set_offload(LlmQuestion& question, const std::string& flag, const std::string& text);
void set_sparse_weights(LlmQuestion& question, const std::string& flag, const std::string& text);
void set_fp8_recipe(LlmQuestion& question, const std::string& flag, const std::string& text);
void set_recompute(LlmQuestion& question, const std::string& flag, const std::string& text);
void set_recomputed_layers(LlmQuestion& question, const std::string& flag, const std::string& text);
void set_schedule(LlmQuestion& question, const std::string& flag, const std::string& text);
void set_chunks(LlmQuestion& question, const std::string& flag, const std::string& text);
void set_fsdp(LlmQuestion& question, const std::string& flag, const std::string& text);
void set_zero(LlmQuestion& question, const std::string& flag, const std::string& text);

}  // namespace plumbline

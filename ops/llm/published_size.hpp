// The weights that a config says against the bytes that its checkpoint has: `metadata.total_size` of
// model.safetensors.index.json, which stands beside the config.json of every sharded checkpoint.
#pragma once

#include <string>

#include "ops/llm/llm.hpp"

namespace plumbline {

/// Bytes of the weights as published: embedding, head, norms and routers in the file's dtype, the other matrices as
/// quantized; without modules for multi-token prediction.
Bytes published_weights(const Llm& llm);

/// Holds them against the text of an index file, whose place stands in front of messages. Further than 1 % apart, with the
/// modules for multi-token prediction or without, is a warning that names both sizes; else a sentence among the assumptions.
/// Throws BadInput: no index of a checkpoint.
void check_published_size(Llm& llm, const std::string& index_json, const std::string& place);

}  // namespace plumbline

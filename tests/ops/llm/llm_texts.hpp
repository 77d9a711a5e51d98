// Config files as text, for tests of what the readers make of them.
#pragma once

#include <string>

#include "arch/error.hpp"
#include "arch/json_reader.hpp"
#include "ops/llm/llm.hpp"

namespace plumbline::llm_texts {

inline Llm read(const std::string& text, const std::string& quant = "") { return parse_llm(text, quant, "test"); }

inline std::string refusal(const std::string& text, const std::string& quant = "") {
  try {
    read(text, quant);
  } catch (const BadInput& error) {
    return error.what();
  }
  return "(accepted)";
}

/// A small Llama with more text in its object: `extra` is ", \"key\": value" text.
inline std::string llama_text(const std::string& extra) {
  return R"({"model_type":"llama","hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,
             "intermediate_size":128,"vocab_size":100,"tie_word_embeddings":false,"torch_dtype":"bfloat16")" +
         extra + "}";
}

/// The same with more or other members: of a key that both have, `extra`'s counts.
inline std::string llama(const std::string& extra = "") {
  if (extra.empty()) return llama_text("");
  const JsonDocument more = JsonDocument::parse("{" + extra.substr(1) + "}", "test");
  return JsonDocument::parse(llama_text(""), "test").merged_with(more).root().dump();
}

}  // namespace plumbline::llm_texts

// What all readers share: the widths at the top of the file, appending layers, and the sums at the end.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "ops/llm/params.hpp"
#include "ops/llm/parts.hpp"

namespace plumbline {

void read_dtype(const LlmConfig& config, Llm& llm) {
  const auto value = config.find_anywhere({"torch_dtype", "dtype"});
  const auto type = value ? parse_dtype(value->as_string()) : std::nullopt;
  if (!type) {
    config.assume(value ? "the file's dtype " + value->dump() + " is not a type: bf16"
                        : "no torch_dtype in the file: bf16");
  }
  llm.dtype = type.value_or(DType::bf16);
}

namespace {

/// Classes that also take the word which files of before transformers 5 have in the text model (configuration_*.py).
bool ties_by_either_word(const std::string& outer_type) {
  constexpr auto kEither = std::to_array<std::string_view>({"fast_vlm", "glm4v", "glm4v_moe", "glm_ocr", "llava",
                                                            "llava_next_video", "llava_onevision", "minimax_m3_vl",
                                                            "paddleocr_vl", "qwen2_5_vl", "qwen2_vl", "video_llama_3"});
  return std::find(kEither.begin(), kEither.end(), outer_type) != kEither.end();
}

void read_tying(const LlmConfig& config, Llm& llm, bool tied_default) {
  if (config.family().has(kNeverTied)) {
    config.find({"tie_word_embeddings"});
    llm.tied_embeddings = false;
    return;
  }
  if (config.is("mobilellm")) {  // modeling_mobilellm.py beside the weights looks at this one
    config.find({"tie_word_embeddings"});
    llm.tied_embeddings = config.flag_or({"share_embedding"}, true);
    return;
  }
  // Classes whose head their own word ties, whatever the text model inside says: no word is "apart" (LightOnOCR: tied).
  const std::string outer_type = config.outer().find_string("model_type").value_or("");
  const bool own_word = outer_type == "qwen2_audio" || outer_type == "voxtral" || outer_type == "audioflamingo3" ||
                        outer_type == "musicflamingo" || outer_type == "lighton_ocr";
  if (own_word && !config.inner().is_same_as(config.outer()) && !config.outer().find("tie_word_embeddings")) {
    config.find({"tie_word_embeddings"});
    llm.tied_embeddings = outer_type == "lighton_ocr";
    return;
  }
  // Where a text model and the model around it both say, a class with towers ties by its own word, a causal one, which
  // is made of the text model alone, by the inner one.
  const auto inner = config.find({"tie_word_embeddings"}), around = config.outer().find("tie_word_embeddings");
  if (inner && around && around->is_boolean()) {
    const bool towers = first_architecture(config.outer()).find("ForConditionalGeneration") != std::string::npos;
    const bool fuyu = config.outer().find_string("model_type").value_or("") == "fuyu";
    llm.tied_embeddings = towers || fuyu ? around->as_bool() : inner->as_bool();
    if (towers && ties_by_either_word(outer_type)) llm.tied_embeddings = llm.tied_embeddings || inner->as_bool();
    return;
  }
  if (const auto tied = config.find_anywhere({"tie_word_embeddings", "tie_embeddings", "tie_embedding"})) {
    llm.tied_embeddings = tied->as_bool();
    return;
  }
  if (config.outer().find_string("model_type").value_or("") == "got_ocr2") tied_default = true;  // by the class around
  llm.tied_embeddings = tied_default;
  config.assume(std::string("no tie_word_embeddings in the file: ") +
                (tied_default ? "head tied to the embedding, the class default" : "head apart, the class default"));
}

}  // namespace

namespace {

/// Ovis2's head is as wide as the outer file says, and the embedding as the text model's says.
void check_head_width(const LlmConfig& config, const Llm& llm) {
  if (llm.tied_embeddings || config.outer().find_string("model_type").value_or("") != "ovis2") return;
  const auto around = config.outer().find("hidden_size");
  if (around && integer_within(*around, 1, LlmConfig::kLargestDim) != llm.hidden) {
    around->fail("expected the text model's " + std::to_string(llm.hidden) + " where the head is not tied");
  }
}

}  // namespace

void read_common(const LlmConfig& config, Llm& llm, bool tied_default) {
  llm.hidden = config.dim({"hidden_size", "n_embd", "d_model", "emb_dim", "dim"}, "hidden width");
  llm.vocab = config.dim({"padded_vocab_size", "vocab_size"}, "vocabulary");
  llm.max_context = config.count_or(
      {"max_position_embeddings", "n_positions", "max_target_positions", "n_ctx", "seq_length", "max_seq_len"}, 0);
  read_tying(config, llm, tied_default);
  check_head_width(config, llm);
  read_dtype(config, llm);
}

void append_layer(StackSpec& stack, LayerSpec layer) {
  count_layer(layer, stack.hidden);
  if (!stack.order.empty() && stack.kinds[static_cast<std::size_t>(stack.order.back())] == layer) {
    stack.order.push_back(stack.order.back());
    return;
  }
  const auto same = std::find(stack.kinds.begin(), stack.kinds.end(), layer);
  stack.order.push_back(static_cast<int>(same - stack.kinds.begin()));
  if (same == stack.kinds.end()) stack.kinds.push_back(std::move(layer));
}

void finish_totals(Llm& llm) {
  const double table = static_cast<double>(llm.vocab) * static_cast<double>(llm.hidden);
  if (llm.embedding_params == 0) llm.embedding_params = table;
  if (llm.has_head && !llm.tied_embeddings) llm.head_params += table;
  llm.params = llm.active_params = llm.embedding_params + llm.head_params;
  bool experts = false;
  for (const StackSpec& stack : llm.stacks) {
    llm.params += stack_layer_params(stack) + stack.other_params;
    llm.active_params += stack_active_layer_params(stack) + stack.other_params;
    for (const LayerSpec& kind : stack.kinds) experts = experts || (kind.ffn && kind.ffn->is_moe());
  }
  const bool leaves_out = experts && !llm.tied_embeddings;
  llm.active_params_no_input_embedding = llm.active_params - (leaves_out ? llm.embedding_params : 0.0);
  const StackSpec& main = llm.main();
  if (main.role != StackSpec::Role::decoder) return;
  for (const int kind : main.order) {
    const LayerSpec& layer = main.kinds[static_cast<std::size_t>(kind)];
    if (!layer.mixer) continue;
    llm.kv_elements_per_token += layer.mixer->kv_elements();
    llm.index_elements_per_token += layer.mixer->index_elements();
  }
}

}  // namespace plumbline

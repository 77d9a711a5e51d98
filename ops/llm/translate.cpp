// Files that say the same things in keys of their own: rewritten into the keys that the readers know, before they read.
//
// Sources: the configuration and modelling code beside the weights of databricks/dbrx, apple/OpenELM, stepfun-ai/step3,
// tencent/Hunyuan-A13B, GSAI-ML/LLaDA-8B-Base, Dream-org/Dream-v0-Base-7B, nvidia/Llama-3_3-Nemotron-Super-49B;
// modeling_dbrx.py and modeling_hunyuan_v1_moe.py of Hugging Face transformers 5.17.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>

#include "ops/llm/parts.hpp"

namespace plumbline {
namespace {

/// Members of an object in JSON's text, in the order in which they were set.
class Patch {
 public:
  void set(std::string_view key, const std::string& value) {
    text_ += (text_.empty() ? "\"" : ",\"") + std::string(key) + "\":" + value;
  }
  void set(std::string_view key, std::int64_t value) { set(key, std::to_string(value)); }
  void drop(std::string_view key) { set(key, "null"); }
  void move(const JsonValue& object, std::string_view from, std::string_view to) {
    if (const auto value = object.find(from)) set(to, value->dump());
    drop(from);
  }
  void list(std::string_view key, const std::vector<std::int64_t>& values) {
    std::string text;
    for (const std::int64_t value : values) text += (text.empty() ? "" : ",") + std::to_string(value);
    set(key, "[" + text + "]");
  }
  std::string text() const { return text_.empty() ? "" : "{" + text_ + "}"; }

 private:
  std::string text_;
};

std::int64_t size_at(const JsonValue& object, std::string_view key) {
  return integer_within(object.at(key), 1, LlmConfig::kLargestDim);
}

std::int64_t layers_at(const JsonValue& object, std::string_view key) {
  return integer_within(object.at(key), 1, LlmConfig::kMostLayers);
}

/// The entries of a list, as many as there are layers.
std::vector<JsonValue> each_layer(const JsonValue& list, std::int64_t layers) {
  std::vector<JsonValue> values = list.elements();
  if (static_cast<std::int64_t>(values.size()) < layers) {
    list.fail("expected one entry a layer (" + std::to_string(layers) + "), found " + std::to_string(values.size()));
  }
  values.resize(static_cast<std::size_t>(layers), list);
  return values;
}

std::int64_t whole_width(const JsonValue& place, double width) {
  if (!(width >= 1 && width <= static_cast<double>(LlmConfig::kLargestDim))) {
    place.fail("expected a feed-forward width from 1 to 2^31");
  }
  return static_cast<std::int64_t>(width);
}

/// DBRX keeps its experts in an object of their own.
void translate_dbrx(const JsonValue& file, Patch& patch) {
  const auto experts = file.find_object("ffn_config");
  if (!experts) return;
  patch.move(*experts, "moe_num_experts", "num_local_experts");
  patch.move(*experts, "moe_top_k", "num_experts_per_tok");
  patch.move(*experts, "ffn_hidden_size", "intermediate_size");
  if (const auto act = experts->find_object("ffn_act_fn")) patch.move(*act, "name", "hidden_act");
  patch.drop("ffn_config");
}

/// make_divisible of OpenELM: the nearest multiple, one more where that is a tenth less.
std::int64_t nearest_multiple(const JsonValue& place, double value, std::int64_t step) {
  const double steps = std::floor((value + static_cast<double>(step) / 2) / static_cast<double>(step));
  std::int64_t width = std::max(step, whole_width(place, std::max(1.0, steps * static_cast<double>(step))));
  if (static_cast<double>(width) < 0.9 * value) width += step;
  return width;
}

/// OpenELM: heads and feed-forward widths of each layer.
void translate_openelm(const JsonValue& file, Patch& patch) {
  const std::int64_t layers = layers_at(file, "num_transformer_layers"), width = size_at(file, "model_dim");
  patch.move(file, "model_dim", "hidden_size");
  patch.move(file, "num_transformer_layers", "num_hidden_layers");
  patch.move(file, "share_input_output_layers", "tie_word_embeddings");
  patch.move(file, "max_context_length", "max_position_embeddings");
  patch.move(file, "activation_fn_name", "hidden_act");
  patch.move(file, "normalize_qk_projections", "use_qk_norm");
  const std::int64_t step = file.has("ffn_dim_divisor") ? size_at(file, "ffn_dim_divisor") : 256;
  std::vector<std::int64_t> widths, queries, keys;
  for (const JsonValue& value : each_layer(file.at("ffn_multipliers"), layers)) {
    widths.push_back(nearest_multiple(value, value.as_number() * static_cast<double>(width), step));
  }
  for (const JsonValue& value : each_layer(file.at("num_query_heads"), layers)) {
    queries.push_back(integer_within(value, 1, LlmConfig::kLargestDim));
  }
  for (const JsonValue& value : each_layer(file.at("num_kv_heads"), layers)) {
    keys.push_back(integer_within(value, 1, LlmConfig::kLargestDim));
  }
  patch.list("intermediate_size", widths);
  patch.list("num_attention_heads_per_layer", queries);
  patch.list("num_kv_heads_per_layer", keys);
  if (!file.find_bool("ffn_with_glu").value_or(true))
    file.at("ffn_with_glu").fail("expected a gated feed-forward part");
  for (const char* key : {"ffn_dim_divisor", "ffn_multipliers", "num_query_heads", "num_kv_heads", "qkv_multipliers",
                          "ffn_with_glu", "num_gqa_groups"}) {
    patch.drop(key);
  }
}

/// Step-3: "4,5,6,..." are the layers with experts.
void translate_step3(const JsonValue& file, Patch& patch) {
  patch.move(file, "moe_top_k", "num_experts_per_tok");
  patch.move(file, "share_expert_dim", "shared_expert_intermediate_size");
  const auto text = file.find_string("moe_layers_enum");
  if (!text) return;
  const std::int64_t layers = layers_at(file, "num_hidden_layers");
  std::vector<std::int64_t> experts(static_cast<std::size_t>(layers), 0);
  std::int64_t number = -1;
  for (const char c : *text + ",") {
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      number = (number < 0 ? 0 : number * 10) + (c - '0');
    } else if (c == ',' && number >= 0) {
      if (number >= layers) file.at("moe_layers_enum").fail("there is no layer " + std::to_string(number));
      experts[static_cast<std::size_t>(number)] = 1;
      number = -1;
    } else if (c != ' ' && c != ',') {
      file.at("moe_layers_enum").fail("expected numbers of layers");
    }
    if (number > LlmConfig::kMostLayers) file.at("moe_layers_enum").fail("there is no such layer");
  }
  patch.list("moe_layer_freq", experts);
  patch.drop("moe_layers_enum");
}

/// Keys of latent attention in files that switch it off.
void drop_latent(Patch& patch) {
  for (const char* key :
       {"v_head_dim", "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "use_mla"}) {
    patch.drop(key);
  }
}

/// Hunyuan's lists with an entry a layer, which are all alike; zeros for what is switched off.
void translate_hunyuan(const JsonValue& file, Patch& patch) {
  for (const char* key : {"moe_topk", "moe_intermediate_size", "num_shared_expert", "num_experts"}) {
    const auto list = file.find(key);
    if (!list || !list->is_array()) continue;
    const std::vector<JsonValue> values = list->elements();
    if (values.empty()) list->fail("expected one entry a layer, found none");
    for (const JsonValue& value : values) {
      if (value.dump() != values.front().dump()) value.fail("layers that differ in it are not understood");
    }
    patch.set(key, values.front().dump());
  }
  if (!file.find_bool("use_mla").value_or(false)) drop_latent(patch);
  for (const char* key : {"dense_list", "num_media_embeds"})
    patch.drop(key);  // of a classifier; rows of the vocabulary
  for (const char* key : {"n_group", "topk_group", "routed_scaling_factor"}) {  // switched off
    const auto value = file.find(key);
    if (value && value->is_boolean() && !value->as_bool()) patch.drop(key);
  }
}

/// Width of the feed-forward part of a block that was searched for: a share of the usual one, in whole units of 256.
std::int64_t searched_width(const JsonValue& part, std::int64_t hidden) {
  if (part.find("intermediate_size")) return size_at(part, "intermediate_size");
  const double usual = std::trunc(2 * part.at("ffn_mult").as_number() * static_cast<double>(hidden) / 3);
  return (whole_width(part, usual) + 255) / 256 * 256;
}

/// Nemotron-NAS: a block of each layer's own, which may lack attention or the feed-forward part.
void translate_searched(const JsonValue& file, Patch& patch) {
  const auto blocks = file.find("block_configs");
  if (!blocks) return;
  const std::int64_t layers = layers_at(file, "num_hidden_layers"), hidden = size_at(file, "hidden_size");
  const std::int64_t heads = size_at(file, "num_attention_heads");
  Patch own;
  std::vector<std::int64_t> without_attention, without_ffn;
  std::int64_t number = 0;
  for (const JsonValue& block : each_layer(*blocks, layers)) {
    Patch layer;
    const JsonValue attention = block.at("attention"), ffn = block.at("ffn");
    for (const JsonValue& part : {attention, ffn}) {
      if (part.find_bool("replace_with_linear").value_or(false))
        part.fail("a linear layer in its place is not understood");
    }
    if (attention.find_bool("no_op").value_or(false)) without_attention.push_back(number);
    else if (attention.find("n_heads_in_group")) {
      layer.set("num_key_value_heads", std::max<std::int64_t>(1, heads / size_at(attention, "n_heads_in_group")));
    } else {
      layer.set("num_key_value_heads", size_at(attention, "num_key_value_heads"));
    }
    if (ffn.find_bool("no_op").value_or(false)) without_ffn.push_back(number);
    else layer.set("intermediate_size", searched_width(ffn, hidden));
    if (!layer.text().empty()) own.set(std::to_string(number), layer.text());
    ++number;
  }
  patch.drop("block_configs");
  if (!own.text().empty()) patch.set("per_layer_config", own.text());
  patch.set("intermediate_size", hidden);  // of layers that have none
  patch.set("num_key_value_heads", heads);
  patch.list("layers_without_attention", without_attention);
  patch.list("layers_without_ffn", without_ffn);
}

/// MiMo-V2-Flash as its checkpoint has it: 1 is a layer with a window.
void translate_mimo(const JsonValue& file, Patch& patch) {
  const auto pattern = file.find_list("hybrid_layer_pattern");
  if (!pattern) return;
  if (file.find_bool("add_full_attention_sink_bias").value_or(false)) {
    file.at("add_full_attention_sink_bias").fail("sinks of layers without a window are not understood");
  }
  std::string words;
  for (const JsonValue& value : each_layer(*pattern, layers_at(file, "num_hidden_layers"))) {
    words += words.empty() ? "[" : ",";
    words += integer_within(value, 0, 1) == 1 ? R"("sliding_attention")" : R"("full_attention")";
  }
  patch.set("layer_types", words + "]");
  for (const char* key : {"hybrid_layer_pattern", "attention_chunk_size", "hybrid_block_size"}) patch.drop(key);
}

/// What OLMo's own form of the file and LLaDA's, which is made of it, call by other names.
void move_olmo_sizes(const JsonValue& file, Patch& patch) {
  patch.move(file, "d_model", "hidden_size");
  patch.move(file, "n_layers", "num_hidden_layers");
  patch.move(file, "n_heads", "num_attention_heads");
  patch.move(file, "n_kv_heads", "num_key_value_heads");
  patch.move(file, "weight_tying", "tie_word_embeddings");
  patch.move(file, "max_sequence_length", "max_position_embeddings");
  if (file.has("embedding_size")) patch.move(file, "embedding_size", "vocab_size");
}

void expect_word(const JsonValue& file, const char* key, const char* word) {
  if (file.find_string(key).value_or(word) != word) file.at(key).fail("expected '" + std::string(word) + "'");
}

/// LLaDA (modeling_llada.py beside the weights): Llama's blocks in OLMo's words, which attend both ways; a gate and what
/// it gates are each as wide as the file says.
void translate_llada(const JsonValue& file, Patch& patch) {
  if (!file.has("d_model")) return;
  for (const char* key : {"include_bias", "include_qkv_bias", "bias_for_layer_norm", "alibi", "attention_layer_norm"}) {
    if (file.find_bool(key).value_or(false)) file.at(key).fail("expected false, as LLaDA-8B has it");
  }
  for (const auto& [key, word] :
       {std::pair{"activation_type", "silu"}, std::pair{"block_type", "llama"}, std::pair{"layer_norm_type", "rms"}}) {
    expect_word(file, key, word);
    patch.drop(key);
  }
  move_olmo_sizes(file, patch);
  patch.move(file, "mlp_hidden_size", "intermediate_size");
  patch.set("use_bidirectional_attention", std::string("true"));
  for (const char* key : {"include_bias", "include_qkv_bias", "bias_for_layer_norm", "alibi", "attention_layer_norm",
                          "layer_norm_with_affine", "attention_layer_norm_with_affine", "mlp_ratio", "rope",
                          "multi_query_attention", "flash_attention", "scale_logits", "block_group_size"}) {
    patch.drop(key);
  }
}

/// OLMo's own form of the file (hf_olmo), as its first models have it: norms without weights, gated, no biases.
void translate_olmo(const JsonValue& file, Patch& patch) {
  if (!file.has("d_model")) return;
  for (const char* key : {"include_bias", "layer_norm_with_affine", "alibi", "attention_layer_norm"}) {
    if (file.find_bool(key).value_or(false)) file.at(key).fail("expected false, as the first OLMo models have it");
  }
  if (!file.find_bool("rope").value_or(true)) file.at("rope").fail("expected true");
  expect_word(file, "activation_type", "swiglu");
  expect_word(file, "block_type", "sequential");
  move_olmo_sizes(file, patch);
  // Both halves of the gated projection.
  const std::int64_t both = file.has("mlp_hidden_size") ? size_at(file, "mlp_hidden_size")
                                                        : size_at(file, "mlp_ratio") * size_at(file, "d_model");
  patch.set("intermediate_size", both / 2);
  for (const char* key : {"mlp_hidden_size", "mlp_ratio", "activation_type", "block_type", "rope",
                          "multi_query_attention", "flash_attention", "scale_logits", "block_group_size"}) {
    patch.drop(key);
  }
}

}  // namespace

std::string translation(const JsonValue& file, const Family& family) {
  Patch patch;
  if (family.type == "dbrx") translate_dbrx(file, patch);
  if (family.type == "openelm") translate_openelm(file, patch);
  if (family.type == "step3_text") translate_step3(file, patch);
  if (family.type == "hunyuan" || family.type == "hunyuan_v1_moe" || family.type == "hunyuan_v1_dense") {
    translate_hunyuan(file, patch);
  }
  if (family.type == "deepseek_v2" || family.type == "deepseek") {
    if (!file.find_bool("use_mla").value_or(true)) drop_latent(patch);
  }
  if (family.type == "mimo_v2_flash") translate_mimo(file, patch);
  if (family.type == "olmo") translate_olmo(file, patch);
  if (family.type == "llada") translate_llada(file, patch);
  if (family.type == "dream") patch.set("use_bidirectional_attention", std::string("true"));
  if (family.type == "nemotron-nas") translate_searched(file, patch);
  return patch.text();
}

}  // namespace plumbline

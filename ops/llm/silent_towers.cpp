// Towers of a multimodal file, and those that its class makes where the file says nothing of them.
#include <algorithm>
#include <array>
#include <string_view>

#include "ops/llm/parts.hpp"
#include "ops/llm/tower_table.hpp"

namespace plumbline {
namespace {

/// Sizes of such a tower: Gemma3Config's, GotOcr2Config's and Phi4MultimodalConfig's of transformers 5.17.
const char* usual_tower(const std::string& around, const std::string& key) {
  if (around == "phi4_multimodal" && key == "audio_config") {
    return R"({"model_type":"phi4_multimodal_audio","hidden_size":1024,"intermediate_size":1536,"num_blocks":24,
               "num_attention_heads":16})";
  }
  if (around == "phi4_multimodal") {
    return R"({"model_type":"phi4_multimodal_vision","hidden_size":1152,"intermediate_size":4304,
               "num_hidden_layers":27,"num_attention_heads":16,"image_size":448,"patch_size":14})";
  }
  if (key == "audio_config") return around == "qwen2_audio" ? R"({"model_type":"qwen2_audio_encoder"})" : nullptr;
  if (around == "gemma3") return R"({"model_type":"siglip_vision_model"})";
  if (around == "glm4v") {
    return R"({"model_type":"glm4v_vision","depth":24,"hidden_size":1536,"num_heads":12,"image_size":336,"patch_size":14,
               "out_hidden_size":4096,"intermediate_size":13696})";
  }
  if (around == "mistral3") {
    return R"({"model_type":"pixtral","hidden_size":1024,"intermediate_size":4096,"num_hidden_layers":24,
               "num_attention_heads":16,"image_size":1540,"patch_size":14})";
  }
  if (around == "paligemma") {
    return R"({"model_type":"siglip_vision_model","hidden_size":1152,"intermediate_size":4096,"num_hidden_layers":27,
               "num_attention_heads":16,"image_size":224,"patch_size":14,"vision_use_head":false})";
  }
  if (around == "qwen2_vl") return R"({"model_type":"qwen2_vl","depth":32,"embed_dim":1280,"hidden_size":3584})";
  if (around == "qwen2_5_vl") {
    return R"({"model_type":"qwen2_5_vl","depth":32,"hidden_size":3584,"intermediate_size":3420,"out_hidden_size":3584})";
  }
  if (around == "qwen3_vl" || around == "qwen3_vl_moe") {
    return R"({"model_type":"qwen3_vl","depth":27,"hidden_size":1152,"intermediate_size":4304,"out_hidden_size":3584})";
  }
  if (around != "got_ocr2") return nullptr;
  return R"({"model_type":"","hidden_size":768,"num_hidden_layers":12,"num_attention_heads":12,"image_size":1024,
             "patch_size":16,"mlp_dim":3072,"output_channels":256,"window_size":14,"global_attn_indexes":[2,5,8,11]})";
}

/// Parts that the class of a table's model makes of its own sizes where the file has none.
void add_silent_parts(const JsonValue& root, const LlmConfig& config, Llm& llm) {
  if (!first_architecture(root).ends_with("ForConditionalGeneration")) return;
  for (const std::string& key : parts_of_model(root)) {
    if (const auto part = root.find(key); part && !part->is_null()) continue;
    const auto usual = usual_part(root, key);
    const JsonDocument silent = JsonDocument::parse(usual ? usual->dump() : "{}", root.place() + ": " + key);
    add_tower(config, key, silent.root(), llm);
    config.assume("no " + key + " in the file: it is the default of the class of '" +
                  root.find_string("model_type").value_or("") + "'");
  }
}

/// Classes that make a tower of their own sizes where the file has none.
void note_silent_towers(const JsonValue& root, const LlmConfig& config, Llm& llm) {
  const std::string around = root.find_string("model_type").value_or("");
  constexpr auto kSeeing =
      std::to_array<std::string_view>({"gemma3", "got_ocr2", "phi4_multimodal", "qwen2_vl", "qwen2_5_vl", "qwen3_vl",
                                       "qwen3_vl_moe", "glm4v", "mistral3", "paligemma"});
  const bool sees = std::find(kSeeing.begin(), kSeeing.end(), around) != kSeeing.end();
  const bool only_hears = around == "qwen2_audio";
  for (const char* key : {"vision_config", "audio_config"}) {
    const bool picture = std::string_view(key) == "vision_config";
    const bool has = picture ? sees : only_hears || around == "phi4_multimodal";
    if (!has || root.has(key)) continue;
    const bool whole = first_architecture(root).ends_with("ForConditionalGeneration") || around == "phi4_multimodal";
    const char* usual = whole ? usual_tower(around, key) : nullptr;
    if (usual != nullptr) {
      const JsonDocument tower = JsonDocument::parse(usual, root.place());
      add_tower(config, key, tower.root(), llm);
      config.assume("no " + std::string(key) + " in the file: the tower is the default of the class of '" + around +
                    "'");
      continue;
    }
    config.assume("no " + std::string(key) + " in the file: the tower that the class of '" + around +
                  "' makes all the same is not among the parameters");
  }
}

}  // namespace

void add_towers(const JsonValue& root, const LlmConfig& config, Llm& llm) {
  for (const char* key : {"vision_config", "audio_config"}) {
    if (const auto tower = root.find(key)) add_tower(config, key, *tower, llm);
  }
  for (const std::string& key : further_parts(root)) {
    if (const auto part = root.find_object(key)) add_tower(config, key, *part, llm);
  }
  add_silent_parts(root, config, llm);
  note_silent_towers(root, config, llm);
}

}  // namespace plumbline

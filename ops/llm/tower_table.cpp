#include "ops/llm/tower_table.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "ops/family/table_sizes.hpp"
#include "ops/llm/parts.hpp"

namespace plumbline {
namespace {

JsonValue table() { return family_table("towers.json"); }

double count_of(const JsonValue& entry, Sizes& sizes, const JsonValue& blamed) {
  constexpr double kMost = 1e15;
  const auto text = entry.find("params");
  const double count = text ? sizes.of(*text) : 0.0;
  if (!(count >= 0 && count <= kMost)) blamed.fail("these sizes give no number of parameters from 0 to 10^15");
  return count;
}

std::optional<JsonValue> model_entry(const JsonValue& outer) {
  return table().at("models").find(outer.find_string("model_type").value_or(""));
}

}  // namespace

std::optional<TableTower> table_tower(const LlmConfig& config, const std::string& key, const JsonValue& tower) {
  const auto model = model_entry(config.outer());
  const auto part = model ? model->find(key) : std::nullopt;
  // "Llama4ForCausalLM" is the language model alone.
  if (!part) return std::nullopt;
  if (first_architecture(config.outer()).ends_with("ForCausalLM") && !part->has("in_causal")) return std::nullopt;
  const JsonValue towers = table().at("towers");
  const std::string own = tower.find_string("model_type").value_or("");
  const auto stated = part->find_string("tower");
  const std::string name = towers.has(own) ? own : stated.value_or("");
  const auto entry = towers.find(name);
  if (stated && !entry) return std::nullopt;
  Sizes sizes;
  sizes.set("hidden", static_cast<double>(config.dim({"hidden_size", "n_embd", "d_model", "emb_dim", "dim"}, "width")));
  TableTower count;
  if (entry) {
    read_keys(*entry, "keys", tower, "", sizes);
    read_keys(*entry, "lists", tower, "", sizes);
    read_words(*entry, tower, sizes);
    read_lets(*entry, sizes);
    count.tower = count_of(*entry, sizes, tower);
  }
  sizes.set("tower", count.tower);
  read_keys(*part, "keys", config.outer(), "", sizes);
  read_keys(*part, "counts", config.outer(), "", sizes);
  read_keys(*part, "own", tower, "", sizes);
  read_keys(*part, "text", config.inner(), "t_", sizes);
  read_lets(*part, sizes);
  count.projector = count_of(*part, sizes, tower);
  return count;
}

bool knows_towers_of(const std::string& model_type) {
  // ops/llm/towers.cpp, ops/llm/picture_towers.cpp
  constexpr auto kOwn =
      std::to_array<std::string_view>({"gemma3", "gemma3n", "got_ocr2", "phi4_multimodal", "qwen2_vl", "qwen2_5_vl",
                                       "qwen3_vl", "qwen3_vl_moe", "mllama", "mistral3", "ministral3", "llava", "glm4v",
                                       "qwen2_audio", "git", "paligemma", "kimi_vl", "internvl_chat"});
  return table().at("models").has(model_type) || std::find(kOwn.begin(), kOwn.end(), model_type) != kOwn.end();
}

std::optional<JsonValue> usual_part(const JsonValue& outer, const std::string& key) {
  const auto model = model_entry(outer);
  const auto part = model ? model->find(key) : std::nullopt;
  return part ? part->find("usual") : std::nullopt;
}

std::vector<std::string> parts_of_model(const JsonValue& outer) {
  const auto model = model_entry(outer);
  return model ? model->keys() : std::vector<std::string>{};
}

std::vector<std::string> further_parts(const JsonValue& outer) {
  std::vector<std::string> names = parts_of_model(outer);
  std::erase_if(names, [](const std::string& key) { return key == "vision_config" || key == "audio_config"; });
  return names;
}

}  // namespace plumbline

#include "ops/llm/layer_configs.hpp"

#include <array>
#include <utility>

#include "ops/mixer/table.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kMostDifferent = 256;

using LayerPatches = std::vector<std::string>;

void add(std::string& patch, std::string_view key, const std::string& value) {
  patch += (patch.empty() ? "\"" : ",\"") + std::string(key) + "\":" + value;
}

/// Lists with one entry a layer, of what one number says elsewhere.
void add_lists(const LlmConfig& config, LayerPatches& patches) {
  struct List {
    std::string_view list, key;
  };
  for (const List& names : std::array{List{"num_attention_heads_per_layer", "num_attention_heads"},
                                      List{"intermediate_size", "intermediate_size"},
                                      List{"num_kv_heads_per_layer", "num_key_value_heads"}}) {
    const auto list = config.inner().find(names.list);
    if (!list || !list->is_array()) continue;
    config.find({names.list});
    const auto values = list->elements();
    if (values.size() < patches.size()) {
      list->fail("expected one entry a layer (" + std::to_string(patches.size()) + "), found " +
                 std::to_string(values.size()));
    }
    for (std::size_t i = 0; i < patches.size(); ++i) {
      add(patches[i], names.key, std::to_string(integer_within(values[i], 1, LlmConfig::kLargestDim)));
    }
  }
}

/// Gemma 4: layers that keep no keys of their own may have feed-forward parts of twice the width.
void add_wide_parts(const LlmConfig& config, LayerPatches& patches) {
  const auto own = static_cast<std::int64_t>(patches.size()) - config.count_or({"num_kv_shared_layers"}, 0);
  if (!config.flag_or({"use_double_wide_mlp"}, false) || own <= 0) return;
  const std::int64_t width = 2 * config.dim({"intermediate_size"}, "FFN width");
  for (auto i = static_cast<std::size_t>(own); i < patches.size(); ++i) {
    add(patches[i], "intermediate_size", std::to_string(width));
  }
}

/// Gemma 4's older form: full attention has heads of its own width, and its own KV heads where keys are values.
void add_global_heads(const LlmConfig& config, const std::vector<std::string_view>& words, LayerPatches& patches) {
  // transformers' class gives a file without this form and the newer one the former's default.
  const bool newer = config.inner().has("per_layer_config") && !config.inner().has("global_head_dim");
  const auto width = newer ? std::nullopt : config.maybe_dim({"global_head_dim"});
  const auto heads = config.maybe_dim({"num_global_key_value_heads"});
  const bool joint = config.flag_or({"attention_k_eq_v"}, false);
  for (std::size_t i = 0; i < patches.size(); ++i) {
    if (words[i] != kFullAttention) continue;
    if (width) add(patches[i], "head_dim", std::to_string(*width));
    if (heads && joint) add(patches[i], "num_key_value_heads", std::to_string(*heads));
  }
}

/// transformers 5: {"05": {"head_dim": 512}, ...}; a name of a kind of layer ("full_attention") speaks of all of them.
void add_overrides(const LlmConfig& config, const std::vector<std::string_view>& words, LayerPatches& patches) {
  const auto table = config.find_object({"per_layer_config"});
  if (!table) return;
  for (const std::string& key : table->keys()) {
    const JsonValue one = table->at(key);
    if (!one.is_object()) one.fail("expected an object, found " + one.dump().substr(0, 60));
    const bool number = !key.empty() && key.size() <= 5 && key.find_first_not_of("0123456789") == std::string::npos;
    const std::size_t layer = number ? std::stoul(key) : 0;
    if (number && layer >= patches.size()) one.fail("there is no layer " + key);
    bool used = false;
    for (std::size_t i = 0; i < patches.size(); ++i) {
      if (number ? i != layer : words[i] != key) continue;
      used = true;
      for (const std::string& name : one.keys()) add(patches[i], name, one.at(name).dump());
    }
    if (!used) one.fail("'" + key + "' names no layer");
  }
}

}  // namespace

LayerConfigs::Own::Own(const LlmConfig& base, const std::string& patch)
    : document(JsonDocument::parse(base.inner().dump(), base.inner().place())
                   .merged_with(JsonDocument::parse("{" + patch + "}", base.inner().place()))),
      config(document.root(), base.outer(), base.family()) {}

LayerConfigs::LayerConfigs(const LlmConfig& config, const std::vector<std::string_view>& words) : base_(config) {
  LayerPatches patches(words.size());
  add_lists(config, patches);
  add_wide_parts(config, patches);
  add_global_heads(config, words, patches);
  add_overrides(config, words, patches);
  for (const std::string& patch : patches) {
    if (patch.empty()) {
      configs_.push_back(&base_);
      continue;
    }
    std::unique_ptr<Own>& own = owned_[patch];
    if (own == nullptr) {
      if (owned_.size() > kMostDifferent) config.inner().fail("more than 256 layers that differ from each other");
      own = std::make_unique<Own>(config, patch);
    }
    configs_.push_back(&own->config);
  }
}

void LayerConfigs::report_keys() const {
  for (const auto& [patch, own] : owned_) {
    base_.know_keys_of(own->config);
    for (const std::string& sentence : own->config.assumptions()) base_.assume(sentence);
  }
}

}  // namespace plumbline

#include <algorithm>

#include "arch/files.hpp"
#include "ops/llm/parts.hpp"

namespace plumbline {
namespace {

using Mixers = std::vector<Mixer>;

Mixer mixer_named(const JsonValue& value) {
  const std::string text = value.as_string();
  if (text == "full_attention" || text == "attention" || text == "global_attention" || text == "global")
    return Mixer::full;
  if (text == "sliding_attention" || text == "local_attention" || text == "local") return Mixer::sliding;
  if (text == "chunked_attention") return Mixer::chunked;
  if (text == "linear_attention") return Mixer::delta_net;
  if (text == "mamba") return Mixer::mamba;
  const std::vector<std::string> known{"full_attention", "sliding_attention", "chunked_attention", "linear_attention",
                                       "mamba",          "attention"};
  value.fail("layer kind '" + text + "' is not understood" + did_you_mean(text, known));
}

Mixers from_list(const JsonValue& list, std::int64_t layers) {
  const auto values = list.elements();
  if (static_cast<std::int64_t>(values.size()) < layers) {
    list.fail("expected one entry a layer (" + std::to_string(layers) + "), found " + std::to_string(values.size()));
  }
  Mixers mixers;
  for (std::int64_t i = 0; i < layers; ++i) mixers.push_back(mixer_named(values[static_cast<std::size_t>(i)]));
  return mixers;
}

template <class Choose>
Mixers each(std::int64_t layers, Choose choose) {
  Mixers mixers;
  for (std::int64_t i = 0; i < layers; ++i) mixers.push_back(choose(i));
  return mixers;
}

/// "LLLG" repeated (EXAONE-4), or every n-th layer full (Gemma 3).
Mixers from_sliding_pattern(const JsonValue& pattern, std::int64_t layers) {
  if (pattern.is_string()) {
    const std::string text = pattern.as_string();
    if (text.empty() || text.find_first_not_of("LG") != std::string::npos) {
      pattern.fail("expected a number, or letters L and G, found '" + text + "'");
    }
    return each(layers, [&](std::int64_t i) {
      return text[static_cast<std::size_t>(i) % text.size()] == 'L' ? Mixer::sliding : Mixer::full;
    });
  }
  const std::int64_t n = integer_within(pattern, 1, LlmConfig::kLargestDim);
  return each(layers, [n](std::int64_t i) { return (i + 1) % n == 0 ? Mixer::full : Mixer::sliding; });
}

Mixers all(std::int64_t layers, Mixer mixer) { return Mixers(static_cast<std::size_t>(layers), mixer); }

/// Hybrids with recurrent layers, whose places come from periods or lists of indices.
bool recurrent_pattern(const LlmConfig& config, std::int64_t layers, Mixers& mixers) {
  if (const auto n = config.maybe_dim({"full_attention_interval"})) {
    mixers = each(layers, [&](std::int64_t i) { return (i + 1) % *n == 0 ? Mixer::full : Mixer::delta_net; });
    return true;
  }
  if (const auto period = config.maybe_dim({"attn_layer_period"})) {
    const std::int64_t offset = config.count_or({"attn_layer_offset"}, 0);
    mixers = each(layers, [&](std::int64_t i) { return i % *period == offset ? Mixer::full : Mixer::mamba; });
    return true;
  }
  if (const auto list = config.find({"attn_layer_indices"})) {
    mixers = all(layers, Mixer::mamba);
    for (const JsonValue& value : list->elements()) {
      mixers[static_cast<std::size_t>(integer_within(value, 0, layers - 1))] = Mixer::full;
    }
    return true;
  }
  return false;
}

/// GPT-Neo: [[["global", "local"], 12]].
Mixers from_attention_types(const JsonValue& types, std::int64_t layers) {
  Mixers mixers;
  for (const JsonValue& group : types.elements()) {
    const auto pair = group.elements();
    if (pair.size() != 2) group.fail("expected a list of kinds and a repeat count");
    const std::int64_t repeat = integer_within(pair[1], 1, LlmConfig::kMostLayers);
    const auto kinds = pair[0].elements();
    for (std::int64_t r = 0; r < repeat && static_cast<std::int64_t>(mixers.size()) < layers; ++r) {
      for (const JsonValue& kind : kinds) mixers.push_back(mixer_named(kind));
    }
  }
  if (static_cast<std::int64_t>(mixers.size()) < layers) {
    types.fail("expected kinds for " + std::to_string(layers) + " layers, found " + std::to_string(mixers.size()));
  }
  mixers.resize(static_cast<std::size_t>(layers));
  return mixers;
}

/// MiniMax: 1 full, 0 lightning attention (which has no model here).
void refuse_linear_types(const LlmConfig& config) {
  const auto list = config.find({"attn_type_list"});
  if (!list) return;
  for (const JsonValue& value : list->elements()) {
    if (value.as_integer() != 1)
      value.fail("attention type " + value.dump() + " (lightning attention) is not understood");
  }
}

}  // namespace

std::int64_t sliding_window(const LlmConfig& config) {
  const bool may = config.is("qwen2") || config.is("qwen2_moe") || config.is("qwen3") || config.is("qwen3_moe");
  if (!config.flag_or({"use_sliding_window"}, !may)) {
    config.find({"sliding_window", "sliding_window_size"});
    return 0;
  }
  if (const auto window = config.maybe_dim({"sliding_window", "sliding_window_size"})) return *window;
  return config.is("gpt_neo") ? config.dim_or({"window_size"}, 256) : 0;
}

std::vector<Mixer> layer_mixers(const LlmConfig& config, std::int64_t layers) {
  refuse_linear_types(config);
  const std::int64_t window = sliding_window(config);
  Mixers mixers;
  if (const auto list = config.find({"layer_types", "layers_block_type"})) {
    // The keys that the list overrules count as understood.
    config.find({"full_attention_interval"});
    config.find({"sliding_window_pattern"});
    config.find({"attn_layer_indices"});
    config.find({"mamba_n_heads", "mamba_num_heads", "mamba_head_dim"});
    mixers = from_list(*list, layers);
  } else if (recurrent_pattern(config, layers, mixers)) {
    return mixers;
  } else if (const auto types = config.find({"attention_types"})) {
    mixers = from_attention_types(*types, layers);
  } else if (config.has({"attention_chunk_size"}) && config.family().has(kNope4)) {
    mixers = each(layers, [](std::int64_t i) { return i % 4 == 3 ? Mixer::full : Mixer::chunked; });
  } else if (window == 0) {
    mixers = all(layers, Mixer::full);
  } else if (const auto pattern = config.find({"sliding_window_pattern", "_sliding_window_pattern"})) {
    mixers = from_sliding_pattern(*pattern, layers);
  } else if (const std::int64_t n = config.family().pattern; n > 0) {
    config.assume("no layer_types: every " + std::to_string(n) + "th layer has full attention, the class default");
    mixers = each(layers, [n](std::int64_t i) { return (i + 1) % n == 0 ? Mixer::full : Mixer::sliding; });
  } else if (config.family().has(kEvenSlide)) {
    mixers = each(layers, [](std::int64_t i) { return i % 2 == 0 ? Mixer::sliding : Mixer::full; });
  } else if (config.has({"max_window_layers"})) {
    const std::int64_t first = config.count_or({"max_window_layers"}, 0);
    mixers = each(layers, [first](std::int64_t i) { return i >= first ? Mixer::sliding : Mixer::full; });
  } else {
    if (!config.family().has(kWindow)) config.assume("sliding_window without a pattern: taken for all layers");
    mixers = all(layers, Mixer::sliding);
  }
  if (window == 0) std::replace(mixers.begin(), mixers.end(), Mixer::sliding, Mixer::full);
  return mixers;
}

}  // namespace plumbline

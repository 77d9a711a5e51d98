#include <algorithm>

#include "arch/files.hpp"
#include "ops/llm/parts.hpp"
#include "ops/mixer/attention.hpp"
#include "ops/mixer/table.hpp"

namespace plumbline {
namespace {

using Words = std::vector<std::string_view>;

/// The table's spelling of an entry of a list.
std::string_view word_of(const LlmConfig& config, const JsonValue& value) {
  const std::string text = value.as_string();
  if (text == "attention" || text == "global_attention" || text == "global") return kFullAttention;
  if (text == "local_attention" || text == "local") return kSlidingAttention;
  if (config.is("zaya") || config.is("inkling")) {  // attention whose inputs pass short convolutions
    if (text == "hybrid") return kFullAttention;
    if (text == "hybrid_sliding") return kSlidingAttention;
  }
  if (const MixerKind* kind = find_mixer(config, text)) return *std::find(kind->words.begin(), kind->words.end(), text);
  std::vector<std::string> known = mixer_words();
  known.emplace_back("attention");
  value.fail("layer kind '" + text + "' is not understood" + did_you_mean(text, known));
}

Words from_list(const LlmConfig& config, const JsonValue& list, std::int64_t layers) {
  const auto values = list.elements();
  if (static_cast<std::int64_t>(values.size()) < layers) {
    list.fail("expected one entry a layer (" + std::to_string(layers) + "), found " + std::to_string(values.size()));
  }
  Words words;
  for (std::int64_t i = 0; i < layers; ++i) words.push_back(word_of(config, values[static_cast<std::size_t>(i)]));
  return words;
}

template <class Choose>
Words each(std::int64_t layers, Choose choose) {
  Words words;
  for (std::int64_t i = 0; i < layers; ++i) words.push_back(choose(i));
  return words;
}

/// "LLLG" repeated (EXAONE-4), or every n-th layer full (Gemma 3).
Words from_sliding_pattern(const JsonValue& pattern, std::int64_t layers) {
  if (pattern.is_string()) {
    const std::string text = pattern.as_string();
    if (text.empty() || text.find_first_not_of("LG") != std::string::npos) {
      pattern.fail("expected a number, or letters L and G, found '" + text + "'");
    }
    return each(layers, [&](std::int64_t i) {
      return text[static_cast<std::size_t>(i) % text.size()] == 'L' ? kSlidingAttention : kFullAttention;
    });
  }
  const std::int64_t n = integer_within(pattern, 1, LlmConfig::kLargestDim);
  return each(layers, [n](std::int64_t i) { return (i + 1) % n == 0 ? kFullAttention : kSlidingAttention; });
}

Words all(std::int64_t layers, std::string_view word) { return Words(static_cast<std::size_t>(layers), word); }

/// Hybrids in which a mixer has keys of its own for its places.
bool placed(const LlmConfig& config, std::int64_t layers, Words& words) {
  for (const MixerKind& kind : mixer_kinds()) {
    if (kind.places == nullptr || (kind.meant != nullptr && !kind.meant(config))) continue;
    const auto here = kind.places(config, layers);
    if (!here) continue;
    words = each(layers, [&](std::int64_t i) {
      return (*here)[static_cast<std::size_t>(i)] ? kind.words.front() : kFullAttention;
    });
    return true;
  }
  return false;
}

/// GPT-Neo: [[["global", "local"], 12]].
Words from_attention_types(const LlmConfig& config, const JsonValue& types, std::int64_t layers) {
  Words words;
  for (const JsonValue& group : types.elements()) {
    const auto pair = group.elements();
    if (pair.size() != 2) group.fail("expected a list of kinds and a repeat count");
    const std::int64_t repeat = integer_within(pair[1], 1, LlmConfig::kMostLayers);
    const auto kinds = pair[0].elements();
    for (std::int64_t r = 0; r < repeat && static_cast<std::int64_t>(words.size()) < layers; ++r) {
      for (const JsonValue& kind : kinds) words.push_back(word_of(config, kind));
    }
  }
  if (static_cast<std::int64_t>(words.size()) < layers) {
    types.fail("expected kinds for " + std::to_string(layers) + " layers, found " + std::to_string(words.size()));
  }
  words.resize(static_cast<std::size_t>(layers));
  return words;
}

/// Inkling: the sliding layers by their numbers, or all but every sixth.
Words inkling_words(const LlmConfig& config, std::int64_t layers) {
  const auto list = config.find({"local_layer_ids"});
  if (!list) return each(layers, [](std::int64_t i) { return (i + 1) % 6 != 0 ? kSlidingAttention : kFullAttention; });
  Words words = all(layers, kFullAttention);
  for (const JsonValue& value : list->elements()) {
    const std::int64_t layer = integer_within(value, 0, LlmConfig::kMostLayers);
    if (layer < layers) words[static_cast<std::size_t>(layer)] = kSlidingAttention;
  }
  return words;
}

/// 1 full, 0 lightning attention, which MiniMax alone has.
void refuse_linear_types(const LlmConfig& config) {
  const auto list = config.find({"attn_type_list"});
  if (!list || config.is("minimax")) return;
  for (const JsonValue& value : list->elements()) {
    if (value.as_integer() != 1)
      value.fail("attention type " + value.dump() + " (lightning attention) is not understood");
  }
}

}  // namespace

Words layer_words(const LlmConfig& config, std::int64_t layers) {
  refuse_linear_types(config);
  const std::int64_t window = sliding_window(config);
  Words words;
  if (const auto blocks = config.find({"block_types"})) {
    // RecurrentGemma: kinds that repeat.
    const auto kinds = blocks->elements();
    if (kinds.empty()) blocks->fail("expected kinds of layers, found none");
    words = each(layers,
                 [&](std::int64_t i) { return word_of(config, kinds[static_cast<std::size_t>(i) % kinds.size()]); });
    if (window > 0) std::replace(words.begin(), words.end(), kFullAttention, kSlidingAttention);
    return words;
  }
  if (const auto list = config.find({"layer_types", "layers_block_type"})) {
    // The keys that the list overrules count as understood.
    config.find({"full_attention_interval"});
    config.find({"global_attn_every_n_layers"});
    config.find({"sliding_window_pattern"});
    config.find({"attn_layer_indices"});
    config.find({"local_layer_ids"});
    config.find({"mamba_n_heads", "mamba_num_heads", "mamba_head_dim"});
    words = from_list(config, *list, layers);
  } else if (config.is("inkling")) {
    words = inkling_words(config, layers);
  } else if (placed(config, layers, words)) {
    return words;
  } else if (const auto types = config.find({"attention_types"})) {
    words = from_attention_types(config, *types, layers);
  } else if (config.has({"attention_chunk_size"}) && config.family().has(kNope4)) {
    words = each(layers, [](std::int64_t i) { return i % 4 == 3 ? kFullAttention : kChunkedAttention; });
  } else if (window == 0) {
    words = all(layers, kFullAttention);
  } else if (const auto pattern = config.find({"sliding_window_pattern", "_sliding_window_pattern"})) {
    words = from_sliding_pattern(*pattern, layers);
  } else if (const std::int64_t every = config.count_or({"global_attn_every_n_layers"}, 0); every > 0) {
    // AFMoE: the last of every n layers sees everything; ModernBERT: the first.
    const std::int64_t full = config.is("modernbert-decoder") ? 0 : every - 1;
    words = each(layers, [=](std::int64_t i) { return i % every == full ? kFullAttention : kSlidingAttention; });
  } else if (const std::int64_t n = config.family().pattern; n > 0) {
    config.assume("no layer_types: every " + std::to_string(n) + "th layer has full attention, the class default");
    words = each(layers, [n](std::int64_t i) { return (i + 1) % n == 0 ? kFullAttention : kSlidingAttention; });
  } else if (config.family().has(kEvenSlide)) {
    words = each(layers, [](std::int64_t i) { return i % 2 == 0 ? kSlidingAttention : kFullAttention; });
  } else if (config.has({"max_window_layers"})) {
    const std::int64_t first = config.count_or({"max_window_layers"}, 0);
    words = each(layers, [first](std::int64_t i) { return i >= first ? kSlidingAttention : kFullAttention; });
  } else {
    if (!config.family().has(kWindow)) config.assume("sliding_window without a pattern: taken for all layers");
    words = all(layers, kSlidingAttention);
  }
  if (window == 0) std::replace(words.begin(), words.end(), kSlidingAttention, kFullAttention);
  return words;
}

}  // namespace plumbline

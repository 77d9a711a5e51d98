// The table of mixers. A new one: its file, a function declared here, and its place in `mixer_kinds`.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/config/config.hpp"
#include "ops/mixer/mixer.hpp"

namespace plumbline {

/// Words for layers of softmax attention, as Hugging Face's `layer_types` has them. Readers of layer patterns
/// (ops/llm/pattern.cpp) give other spellings these names.
inline constexpr std::string_view kFullAttention = "full_attention";
inline constexpr std::string_view kSlidingAttention = "sliding_attention";
inline constexpr std::string_view kChunkedAttention = "chunked_attention";

/// A layer whose mixer is to be read.
struct LayerPlace {
  std::string_view word;  ///< what the config calls its mixer
  std::int64_t hidden = 0;
  std::int64_t layer = 0, layers = 1;
};

/// How configs name a mixer and say its sizes.
struct MixerKind {
  /// Entries of `layer_types` that mean it; other sources of the pattern (`places`) use the first.
  std::span<const std::string_view> words;
  /// Whether the file means this one of several mixers with that word. Null: it is the one that is left.
  bool (*meant)(const LlmConfig& config) = nullptr;
  /// Which layers have it, by keys of its own for the pattern (the others have full attention); nothing without such
  /// keys. Null: it has none.
  std::optional<std::vector<bool>> (*places)(const LlmConfig& config, std::int64_t layers) = nullptr;
  LayerMixer (*read)(const LlmConfig& config, const LayerPlace& place) = nullptr;
  /// One without sizes yet, for files that name the mixer itself.
  std::shared_ptr<Mixer> (*fresh)() = nullptr;
};

template <class Spec>
std::shared_ptr<Mixer> fresh_mixer() {
  return std::make_shared<Spec>();
}

MixerKind mla_mixer();
MixerKind sparse_mla_mixer();
MixerKind compressed_mixer();
MixerKind compressed_layers_mixer();
MixerKind compressed_window_mixer();
MixerKind attention_mixer();
MixerKind delta_net_mixer();
MixerKind mamba1_mixer();
MixerKind mamba2_mixer();
MixerKind short_conv_mixer();
MixerKind parallel_mixer();
MixerKind kda_mixer();
MixerKind lightning_mixer();
MixerKind rg_lru_mixer();
MixerKind rwkv_mixer();
MixerKind rwkv_heads_mixer();
MixerKind mlstm_mixer();
MixerKind attention_experts_mixer();

/// All of them. Of those with the same word the first that is meant counts.
inline std::span<const MixerKind> mixer_kinds() {
  static const std::array kKinds{compressed_layers_mixer(),
                                 compressed_window_mixer(),
                                 parallel_mixer(),
                                 rwkv_heads_mixer(),
                                 rwkv_mixer(),
                                 mlstm_mixer(),
                                 attention_experts_mixer(),
                                 sparse_mla_mixer(),
                                 mla_mixer(),
                                 compressed_mixer(),
                                 attention_mixer(),
                                 kda_mixer(),
                                 lightning_mixer(),
                                 delta_net_mixer(),
                                 rg_lru_mixer(),
                                 mamba1_mixer(),
                                 mamba2_mixer(),
                                 short_conv_mixer()};
  return kKinds;
}

/// Null when no mixer has the word.
const MixerKind* find_mixer(const LlmConfig& config, std::string_view word);
std::vector<std::string> mixer_words();
/// The mixer that graph files call `block`, without sizes yet; null when there is none.
std::shared_ptr<Mixer> fresh_mixer(std::string_view block);
std::vector<std::string> mixer_blocks();
/// The mixer of a layer. Throws BadInput: a word of no mixer, or keys that its reader refuses.
LayerMixer read_mixer(const LlmConfig& config, const LayerPlace& place);

}  // namespace plumbline

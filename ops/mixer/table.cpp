#include "ops/mixer/table.hpp"

#include <algorithm>
#include <string>

#include "arch/files.hpp"
#include "ops/mixer/attention.hpp"
#include "ops/mixer/shared_block.hpp"

namespace plumbline {

const MixerKind* find_mixer(const LlmConfig& config, std::string_view word) {
  for (const MixerKind& kind : mixer_kinds()) {
    const bool named = std::find(kind.words.begin(), kind.words.end(), word) != kind.words.end();
    if (named && (kind.meant == nullptr || kind.meant(config))) return &kind;
  }
  return nullptr;
}

std::vector<std::string> mixer_words() {
  std::vector<std::string> words;
  for (const MixerKind& kind : mixer_kinds()) {
    for (const std::string_view word : kind.words) {
      if (std::find(words.begin(), words.end(), word) == words.end()) words.emplace_back(word);
    }
  }
  return words;
}

namespace {

/// All that a graph file may name: those of the table, and two that readers of whole models make.
std::vector<std::shared_ptr<Mixer>> fresh_mixers() {
  std::vector<std::shared_ptr<Mixer>> all{fresh_mixer<CrossAttentionSpec>(), fresh_mixer<SharedBlockSpec>()};
  for (const MixerKind& kind : mixer_kinds()) {
    if (kind.fresh != nullptr) all.push_back(kind.fresh());
  }
  return all;
}

}  // namespace

std::shared_ptr<Mixer> fresh_mixer(std::string_view block) {
  for (std::shared_ptr<Mixer>& mixer : fresh_mixers()) {
    if (mixer->block() == block) return mixer;
  }
  return nullptr;
}

std::vector<std::string> mixer_blocks() {
  std::vector<std::string> names;
  for (const std::shared_ptr<Mixer>& mixer : fresh_mixers()) names.emplace_back(mixer->block());
  std::sort(names.begin(), names.end());
  return names;
}

LayerMixer read_mixer(const LlmConfig& config, const LayerPlace& place) {
  const MixerKind* kind = find_mixer(config, place.word);
  if (kind != nullptr) return kind->read(config, place);
  const std::string word(place.word);
  config.inner().fail("layer kind '" + word + "' is not understood" + did_you_mean(word, mixer_words()));
}

}  // namespace plumbline

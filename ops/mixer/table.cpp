#include "ops/mixer/table.hpp"

#include <algorithm>
#include <string>

#include "arch/files.hpp"

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

LayerMixer read_mixer(const LlmConfig& config, const LayerPlace& place) {
  const MixerKind* kind = find_mixer(config, place.word);
  if (kind != nullptr) return kind->read(config, place);
  const std::string word(place.word);
  config.inner().fail("layer kind '" + word + "' is not understood" + did_you_mean(word, mixer_words()));
}

}  // namespace plumbline

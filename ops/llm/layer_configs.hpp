// Configs whose layers differ in their sizes: a config a layer, made from the file's and what it says of that layer alone.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ops/config/config.hpp"

namespace plumbline {

class LayerConfigs {
 public:
  /// `words`: the mixer of each layer, which some keys speak of ("global_head_dim"). Throws BadInput naming the key: a
  /// list that is too short, an override of no layer, more than 256 different ones.
  LayerConfigs(const LlmConfig& config, const std::vector<std::string_view>& words);

  /// Keys that the layers' readers asked for count as asked of the file's own config.
  void report_keys() const;

  const LlmConfig& of(std::int64_t layer) const { return *configs_[static_cast<std::size_t>(layer)]; }

 private:
  struct Own {
    Own(const LlmConfig& base, const std::string& patch);
    JsonDocument document;
    LlmConfig config;
  };
  const LlmConfig& base_;
  std::map<std::string, std::unique_ptr<Own>> owned_;
  std::vector<const LlmConfig*> configs_;
};

}  // namespace plumbline

// Keys that nobody asked for and that are no plain size or switch, yet may describe a part of a layer.
#include <algorithm>
#include <array>

#include "ops/config/config.hpp"

namespace plumbline {
namespace {

using Words = std::string_view;

template <std::size_t N>
bool holds_one(std::string_view text, const std::array<Words, N>& parts) {
  return std::any_of(parts.begin(), parts.end(), [&](Words part) { return text.find(part) != std::string_view::npos; });
}

template <std::size_t N>
bool ends_in_one(std::string_view text, const std::array<Words, N>& ends) {
  return std::any_of(ends.begin(), ends.end(), [&](Words end) { return text.ends_with(end); });
}

/// Objects of other concerns: rotation, storage, pictures and sound, training, sampling.
constexpr auto kOtherConcerns = std::to_array<Words>(
    {"rope", "yarn",       "quant",    "compress", "sparsity",  "vision",   "image", "audio",    "speech",
     "vq_",  "projector",  "depth_",   "task_",    "auto_map",  "generat",  "token", "sampling", "train",
     "lora", "processing", "speculat", "eagle",    "text_conf", "_mapping", "label", "parallel", "per_layer_config"});

constexpr auto kBareSizes =
    std::to_array<Words>({"width", "depth", "heads", "layers", "dim", "size", "channels", "rank", "experts", "kernel"});

/// Says an object anywhere inside how large something is?
bool tells_sizes(const JsonValue& value, int depth) {
  if (depth == 0) return false;
  if (value.is_array()) {
    const auto all = value.elements();
    return std::any_of(all.begin(), all.end(), [&](const JsonValue& one) { return tells_sizes(one, depth - 1); });
  }
  if (!value.is_object()) return false;
  const auto names = value.keys();
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    const auto member = value.find(name);
    const bool bare = std::find(kBareSizes.begin(), kBareSizes.end(), name) != kBareSizes.end();
    return bare || LlmConfig::looks_like_size(name) || (member && tells_sizes(*member, depth - 1));
  });
}

/// "attention_type": "linear" and the like: another kind of part than the one that is read.
bool names_a_kind(const std::string& key, const JsonValue& value) {
  constexpr auto kOf = std::to_array<Words>({"attention_type", "attn_type", "attention_head_type", "mlp_type",
                                             "ffn_type", "layer_type", "block_type", "mixer_type"});
  constexpr auto kUsual = std::to_array<Words>(
      {"default", "standard", "full",  "full_attention", "softmax",       "dense",       "bi",      "uni",
       "gqa",     "mha",      "mqa",   "multihead",      "multiquery",    "mla",         "decoder", "transformer",
       "mlp",     "swiglu",   "gated", "causal",         "original_full", "block_sparse"});
  if (!value.is_string() || !ends_in_one(key, kOf)) return false;
  const std::string word = value.as_string();
  return !word.empty() && std::find(kUsual.begin(), kUsual.end(), word) == kUsual.end();
}

/// "ffn_mult": 1.3 and the like: a width that is told as a share of another.
bool scales_a_width(const std::string& key, const JsonValue& value) {
  constexpr auto kOf =
      std::to_array<Words>({"ffn", "mlp", "intermediate", "hidden", "expert", "head", "layer", "width"});
  constexpr auto kBy = std::to_array<Words>({"_mult", "_multiple", "_multiplier", "_ratio", "_factor"});
  constexpr auto kOtherScales = std::to_array<Words>({"lm_head", "logits", "capacity", "alpha", "beta", "norm", "drop",
                                                      "init", "lr_", "learning", "scaling", "aux", "loss"});
  if (!value.is_number() || !holds_one(key, kOf) || !ends_in_one(key, kBy) || holds_one(key, kOtherScales))
    return false;
  const double factor = value.as_number();
  return factor != 0 && factor != 1;
}

}  // namespace

std::vector<std::string> LlmConfig::unknown_parts(std::size_t most) const {
  constexpr int kDeep = 4;
  std::vector<std::string> unknown;
  for (const std::string& key : inner_.keys()) {
    if (unknown.size() == most) break;
    if (key.empty() || key.front() == '_' || asked_.find(key) != asked_.end()) continue;
    const auto value = inner_.find(key);
    if (!value) continue;
    const bool structured = (value->is_object() || value->is_array()) && !holds_one(key, kOtherConcerns);
    if ((structured && tells_sizes(*value, kDeep)) || names_a_kind(key, *value) || scales_a_width(key, *value)) {
      unknown.push_back(key);
    }
  }
  return unknown;
}

}  // namespace plumbline

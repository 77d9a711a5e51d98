#include "ops/config/config.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "arch/error.hpp"
#include "arch/files.hpp"

namespace plumbline {
namespace {

constexpr std::array<std::string_view, 10> kShapeSuffixes{"_layers", "_experts", "_heads", "_dim",      "_size",
                                                          "_rank",   "_pattern", "_types", "_interval", "_ratios"};

// Shape-like names that change no operator and no weight of a forward pass.
constexpr auto kHarmless = std::to_array<std::string_view>({"chunk_size",
                                                            "mamba_chunk_size",
                                                            "max_window_layers",
                                                            "rotary_dim",
                                                            "classifier_proj_size",
                                                            "time_step_rank",
                                                            "attention_sink_size",
                                                            "mtp_transformer_layers",
                                                            "ep_size",
                                                            "tp_size",
                                                            "num_hash_layers",
                                                            "qk_head_dim",
                                                            "no_rope_layers",
                                                            "no_rope_layer_interval",
                                                            "num_experts_per_tok",
                                                            "moe_layers",
                                                            "type_vocab_size",
                                                            "model_max_length",
                                                            "num_logits_to_keep",
                                                            "router_jitter_noise",
                                                            "embedding_size"});

bool ends_with(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

/// 0, false, "", [] and {} switch a feature off.
bool switched_off(const JsonValue& value) {
  switch (value.kind()) {
    case JsonValue::Kind::null: return true;
    case JsonValue::Kind::boolean: return !value.as_bool();
    case JsonValue::Kind::number: return value.dump() == "0" || value.dump() == "0.0";
    case JsonValue::Kind::string: return value.as_string().empty();
    default: return value.size() == 0;
  }
}

std::string joined(LlmConfig::Names names) {
  std::string out;
  for (const std::string_view name : names) out += (out.empty() ? "'" : ", '") + std::string(name) + "'";
  return out;
}

}  // namespace

std::int64_t integer_within(const JsonValue& value, std::int64_t low, std::int64_t high) {
  const std::int64_t number = value.as_integer();
  if (number < low || number > high) {
    value.fail("expected a whole number from " + std::to_string(low) + " to " + std::to_string(high) + ", found " +
               std::to_string(number));
  }
  return number;
}

LlmConfig::LlmConfig(JsonValue inner, JsonValue outer, Family family)
    : inner_(std::move(inner)), outer_(std::move(outer)), family_(family) {}

std::optional<JsonValue> LlmConfig::find(Names names) const {
  std::optional<JsonValue> found;
  for (const std::string_view name : names) {
    if (asked_.find(name) == asked_.end()) asked_.emplace(name);
    if (!found) found = inner_.find(name);
  }
  return found;
}

std::optional<JsonValue> LlmConfig::find_anywhere(Names names) const {
  if (auto found = find(names)) return found;
  for (const std::string_view name : names) {
    if (auto found = outer_.find(name)) return found;
  }
  return std::nullopt;
}

std::int64_t LlmConfig::dim(Names names, const char* meaning) const {
  if (const auto value = maybe_dim(names)) return *value;
  std::string near;
  for (const std::string_view name : names) {
    if (near.empty()) near = did_you_mean(name, inner_.keys());
  }
  inner_.fail(std::string("missing ") + meaning + ": expected one of " + joined(names) + near);
}

std::optional<std::int64_t> LlmConfig::maybe_dim(Names names) const {
  const auto value = find(names);
  if (!value) return std::nullopt;
  return integer_within(*value, 1, kLargestDim);
}

std::int64_t LlmConfig::count_or(Names names, std::int64_t fallback) const {
  const auto value = find(names);
  return value ? integer_within(*value, 0, kLargestDim) : fallback;
}

std::int64_t LlmConfig::layers(Names names) const {
  const auto value = find(names);
  if (!value) inner_.fail("missing layer count: expected one of " + joined(names));
  return integer_within(*value, 1, kMostLayers);
}

bool LlmConfig::flag_or(Names names, bool fallback) const {
  const auto value = find(names);
  if (!value) return fallback;
  if (value->is_number()) return value->as_number() != 0;
  return value->as_bool();
}

std::string LlmConfig::text_or(Names names, const std::string& fallback) const {
  const auto value = find(names);
  return value ? value->as_string() : fallback;
}

void LlmConfig::assume(const std::string& sentence) const {
  if (std::find(assumptions_.begin(), assumptions_.end(), sentence) == assumptions_.end()) {
    assumptions_.push_back(sentence);
  }
}

std::int64_t LlmConfig::product(std::int64_t a, std::int64_t b, const char* key) const {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  if (b > 0 && a > kMost / b) {
    inner_.fail(std::string("'") + key + "' makes a width above 2^40 (" + std::to_string(a) + " x " +
                std::to_string(b) + ")");
  }
  return a * b;
}

std::vector<std::string> LlmConfig::unknown_keys() const {
  std::vector<std::string> unknown;
  for (const std::string& key : inner_.keys()) {
    if (key.empty() || key.front() == '_' || asked_.find(key) != asked_.end()) continue;
    if (std::find(kHarmless.begin(), kHarmless.end(), key) != kHarmless.end()) continue;
    const bool shape = std::any_of(kShapeSuffixes.begin(), kShapeSuffixes.end(),
                                   [&](std::string_view suffix) { return ends_with(key, suffix); });
    if (!shape) continue;
    if (const auto value = inner_.find(key); value && !switched_off(*value)) unknown.push_back(key);
  }
  return unknown;
}

}  // namespace plumbline

#include "ops/config/config.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/printable.hpp"
#include "ops/config/class_defaults.hpp"

namespace plumbline {
namespace {

constexpr auto kShapeSuffixes = std::to_array<std::string_view>(
    {"_layers",   "_experts", "_heads",     "_dim",    "_size",      "_rank",  "_pattern", "_types",
     "_interval", "_ratios",  "_width",     "_blocks", "_per_token", "_topk",  "_expand",  "_depth",
     "_channels", "_streams", "_expansion", "_dims",   "_sizes",     "_ranks", "_widths"});
/// Counts of something.
constexpr std::string_view kCountPrefix = "num_";

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
                                                            "activation_sparsity_pattern",
                                                            "attention_layers",
                                                            "audio_vocab_size",
                                                            "global_attn_every_n_layers",
                                                            "prefix_dense_sliding_window_pattern",
                                                            "embedding_size",
                                                            "num_beams",
                                                            "num_beam_groups",
                                                            "num_return_sequences",
                                                            "no_repeat_ngram_size",
                                                            "encoder_no_repeat_ngram_size",
                                                            "num_labels",
                                                            "num_codebooks",
                                                            "num_expert_group",
                                                            "num_memory_blocks",
                                                            "index_topk_blocks",
                                                            "index_local_blocks",
                                                            "num_nextn_predict_layers",
                                                            "gap_size",
                                                            "scale_depth",
                                                            "order_of_interleaved_layers",
                                                            "num_image_tokens",
                                                            "median_filter_width"});

// Switches that change no weight, no FLOP and no launch that is modelled: how outputs are returned, how things are rounded,
// initialized, normalized or fused, what a rotation looks like; and what the readers take as given (the bias of Mamba's
// convolution, that T5 has an encoder). Sources: configuration_<type>.py of transformers 4.40 - 5.0.
constexpr auto kHarmlessSwitches = std::to_array<std::string_view>({"mamba_use_mlp",
                                                                    "scale_decoder_outputs",
                                                                    "is_gated_act",
                                                                    "learned_embeddings",
                                                                    "skip_bias_add",
                                                                    "skip_bias_add_qkv",
                                                                    "is_composition",
                                                                    "use_shared_mlp_adapter",
                                                                    "embeddings_scale_by_sqrt_dim",
                                                                    "norm_before_gate",
                                                                    "normalize_embedding",
                                                                    "use_embedding_sharing",
                                                                    "use_gated_activation",
                                                                    "use_parallel_block",
                                                                    "use_parallel_embedding",
                                                                    "token_dropout",
                                                                    "rope_full_precision",
                                                                    "lm_head",
                                                                    "is_encoder_decoder",
                                                                    "is_encoder",
                                                                    "gelu_activation",
                                                                    "add_out_norm",
                                                                    "use_mambapy",
                                                                    "apply_residual_connection_post_layernorm",
                                                                    "rotary_value",
                                                                    "sinusoidal_embeddings",
                                                                    "use_mem_eff_path",
                                                                    "use_associative_scan",
                                                                    "enable_moe_fp32_combine",
                                                                    "attn_temperature_tuning",
                                                                    "linear_allow_neg_eigval",
                                                                    "moe_shared_expert_overlap",
                                                                    "mup_enabled",
                                                                    "rescale_embeddings",
                                                                    "use_conv_bias",
                                                                    "mamba_conv_bias",
                                                                    "conv_bias",
                                                                    "use_cache",
                                                                    "return_dict",
                                                                    "use_return_dict",
                                                                    "output_attentions",
                                                                    "output_hidden_states",
                                                                    "output_past",
                                                                    "output_router_logits",
                                                                    "torchscript",
                                                                    "gradient_checkpointing",
                                                                    "is_decoder",
                                                                    "tie_encoder_decoder",
                                                                    "remove_invalid_values",
                                                                    "predict_special_tokens",
                                                                    "use_bfloat16",
                                                                    "bf16",
                                                                    "fp16",
                                                                    "fp32",
                                                                    "for_llm_compressor",
                                                                    "is_llama_config",
                                                                    "use_cache_quantization",
                                                                    "use_cache_kernel",
                                                                    "use_mamba_kernels",
                                                                    "use_flash_attn",
                                                                    "use_flash_attn_2",
                                                                    "use_flash_attention",
                                                                    "use_memory_efficient_attention",
                                                                    "unpad_inputs",
                                                                    "fuse_cross_entropy",
                                                                    "use_position_ids",
                                                                    "masked_softmax_fusion",
                                                                    "bias_dropout_fusion",
                                                                    "bias_activation_fusion",
                                                                    "slow_but_exact",
                                                                    "output_projection",
                                                                    "attention_softmax_in_fp32",
                                                                    "scale_attention_softmax_in_fp32",
                                                                    "residual_in_fp32",
                                                                    "fused_add_norm",
                                                                    "rms_norm",
                                                                    "rmsnorm",
                                                                    "post_layer_norm",
                                                                    "scale_attn_weights",
                                                                    "scale_attn_by_inverse_layer_idx",
                                                                    "reorder_and_upcast_attn",
                                                                    "apply_query_key_layer_scaling",
                                                                    "normalize_attention_scores",
                                                                    "add_final_layer_norm",
                                                                    "normalize_before",
                                                                    "scale_embedding",
                                                                    "static_position_embeddings",
                                                                    "rescale_prenorm_residual",
                                                                    "block_use_xavier_init",
                                                                    "conv_use_xavier_init",
                                                                    "block_use_swiglu",
                                                                    "rope_interleave",
                                                                    "indexer_rope_interleave",
                                                                    "rotary",
                                                                    "original_rope",
                                                                    "use_pos_enc",
                                                                    "alibi",
                                                                    "use_dynamic_ntk",
                                                                    "use_logn_attn",
                                                                    "rotary_emb_interleaved",
                                                                    "norm_topk_prob",
                                                                    "route_norm",
                                                                    "use_grouped_mm",
                                                                    "group_limited_greedy",
                                                                    "position_embedding_xdrope",
                                                                    "norm_expert_weight",
                                                                    "moe_renormalize",
                                                                    "renormalize_moe",
                                                                    "seq_aux",
                                                                    "use_mtp",
                                                                    "moe_router_pre_softmax",
                                                                    "moe_use_aux_free_bias_loss",
                                                                    "summary_proj_to_labels",
                                                                    "summary_use_proj",
                                                                    "do_sample",
                                                                    "early_stopping",
                                                                    "apply_spec_augment",
                                                                    "interpolate_pos_encoding",
                                                                    "mla_use_nope",
                                                                    "use_grouped_topk",
                                                                    "norm_head",
                                                                    "norm_softmax",
                                                                    "use_rmsnorm",
                                                                    "postnorm",
                                                                    "use_rotary_pos_emb",
                                                                    "use_mixed_mlp_moe",
                                                                    "enable_lm_head_fp32",
                                                                    "enable_attention_fp32_softmax",
                                                                    "norm_first",
                                                                    "fuse_norm",
                                                                    "norm_bias",
                                                                    "use_residual",
                                                                    "moe_token_dropping",
                                                                    "moe_drop_tokens",
                                                                    "moe_random_routing_dropped_token"});

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
    : inner_(std::move(inner)), outer_(std::move(outer)), family_(family) {
  const auto own = inner_.find("model_type"), around = outer_.find("model_type");
  if (own && own->is_string()) defaults_ = class_defaults(own->as_string());
  if (!own && around && around->is_string()) {
    // A text model inside another has a class of its own.
    const bool inside = !inner_.is_same_as(outer_);
    defaults_ = class_defaults(around->as_string() + (inside ? "_text" : ""));
  }
  if (!defaults_) return;
  for (std::string& key : inner_.keys()) stated_.insert(std::move(key));
}

std::optional<JsonValue> LlmConfig::class_default(Names names) const {
  if (!defaults_) return std::nullopt;
  for (const std::string_view name : names) {
    if (stated_.find(name) != stated_.end()) return std::nullopt;
  }
  for (const std::string_view name : names) {
    if (auto value = defaults_->find(name)) return value;
  }
  return std::nullopt;
}

std::optional<JsonValue> LlmConfig::find(Names names) const {
  std::optional<JsonValue> found;
  for (const std::string_view name : names) {
    if (asked_.find(name) == asked_.end()) asked_.emplace(name);
    if (!found) found = inner_.find(name);
  }
  return found ? found : class_default(names);
}

std::optional<JsonValue> LlmConfig::find_size(Names names) const {
  auto found = find(names);
  if (!found || !defaults_) return found;
  for (const std::string_view name : names) {
    if (inner_.has(name)) return found;
  }
  const std::string& path = found->path();
  filled_.insert(path.substr(path.rfind('/') + 1) + " " + found->dump());
  return found;
}

std::string LlmConfig::filled_text() const {
  std::string text;
  for (const std::string& one : filled_) text += (text.empty() ? "" : ", ") + one;
  return text;
}

std::string LlmConfig::filled_main_text() const {
  constexpr auto kMain = std::to_array<std::string_view>(
      {"hidden_size", "n_embd", "d_model", "dim", "embedding_dim", "vocab_size", "num_hidden_layers", "n_layer",
       "n_layers", "num_layers", "num_blocks", "num_attention_heads", "n_head", "n_heads", "num_heads"});
  std::string text;
  for (const std::string& one : filled_) {
    const std::string_view key = std::string_view(one).substr(0, one.find(' '));
    if (std::find(kMain.begin(), kMain.end(), key) != kMain.end()) text += (text.empty() ? "" : ", ") + one;
  }
  return text;
}

std::optional<JsonValue> LlmConfig::find_object(Names names) const {
  auto found = find(names);
  if (found && !found->is_object()) found->fail("expected an object, found " + found->dump().substr(0, 60));
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
  const auto value = find_size(names);
  if (!value) return std::nullopt;
  return integer_within(*value, 1, kLargestDim);
}

std::int64_t LlmConfig::count_or(Names names, std::int64_t fallback) const {
  const auto value = find_size(names);
  return value ? integer_within(*value, 0, kLargestDim) : fallback;
}

std::int64_t LlmConfig::layers(Names names) const {
  const auto value = find_size(names);
  if (!value) inner_.fail("missing layer count: expected one of " + joined(names));
  return integer_within(*value, 1, kMostLayers);
}

bool LlmConfig::flag_or(Names names, bool fallback) const {
  const auto value = find(names);
  if (!value) return fallback;
  if (value->is_number()) return integer_within(*value, 0, 1) == 1;
  return value->as_bool();
}

std::string LlmConfig::text_or(Names names, const std::string& fallback) const {
  const auto value = find(names);
  return value ? value->as_string() : fallback;
}

void LlmConfig::assume(const std::string& text) const {
  const std::string sentence = printable(text);  // it may quote a key of the file
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

bool LlmConfig::looks_like_size(std::string_view key) {
  return key.starts_with(kCountPrefix) || std::any_of(kShapeSuffixes.begin(), kShapeSuffixes.end(),
                                                      [&](std::string_view suffix) { return ends_with(key, suffix); });
}

std::vector<std::string> LlmConfig::unknown_keys(std::size_t most) const {
  std::vector<std::string> unknown;
  for (const std::string& key : inner_.keys()) {
    if (unknown.size() == most) break;
    if (key.empty() || key.front() == '_' || asked_.find(key) != asked_.end()) continue;
    if (std::find(kHarmless.begin(), kHarmless.end(), key) != kHarmless.end()) continue;
    if (!looks_like_size(key)) continue;
    // What is true or false is a switch, whatever its name ends in.
    if (const auto value = inner_.find(key); value && !value->is_boolean() && !switched_off(*value)) {
      unknown.push_back(key);
    }
  }
  return unknown;
}

std::vector<std::string> LlmConfig::ignored_keys(std::size_t most) const {
  constexpr auto kReadElsewhere = std::to_array<std::string_view>(
      {"model_type", "architectures", "text_config", "vision_config", "audio_config", "transformers_version"});
  std::vector<std::string> ignored;
  for (const std::string& key : inner_.keys()) {
    if (ignored.size() == most) break;
    if (key.empty() || key.front() == '_' || asked_.find(key) != asked_.end() || !inner_.find(key)) continue;
    if (std::find(kReadElsewhere.begin(), kReadElsewhere.end(), key) != kReadElsewhere.end()) continue;
    ignored.push_back(printable(key.substr(0, 60)));
  }
  return ignored;
}

std::vector<std::string> LlmConfig::unknown_switches(std::size_t most) const {
  std::vector<std::string> unknown;
  for (const std::string& key : inner_.keys()) {
    if (unknown.size() == most) break;
    if (key.empty() || key.front() == '_' || asked_.find(key) != asked_.end()) continue;
    if (std::find(kHarmlessSwitches.begin(), kHarmlessSwitches.end(), key) != kHarmlessSwitches.end()) continue;
    const auto value = inner_.find(key);
    if (value && value->is_boolean() && value->as_bool()) unknown.push_back(key);
  }
  return unknown;
}

}  // namespace plumbline

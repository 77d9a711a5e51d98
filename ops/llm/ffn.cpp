#include <algorithm>
#include <array>

#include "arch/files.hpp"
#include "ops/config/activation_names.hpp"
#include "ops/llm/parts.hpp"

namespace plumbline {
namespace {

bool read_bias(const LlmConfig& config) {
  bool bias = config.family().has(kFfnBias);
  if (!config.is("internlm") && !config.is("internlm2")) bias = config.flag_or({"use_bias", "bias"}, bias);
  if (config.is("mpt")) bias = !config.flag_or({"no_bias"}, false);
  bias = config.flag_or({"add_bias_linear"}, bias);
  bias = config.flag_or({"enable_bias"}, bias);
  return config.flag_or({"mlp_bias"}, bias);
}

bool read_gated(const LlmConfig& config) {
  if (const auto proj = config.find({"feed_forward_proj"})) return proj->as_string().rfind("gated-", 0) == 0;
  if (config.is("starcoder2")) return config.text_or({"mlp_type"}, "default") == "gated";
  return !config.family().has(kPlainFfn);
}

/// Lfm2MLP of transformers: two thirds of `block_ff_dim`, times a factor, rounded up, unless the file says that the width
/// is meant as it stands.
std::optional<std::int64_t> block_width(const LlmConfig& config, std::int64_t hidden) {
  auto stated = config.maybe_dim({"block_ff_dim"});
  if (!stated && config.is("lfm2")) stated = config.maybe_dim({"intermediate_size"});
  if (!stated) return std::nullopt;
  if (config.dim_or({"block_dim"}, hidden) != hidden) {
    config.find({"block_dim"})->fail("expected the hidden width, " + std::to_string(hidden));
  }
  config.find({"intermediate_size"});
  const std::int64_t step = config.dim_or({"block_multiple_of"}, 256);
  const auto factor = config.find({"block_ffn_dim_multiplier"});
  if (!config.flag_or({"block_auto_adjust_ff_dim"}, true)) return stated;
  const std::int64_t two_thirds = 2 * *stated / 3;  // rounded down, as int() does there
  const double scaled = (factor ? factor->as_number() : 1.0) * static_cast<double>(two_thirds);
  if (!(scaled >= 1 && scaled <= static_cast<double>(LlmConfig::kLargestDim))) {
    config.find({"block_ffn_dim_multiplier", "block_ff_dim"})->fail("expected a feed-forward width from 1 to 2^31");
  }
  return (static_cast<std::int64_t>(scaled) + step - 1) / step * step;
}

/// xLSTMFeedForward of transformers: the factor times the width, rounded up to whole steps.
std::int64_t xlstm_width(const LlmConfig& config, std::int64_t hidden, const JsonValue& factor) {
  const std::int64_t step = config.dim_or({"ffn_round_up_to_multiple_of"}, 64);
  const double scaled = factor.as_number() * static_cast<double>(hidden);
  if (!(scaled >= 1 && scaled <= static_cast<double>(LlmConfig::kLargestDim))) {
    factor.fail("expected a feed-forward width from 1 to 2^31");
  }
  return (static_cast<std::int64_t>(scaled) + step - 1) / step * step;
}

std::optional<std::int64_t> stated_width(const LlmConfig& config, std::int64_t hidden) {
  if (const auto width = block_width(config, hidden)) return width;
  if (const auto width = config.maybe_dim({"intermediate_size_mlp"})) {
    config.find({"intermediate_size"});
    return width;
  }
  if (config.is("granitemoehybrid")) {
    if (const auto width = config.maybe_dim({"shared_intermediate_size"})) return width;
  }
  if (const auto width = config.maybe_dim({"prefix_dense_intermediate_size", "dense_intermediate_size",
                                           "intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner", "d_ff", "dff",
                                           "dim_ff", "ff_intermediate_size"})) {
    // Moshi, RecurrentGemma: the size counts both halves of the gated projection too.
    if (config.is("moshi") || config.is("recurrent_gemma")) return *width / 2;
    // Qwen 1: the size counts both halves of the gated projection.
    return config.is("qwen") ? *width / 2 : *width;
  }
  if (config.is("rwkv5") || config.is("rwkv6")) return std::max<std::int64_t>(32, 7 * hidden / 2 / 32 * 32);
  if (const auto factor = config.find({"ffn_proj_factor"})) return xlstm_width(config, hidden, *factor);
  for (const std::string_view key : {"expansion_ratio", "intermediate_multiple_size"}) {
    if (const auto ratio = config.find({key})) {
      // transformers makes MPT's feed-forward part 4 times the width whatever the file says; llm-foundry does not.
      if (config.is("mpt") && integer_within(*ratio, 1, 1024) != 4) ratio->fail("expected 4, the class's width");
      return config.product(hidden, integer_within(*ratio, 1, 1024), std::string(key).c_str());
    }
  }
  return std::nullopt;
}

std::int64_t shared_width(const LlmConfig& config, std::int64_t expert_width) {
  const std::int64_t count =
      config.count_or({"n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts"}, 0);
  const std::int64_t given = config.count_or(
      {"moe_shared_expert_intermediate_size", "shared_expert_intermediate_size", "shared_intermediate_size"}, 0);
  if (config.is("deepseek_v4")) return expert_width;                          // one, whatever the file says
  const bool each = config.is("bailing_moe") || config.is("bailing_moe_v2");  // the size of one of them
  // HYV3MoE of transformers: without a count, a part of the dense width.
  if (config.is("hy_v3") && count == 0) return config.dim({"intermediate_size"}, "FFN width");
  if (given > 0) return each ? config.product(std::max<std::int64_t>(count, 1), given, "num_shared_experts") : given;
  if (count > 0) return config.product(count, expert_width, "n_shared_experts");
  return config.family().has(kSharedExpert) ? expert_width : 0;
}

std::int64_t expert_count(const LlmConfig& config) {
  for (const std::string_view key : {"enable_moe_block", "is_moe"}) {
    if (config.has({key}) && !config.flag_or({key}, true)) {
      config.find({"num_experts", "num_experts_per_tok", "top_k_experts", "moe_intermediate_size"});
      return 0;
    }
  }
  const LlmConfig::Names names = {"num_local_experts", "num_experts", "n_routed_experts", "num_routed_experts",
                                  "moe_num_experts"};
  const auto stated = config.find(names);
  const std::int64_t count = config.count_or(names, 0);
  constexpr auto kAlways = std::to_array<std::string_view>(
      {"cohere2_moe", "flex_olmo", "granitemoe", "granitemoe_swa", "granitemoeshared", "minimax", "mixtral"});
  if (stated && count == 0 && std::find(kAlways.begin(), kAlways.end(), config.family().type) != kAlways.end()) {
    stated->fail("expected at least one expert: layers of this kind have no other feed-forward part");
  }
  return count;
}

}  // namespace

Activation read_activation(const LlmConfig& config, Activation fallback) {
  std::string text = config.text_or({"hidden_activation", "hidden_act", "activation_function", "mlp_hidden_act",
                                     "activation_fn", "activation", "feed_forward_proj"},
                                    "");
  if (text.rfind("gated-", 0) == 0) text = text.substr(6);
  if (text.empty()) return fallback;
  if (text == "silu" || text == "swish" || text == "swiglu") return Activation::silu;
  if (text.rfind("gelu", 0) == 0 || text == "quick_gelu" || text == "geglu") return Activation::gelu;
  if (text == "relu") return Activation::relu;
  if (text == "relu2" || text == "sqrelu" || text == "relu_squared" || text == "squared_relu") return Activation::relu2;
  if (!is_activation_name(text)) {
    config.assume("activation '" + text + "' is not known" + nearest_activation(text) + ": costed as GELU");
  }
  return Activation::gelu;
}

FfnSpec read_dense_ffn(const LlmConfig& config, std::int64_t hidden) {
  FfnSpec ffn;
  ffn.gated = read_gated(config);
  ffn.bias = read_bias(config);
  ffn.inner_norm = config.family().has(kSubNorms);
  if (config.is("falcon_h1")) config.find({"mlp_expansion_factor"});  // the width stands beside it
  Activation fallback = config.family().has(kGelu) ? Activation::gelu : Activation::silu;
  if (config.is("opt")) fallback = Activation::relu;
  if (config.is("nemotron") || config.is("arcee") || config.family().type.starts_with("rwkv"))
    fallback = Activation::relu2;
  ffn.activation = read_activation(config, fallback);
  if (const auto width = stated_width(config, hidden)) {
    ffn.width = *width;
  } else if (!ffn.gated) {
    ffn.width = config.product(hidden, 4, "hidden_size");
    config.assume("no FFN width in the file: 4 x hidden");
  } else {
    ffn.width = config.dim({"intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner", "d_ff"}, "FFN width");
  }
  return ffn;
}

/// DeepSeek's routing within groups (modeling_deepseek.py, MoEGate: group_limited_greedy, noaux_tc).
void read_expert_groups(const LlmConfig& config, FfnSpec& ffn) {
  const std::int64_t groups = config.count_or({"n_group", "num_expert_groups"}, 0),
                     chosen = config.count_or({"topk_group", "num_limited_groups"}, 0);
  if (groups <= 1 || chosen == 0 || chosen == groups || config.text_or({"topk_method"}, "") == "greedy") return;
  if (chosen > groups) {
    config.find({"topk_group"})->fail("expected at most " + std::to_string(groups) + " groups, as 'n_group' says");
  }
  if (groups > ffn.experts || ffn.topk * groups > ffn.experts * chosen) {
    config.find({"n_group"})
        ->fail("expected groups of which " + std::to_string(chosen) + " hold " + std::to_string(ffn.topk) + " of " +
               std::to_string(ffn.experts) + " experts");
  }
  ffn.groups = groups;
  ffn.top_groups = chosen;
}

bool has_experts(const LlmConfig& config) {
  // One expert is a dense part to Jamba, Hunyuan's own code and files of no known kind; elsewhere it has a router too.
  const std::string_view type = config.family().type;
  const bool dense = type == "jamba" || type == "hunyuan" || type == "hunyuan_v1_dense" || type == "unknown";
  return expert_count(config) > (dense ? 1 : 0);
}

namespace {

std::int64_t experts_a_token(const LlmConfig& config, std::int64_t experts) {
  if (const auto topk =
          config.maybe_dim({"num_experts_per_tok", "experts_per_token", "num_experts_per_token", "moe_topk", "moe_k",
                            "top_k_experts", "moe_top_k", "num_selected_experts", "num_activated_experts",
                            "n_activated_experts", "experts_per_tok", "n_experts_per_token", "num_experts_topk",
                            "moe_router_topk", "router_top_k", "router_topk", "topk", "top_k"})) {
    return *topk;
  }
  if (config.is("deepseek_v2")) {
    // The class has no number of its own either.
    config.assume("no num_experts_per_tok in the file: 6, as DeepSeek-V2 and DeepSeek-V2-Lite have");
    return std::min<std::int64_t>(6, experts);
  }
  return config.dim(
      {"num_experts_per_tok", "experts_per_token", "num_experts_per_token", "moe_topk", "moe_k", "top_k_experts"},
      "experts a token");  // the usual names stand in the message
}

}  // namespace

FfnSpec read_moe_ffn(const LlmConfig& config) {
  if (config.is("doge")) config.inner().fail("'is_moe': experts of one row each (CDMoE) are not understood");
  FfnSpec ffn;
  const Family& family = config.family();
  ffn.gated = read_gated(config);
  ffn.bias = read_bias(config);
  ffn.activation = read_activation(config, family.has(kGelu) ? Activation::gelu : Activation::silu);
  ffn.expert_bias = family.has(kFfnBias);
  ffn.experts = expert_count(config);
  ffn.topk = experts_a_token(config, ffn.experts);
  if (ffn.topk > ffn.experts) {
    config.inner().fail("expected at most " + std::to_string(ffn.experts) + " experts a token, found " +
                        std::to_string(ffn.topk) + " in 'num_experts_per_tok'");
  }
  // Its own name first, by the class too: `intermediate_size` beside it is a dense layer's.
  const auto own_width = config.maybe_dim({"moe_intermediate_size", "expert_ffn_hidden_size"});
  config.find({"intermediate_size"});
  ffn.expert_width =
      own_width ? *own_width
                : config.dim({"moe_intermediate_size", "expert_ffn_hidden_size", "intermediate_size"}, "expert width");
  ffn.shared_width = shared_width(config, ffn.expert_width);
  ffn.shared_gate = ffn.shared_width > 0 && family.has(kSharedGate);
  if (config.is("longcat_flash")) ffn.width = config.dim({"ffn_hidden_size"}, "FFN width");
  if (config.flag_or({"enable_moe_block"}, false)) ffn.width = config.dim({"intermediate_size"}, "FFN width");
  // Grok-2: a dense part beside the experts.
  if (config.is("grok-2") && config.flag_or({"residual_moe"}, false)) {
    ffn.width = config.dim({"intermediate_size"}, "FFN width");
  }
  if (config.is("arctic") && config.flag_or({"parallel_attn_mlp_res"}, false)) {
    // ArcticMLP beside the experts, as wide as the hidden state.
    ffn.width = config.dim({"hidden_size"}, "hidden width");
  }
  ffn.identities = config.count_or({"zero_expert_num"}, 0);
  if (config.is("zaya")) {  // one more choice skips the experts
    ffn.identities = 1;
    ffn.router_width = config.dim_or({"router_hidden_size"}, 256);
  }
  if (ffn.identities > 0) {
    // LongCat-Flash, Zaya (arXiv 2509.01322, section 2.1): a choice that falls on an identity costs nothing.
    const std::int64_t chosen = ffn.topk, all = ffn.experts + ffn.identities;
    ffn.topk = std::max<std::int64_t>(1, (chosen * ffn.experts + all / 2) / all);
    config.assume("of " + std::to_string(chosen) + " choices a token " + std::to_string(ffn.topk) +
                  " fall on experts, the others on identities: taken as falling evenly");
  }
  read_expert_groups(config, ffn);
  ffn.latent = config.count_or({"moe_latent_size"}, 0);
  // A correction bias an expert: DeepSeek's noaux_tc, MiniMax's routing bias, or the family's habit.
  const bool stated = config.flag_or(
      {"use_routing_bias", "moe_router_enable_expert_bias", "use_expert_bias", "moe_use_aux_free"}, false);
  ffn.router_bias = stated || family.has(kRouterBias) || config.text_or({"topk_method"}, "") == "noaux_tc";
  return ffn;
}

namespace {

/// One word a layer: "sparse" for experts, "dense" without.
std::vector<bool> listed_moe_layers(const JsonValue& list, std::int64_t layers) {
  const auto words = list.elements();
  if (static_cast<std::int64_t>(words.size()) < layers) {
    list.fail("expected one entry a layer (" + std::to_string(layers) + "), found " + std::to_string(words.size()));
  }
  std::vector<bool> moe;
  for (std::int64_t i = 0; i < layers; ++i) {
    const JsonValue& word = words[static_cast<std::size_t>(i)];
    const std::string text = word.as_string();
    // DeepSeek-V4's router and its table of tokens choose among the same experts.
    const bool experts = text == "sparse" || text == "moe" || text == "hash_moe";
    if (!experts && text != "dense") word.fail("expected 'sparse' or 'dense', found '" + text + "'");
    moe.push_back(experts);
  }
  return moe;
}

}  // namespace

std::vector<bool> moe_layers(const LlmConfig& config, std::int64_t layers) {
  if (config.is("longcat_flash")) {
    std::vector<bool> first;
    for (std::int64_t i = 0; i < layers; ++i) first.push_back(i % 2 == 0);
    return first;
  }
  if (const auto list = config.find({"mlp_layer_types"}); list && has_experts(config)) {
    config.find({"first_k_dense_replace"});  // the list was made from it
    return listed_moe_layers(*list, layers);
  }
  std::vector<bool> moe(static_cast<std::size_t>(layers), has_experts(config));
  const auto keep = [&](auto condition) {
    for (std::size_t i = 0; i < moe.size(); ++i) moe[i] = moe[i] && condition(static_cast<std::int64_t>(i));
  };
  const std::int64_t dense_first =
      config.count_or({"first_k_dense_replace", "moe_layer_start_index", "num_dense_layers", "dense_mlp_idx"}, 0);
  keep([&](std::int64_t i) { return i >= dense_first; });
  if (const auto last = config.find({"moe_layer_end_index"}); last && last->as_integer() >= 0) {
    keep([&](std::int64_t i) { return i <= last->as_integer(); });
  }
  if (const auto freq = config.find({"moe_layer_freq"})) {
    if (freq->is_array()) {
      const auto flags = freq->elements();
      if (flags.size() < moe.size()) freq->fail("expected one entry a layer");
      keep([&](std::int64_t i) { return flags[static_cast<std::size_t>(i)].as_integer() != 0; });
    } else {
      const std::int64_t n = integer_within(*freq, 1, LlmConfig::kLargestDim);
      keep([n](std::int64_t i) { return i % n == 0; });
    }
  }
  if (const auto list = config.find({"moe_layers"}); list && list->is_array()) {
    // Llama-4: the layers with experts by their numbers, whatever the step says.
    config.find({"interleave_moe_layer_step"});
    std::vector<bool> listed(moe.size(), false);
    for (const JsonValue& value : list->elements()) {
      const std::int64_t layer = integer_within(value, 0, LlmConfig::kMostLayers);
      if (layer < layers) listed[static_cast<std::size_t>(layer)] = true;
    }
    keep([&](std::int64_t i) { return listed[static_cast<std::size_t>(i)]; });
    return moe;
  }
  const std::int64_t step = config.dim_or(
      {"decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval", "moe_layer_frequency"}, 1);
  keep([step](std::int64_t i) { return (i + 1) % step == 0; });
  if (const auto period = config.maybe_dim({"expert_layer_period"})) {
    const std::int64_t offset = config.count_or({"expert_layer_offset"}, 0);
    keep([&](std::int64_t i) { return i % *period == offset; });
  }
  if (const auto list = config.find({"mlp_only_layers"})) {
    for (const JsonValue& value : list->elements()) {
      const std::int64_t layer = integer_within(value, 0, LlmConfig::kMostLayers);
      if (layer < layers) moe[static_cast<std::size_t>(layer)] = false;
    }
  }
  return moe;
}

}  // namespace plumbline

#include "ops/llm/parts.hpp"

#include <optional>

#include "ops/llm/params.hpp"

namespace plumbline {
namespace {

/// The recurrent state is kept in fp32 unless the file says otherwise (mamba_ssm_dtype, mamba_ssm_cache_dtype).
DType read_state_dtype(const LlmConfig& config) {
  const std::string text = config.text_or({"mamba_ssm_cache_dtype", "mamba_ssm_dtype"}, "float32");
  const auto type = parse_dtype(text);
  if (!type) config.assume("state type '" + text + "' is not known: fp32");
  return type.value_or(DType::fp32);
}

std::int64_t rounded_up(std::int64_t value, std::int64_t step) { return (value + step - 1) / step * step; }

/// Heads and inner width of a Mamba-2 layer: the two that are stated give the third.
void read_mamba2_heads(const LlmConfig& config, std::int64_t hidden, RecurrentSpec& r) {
  const auto heads = config.maybe_dim({"mamba_num_heads", "mamba_n_heads", "num_heads", "n_mamba_heads"});
  const bool auto_width = config.find({"mamba_d_head"}) && config.find({"mamba_d_head"})->is_string();
  std::optional<std::int64_t> width;
  if (!auto_width) width = config.maybe_dim({"mamba_head_dim", "mamba_d_head", "head_dim"});
  if (heads && width) {
    config.find({"expand", "mamba_expand"});
    r.heads = *heads;
    r.head_dim = *width;
    r.inner = config.product(r.heads, r.head_dim, "mamba_num_heads");
    return;
  }
  r.inner = config.product(hidden, config.dim_or({"expand", "mamba_expand"}, 2), "expand");
  r.head_dim = width ? *width : (heads ? r.inner / *heads : 64);
  if (r.head_dim < 1 || r.inner % r.head_dim != 0) {
    config.inner().fail("the inner width " + std::to_string(r.inner) +
                        " of 'expand' is no multiple of the head width " + std::to_string(r.head_dim));
  }
  r.heads = r.inner / r.head_dim;
}

}  // namespace

RecurrentSpec read_mamba1(const LlmConfig& config, std::int64_t hidden) {
  RecurrentSpec r;
  r.kind = RecurrentKind::mamba1;
  auto inner = config.maybe_dim({"mamba_d_inner", "d_inner"});
  if (!inner && !config.is("jamba")) inner = config.maybe_dim({"intermediate_size"});  // MambaConfig writes it out
  if (inner) {
    r.inner = *inner;
    config.find({"mamba_expand", "expand"});
  } else {
    r.inner = config.product(hidden, config.dim_or({"mamba_expand", "expand"}, 2), "mamba_expand");
  }
  r.heads = r.inner;  // every channel has its own state
  r.head_dim = 1;
  r.state = config.dim_or({"mamba_d_state", "state_size", "d_state"}, 16);
  r.conv = config.dim_or({"mamba_d_conv", "conv_kernel", "d_conv"}, 4);
  const auto rank = config.find({"mamba_dt_rank", "time_step_rank", "dt_rank"});
  r.dt_rank = rank && rank->is_number() ? integer_within(*rank, 1, LlmConfig::kLargestDim) : (hidden + 15) / 16;
  r.inner_norms = config.is("jamba");  // FalconMamba's norms have no weights
  r.state_dtype = read_state_dtype(config);
  return r;
}

RecurrentSpec read_mamba2(const LlmConfig& config, std::int64_t hidden) {
  RecurrentSpec r;
  r.kind = RecurrentKind::mamba2;
  read_mamba2_heads(config, hidden, r);
  r.state = config.dim_or({"ssm_state_size", "mamba_d_state", "state_size", "d_state"}, 128);
  r.groups = config.dim_or({"n_groups", "mamba_n_groups", "ngroups"}, 1);
  r.conv = config.dim_or({"conv_kernel", "mamba_d_conv", "d_conv"}, 4);
  config.product(r.groups, r.state, "n_groups");
  r.state_dtype = read_state_dtype(config);
  return r;
}

RecurrentSpec read_delta_net(const LlmConfig& config) {
  RecurrentSpec r;
  r.kind = RecurrentKind::gated_delta_net;
  r.heads = config.dim({"linear_num_value_heads"}, "DeltaNet value heads");
  r.head_dim = config.dim({"linear_value_head_dim"}, "DeltaNet value width");
  r.key_heads = config.dim({"linear_num_key_heads"}, "DeltaNet key heads");
  r.key_dim = config.dim({"linear_key_head_dim"}, "DeltaNet key width");
  r.inner = config.product(r.heads, r.head_dim, "linear_num_value_heads");
  config.product(r.key_heads, r.key_dim, "linear_num_key_heads");
  r.state = r.key_dim;
  r.groups = r.key_heads;
  r.conv = config.dim_or({"linear_conv_kernel_dim"}, 4);
  r.state_dtype = read_state_dtype(config);
  return r;
}

namespace {

/// The vocabulary padded as state-spaces' MambaLMHeadModel does before it makes the embedding.
void pad_vocabulary(const LlmConfig& config, Llm& llm) {
  if (const auto multiple = config.maybe_dim({"pad_vocab_size_multiple"})) llm.vocab = rounded_up(llm.vocab, *multiple);
}

}  // namespace

/// Mamba and Mamba-2 alone: a norm and a mixer a layer, no FFN. The native layout has its keys under `ssm_cfg`.
void build_mamba(const LlmConfig& config, Llm& llm) {
  read_common(config, llm, true);
  pad_vocabulary(config, llm);
  const auto native = config.find({"ssm_cfg"});
  const auto attention = config.find({"attn_layer_idx"});
  if (attention && attention->size() > 0)
    attention->fail("attention layers between Mamba layers are not understood here");
  if (config.count_or({"d_intermediate"}, 0) > 0) {
    config.find({"d_intermediate"})->fail("an MLP in every Mamba layer is not understood here");
  }
  bool second = config.is("mamba2");
  LayerSpec layer;
  layer.norms = 1;
  if (native && native->is_object()) {
    const LlmConfig inner(*native, *native, config.family());
    second = inner.text_or({"layer"}, "Mamba1") == "Mamba2";
    layer.recurrent = second ? read_mamba2(inner, llm.hidden) : read_mamba1(inner, llm.hidden);
  } else {
    layer.recurrent = second ? read_mamba2(config, llm.hidden) : read_mamba1(config, llm.hidden);
  }
  StackSpec stack;
  stack.hidden = llm.hidden;
  const std::int64_t layers = config.layers({"num_hidden_layers", "n_layer", "n_layers", "num_layers"});
  for (std::int64_t i = 0; i < layers; ++i) append_layer(stack, layer);
  stack.other_params = static_cast<double>(llm.hidden);
  llm.stacks.push_back(std::move(stack));
}

/// Nemotron-H: one character a layer, a mixer or an FFN, each with one norm. Pattern of M, *, - and E.
void build_nemotron_h(const LlmConfig& config, Llm& llm) {
  read_common(config, llm, false);
  const auto pattern = config.find({"hybrid_override_pattern"});
  if (!pattern) config.inner().fail("missing 'hybrid_override_pattern', which says what each layer is");
  const std::string text = pattern->as_string();
  if (text.empty() || static_cast<std::int64_t>(text.size()) > LlmConfig::kMostLayers) {
    pattern->fail("expected 1 to " + std::to_string(LlmConfig::kMostLayers) + " characters");
  }
  const auto layer_of = [&](char c) {
    LayerSpec layer;
    layer.norms = 1;
    switch (c) {
      case 'M': layer.recurrent = read_mamba2(config, llm.hidden); break;
      case '*': layer.attention = read_attention(config, llm.hidden); break;
      case '-': layer.ffn = read_dense_ffn(config, llm.hidden); break;
      case 'E': layer.ffn = read_moe_ffn(config); break;
      default: pattern->fail(std::string("expected M, *, - or E, found '") + c + "'");
    }
    return layer;
  };
  StackSpec stack;
  stack.hidden = llm.hidden;
  config.find({"num_hidden_layers"});
  for (const char c : text) append_layer(stack, layer_of(c));
  stack.other_params = static_cast<double>(llm.hidden);
  llm.stacks.push_back(std::move(stack));
  if (const auto extra = config.find({"mtp_hybrid_override_pattern"});
      extra && config.count_or({"num_nextn_predict_layers"}, 0) > 0) {
    for (const char c : extra->as_string()) {
      LayerSpec layer = layer_of(c);
      count_layer(layer, llm.hidden);
      llm.mtp_params += layer.params;
    }
    const double h = static_cast<double>(llm.hidden);
    llm.mtp_params += 2.0 * h * h + 3.0 * h;
  }
}

}  // namespace plumbline

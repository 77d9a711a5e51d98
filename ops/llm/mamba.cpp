// Models of nothing but Mamba layers, and Nemotron-H's pattern of letters.
#include <string>

#include "ops/llm/params.hpp"
#include "ops/llm/parts.hpp"
#include "ops/mixer/table.hpp"

namespace plumbline {
namespace {

constexpr std::string_view kMamba = "mamba";

std::int64_t rounded_up(std::int64_t value, std::int64_t step) { return (value + step - 1) / step * step; }

/// The vocabulary padded as state-spaces' MambaLMHeadModel does before it makes the embedding.
void pad_vocabulary(const LlmConfig& config, Llm& llm) {
  if (const auto multiple = config.maybe_dim({"pad_vocab_size_multiple"})) llm.vocab = rounded_up(llm.vocab, *multiple);
}

}  // namespace

/// Mamba and Mamba-2 alone: a norm and a mixer a layer, no FFN. The native layout has its keys under `ssm_cfg`.
void build_mamba(const LlmConfig& config, Llm& llm) {
  read_common(config, llm, true);
  pad_vocabulary(config, llm);
  const auto native = config.find_object({"ssm_cfg"});
  const auto attention = config.find({"attn_layer_idx"});
  if (attention && attention->size() > 0)
    attention->fail("attention layers between Mamba layers are not understood here");
  if (config.count_or({"d_intermediate"}, 0) > 0) {
    config.find({"d_intermediate"})->fail("an MLP in every Mamba layer is not understood here");
  }
  LayerSpec layer;
  layer.norms = 1;
  if (native) {
    layer.mixer = read_mixer(LlmConfig(*native, *native, config.family()), {kMamba, llm.hidden});
  } else {
    layer.mixer = read_mixer(config, {kMamba, llm.hidden});
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
      case 'M': layer.mixer = read_mixer(config, {kMamba, llm.hidden}); break;
      case '*': layer.mixer = read_mixer(config, {kFullAttention, llm.hidden}); break;
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

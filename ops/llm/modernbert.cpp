// ModernBERT (arXiv 2412.13663): an encoder with rotation, gated feed-forward parts, and windows in all but every n-th layer.
// Source: modeling_modernbert.py of Hugging Face transformers 5.17.
#include <utility>

#include "ops/as_double.hpp"
#include "ops/llm/parts.hpp"

namespace plumbline {

namespace {

bool sees_everything(const JsonValue& word) {
  const std::string text = word.as_string();
  if (text != "full_attention" && text != "sliding_attention") {
    word.fail("expected full_attention or sliding_attention, found '" + text.substr(0, 64) + "'");
  }
  return text == "full_attention";
}

}  // namespace

/// The first layer has no norm in front of attention; the embedding's own stands for it among the parameters.
void build_modernbert(const LlmConfig& config, Llm& llm) {
  read_common(config, llm, true);
  const std::string architecture = first_architecture(config.has({"architectures"}) ? config.inner() : config.outer());
  llm.has_head = architecture.find("MaskedLM") != std::string::npos;
  const std::int64_t heads = config.dim({"num_attention_heads"}, "attention heads");
  AttentionSpec wide = plain_attention(config, heads, divided(config, llm.hidden, heads), false,
                                       config.flag_or({"attention_bias"}, false));
  wide.rope = true;
  AttentionSpec narrow = wide;
  narrow.window = config.count_or({"local_attention"}, 128) / 2 * 2 + 1;  // as many on both sides, and itself
  LayerSpec layer;
  layer.ffn = FfnSpec{};
  layer.ffn->gated = true;
  layer.ffn->bias = config.flag_or({"mlp_bias"}, false);
  layer.ffn->activation = read_activation(config, Activation::gelu);
  layer.ffn->width = config.dim({"intermediate_size"}, "FFN width");
  layer.norm = NormKind::layer;
  layer.norm_vectors = config.flag_or({"norm_bias"}, false) ? 2 : 1;
  StackSpec stack;
  stack.role = StackSpec::Role::encoder;
  stack.hidden = llm.hidden;
  const auto kinds = config.find({"layer_types"});
  if (kinds && static_cast<std::int64_t>(kinds->size()) < config.layers({"num_hidden_layers"})) {
    kinds->fail("expected one entry a layer");
  }
  const std::int64_t every = config.dim_or({"global_attn_every_n_layers"}, 3);
  const std::int64_t layers = config.layers({"num_hidden_layers"});
  for (std::int64_t i = 0; i < layers; ++i) {
    const bool sees_all = kinds ? sees_everything(kinds->elements()[static_cast<std::size_t>(i)]) : i % every == 0;
    layer.mixer = sees_all ? wide : narrow;
    append_layer(stack, layer);
  }
  const double h = d(llm.hidden), norm = static_cast<double>(layer.norm_vectors) * h;
  stack.other_params = norm;  // behind the last layer
  if (llm.has_head) {
    stack.other_params += h * h + (config.flag_or({"classifier_bias"}, false) ? h : 0.0) + norm;
    llm.head_params = config.flag_or({"decoder_bias"}, true) ? d(llm.vocab) : 0.0;
    config.assume("the dense layer in front of the head is counted");
  }
  config.flag_or({"deterministic_flash_attn"}, false);
  config.flag_or({"reference_compile"}, false);
  config.flag_or({"sparse_prediction"}, false);
  llm.stacks.push_back(std::move(stack));
}

}  // namespace plumbline

// Diffusion transformers in diffusers' layout: DiT, SD3 (MMDiT) and Flux.
#include <algorithm>
#include <utility>
#include <vector>

#include "arch/files.hpp"
#include "ops/as_double.hpp"
#include "ops/llm/parts.hpp"
#include "ops/mixer/attention.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kTimeChannels = 256;  // sinusoidal features of the time step (diffusers Timesteps)

/// Linear layer with bias.
double linear(double in, double out) { return in * out + out; }
/// diffusers' TimestepEmbedding, PixArtAlphaTextProjection: in -> h, SiLU, h -> h.
double two_layers(double in, double h) { return linear(in, h) + linear(h, h); }

LayerSpec block(const LlmConfig& config, std::int64_t hidden, bool qkv_bias) {
  LayerSpec layer;
  AttentionSpec a;
  a.q_heads = a.kv_heads = config.dim({"num_attention_heads"}, "attention heads");
  a.qk_dim = a.v_dim = config.dim({"attention_head_dim"}, "head width");
  a.causal = a.rope = false;
  a.qkv_bias = qkv_bias;
  a.out_bias = true;
  layer.mixer = a;
  FfnSpec ffn;
  ffn.gated = false;
  ffn.bias = true;
  ffn.activation = Activation::gelu;
  ffn.width = config.product(hidden, 4, "attention_head_dim");
  layer.ffn = ffn;
  layer.norm = NormKind::layer;
  layer.norm_vectors = 0;  // the scale and shift come from the modulation
  layer.modulation_width = config.product(hidden, 6, "attention_head_dim");
  return layer;
}

std::int64_t image_tokens(const LlmConfig& config) {
  const std::int64_t sample = config.dim({"sample_size"}, "latent size"), patch = config.dim_or({"patch_size"}, 2);
  if (patch > sample) config.inner().fail("expected 'patch_size' of at most 'sample_size'");
  return config.product(sample / patch, sample / patch, "sample_size");
}

/// adaLN to twice the width, then hidden -> patch of outputs.
double final_layer(double h, double outputs) { return linear(h, 2.0 * h) + linear(h, outputs); }

/// DiT (arXiv:2212.09748): adaLN-Zero blocks; class and time embedders counted once, as the paper's model has them.
StackSpec dit(const LlmConfig& config, std::int64_t hidden) {
  if (const auto cross = config.find({"cross_attention_dim"}))
    cross->fail("cross attention in a DiT is not understood");
  StackSpec stack;
  stack.hidden = hidden;
  const LayerSpec layer = block(config, hidden, config.flag_or({"attention_bias"}, false));
  const std::int64_t layers = config.layers({"num_layers"});
  for (std::int64_t i = 0; i < layers; ++i) append_layer(stack, layer);
  const double h = d(hidden), patch = d(config.dim_or({"patch_size"}, 2));
  const double in = d(config.dim_or({"in_channels"}, 4)), out = d(config.dim_or({"out_channels"}, 8));
  const double classes = d(config.dim_or({"num_embeds_ada_norm"}, 1000)) + 1.0;
  stack.other_params = linear(in * patch * patch, h) + two_layers(d(kTimeChannels), h) + classes * h +
                       final_layer(h, out * patch * patch);
  stack.fixed_tokens = image_tokens(config);
  return stack;
}

/// Layers of SD3.5 medium where the picture attends to itself as well (diffusers JointTransformerBlock), in any order.
std::vector<bool> dual_layers(const LlmConfig& config, std::int64_t layers) {
  std::vector<bool> dual(static_cast<std::size_t>(layers), false);
  const auto list = config.find({"dual_attention_layers"});
  if (!list || list->is_null()) return dual;
  // The class asks whether a layer is among them: numbers past the last one change nothing.
  for (const JsonValue& each : list->elements()) {
    const std::int64_t at = integer_within(each, 0, 1 << 20);
    if (at < layers) dual[static_cast<std::size_t>(at)] = true;
  }
  return dual;
}

/// Their second attention, with a shift, scale and gate of its own; it stands as a layer without a feed-forward part.
LayerSpec second_attention(const LlmConfig& config, std::int64_t hidden, const LayerSpec& layer) {
  LayerSpec second = layer;
  second.double_stream = false;
  second.ffn.reset();
  second.norms = 1;
  second.modulation_width = config.product(hidden, 3, "attention_head_dim");
  config.assume("SD3.5: the picture's second attention is costed over the text's tokens too");
  return second;
}

/// SD3 (arXiv:2403.03206): two streams with joint attention; in the last block the text stream only gives Q, K and V.
StackSpec sd3(const LlmConfig& config, std::int64_t hidden) {
  StackSpec stack;
  stack.hidden = hidden;
  LayerSpec layer = block(config, hidden, true);
  layer.double_stream = true;
  layer.modulation_width *= 2;
  if (!config.text_or({"qk_norm"}, "").empty()) layer.mixer.edit<AttentionSpec>().qk_norm = 1;
  const std::int64_t layers = config.layers({"num_layers"});
  const std::vector<bool> dual = dual_layers(config, layers);
  const bool any = std::find(dual.begin(), dual.end(), true) != dual.end();
  const LayerSpec second = any ? second_attention(config, hidden, layer) : layer;
  for (std::int64_t i = 0; i < layers; ++i) {
    if (i + 1 == layers) {
      layer.second_stream_ends = true;
      layer.modulation_width = config.product(hidden, 8, "attention_head_dim");
    }
    append_layer(stack, layer);
    if (dual[static_cast<std::size_t>(i)]) append_layer(stack, second);
  }
  const double h = d(hidden), patch = d(config.dim_or({"patch_size"}, 2));
  const double in = d(config.dim_or({"in_channels"}, 16));
  const double out = d(config.dim_or({"out_channels"}, 16));
  if (config.dim_or({"caption_projection_dim"}, hidden) != hidden) {
    config.find({"caption_projection_dim"})->fail("expected the hidden width, " + std::to_string(hidden));
  }
  config.find({"pos_embed_max_size"});  // a sinusoidal buffer, no parameter
  stack.other_params = linear(in * patch * patch, h) + two_layers(d(kTimeChannels), h) +
                       two_layers(d(config.dim_or({"pooled_projection_dim"}, 2048)), h) +
                       linear(d(config.dim_or({"joint_attention_dim"}, 4096)), h) + final_layer(h, out * patch * patch);
  stack.fixed_tokens = image_tokens(config);
  stack.text_tokens = 77 + 256;
  config.assume("SD3: 333 text tokens (77 of CLIP, 256 of T5, the pipeline's default)");
  return stack;
}

/// Flux: double-stream blocks, then single-stream ones where attention and MLP run side by side and share the output
/// projection's bias (diffusers FluxSingleTransformerBlock).
StackSpec flux(const LlmConfig& config, std::int64_t hidden) {
  StackSpec stack;
  stack.hidden = hidden;
  LayerSpec layer = block(config, hidden, true);
  layer.mixer.edit<AttentionSpec>().qk_norm = 1;
  layer.mixer.edit<AttentionSpec>().rope = true;
  LayerSpec single = layer;
  layer.double_stream = true;
  layer.modulation_width *= 2;
  const std::int64_t layers = config.layers({"num_layers"}), singles = config.layers({"num_single_layers"});
  for (std::int64_t i = 0; i < layers; ++i) append_layer(stack, layer);
  single.mixer.edit<AttentionSpec>().out_bias = false;
  single.parallel_block = true;
  single.norms = 1;
  single.modulation_width = config.product(hidden, 3, "attention_head_dim");
  for (std::int64_t i = 0; i < singles; ++i) append_layer(stack, single);
  config.find({"patch_size"});  // packed into in_channels already
  const double h = d(hidden), in = d(config.dim_or({"in_channels"}, 64));
  const double out = d(config.dim_or({"out_channels"}, config.dim_or({"in_channels"}, 64)));
  const bool guided = config.flag_or({"guidance_embeds"}, false);
  stack.other_params = (guided ? 2.0 : 1.0) * two_layers(d(kTimeChannels), h) +
                       two_layers(d(config.dim_or({"pooled_projection_dim"}, 768)), h) + linear(in, h) +
                       linear(d(config.dim_or({"joint_attention_dim"}, 4096)), h) + final_layer(h, out);
  stack.fixed_tokens = 4096;  // 64 x 64 patches
  stack.text_tokens = 512;
  config.assume("Flux: a 1024 x 1024 image (4096 tokens) and 512 text tokens, the pipeline's default");
  return stack;
}

/// Qwen-Image (arXiv 2508.02324): Flux's double-stream blocks alone, a norm of the text, no pooled text.
StackSpec qwen_image(const LlmConfig& config, std::int64_t hidden) {
  StackSpec stack;
  stack.hidden = hidden;
  LayerSpec layer = block(config, hidden, true);
  layer.mixer.edit<AttentionSpec>().qk_norm = 1;
  layer.mixer.edit<AttentionSpec>().rope = true;
  layer.double_stream = true;
  layer.modulation_width *= 2;
  const std::int64_t layers = config.layers({"num_layers"});
  for (std::int64_t i = 0; i < layers; ++i) append_layer(stack, layer);
  for (const char* key : {"axes_dims_rope", "pooled_projection_dim"}) config.find({key});
  if (config.flag_or({"guidance_embeds"}, false)) config.find({"guidance_embeds"})->fail("guidance is not understood");
  const double h = d(hidden), in = d(config.dim_or({"in_channels"}, 64)), patch = d(config.dim_or({"patch_size"}, 2));
  const double out = d(config.dim_or({"out_channels"}, 16)), text = d(config.dim_or({"joint_attention_dim"}, 3584));
  stack.other_params =
      two_layers(d(kTimeChannels), h) + linear(in, h) + text + linear(text, h) + final_layer(h, out * patch * patch);
  stack.fixed_tokens = 4096;
  stack.text_tokens = 512;
  config.assume("Qwen-Image: a 1024 x 1024 image (4096 tokens) and 512 text tokens");
  return stack;
}

}  // namespace

void build_diffusion(const LlmConfig& config, Llm& llm) {
  const JsonValue kind = config.inner().at("_class_name");
  const std::string name = kind.as_string();
  llm.hidden = config.product(config.dim({"num_attention_heads"}, "attention heads"),
                              config.dim({"attention_head_dim"}, "head width"), "num_attention_heads");
  llm.has_head = false;
  llm.tied_embeddings = true;
  config.assume("no torch_dtype in the file: bf16");
  StackSpec stack;
  if (name == "DiTTransformer2DModel" ||
      (name == "Transformer2DModel" && config.text_or({"norm_type"}, "") == "ada_norm_zero")) {
    stack = dit(config, llm.hidden);
  } else if (name == "SD3Transformer2DModel") {
    stack = sd3(config, llm.hidden);
  } else if (name == "FluxTransformer2DModel") {
    stack = flux(config, llm.hidden);
  } else if (name == "QwenImageTransformer2DModel") {
    stack = qwen_image(config, llm.hidden);
  } else {
    kind.fail("diffusion model '" + name + "' is not understood" +
              did_you_mean(name, {"DiTTransformer2DModel", "SD3Transformer2DModel", "FluxTransformer2DModel",
                                  "QwenImageTransformer2DModel"}));
  }
  stack.role = StackSpec::Role::diffusion;
  llm.stacks.push_back(std::move(stack));
}

}  // namespace plumbline

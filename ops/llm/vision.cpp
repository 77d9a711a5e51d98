// Vision transformers, alone (ViT, DeiT) or as the tower of a multimodal model (CLIP).
#include <algorithm>
#include <utility>

#include "arch/printable.hpp"
#include "ops/as_double.hpp"
#include "ops/llm/parts.hpp"
#include "ops/llm/tower_table.hpp"
#include "ops/mixer/attention.hpp"

namespace plumbline {
namespace {

struct Patches {
  std::int64_t count = 0;
  double embedding_params = 0;
};

Patches read_patches(const LlmConfig& config, std::int64_t hidden) {
  const std::int64_t image = config.dim_or({"image_size"}, 224), patch = config.dim_or({"patch_size"}, 16);
  const std::int64_t channels = config.dim_or({"num_channels", "in_channels"}, 3);
  if (patch > image) config.inner().fail("expected 'patch_size' of at most the image's " + std::to_string(image));
  Patches patches;
  patches.count = config.product(image / patch, image / patch, "image_size");
  patches.embedding_params = d(channels) * d(patch) * d(patch) * d(hidden);
  return patches;
}

StackSpec vision_stack(const LlmConfig& config, std::int64_t hidden) {
  StackSpec stack;
  stack.role = StackSpec::Role::vision;
  stack.hidden = hidden;
  LayerSpec layer;
  AttentionSpec a;
  a.q_heads = a.kv_heads = config.dim({"num_attention_heads", "num_heads"}, "attention heads");
  if (hidden % a.q_heads != 0) config.inner().fail("the hidden width is no multiple of the attention heads");
  a.qk_dim = a.v_dim = hidden / a.q_heads;
  a.causal = a.rope = false;
  a.out_bias = true;
  a.qkv_bias = config.flag_or({"qkv_bias"}, true);
  layer.mixer = a;
  layer.ffn = FfnSpec{};
  layer.ffn->gated = false;
  layer.ffn->bias = true;
  layer.ffn->activation = read_activation(config, Activation::gelu);
  layer.ffn->width = config.dim({"intermediate_size"}, "FFN width");
  layer.norm = NormKind::layer;
  layer.norm_vectors = 2;
  const std::int64_t layers = config.layers({"num_hidden_layers"});
  for (std::int64_t i = 0; i < layers; ++i) append_layer(stack, layer);
  return stack;
}

/// Class token, positions, patch convolution and norms of CLIPVisionTransformer (no convolution bias, norm before too).
StackSpec clip_stack(const LlmConfig& config) {
  const std::int64_t hidden = config.dim({"hidden_size"}, "hidden width");
  config.find({"projection_dim"});  // of the model around it
  StackSpec stack = vision_stack(config, hidden);
  const Patches patches = read_patches(config, hidden);
  const double h = d(hidden);
  stack.fixed_tokens = patches.count + 1;
  stack.other_params = h + d(stack.fixed_tokens) * h + patches.embedding_params + 4.0 * h;
  return stack;
}

/// DINOv2 (modeling_dinov2.py of transformers 5.17): a width by a ratio, or gated with two thirds of it, scales behind both
/// parts, tokens without a patch (class, registers), the row that stands for masked patches.
StackSpec dino_stack(const LlmConfig& config, std::int64_t hidden) {
  StackSpec stack;
  stack.role = StackSpec::Role::vision;
  stack.hidden = hidden;
  const std::int64_t heads = config.dim({"num_attention_heads"}, "attention heads");
  const auto ratio = config.find({"mlp_ratio"});
  LayerSpec layer;
  AttentionSpec attention = plain_attention(config, heads, divided(config, hidden, heads), false, true);
  attention.qkv_bias = config.flag_or({"qkv_bias"}, true);
  layer.mixer = attention;
  layer.ffn = FfnSpec{};
  layer.ffn->bias = true;
  layer.ffn->gated = config.flag_or({"use_swiglu_ffn"}, false);
  layer.ffn->activation = read_activation(config, Activation::gelu);
  const std::int64_t width = config.product(hidden, ratio ? integer_within(*ratio, 1, 64) : 4, "mlp_ratio");
  layer.ffn->width = layer.ffn->gated ? (2 * width / 3 + 7) / 8 * 8 : width;
  layer.norm = NormKind::layer;
  layer.norm_vectors = 2;
  layer.beside.vectors = 2 * hidden;
  const std::int64_t layers = config.layers({"num_hidden_layers"});
  for (std::int64_t i = 0; i < layers; ++i) append_layer(stack, layer);
  const Patches patches = read_patches(config, hidden);
  const std::int64_t registers = config.is("dinov2_with_registers") ? config.count_or({"num_register_tokens"}, 4) : 0;
  stack.fixed_tokens = patches.count + 1 + registers;
  const double h = d(hidden), rows = d(patches.count + 1) + 1 + d(registers);
  stack.other_params = rows * h + patches.embedding_params + h + 2.0 * h;
  if (config.flag_or({"use_mask_token"}, true)) stack.other_params += h;
  for (const char* key : {"apply_layernorm", "reshape_hidden_states"}) config.flag_or({key}, true);
  return stack;
}

/// SigLIP's vision model: no class token, and a head that pools by attention.
StackSpec siglip_stack(const LlmConfig& config, std::int64_t hidden) {
  StackSpec stack = vision_stack(config, hidden);
  const Patches patches = read_patches(config, hidden);
  const double h = d(hidden), f = d(config.dim({"intermediate_size"}, "FFN width"));
  stack.fixed_tokens = patches.count;
  stack.other_params = d(patches.count) * h + patches.embedding_params + h + 2.0 * h;
  if (config.flag_or({"vision_use_head"}, true)) {
    stack.other_params += 4.0 * h * h + 2.0 * h * f + 8.0 * h + f;
    config.assume("the head that pools by attention is in the parameters and in no operator");
  }
  return stack;
}

}  // namespace

void build_vit(const LlmConfig& config, Llm& llm) {
  llm.hidden = config.dim({"hidden_size"}, "hidden width");
  llm.has_head = false;
  llm.tied_embeddings = true;
  read_dtype(config, llm);
  if (config.is("clip_vision_model")) {
    llm.stacks.push_back(clip_stack(config));
    return;
  }
  if (config.family().type.starts_with("dinov2")) {
    llm.stacks.push_back(dino_stack(config, llm.hidden));
    return;
  }
  if (config.is("siglip_vision_model")) {
    llm.stacks.push_back(siglip_stack(config, llm.hidden));
    return;
  }
  StackSpec stack = vision_stack(config, llm.hidden);
  const Patches patches = read_patches(config, llm.hidden);
  const double h = d(llm.hidden);
  config.find({"pooler_output_size"});
  config.find({"encoder_stride"});
  const std::int64_t extra = config.is("deit") ? 2 : 1;  // class token, and DeiT's distillation token
  stack.fixed_tokens = patches.count + extra;
  stack.other_params = d(extra) * h + d(stack.fixed_tokens) * h + patches.embedding_params + h + 2.0 * h;
  if (first_architecture(config.has({"architectures"}) ? config.inner() : config.outer())
          .find("ForImageClassification") != std::string::npos) {
    const auto names = config.find({"id2label"});
    std::int64_t labels = config.dim_or({"num_labels"}, names ? static_cast<std::int64_t>(names->size()) : 0);
    if (labels == 0) {
      labels = 1000;
      config.assume("no labels in the file: a classifier of 1000");
    }
    stack.other_params += h * d(labels) + d(labels);
  } else {
    const double pooled = d(config.dim_or({"pooler_output_size"}, llm.hidden));
    stack.other_params += h * pooled + pooled;
    config.assume("no classifier named by the file: the pooler of the bare model is counted");
  }
  llm.stacks.push_back(std::move(stack));
}

void add_tower(const LlmConfig& config, const std::string& key, const JsonValue& vision, Llm& llm) {
  if (!vision.is_object()) vision.fail("expected an object, found " + vision.dump().substr(0, 60));
  const LlmConfig tower(vision, vision, *find_family("clip_vision_model"));
  const std::string type = vision.find_string("model_type").value_or("no model_type");
  const std::optional<TableTower> known = table_tower(config, key, vision);
  if (type != "clip_vision_model") {
    auto params = tower_params(config, tower, llm.hidden);
    if (!params && known) params = known->tower + known->projector;
    llm.tower_params += params.value_or(0);
    if (!params && first_architecture(config.outer()).ends_with("ForConditionalGeneration")) {
      llm.warnings.push_back("'" + printable(key.substr(0, 64)) + "' (" + printable(type.substr(0, 64)) +
                             ") is in no table: its parameters are in no number, the model is larger than it says");
    }
    config.assume("the tower (" + type + ") is left out: time and memory are the language model's" +
                  (params ? ", parameters count it beside" : ""));
    return;
  }
  StackSpec stack = clip_stack(tower);
  // LlavaMultiModalProjector: two linear layers with bias, vision width -> language width -> language width.
  const double v = d(stack.hidden), h = d(llm.hidden);
  stack.other_params += known ? known->projector : v * h + h + h * h + h;
  config.assume("the vision tower (CLIP) and its two-layer projector are counted");
  llm.stacks.push_back(std::move(stack));
}

}  // namespace plumbline

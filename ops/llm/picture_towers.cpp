// Parameters of further towers for pictures and sound, with what brings them to the language model's width.
//
// Sources: modeling_qwen2_vl.py, modeling_qwen2_5_vl.py, modeling_qwen3_vl.py, modeling_mllama.py, modeling_pixtral.py,
// modeling_mistral3.py, modeling_llava.py, modeling_glm4v.py, modeling_qwen2_audio.py, modeling_git.py and
// modeling_paligemma.py of Hugging Face transformers 5.17; modeling_kimi_vl.py and
// modeling_intern_vit.py beside the weights.
#include <cmath>
#include <optional>

#include "ops/as_double.hpp"
#include "ops/llm/parts.hpp"
#include "ops/llm/tower_parts.hpp"

namespace plumbline {
namespace {

using namespace towers;

/// Neighbours of a square are read as one row, by two layers.
double merged(const LlmConfig& tower, double width, double out) {
  const double side = d(tower.dim_or({"spatial_merge_size"}, 2)), wide = side * side * width;
  return biased(wide, wide) + biased(wide, out);
}

/// A patch of two frames.
double frame_pair(const LlmConfig& tower) {
  const double side = d(tower.dim_or({"patch_size"}, 14));
  return d(tower.dim_or({"in_channels", "in_chans"}, 3)) * d(tower.dim_or({"temporal_patch_size"}, 2)) * side * side;
}

double qwen2_params(const LlmConfig& tower, double hidden) {
  const double width = d(tower.dim_or({"embed_dim"}, 1280));
  const double ffn = width * d(tower.dim_or({"mlp_ratio"}, 4));
  const double out = d(tower.dim_or({"hidden_size"}, static_cast<std::int64_t>(hidden)));
  return frame_pair(tower) * width + d(tower.layers({"depth"})) * plain_layer(width, ffn) + 2 * width +
         merged(tower, width, out);
}

/// Gated, with norms of one vector.
double qwen25_params(const LlmConfig& tower, double hidden) {
  const double width = d(tower.dim({"hidden_size"}, "hidden width"));
  const double ffn = d(tower.dim({"intermediate_size"}, "FFN width"));
  const double layer = 4 * biased(width, width) + 2 * width + 2 * biased(width, ffn) + biased(ffn, width);
  return frame_pair(tower) * width + d(tower.layers({"depth"})) * layer + width +
         merged(tower, width, d(tower.dim_or({"out_hidden_size"}, static_cast<std::int64_t>(hidden))));
}

/// Outputs of some layers go into the language model too, each by a merger of its own whose norm is as wide as its square.
double qwen3_params(const LlmConfig& tower, double hidden) {
  const double width = d(tower.dim({"hidden_size"}, "hidden width"));
  const double ffn = d(tower.dim({"intermediate_size"}, "FFN width"));
  const double out = d(tower.dim_or({"out_hidden_size"}, static_cast<std::int64_t>(hidden)));
  const auto deep = tower.find({"deepstack_visual_indexes"});
  const double mergers = deep ? d(static_cast<std::int64_t>(deep->size())) : 3.0;
  const double side = d(tower.dim_or({"spatial_merge_size"}, 2));
  return biased(frame_pair(tower), width) + d(tower.dim_or({"num_position_embeddings"}, 2304)) * width +
         d(tower.layers({"depth"})) * plain_layer(width, ffn) + 2 * width + merged(tower, width, out) +
         mergers * (2 * side * side * width + merged(tower, width, out));
}

/// Llama 3.2 Vision: layers without biases in attention, more of them with gates behind; tables of positions by tile and by
/// the shape of the picture.
double mllama_params(const LlmConfig& tower, double hidden) {
  const double width = d(tower.dim({"hidden_size"}, "hidden width"));
  const double ffn = d(tower.dim({"intermediate_size"}, "FFN width"));
  const double side = patches_a_side(tower), rows = side * side + 1;
  const auto shapes = tower.find({"supported_aspect_ratios"});
  const double ratios = 1 + (shapes ? d(static_cast<std::int64_t>(shapes->size())) : 8.0);
  const double tiles = d(tower.dim_or({"max_num_tiles"}, 4));
  const double layer = 4 * width * width + 4 * width + biased(width, ffn) + biased(ffn, width);
  const double global = d(tower.layers({"num_global_layers"}));
  double count = (d(tower.layers({"num_hidden_layers"})) + global) * layer + 2 * global;
  count += patch_conv_params(tower, width) - width + width;  // without a bias; the class token
  count += rows * width + 1 + ratios * tiles * rows * width + 2 * (ratios * tiles * width + 1);
  return count + 4 * width + biased(d(tower.dim({"vision_output_dim"}, "output width")), hidden);
}

/// Pixtral's encoder: gated, without biases, norms of one vector.
double pixtral_params(const LlmConfig& tower) {
  const double width = d(tower.dim_or({"hidden_size"}, 1024)), ffn = d(tower.dim_or({"intermediate_size"}, 4096));
  const double patch = d(tower.dim_or({"patch_size"}, 16)), layers = d(tower.dim_or({"num_hidden_layers"}, 24));
  return d(tower.dim_or({"num_channels"}, 3)) * patch * patch * width + width +
         layers * (4 * width * width + 3 * width * ffn + 2 * width);
}

/// Behind Pixtral: Mistral 3 merges squares of rows by a norm and a layer, then two layers; LLaVA has the two alone.
double pixtral_projector(const LlmConfig& config, const LlmConfig& tower, double hidden) {
  const double width = d(tower.dim_or({"hidden_size"}, 1024));
  const JsonValue& outer = config.outer();
  const bool bias = outer.find_bool("multimodal_projector_bias").value_or(outer.find_string("model_type") == "llava");
  const double two = width * hidden + hidden * hidden + (bias ? 2 * hidden : 0.0);
  if (outer.find_string("model_type").value_or("") == "llava") return two;
  const auto side = outer.find("spatial_merge_size");
  const double merge = side ? d(integer_within(*side, 1, 64)) : 2.0;
  return width + merge * merge * width * width + two;
}

/// MoonViT of Kimi-VL, with its projector.
double moonvit_params(const LlmConfig& tower, double hidden) {
  const double width = d(tower.dim({"hidden_size"}, "hidden width"));
  const double ffn = d(tower.dim({"intermediate_size"}, "FFN width"));
  const double rows = d(tower.dim_or({"init_pos_emb_height"}, 64)) * d(tower.dim_or({"init_pos_emb_width"}, 64));
  return patch_conv_params(tower, width) + rows * width +
         d(tower.layers({"num_hidden_layers"})) * plain_layer(width, ffn) + 2 * width + 2 * width +
         merged(tower, width, hidden);
}

/// InternViT, with the projector of InternVL: a norm and two layers.
double internvit_params(const LlmConfig& tower, double hidden) {
  const double width = d(tower.dim({"hidden_size"}, "hidden width"));
  const double ffn = d(tower.dim({"intermediate_size"}, "FFN width"));
  const double side = patches_a_side(tower), layers = d(tower.layers({"num_hidden_layers"}));
  double layer = plain_layer(width, ffn) + 2 * width;  // scales behind both parts
  if (tower.text_or({"norm_type"}, "layer_norm") == "rms_norm") layer -= 2 * width;
  if (!tower.flag_or({"qkv_bias"}, true)) layer -= 3 * width;
  if (tower.flag_or({"qk_normalization"}, false)) layer += 2 * width;
  return width + patch_conv_params(tower, width) + (side * side + 1) * width + layers * layer + 8 * width +
         biased(4 * width, hidden) + biased(hidden, hidden);
}

/// GLM-4.1V: norms of one vector, no biases, a feed-forward part as wide as the output; a convolution and a gated merger.
double glm4v_params(const LlmConfig& tower) {
  const double width = d(tower.dim({"hidden_size"}, "hidden width")), out = d(tower.dim({"out_hidden_size"}, "output"));
  const double ffn = d(tower.dim({"intermediate_size"}, "FFN width")), side = patches_a_side(tower);
  const double merge = d(tower.dim_or({"spatial_merge_size"}, 2));
  double layer = 4 * width * width + 3 * width * out + 2 * width;
  if (tower.flag_or({"attention_bias"}, false)) layer += 3 * width;
  return biased(frame_pair(tower), width) + side * side * width + 2 * width + d(tower.layers({"depth"})) * layer +
         out * out + 2 * out + 3 * out * ffn + biased(merge * merge * width, out);
}

/// Qwen2-Audio's encoder (Whisper's) with its projector.
double qwen2_audio_params(const LlmConfig& tower, double hidden) {
  const double width = d(tower.dim_or({"d_model"}, 1280)), ffn = d(tower.dim_or({"encoder_ffn_dim"}, 5120));
  const double front = biased(3 * d(tower.dim_or({"num_mel_bins"}, 128)), width) + biased(3 * width, width);
  return front + d(tower.dim_or({"max_source_positions"}, 1500)) * width +
         d(tower.dim_or({"encoder_layers"}, 32)) * (plain_layer(width, ffn) - width) + 2 * width +
         biased(width, hidden);
}

/// GIT: CLIP's encoder, a projection and its norm; a vector a frame where it reads several.
double git_params(const LlmConfig& config, const LlmConfig& tower, double hidden) {
  const double width = d(tower.dim_or({"hidden_size"}, 768)), ffn = d(tower.dim_or({"intermediate_size"}, 3072));
  const double side = patches_a_side(tower);
  return patch_conv_params(tower, width) - width + width + (side * side + 1) * width + 4 * width +
         d(tower.dim_or({"num_hidden_layers"}, 12)) * plain_layer(width, ffn) + biased(width, hidden) + 2 * hidden +
         d(config.count_or({"num_image_with_embedding"}, 0)) * width;
}

/// PaliGemma: SigLIP without a head, one layer to the width that the file has for it (the language model's).
double paligemma_params(const LlmConfig& config, const LlmConfig& tower) {
  const double out = d(config.outer().has("projection_dim")
                           ? integer_within(config.outer().at("projection_dim"), 1, LlmConfig::kLargestDim)
                           : 2048);
  const double width = d(tower.dim({"hidden_size"}, "hidden width")), ffn = d(tower.dim({"intermediate_size"}, "FFN"));
  const double side = d(tower.dim_or({"image_size"}, 224) / tower.dim_or({"patch_size"}, 16));
  if (tower.flag_or({"vision_use_head"}, false))
    tower.find({"vision_use_head"})->fail("a head that pools is not understood");
  return patch_conv_params(tower, width) + side * side * width +
         d(tower.layers({"num_hidden_layers"})) * plain_layer(width, ffn) + 2 * width + biased(width, out);
}

}  // namespace

std::optional<double> picture_tower_params(const LlmConfig& config, const LlmConfig& tower, std::int64_t hidden) {
  const std::string type = tower.text_or({"model_type"}, "");
  const std::string around = config.outer().find_string("model_type").value_or("");
  const double h = d(hidden);
  if (around == "qwen2_vl") return qwen2_params(tower, h);
  if (around == "qwen2_5_vl") return qwen25_params(tower, h);
  if (around == "qwen3_vl" || around == "qwen3_vl_moe") return qwen3_params(tower, h);
  // MllamaForCausalLM is the language model alone.
  const bool whole = first_architecture(config.outer()) != "MllamaForCausalLM";
  if (type == "mllama_vision_model" && whole) return mllama_params(tower, h);
  const bool mistral = around == "mistral3" || around == "ministral3";  // one class, Mistral3ForConditionalGeneration
  if (type == "pixtral" && (mistral || around == "llava")) {
    return pixtral_params(tower) + pixtral_projector(config, tower, h);
  }
  if (around == "glm4v") return glm4v_params(tower);
  if (type == "qwen2_audio_encoder") return qwen2_audio_params(tower, h);
  if (type == "git_vision_model") return git_params(config, tower, h);
  if (around == "paligemma" && type == "siglip_vision_model") return paligemma_params(config, tower);
  if (type == "moonvit" && around == "kimi_vl") return moonvit_params(tower, h);
  if (type == "intern_vit_6b" && around == "internvl_chat") return internvit_params(tower, h);
  return std::nullopt;
}

}  // namespace plumbline

// Parameters of towers for pictures and sound, which a prompt of text does not run: counted, in no step.
//
// Sources: modeling_siglip.py, modeling_gemma3.py, modeling_gemma3n.py, modeling_got_ocr2.py and
// modeling_phi4_multimodal.py of Hugging Face transformers 5.17.
#include <algorithm>
#include <cmath>
#include <optional>

#include "ops/as_double.hpp"
#include "ops/llm/parts.hpp"
#include "ops/llm/tower_parts.hpp"

namespace plumbline {
namespace {

using namespace towers;

/// SiglipVisionTransformer: patches, learned positions, layers, a norm, and where the file does not leave it out a head that
/// pools by attention.
double siglip_params(const LlmConfig& tower) {
  const double width = d(tower.dim({"hidden_size"}, "hidden width"));
  const double ffn = d(tower.dim({"intermediate_size"}, "FFN width"));
  const double side = patches_a_side(tower), layers = d(tower.layers({"num_hidden_layers"}));
  double count = patch_conv_params(tower, width) + side * side * width + layers * plain_layer(width, ffn) + 2 * width;
  if (tower.flag_or({"vision_use_head"}, true)) {
    count += width + 4 * biased(width, width) + 2 * width + biased(width, ffn) + biased(ffn, width);
  }
  return count;
}

/// GOT-OCR's picture encoder, Segment Anything's: windows but for some layers, positions absolute and relative, a neck and a
/// projector of convolutions.
double got_params(const LlmConfig& tower, double hidden) {
  const double width = d(tower.dim({"hidden_size"}, "hidden width"));
  const double ffn = d(tower.dim({"mlp_dim"}, "FFN width")), out = d(tower.dim({"output_channels"}, "channels"));
  const std::int64_t layers = tower.layers({"num_hidden_layers"});
  const double side = patches_a_side(tower);
  const double head = width / d(tower.dim({"num_attention_heads"}, "attention heads"));
  double count = patch_conv_params(tower, width) + d(layers) * plain_layer(width, ffn);
  if (!tower.flag_or({"qkv_bias"}, true)) count -= d(layers) * 3 * width;
  if (tower.flag_or({"use_abs_pos"}, true)) count += side * side * width;
  if (tower.flag_or({"use_rel_pos"}, true)) {
    const auto list = tower.find({"global_attn_indexes"});
    const double global = list ? d(static_cast<std::int64_t>(list->size())) : 0.0;
    const double window = d(tower.dim({"window_size"}, "window"));
    count += 2 * head * (global * (2 * side - 1) + (d(layers) - global) * (2 * window - 1));
  }
  count += width * out + 9 * out * out + 4 * out;
  return count + 9 * out * 2 * out + 9 * 2 * out * hidden + biased(hidden, hidden);
}

/// Phi-4-multimodal's picture encoder with its head, two separators of pictures, and a projector of two layers.
double phi4_vision_params(const LlmConfig& tower, double hidden) {
  const double width = d(tower.dim({"hidden_size"}, "hidden width"));
  return siglip_params(tower) + 2 * width + biased(width, hidden) + biased(hidden, hidden);
}

/// Its conformer: two halved feed-forward parts, attention and a convolution a layer; convolutions that shorten the sound;
/// a projector for sound and one for sound beside pictures.
double phi4_audio_params(const LlmConfig& tower, double hidden) {
  const double width = d(tower.dim({"hidden_size"}, "hidden width"));
  const double ffn = d(tower.dim({"intermediate_size"}, "FFN width")),
               wide = d(tower.dim_or({"ext_pw_out_channel"}, 1024));
  const double depth = width * d(tower.dim_or({"depthwise_multiplier"}, 1)), taps = d(tower.dim_or({"kernel_size"}, 3));
  const double part = 2 * width + biased(width, 2 * ffn) + biased(ffn, width);
  const double conv = 2 * width + biased(width, 2 * wide) + 2 * wide + biased(taps, depth) +
                      biased(depth, d(tower.dim_or({"depthwise_separable_out_channel"}, 1024))) + biased(width, wide);
  const double layer = 2 * part + 4 * biased(width, width) + conv + 4 * width;
  const double channels = d(tower.dim_or({"nemo_conv_channels"}, 1024));
  const double shorter = std::floor(std::log2(d(tower.dim_or({"time_reduction"}, 8))));
  const double front = biased(9, channels) + (shorter - 1) * (biased(9, channels) + biased(channels, channels)) +
                       biased(channels * d(tower.dim_or({"nemo_final_size"}, 10)), width);
  const double buckets =
      d(tower.dim_or({"bias_max_distance"}, 1000)) * (tower.flag_or({"bias_symmetric"}, false) ? 1 : 2);
  const double projector = biased(width * d(tower.dim_or({"downsample_rate"}, 1)), hidden) + biased(hidden, hidden);
  return d(tower.layers({"num_blocks"})) * layer + front +
         buckets * d(tower.dim({"num_attention_heads"}, "attention heads")) + 2 * projector;
}

/// Gemma 3n's words and norms of what is no text, with the projection to the hidden width.
double gemma_embedder(const LlmConfig& tower, double hidden) {
  const double width = d(tower.dim({"hidden_size"}, "hidden width"));
  return d(tower.dim({"vocab_size"}, "vocabulary")) * width + 2 * width + width * hidden;
}

/// Its conformer of the Universal Speech Model: convolutions in front, then layers of two feed-forward parts, attention with
/// relative positions and a convolution.
double gemma_audio_params(const LlmConfig& tower, double hidden) {
  const double width = d(tower.dim({"hidden_size"}, "hidden width"));
  const double heads = d(tower.dim({"conf_num_attention_heads"}, "attention heads"));
  const double part = 8 * width * width + 2 * width;
  const double attention = 5 * width * width + std::floor(width / heads) + 2 * width;
  const double conv = 3 * width * width + width * d(tower.dim_or({"conf_conv_kernel_size"}, 5)) + 2 * width;
  const auto channels = tower.find({"sscp_conv_channel_size"});
  if (!channels || channels->size() != 2) tower.inner().fail("expected two sizes in 'sscp_conv_channel_size'");
  const double first = d(integer_within(channels->elements()[0], 1, 1 << 20));
  const double second = d(integer_within(channels->elements()[1], 1, 1 << 20));
  // Convolutions of 3 x 3, each of which halves the frequencies, as the class has them.
  const double frequencies = std::ceil(std::ceil(d(tower.dim_or({"input_feat_size"}, 128)) / 2) / 2);
  const double front = 9 * first + first + 9 * first * second + second + second * frequencies * width;
  return d(tower.layers({"conf_num_hidden_layers"})) * (2 * part + attention + conv + width) + front +
         gemma_embedder(tower, hidden);
}

/// MobileNetV5 of timm has no sizes in the file, only its name: what is left of the whole module's 7,818,517,072 parameters
/// (tests/ops/hf_families.json).
std::optional<double> gemma_vision_params(const LlmConfig& tower, double hidden) {
  constexpr double kMobileNet5 = 294126912;
  if (tower.text_or({"architecture"}, "") != "mobilenetv5_300m_enc") return std::nullopt;
  return kMobileNet5 + gemma_embedder(tower, hidden);
}

}  // namespace

std::optional<double> tower_params(const LlmConfig& config, const LlmConfig& tower, std::int64_t hidden) {
  const std::string type = tower.text_or({"model_type"}, "");
  const std::string around = config.outer().find_string("model_type").value_or("");
  const double h = d(hidden);
  if (around == "gemma3" && type == "siglip_vision_model") {
    const double width = d(tower.dim({"hidden_size"}, "hidden width"));
    return siglip_params(tower) + width * h + width;  // projection and norm
  }
  if (around == "got_ocr2") return got_params(tower, h);
  if (type == "phi4_multimodal_vision") return phi4_vision_params(tower, h);
  if (type == "phi4_multimodal_audio") return phi4_audio_params(tower, h);
  if (type == "gemma3n_audio") return gemma_audio_params(tower, h);
  if (type == "gemma3n_vision") return gemma_vision_params(tower, h);
  return picture_tower_params(config, tower, hidden);
}

}  // namespace plumbline

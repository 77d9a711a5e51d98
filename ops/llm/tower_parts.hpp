// Parameters of what towers are made of.
#pragma once

#include "ops/as_double.hpp"
#include "ops/config/config.hpp"

namespace plumbline::towers {

inline double biased(double in, double out) { return in * out + out; }

/// Side of a picture, in patches.
inline double patches_a_side(const LlmConfig& tower) {
  const std::int64_t image = tower.dim({"image_size"}, "size of pictures"), patch = tower.dim({"patch_size"}, "patch");
  if (patch > image) tower.inner().fail("expected 'patch_size' of at most the image's " + std::to_string(image));
  return d(image / patch);
}

/// The convolution that makes patches, with its bias.
inline double patch_conv_params(const LlmConfig& tower, double width) {
  const double patch = d(tower.dim({"patch_size"}, "patch"));
  return biased(d(tower.dim_or({"num_channels"}, 3)) * patch * patch, width);
}

/// Queries, keys, values and output with biases, two LayerNorms, two matrices.
inline double plain_layer(double width, double ffn) {
  return 4 * biased(width, width) + 4 * width + biased(width, ffn) + biased(ffn, width);
}

}  // namespace plumbline::towers

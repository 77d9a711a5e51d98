// Weight elements of the parts of a layer, exact, biases and norms included.
//
// Formulas: the modules of Hugging Face transformers and diffusers, part by part; each function cites its own.
#pragma once

#include <cstdint>

#include "ops/llm/llm.hpp"

namespace plumbline {

/// One dense FFN of `width` (two matrices, three when gated).
ParamCount dense_ffn_params(const FfnSpec& ffn, std::int64_t hidden, std::int64_t width);
/// One routed expert (at the latent width when there is one).
ParamCount expert_params(const FfnSpec& ffn, std::int64_t hidden);
/// Everything of the FFN part: dense, or router + experts + shared experts + latent projections.
ParamCount ffn_params(const FfnSpec& ffn, std::int64_t hidden);
/// All of the above, mixer, norms, modulation and the second stream included.
ParamCount layer_params(const LayerSpec& layer, std::int64_t hidden);

/// Fills `params`, `active_params` and `expert_params` of the layer.
void count_layer(LayerSpec& layer, std::int64_t hidden);

/// Weights of the layers of a stack (each kind once where weights are shared), without `other_params`.
double stack_layer_params(const StackSpec& stack);
double stack_active_layer_params(const StackSpec& stack);

}  // namespace plumbline

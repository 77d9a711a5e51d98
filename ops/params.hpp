// Weight elements of the parts of a layer, exact, biases and norms included.
//
// Formulas: the modules of Hugging Face transformers and diffusers, part by part; each function cites its own.
#pragma once

#include <cstdint>

#include "ops/llm.hpp"

namespace plumbline {

/// Projections, biases, QK norms, sinks, MLA latents, DSA indexer. `kv_hidden`: width that K and V are made from (cross
/// attention); 0 = hidden.
double attention_params(const AttentionSpec& attention, std::int64_t hidden, std::int64_t kv_hidden = 0);
double recurrent_params(const RecurrentSpec& recurrent, std::int64_t hidden);
/// One dense FFN of `width` (two matrices, three when gated).
double dense_ffn_params(const FfnSpec& ffn, std::int64_t hidden, std::int64_t width);
/// One routed expert (at the latent width when there is one).
double expert_params(const FfnSpec& ffn, std::int64_t hidden);
/// Everything of the FFN part: dense, or router + experts + shared experts + latent projections.
double ffn_params(const FfnSpec& ffn, std::int64_t hidden);
double norm_params(const LayerSpec& layer, std::int64_t hidden);

/// Fills `params`, `active_params` and `expert_params` of the layer.
void count_layer(LayerSpec& layer, std::int64_t hidden);

/// Weights of the layers of a stack (each kind once where weights are shared), without `other_params`.
double stack_layer_params(const StackSpec& stack);
double stack_active_layer_params(const StackSpec& stack);

}  // namespace plumbline

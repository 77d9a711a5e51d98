// Names that graph files have for feed-forward parts and their sizes; one list, for reading and for writing.
#pragma once

#include <array>
#include <string_view>

#include "ops/llm/llm.hpp"

namespace plumbline {

inline constexpr std::array<std::string_view, 4> kActivationWords{"silu", "gelu", "relu", "relu2"};

/// "gated_ffn": two matrices of inputs; "mlp": one; "moe": experts, gated or not. A block that is written out stands for
/// the most common of them: "swiglu_ffn" is a gated one with SiLU.
inline constexpr std::array<std::string_view, 3> kFfnWords{"gated_ffn", "mlp", "moe"};
inline std::string_view ffn_word(const FfnSpec& ffn) {
  if (ffn.is_moe()) return "moe";
  if (!ffn.gated) return "mlp";
  return ffn.activation == Activation::silu ? "swiglu_ffn" : "gated_ffn";
}

/// visit(name, member) for each size.
template <class Ffn, class Visit>
void each_ffn_size(Ffn& ffn, Visit visit) {
  visit("width", ffn.width);
  visit("bias", ffn.bias);
  visit("experts", ffn.experts);
  visit("topk", ffn.topk);
  visit("expert_width", ffn.expert_width);
  visit("shared_width", ffn.shared_width);
  visit("latent", ffn.latent);
  visit("router_bias", ffn.router_bias);
  visit("shared_gate", ffn.shared_gate);
  visit("expert_bias", ffn.expert_bias);
  visit("inner_norm", ffn.inner_norm);
  visit("identities", ffn.identities);
  visit("router_width", ffn.router_width);
  visit("gated", ffn.gated);
  visit("groups", ffn.groups);
  visit("top_groups", ffn.top_groups);
}

}  // namespace plumbline

// Where the parameters of a trained model lie in the array of all: the table of embeddings, the layers, the final norm.
#pragma once

#include <cstdint>

#include "kernels/run/iteration.hpp"

namespace plumbline {

/// Elements of a layer's parameters, in their order.
struct LayerSizes {
  std::int64_t attention_norm, qkv, output, ffn_norm, gate_up, down;
  explicit LayerSizes(const TrainedModel& m)
      : attention_norm(m.hidden),
        qkv(m.heads() * m.head_dim * m.hidden),
        output(m.hidden * m.q_heads * m.head_dim),
        ffn_norm(m.hidden),
        gate_up(2 * m.intermediate * m.hidden),
        down(m.hidden * m.intermediate) {}
  std::int64_t all() const { return attention_norm + qkv + output + ffn_norm + gate_up + down; }
};

/// Where a parameter begins in the array of all.
struct LayerPlaces {
  std::int64_t attention_norm, qkv, output, ffn_norm, gate_up, down;
  LayerPlaces(const TrainedModel& m, std::int64_t layer) {
    const LayerSizes s(m);
    attention_norm = m.vocabulary * m.hidden + layer * s.all();
    qkv = attention_norm + s.attention_norm;
    output = qkv + s.qkv;
    ffn_norm = output + s.output;
    gate_up = ffn_norm + s.ffn_norm;
    down = gate_up + s.gate_up;
  }
};

inline std::int64_t final_norm_place(const TrainedModel& m) { return LayerPlaces(m, m.layers).attention_norm; }

}  // namespace plumbline

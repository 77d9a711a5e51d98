#pragma once

#include "ops/shape/shape.hpp"

namespace plumbline {

enum class RecurrentKind { mamba1, mamba2, gated_delta_net };
std::string_view name(RecurrentKind kind);

/// The state recurrence of one layer for B sequences of S tokens (S = 1: decode), without its projections:
/// h = a h + b x^T (mamba) or the gated delta rule; y = h c. State a head: head_dim x state. `carry`: it is read first and
/// written last, as between steps of serving; else it begins at zero and is not kept. `channel_decay`: the delta rule's decay
/// is one for each of the state's columns and not one a head (Kimi delta attention). `chunk`: tokens that Mamba-2's kernels
/// take at a time (the config's chunk_size).
struct Recurrence {
  RecurrentKind kind = RecurrentKind::mamba2;
  std::int64_t batch = 0, seq = 0, heads = 0, head_dim = 0, state = 0, groups = 1;
  DType dtype = DType::bf16, state_dtype = DType::fp32;
  bool carry = true, channel_decay = false;
  std::int64_t chunk = 256;
  bool operator==(const Recurrence&) const = default;
  static const Facts<Recurrence>& facts();
};

}  // namespace plumbline

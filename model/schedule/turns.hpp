// What the stages of a pipeline that trains do when: their turns on the timeline that its time is the end of.
#pragma once

#include <cstdint>

#include "arch/units.hpp"

namespace plumbline {

/// `inputs`: a backward pass that leaves the gradients of weights for a turn of their own (`weights`). `both`: a forward pass of
/// one micro-batch and a backward pass of another together.
enum class TurnKind { forward, backward, inputs, weights, both };

struct PipelineTurn {
  TurnKind kind = TurnKind::forward;
  std::int64_t stage = 0;        ///< of the pipeline: a rank, where ranks hold two stages
  std::int64_t micro_batch = 0;  ///< of `both` that of the forward pass
  std::int64_t chunk = 0;        ///< of the stage; of a rank that holds two stages which of them
  std::int64_t backward = -1;    ///< of `both`: micro-batch of the backward pass
  Seconds start, end;
};

}  // namespace plumbline

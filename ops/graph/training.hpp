// How a model is trained: what goes with an iteration beside the model's own operators.
#pragma once

#include <cstdint>

#include "arch/dtype.hpp"

namespace plumbline {

/// Per parameter, beside the weight that layers read and its gradient: what an update keeps and moves
/// (ops/lower/update.cpp has each one's source).
enum class Optimizer { sgd, adam, adamw };

/// What the backward pass computes again instead of keeping it: nothing; scores and probabilities of attention that is
/// written out (flash attention keeps none); each layer whole, from its input (Korthikanti et al., arXiv 2205.05198,
/// section 5).
enum class Recompute { none, selective, full };

/// In which order a stage of a pipeline works on its micro-batches.
enum class PipelineSchedule { gpipe, one_f_one_b, interleaved, zero_bubble };

struct Training {
  Optimizer optimizer = Optimizer::adamw;
  DType gradient = DType::fp32;  ///< what gradients of weights are added up and reduced in
  Recompute recompute = Recompute::none;
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  /// Sequences of a replica that go forward and backward at a time; 0: one in a pipeline, else all of them.
  std::int64_t micro_batch = 0;
  /// Attention as products with scores that are stored, and a kernel each for scale, mask and softmax together and for
  /// dropout (Megatron-LM before flash attention); else flash attention, at fusions that have it.
  bool written_out = false;
  std::int64_t chunks = 1;  ///< parts of the model that a stage has, one behind the other (interleaved)
};

}  // namespace plumbline

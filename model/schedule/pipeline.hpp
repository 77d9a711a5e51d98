// A step that runs in stages: which rank is the slowest, how long it waits for the others, what all of them draw.
#pragma once

#include "arch/gpu/gpu.hpp"
#include "model/predict.hpp"

namespace plumbline {

/// Of a step whose nodes are priced as one micro-batch's way through all stages: keeps those of the slowest stage, each as
/// often as its micro-batches run it, and says what the other stages add. Does nothing to a step of one stage.
///
/// With T_s the time of a micro-batch in stage s, m micro-batches, T the largest T_s:
///   prefill (fills and drains):        latency = sum of T_s + (m - 1) T
///   decode (the next token follows):   latency = max(m T, sum of T_s)
///   training (model/schedule/training.hpp): the timeline of its schedule, and behind it what the slowest stage does once
///   an iteration, as the norm of all stages' gradients is known to none before
/// (GPipe, arXiv 1811.06965, section 2.3, with stages that differ.) The slowest stage is busy for m T of it. Stages hand
/// on while they work on the next micro-batch; what a hand-over takes is counted to the stage that sends, to its T_s, or,
/// where it runs beside the next micro-batch (PipelineStages::sends_beside), to the way through all stages alone.
void keep_slowest_stage(StepPrediction& step, const GpuNumbers& gpu, Phase phase);

/// What a stage sends to the next.
bool hands_over(const Op& op);

}  // namespace plumbline

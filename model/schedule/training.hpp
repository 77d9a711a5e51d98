// How long a pipeline takes for an iteration of training: the order in which each stage works on its micro-batches, laid
// out on a timeline.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "arch/units.hpp"
#include "model/schedule/turns.hpp"
#include "ops/graph/workload.hpp"

namespace plumbline {

/// What a stage takes for one micro-batch, all its chunks, with what it hands on.
struct StagePasses {
  Seconds forward, backward;
  Seconds weights;  ///< of `backward`: gradients of weights, which no other stage waits for
};

struct PipelineOrder {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  std::int64_t micro_batches = 1;
  std::int64_t chunks = 1;
};

/// From the first micro-batch's begin to the last one's end on the last stage that has one. Orders:
///   gpipe        all forward, then all backward (arXiv 1811.06965, section 2.3)
///   1f1b         each stage begins as many as there are stages behind it, then takes turns (PipeDream-flush,
///                arXiv 2104.04473, section 2.2.1)
///   interleaved  the same over chunks, micro-batches in groups of as many as there are stages (section 2.2.2)
///   zero-bubble  1f1b, whose gradients of weights are made where a stage would wait (ZB-H1, arXiv 2401.10241, section 2.3):
///                no stage holds more micro-batches than 1f1b's first one. Work is taken as it is ready, forward
///                passes first; an order that ends later than 1f1b is not taken.
/// Of more than some thousands of turns the first groups of micro-batches are laid out, as many as there are stages each,
/// and the others take as long as the last of those (stages that are alike: the same to rounding; that differ by a fifth:
/// a tenth at most, tests/model/schedule/training_schedule_test.cpp).
Seconds pipeline_time(std::span<const StagePasses> stages, const PipelineOrder& order);
/// The same, all of it laid out.
Seconds laid_out_time(std::span<const StagePasses> stages, const PipelineOrder& order);
/// What that time is the end of, in the order of each stage's turns.
std::vector<PipelineTurn> laid_out_turns(std::span<const StagePasses> stages, const PipelineOrder& order);

}  // namespace plumbline

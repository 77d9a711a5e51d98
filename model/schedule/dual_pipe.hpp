// DualPipe (DeepSeek-V3, arXiv 2412.19437, section 3.2.1): micro-batches enter a pipeline from both of its ends, so that each
// rank holds two stages, its own and the one in its place from the other end, and works on a forward pass of one and a backward
// pass of the other together, each of which exchanges tokens while the other computes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/schedule/training.hpp"
#include "ops/graph/graph.hpp"

namespace plumbline {

/// What a rank takes for a chunk: the mean of its two stages'. `both`: of a forward and a backward pass together.
struct DualPasses {
  Seconds forward, backward;
  Seconds weights;  ///< of `backward`
  Seconds both;
};

/// From the first chunk's begin to the last one's end, turn by turn as DeepSeek's own code has them
/// (github.com/deepseek-ai/DualPipe, dualpipe.py, steps 1 to 8). Ranks are an even number, micro-batches too, at least two a
/// rank. Of ranks that are alike and passes that gain nothing together it waits (p / 2 - 1) (both + backward - 3 weights)
/// (table 2 of the report). Of many micro-batches those in the middle take as long as the last of some.
Seconds dual_pipe_time(std::span<const DualPasses> ranks, std::int64_t micro_batches);

/// The turns that this time is the end of, all of them laid out. Micro-batches that enter at the last rank come behind the
/// others in number.
std::vector<PipelineTurn> dual_pipe_turns(std::span<const DualPasses> ranks, std::int64_t micro_batches);

/// Share of a rank's passes that run with another one, of the rank that has fewest.
double passes_together(std::int64_t ranks, std::int64_t micro_batches);

/// DualPipe's V form (dualpipev.py in that repository): micro-batches enter at the first rank alone, go through the ranks'
/// first stages to the last rank and through their second ones back. A rank's turns are those of DualPipe's rank in its place
/// over twice the ranks and twice the micro-batches: what would come from the other end there comes back here.
Seconds dual_pipe_v_time(std::span<const DualPasses> ranks, std::int64_t micro_batches);
std::vector<PipelineTurn> dual_pipe_v_turns(std::span<const DualPasses> ranks, std::int64_t micro_batches);
double passes_together_in_v(std::int64_t ranks, std::int64_t micro_batches);

}  // namespace plumbline

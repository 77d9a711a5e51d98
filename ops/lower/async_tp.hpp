// Asynchronous tensor parallelism: where the residual stream is split over the tensor ranks by tokens, the all-gather in
// front of a product and the reduce-scatter behind one are cut into the ranks' shares, so that copies of one share run
// beside the product of another.
//
// As PyTorch's symmetric memory has it (torch/distributed/_symmetric_memory/__init__.py, fused_all_gather_matmul and
// fused_matmul_reduce_scatter), which vLLM's enable_async_tp calls; Transformer Engine's user buffers cut by the same
// shares. With n ranks, each of which holds T / n of T tokens:
//
//   gather    the rank's own share goes into a buffer that all can read; a barrier; the product of that share beside the
//             copy of the next rank's, and so on: n products of T / n rows, n - 1 copies by copy engines, which take no
//             SMs. Two streams take turns, so that a copy begins once the product before last has ended.
//   scatter   the product of each other rank's share goes into one of two buffers; a barrier, that rank's copy of it, a
//             barrier; the product of the rank's own share comes last, and one kernel adds up the n parts.
//
// What it costs beside the copies follows: smaller products (broken waves, weights that are read again), barriers, the
// parts that are written and read. Where this stops being valid: products of the two streams may run at once there and
// fill each other's last waves; here they follow one another. A product whose input others read too keeps its all-gather.
#pragma once

#include "ops/step/step.hpp"

namespace plumbline::lowering {

/// Of the open segment, whose nodes stand as they come one after the other.
void exchange_in_shards(Step& s);

}  // namespace plumbline::lowering

// Exchanges of training that travel beside compute (Graph::replicas_beside, Graph::tensor_beside).
//
// What replicas exchange is cut into the model's layers, as FSDP's units and Megatron's buckets are. Weights are gathered a
// unit ahead of the pass that reads them, sums of gradients leave a unit behind the pass that makes them: the first unit's
// gather and the last unit's sum find no pass to travel beside, of the rest no more is hidden than the pass takes. Two
// exchanges beside one pass share it, one behind the other, as their links do. While one travels its SMs are missing from
// what multiplies and its bytes from what streams, which takes so much longer (`tax`).
//
// What tensor ranks exchange is cut into as many parts as there are ranks, each beside the product's of another (copy engines
// move them, which take no SMs): all but one of the product's parts can hide it. A pass of its own adds up parts, or copies one
// to where others read it. Products of fewer rows, which are slower, are not counted, nor the barriers.
//
// Copies to and from the host (Graph::copies_beside) go by copy engines: of activations each layer's goes beside the next
// layer's pass forward and comes beside the one before it in the backward pass, of the optimizer's states all come beside the
// last backward pass and go beside the first forward one, a layer at a time. They share no link with what ranks exchange.
//
// In DualPipe (model/schedule/dual_pipe.hpp) a forward and a backward pass run together: what one exchanges travels while the
// other computes, no more of it than that takes, on SMs that are missing there.
//
// With Graph::experts_beside a forward and a backward pass of two micro-batches run together too (Megatron-Core's combined
// 1F1B): tokens alone travel to their experts and back while the other pass computes, but in the passes at either end of an
// iteration, which have none beside them.
//
// Eager frameworks have nodes of their own for exchanges that find no pass (Graph::exposed_apart; ops/lower/replicas.cpp).
//
// Where this stops being valid: what is taken is a mean over a pass, whose kernels multiply or stream; units are alike here,
// while embeddings are larger than layers.
#pragma once

#include "model/engine/rates.hpp"
#include "model/predict.hpp"

namespace plumbline {

/// Whether a step's segments are those of all stages (then the first one's repeats count), or of one for all micro-batches.
enum class Stages { all, one };

/// Fills in `hidden` and `tax` of exchanges, from times and gaps as they are; else does nothing.
void exchange_beside(StepPrediction& step, const Rates& rates, Stages stages);

}  // namespace plumbline

// What the host takes for the phases of an iteration of training that an eager framework launches one by one.
#pragma once

#include "arch/units.hpp"

namespace plumbline {

/// All in launches of the narrow model on the same host (tools/measure_host.py), so that a host is one time: found by
/// tools/fit_training_hosts.py on iterations that have next to no work for the GPU. Of a stack's file, "training":
///
///   { "narrow_launch": "32 us", "forward_call": 0.8, "forward_begin": 61, "forward_layer": 14, "experts_layer": 20,
///     "further_launch": 0.2, "backward_call": 0.6, "backward_layer": 21, "kept_layer": 25, "again_layer": 27,
///     "gathered_unit": 50, "gathered_again_unit": 20, "summed_unit": 30, "summed_tensor": 0.4, "summed_bucket": 3,
///     "walked_tensor": 0.3, "listed_tensor": 0.1, "walked_shard": 1, "listed_shard": 0.2, "gathered_flat": 30,
///     "gathered_again_flat": 10, "summed_flat": 20, "shared_matrix": 200, "source": "..." }
struct TrainingHost {
  /// Of a host that nobody measured; 0: the file does not say, all calls are HostTime::each_launch.
  Seconds narrow_launch;
  /// Of the forward pass: a call that launches, a launch more that a library makes in it; once, what the model's own
  /// forward() does around its layers; of each layer (two, over an encoder) and each with experts, modules and views in Python.
  double forward_begin = 0, forward_call = 0, further_launch = 0, forward_layer = 0, experts_layer = 0;
  /// Of the backward pass, by autograd's thread: a call, and of each layer the nodes that launch nothing.
  double backward_call = 0, backward_layer = 0;
  /// Of a layer that is computed again, beside its forward pass once more: hooks of what is saved and the generator's state
  /// in the forward pass; the same taken up in the backward pass.
  double kept_layer = 0, again_layer = 0;
  /// Of a unit that is sharded (FSDP): what its hooks do to gather it for the forward pass, again for the backward pass, and
  /// to sum its gradients.
  double gathered_unit = 0, gathered_again_unit = 0, summed_unit = 0;
  /// The same of a unit that is one flat tensor (FSDP of the first kind).
  double gathered_flat = 0, gathered_again_flat = 0, summed_flat = 0;
  /// Hooks and copies of a tensor that is summed in buckets (DDP), and NCCL's call and the events around it of a bucket.
  double summed_tensor = 0, summed_bucket = 0;
  /// Of the update a tensor of each walk over them, and of each list that a walk hands to kernels; whole and sharded.
  double walked_tensor = 0, listed_tensor = 0, walked_shard = 0, listed_shard = 0;
  /// Of the update a matrix of which ranks hold shares (Muon), beside its launches: what DTensor does in front of them.
  double shared_matrix = 0;
};

}  // namespace plumbline

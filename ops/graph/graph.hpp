// Operators of one step on one rank, with counts, streams and dependencies. `lower` (ops/lower/lower.hpp) makes it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "ops/facts/gradient.hpp"
#include "ops/graph/workload.hpp"

namespace plumbline {

enum class Pass { forward, backward, update };

/// One operator of the step. Nodes of a segment run in order within one layer; the segment repeats.
struct Node {
  const char* name = "";  ///< "qkv_proj", "attention", ...: lives as long as the program; carries no meaning
  Op op;
  std::int64_t count = 1;  ///< executions a step, all repeats
  int segment = 0;
  int stream = 0;                      ///< 0 compute, 1 communication
  std::array<int, 2> depends{-1, -1};  ///< indices of nodes it waits for
  int half = 0;                        ///< of the rank's batch, where the two are worked on side by side
  Pass pass = Pass::forward;
  NodeRole role = NodeRole::plain;
  bool launch =
      false;  ///< stands for a launch of a framework's, which reads what the one before it wrote (ops/rewrite)
  bool in_call = false;  ///< the host launches it in the call of the one before or behind it
  double calls = 1;      ///< what the host takes for a launch of a loop over tensors, in calls of PyTorch's operators
  bool waits = false;    ///< the host waits until it is done in front of what it issues next
  bool again = false;    ///< of a backward pass: computes what the forward pass has computed (recomputation)
  int of = -1;           ///< of a backward pass: the forward node that it is the gradient of, or computes again
  bool of_weights = false;  ///< of a backward pass: makes gradients of weights, which nothing of the pass waits for
};

struct Segment {
  const char* name = "";  ///< "layer", "moe_layer", "embedding", "head", ...
  std::int64_t repeat = 1;
  int first = 0, size = 0;  ///< nodes [first, first + size)
  bool layers = false;      ///< of the model's layers; of an update: a loop over tensors whose host issues each launch
  bool crosses = false;     ///< layers that attend over an encoder's output, too
  bool once = false;        ///< once an iteration of training, not once a micro-batch
  int forward = -1;         ///< of the backward pass: the segment that it is the gradient of
};

/// Bytes this rank must hold; activations: the most that is alive at a time.
struct MemoryNeed {
  Bytes weights, kv_cache, activations, optimizer, workspace;
  Bytes gradients;  ///< of weights, in training
  Bytes host;       ///< of them in the host's memory, not in the total
  Bytes total() const { return weights + kv_cache + activations + optimizer + workspace + gradients; }
};

/// A step that runs in stages, one behind the other, each on ranks of its own: how often each stage runs each segment of
/// the graph for one micro-batch.
struct PipelineStages {
  std::int64_t stages = 1, micro_batches = 1;
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;  ///< of training
  std::int64_t chunks = 1;                                    ///< the same
  bool sends_beside = false;          ///< what it hands on travels while the next micro-batch is worked on
  std::vector<std::int64_t> repeats;  ///< [stage][segment]; empty with one stage, which runs all of the graph

  /// How often a rank runs its segments: of two stages each for half of the micro-batches.
  std::int64_t turns() const { return schedule == PipelineSchedule::dual_pipe ? micro_batches / 2 : micro_batches; }
  std::int64_t repeat(std::int64_t stage, std::size_t segment, std::size_t segments) const {
    return repeats[static_cast<std::size_t>(stage) * segments + segment];
  }
};

/// Of training by an eager framework: what its host does work for beside launches.
struct EagerParameters {
  std::int64_t tensors = 0;        ///< that hold the rank's parameters
  std::int64_t sharded_units = 0;  ///< that are gathered together (FSDP)
  /// Of the update: walks over all of them (clipping, the optimizer), and lists of all that those hand to kernels.
  int walks = 0, lists = 0;
  bool gathers_again = false;  ///< ... for the backward pass too
  bool flat = false;           ///< ... each as one tensor
  /// Matrices that the update takes one by one while ranks hold shares of them (Muon).
  std::int64_t shared_matrices = 0;
  bool replicas = false;  ///< others have the same parameters
  /// Of each micro-batch the host waits for the GPU behind what is in front of the layers.
  bool waits_in_front = false;
};

/// With several stages nodes are those of a micro-batch's way through all of them.
struct Graph {
  std::vector<Node> nodes;
  std::vector<Segment> segments;
  MemoryNeed memory;  ///< of the rank that holds most
  double tokens = 0;  ///< tokens the step produces (decode) or consumes (prefill, train), all ranks
  PipelineStages pipeline;
  /// Streams run side by side, each node as soon as those that it depends on are done and the one before it on its stream.
  /// A node that depends on none of its own segment follows the last of its half of the segment's repeat before. Else
  /// nodes run one after the other as they stand.
  bool side_by_side = false;
  /// Of training: exchanges between replicas travel beside the passes that their roles name; those of tensor ranks beside the
  /// product next to them.
  bool replicas_beside = false, tensor_beside = false;
  bool experts_beside = false;  ///< and what experts' ranks exchange beside the pass of another micro-batch
  /// Of those, exchanges that find no pass to travel beside are nodes of their own, of no such role.
  bool exposed_apart = false;
  bool copies_beside = false;  ///< of training: copies to and from the host go beside the passes that their roles name
  EagerParameters eager{};
  std::int64_t ranks = 1;     ///< GPUs that the step runs on
  std::int64_t together = 1;  ///< of them, those that wait for one another in each step
  /// Names of nodes that were made for this graph; copies share them.
  using Names = std::unordered_set<std::string>;
  std::shared_ptr<Names> names;
};

/// Puts one node in place of those from the one named `first` to the one named `last` (one node: the same name twice), in
/// every segment that has them, as a fused kernel stands for several. It runs as often as the first of them did.
/// `memory` stays as it is. `name` lives as long as the graph. Throws BadInput where no segment has them in that order.
void replace_nodes(Graph& graph, std::string_view first, std::string_view last, const char* name, const Op& op);

/// Puts a node behind each one named `after`; it runs as often. Throws BadInput for a name that is not there.
void insert_after(Graph& graph, std::string_view after, const char* name, const Op& op);

/// What `lower` gives, and nodes that were put in by hand. Throws BadInput for an empty graph, a count below 1,
/// segments that are not one after the other, nodes side by side that depend on later ones, or an operator that check(op)
/// refuses.
void check(const Graph& graph);

}  // namespace plumbline

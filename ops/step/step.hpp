// Inside of lowering: the state of one walk over the layers, and the few ways to append a node.
//
// Not for users of the library: they call `lower` (ops/lower/lower.hpp). Everything here is per rank: head counts and
// widths are already divided by the tensor-parallel degree when they reach a node.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "ops/graph/graph.hpp"
#include "ops/graph/workload.hpp"
#include "ops/step/node_name.hpp"
#include "ops/step/types.hpp"

namespace plumbline::lowering {

/// The walk. Mixers (ops/mixer) and the other parts of a layer (ops/lower) append nodes to its open segment.
class Step {
 public:
  Step(const Workload& w, const Types& t, Graph& g)
      : workload(w), types(t), fusion(w.fusion), graph(g), tensor(w.parallel.tensor) {}

  const Workload& workload;
  const Types types;
  const Fusion fusion;
  Graph& graph;
  std::int64_t tensor;  ///< ranks that share the operators that come now; 1 in data-parallel attention

  // The stack being walked.
  std::int64_t hidden = 0;
  std::int64_t batch = 1;
  std::int64_t q_len = 1;        ///< new tokens a sequence
  std::int64_t kv_len = 1;       ///< cached and new tokens a sequence
  std::int64_t tokens = 1;       ///< batch x q_len; where the residual stream is scattered, this rank's share of them
  std::int64_t all_keys = 1;     ///< tokens a sequence, cached and new, of all context ranks
  std::int64_t cross_len = 0;    ///< tokens of the encoder that cross attention reads
  std::int64_t text_tokens = 0;  ///< MMDiT: tokens a sequence of the second stream
  bool decode = false;           ///< one new token over a cache
  bool cache = false;            ///< new keys and values are kept
  bool padded = false;           ///< eager code adds a padding mask though attention is not causal
  bool dropout = false;          ///< this layer trains with dropout
  int half = 0;                  ///< of the batch, that the nodes are of (ops/lower/two_batch.cpp)
  std::int64_t table_rows = 0;   ///< of the vocabulary, that token ids are drawn from
  bool scattered = false;        ///< the residual stream of a rank holds a share of its replica's tokens
  Pass pass = Pass::forward;

  bool none() const { return fusion == Fusion::none; }
  bool max() const { return fusion == Fusion::max; }
  /// Attention rotates and writes the cache by itself (Workload::attention_rotates; at fusion `max` it always does).
  bool attention_rotates() const { return max() || (workload.attention_rotates && fusion == Fusion::typical && cache); }
  bool train() const { return workload.phase == Phase::train; }
  bool offloads_activations() const { return train() && workload.training.offload == Offload::activations; }
  /// Keys and values that stay in the cache have its format; others are activations.
  DType kept() const { return cache ? types.kv : types.base; }
  std::int64_t tp() const { return tensor; }
  std::int64_t cp() const { return workload.parallel.context; }
  /// Tokens of all tensor ranks together.
  std::int64_t replica_tokens() const { return scattered && !gathered_ ? tokens * workload.parallel.tensor : tokens; }
  /// Of the `keys` that the last query sees, what a causal one sees in the mean, rounded up: half where none is cached.
  std::int64_t mean_seen(std::int64_t keys) const {
    const double fresh = static_cast<double>(q_len) / static_cast<double>(kv_len);
    return keys - static_cast<std::int64_t>(static_cast<double>(keys) * fresh / 2);
  }
  /// Share of a dimension that tensor parallelism splits; at least 1 (KV heads are replicated beyond that).
  std::int64_t share(std::int64_t whole) const { return tp() == 1 ? whole : ceil_div(whole, tp()); }

  void open(const char* name, std::int64_t repeat);
  void close();

  /// Appends the nodes that the backward pass of node `i` consists of, in the open segment.
  void add_gradient(std::size_t i);

  /// Appends forward nodes once more, in the open segment: [first, end).
  void recompute(int first, int end);
  /// The last node is a product of several matrices side by side, so many columns each.
  void joins(const std::vector<std::int64_t>& columns) {
    if (train()) joined_[last] = columns;
  }
  /// The columns of node `i`, a product, by its matrices.
  std::vector<std::int64_t> matrices_of(int i) const;
  /// What the nodes from `first` on make is not kept for the backward pass: before the gradient of the last of them all
  /// run once more.
  void keep_none_from(int first) { not_kept_.push_back({first, static_cast<int>(graph.nodes.size())}); }

  /// Appends a node that waits for the one before it (and for `join`, once).
  template <class Shape>
  void add(NodeTag tag, const Shape& shape, int stream = 0) {
    Node& node = graph.nodes.emplace_back();
    node.name = tag.name->whole;
    node.role = tag.role;
    if (train()) names_.push_back(tag.name);
    node.op = shape;
    node.count = repeat_;
    node.segment = static_cast<int>(graph.segments.size()) - 1;
    node.stream = stream;
    node.half = half;
    node.depends = {last, join};
    node.pass = pass;
    join = -1;
    last = static_cast<int>(graph.nodes.size()) - 1;
  }

  void gemm(NodeTag tag, std::int64_t m, std::int64_t n, std::int64_t k, const Precision& precision, bool bias = false,
            std::int64_t copies = 1);
  /// A weight matrix in the linear layers' format.
  void linear(NodeTag tag, std::int64_t m, std::int64_t n, std::int64_t k, bool bias = false) {
    gemm(tag, m, n, k, types.linear, bias);
  }
  /// One of a feed-forward part, which may be trained 2:4 sparse: then `prune` compresses it first.
  void ffn_linear(NodeTag prune, NodeTag tag, std::int64_t m, std::int64_t n, std::int64_t k, bool bias);
  void row(NodeTag tag, RowwiseKind kind, std::int64_t rows, std::int64_t cols, bool residual = false);
  void norm(NodeTag tag, NormKind kind, std::int64_t rows, std::int64_t cols, bool residual = false) {
    row(tag, kind == NormKind::rms ? RowwiseKind::rmsnorm : RowwiseKind::layernorm, rows, cols, residual);
  }
  /// Quantizes what the next matrix product reads, where that is a kernel of its own (at `max` the producer does it).
  void quantize(NodeTag tag, std::int64_t rows, std::int64_t cols, const Precision& consumer);
  void copy(NodeTag tag, std::int64_t rows, std::int64_t cols) { row(tag, RowwiseKind::copy, rows, cols); }
  /// Sums what tensor ranks have made of `rows` tokens: an all-reduce, or, where the residual stream is scattered, a
  /// reduce-scatter.
  void all_reduce(NodeTag tag, NodeTag scatter, std::int64_t rows);
  /// `rows` x `cols` elements in all, of which each of `ranks` ranks, `apart` from each other, has its part.
  void all_gather(NodeTag tag, std::int64_t rows, std::int64_t cols, DType type, std::int64_t ranks,
                  std::int64_t apart = 1);
  void collective(NodeTag tag, CollectiveKind kind, Bytes bytes, DType type, std::int64_t ranks,
                  std::int64_t apart = 1);
  /// Between this GPU and its host, by a copy engine: beside the forward pass there, beside the backward pass back.
  void copy_to_host(NodeTag tag, Bytes bytes) { copy_host(tag.as(NodeRole::copied_forward), TransferKind::d2h, bytes); }
  void copy_from_host(NodeTag tag, Bytes bytes) {
    copy_host(tag.as(NodeRole::copied_backward), TransferKind::h2d, bytes);
  }
  /// Runs `part` on the tokens of all tensor ranks: gathered in front of it, where the residual stream is scattered.
  /// `for_product`: what is gathered is read by the product that comes next, and by nothing else.
  template <class Part>
  void on_replica(NodeTag gather, Part part, bool for_product = true) {
    if (!scattered) return part();
    const std::int64_t own = tokens;
    tokens = replica_tokens();
    gathered_ = true;
    all_gather(gather, tokens, hidden, types.base, workload.parallel.tensor);
    if (for_product) gathered_for_products.push_back(last);
    part();
    gathered_ = false;
    tokens = own;
  }

  /// Segments of layers of the main stack, and their kinds.
  std::vector<std::pair<int, int>> kind_segments;

  /// All-gathers of the open segment whose result a product reads alone (ops/lower/async_tp.hpp).
  std::vector<int> gathered_for_products;

  int last = -1;  ///< node that the next one waits for
  int join = -1;  ///< second node that the next one waits for

 private:
  void copy_host(NodeTag tag, TransferKind kind, Bytes bytes);
  /// The gradient of a bias is a kernel that reads the product's gradient once more; else the product's own epilogue sums
  /// it (Transformer Engine, cublasLt's BGRADA and BGRADB).
  bool sums_bias_apart(const Op& op) const;

  std::int64_t repeat_ = 1;
  bool gathered_ = false;               ///< inside on_replica
  std::vector<const NodeName*> names_;  ///< of the nodes so far, in training
  std::vector<std::pair<int, int>> not_kept_;
  std::map<int, std::vector<std::int64_t>> joined_;
};

}  // namespace plumbline::lowering

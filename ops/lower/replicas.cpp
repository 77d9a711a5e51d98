// What replicas of an eager framework exchange in an iteration (PyTorch 2.11).
//
// DistributedDataParallel (zero 0; torch/csrc/distributed/c10d/reducer.cpp) copies each gradient into a bucket (one launch
// each, which divides by the number of ranks: mark_variable_ready_dense()), sums a bucket over the ranks when its last
// gradient is there, beside the rest of the backward pass, and copies each gradient back (finalize_bucket_dense()). Buckets
// are made of gradients in the order in which they are ready and closed at 25 MiB. The last one, with the embedding's
// gradient, finds nothing to travel beside.
//
// FSDP (2 and 3; torch/distributed/fsdp/_fully_shard) gathers a unit's parameters in front of its forward pass and, where
// they are dropped behind it (zero 3, reshard_after_forward; with zero 2 they stay), its backward pass: shares are copied
// together (all_gather_copy_in, on the gathers' stream), gathered, and copied out. Layers are units: the host is ahead, so
// that forward the next one's gather runs beside this one's pass, and backward it is asked for (_backward_prefetch).
// Gradients are copied together (chunk_cat) and scattered as sums beside the next layer's backward pass. What is outside of
// the layers is the root unit. Exchanges of a kind go one after the other: in front of the forward pass the root's gather and
// the first layer's, behind the backward pass that layer's sum and the root's find nothing to travel beside, nor does the
// root's second gather; the last layer's runs beside the head's backward pass. Of micro-batches each gathers, the last one's
// gradients are summed. Where shares are wider than the layers' type (MixedPrecisionPolicy) they are cast in front of a
// gather, and gradients in the copy in front of their sum. Not so in traces: where the host is ahead the root's second gather
// travels beside the head's forward pass and the loss (docs/calibration/collectives.md).
//
// FSDP of the first kind (torch/distributed/fsdp/_flat_param.py, _runtime_utils.py) has a unit's parameters as one flat tensor,
// whose parts layers read where they are: what is gathered is copied neither before nor behind. Gradients are joined by the
// backward pass of that split (one cat), cast where they are summed in a wider type, divided by about the root of the number
// of ranks (_get_gradient_predivide_factor()), and the share that comes back by the rest. Of the root unit nothing is gathered
// again: it stays (_post_forward_reshard()).
//
// ZeroRedundancyOptimizer (1; torch/distributed/optim/zero_redundancy_optimizer.py) stands behind DistributedDataParallel: each
// rank updates whole tensors of its own and then broadcasts each (shared_update.cpp).
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "ops/as_double.hpp"
#include "ops/lower/tensors.hpp"
#include "ops/memory/memory.hpp"

namespace plumbline::lowering {
namespace {

constexpr double kBucket = 25 * 1024 * 1024;  // bucket_cap_mb

/// Elements of the parameters of a forward node, tensor by tensor.
template <class Visit>
void each_tensor(const Step& s, int i, Visit visit) {
  for (const TensorShape& tensor : tensors_of(s, i)) visit(d(tensor.rows) * d(tensor.cols));
}

/// Tensors of the layers, and their buckets, filled in the order of the backward pass; what is left over waits for the last.
struct Buckets {
  std::int64_t full = 0;
  double in_full = 0, left = 0;            ///< elements
  std::map<double, std::int64_t> tensors;  ///< of so many elements, in the layers
};

Buckets fill_buckets(const Step& s, const Llm& llm, double element_bytes, double first) {
  Buckets b;
  b.left = first;
  const auto fill = [&](double elements) {
    b.left += elements;
    if (b.left * element_bytes < kBucket) return;
    ++b.full;
    b.in_full += b.left;
    b.left = 0;
  };
  const auto put = [&](double elements) {
    ++b.tensors[elements];
    fill(elements);
  };
  fill(0);
  for (std::size_t g = s.graph.segments.size(); g-- > 0;) {
    const Segment& segment = s.graph.segments[g];
    if (!segment.layers || segment.forward >= 0) continue;
    for (std::int64_t r = 0; r < copies_of(llm, segment); ++r) {
      for (int i = segment.first + segment.size; i-- > segment.first;) each_tensor(s, i, put);
    }
  }
  return b;
}

/// What sums of gradients of so many ranks are divided by before they travel, and behind.
std::pair<double, double> divisors(std::int64_t ranks) {
  std::int64_t before = 1;
  while (ranks % before == 0 && ranks / before > before) before *= 2;
  return {d(before), d(ranks) / d(before)};
}

/// Tensors of a unit: how many, and elements of the longest.
struct Joined {
  double count = 0, longest = 0;
};

/// The exchanges of one unit, so many times an iteration or, of what is not `once`, a micro-batch.
struct Unit {
  const char* segment;
  std::int64_t repeat;
  double params;
  bool of_layers;
  bool ends_hide;       ///< a pass runs beside its first exchange forward and its last sum
  bool backward_hides;  ///< ... beside its gather for the backward pass
};

class Exchanges {
 public:
  Exchanges(Step& s, std::int64_t width)
      : s_(s),
        width_(width),
        shared_(s.workload.training.gradient),
        whole_(s.workload.training.made_gradient(s.types.base)) {}

  void sum_buckets(const Unit& u) {
    open(u, true);
    exchange("grad_all_reduce"_node, CollectiveKind::all_reduce, NodeRole::beside_backward, u, u.ends_hide, shared_);
    s_.close();
  }

  /// The sum of the last bucket, beside which those of others are copied back.
  void sum_last_bucket(const Unit& u) {
    open(u, true);
    s_.collective("grad_all_reduce"_node.as(NodeRole::beside_copies), CollectiveKind::all_reduce,
                  storage(shared_, u.params), shared_, copies(s_.workload.parallel), s_.workload.parallel.tensor);
    s_.close();
  }

  /// Of gradients of the same size. Buckets go to memory: their sums are read from there long after, and 8 MB take 5.4 us in
  /// and 5.5 back, 34 MB 16 and 17 (traces of the training side). `apart`: none travels beside them.
  void copy_to_buckets_and_back(const Unit& u, bool apart) {
    open(u, true);
    copy_cold("to_buckets"_node, u.params, shared_, shared_);
    copy_cold("from_buckets"_node.as(apart ? NodeRole::plain : NodeRole::copied_back), u.params, shared_, shared_);
    s_.close();
  }

  /// `flat`: the unit is one tensor, which is copied neither before nor behind.
  void gather(const Unit& u, bool forward, bool flat) {
    s_.pass = forward ? Pass::forward : Pass::backward;
    open(u, false);
    const double share = u.params / d(copies(s_.workload.parallel));
    if (casts()) copy(forward ? "forward_cast"_node : "backward_cast"_node, share, shared_, whole_);
    if (!flat) copy_cold(forward ? "forward_copy_in"_node : "backward_copy_in"_node, share, whole_, whole_);
    exchange(forward ? "forward_all_gather"_node : "backward_all_gather"_node, CollectiveKind::all_gather,
             forward ? NodeRole::beside_forward : NodeRole::beside_backward, u,
             forward ? u.ends_hide : u.backward_hides, whole_);
    if (!flat) copy_cold(forward ? "forward_copy_out"_node : "backward_copy_out"_node, u.params, whole_, whole_);
    s_.close();
  }

  void scatter_flat(const Unit& u, const Joined& joined) {
    s_.pass = Pass::backward;
    open(u, false);
    join(u, joined);
    s_.close();
    open(u, true);
    if (casts()) copy("grad_cast"_node, u.params, whole_, shared_);
    const auto [before, behind] = divisors(copies(s_.workload.parallel));
    if (before > 1) copy("grad_divide"_node, u.params, shared_, shared_);
    exchange("grad_reduce_scatter"_node, CollectiveKind::reduce_scatter, NodeRole::beside_backward, u, u.ends_hide,
             shared_);
    if (behind > 1) copy("grad_divide_share"_node, u.params / d(copies(s_.workload.parallel)), shared_, shared_);
    s_.close();
  }

  void scatter_sums(const Unit& u) {
    s_.pass = Pass::backward;
    open(u, true);
    cut_and_join(u);
    exchange("grad_reduce_scatter"_node, CollectiveKind::reduce_scatter, NodeRole::beside_backward, u, u.ends_hide,
             shared_);
    s_.close();
  }

 private:
  void open(const Unit& u, bool once) {
    s_.open(u.segment, u.repeat);
    s_.graph.segments.back().once = once;
    s_.graph.segments.back().layers = u.of_layers;
  }

  bool casts() const { return bits(shared_) > bits(whole_); }

  /// Of what L2 holds no more (14 MB that were gathered are copied out in 7.5 us and gradients of as much in 9, both at DRAM's
  /// rate: bert-base-uncased in two.fourth of data/measurements/h200/pytorch_training).
  void copy_cold(NodeTag name, double params, DType from, DType to) {
    CustomOp op;
    op.read = storage(from, params);
    op.write = storage(to, params);
    op.dtype = to;
    s_.add(name, op);
  }

  /// Gradients into parts for each rank, one behind the other (chunk_cat_cuda_kernel() of aten/src/ATen/native/cuda/Shape.cu): a
  /// CTA of 128 threads writes 2048 bytes, by whole vectors, or, where it casts, element by element. Slots of issue by those
  /// rates (iterations under a fake process group, 1980 MHz: 1.12 and 1.46 ns a CTA); that half of them hold an instruction
  /// is what element-wise kernels show.
  void cut_and_join(const Unit& u) {
    constexpr double kCta = 2048, kWarps = 4, kCopies = 138, kCasts = 342;
    CustomOp op;
    op.read = storage(whole_, u.params);
    op.write = storage(shared_, u.params);
    op.dtype = shared_;
    op.threads = 128;
    op.ctas = ceil_div(static_cast<std::int64_t>(u.params * bits(shared_) / 8), static_cast<std::int64_t>(kCta));
    op.instructions = d(op.ctas) * kWarps * (casts() ? kCasts : kCopies);
    op.executed = op.instructions / 2;
    s_.add("grad_copy_in"_node, op);
  }

  /// Gradients behind one another (CatArrayBatchedCopy_vectorized() there): each tensor has as many CTAs as the longest, of 16
  /// bytes a thread and 32 an SM at most (getCatGridContig()), most of which find nothing to copy. An idle CTA takes slots of
  /// issue for 157 clocks of its SM, which is 1.19 clocks of an H200 (cta_turns.csv of data/measurements/h200/pytorch). No
  /// machine is known here: the grid's bound is an H100's and H200's, with other SMs it is off by their ratio; and were CTAs
  /// begun one after the other by the whole GPU, slots would go with its SMs too.
  void join(const Unit& u, const Joined& joined) {
    constexpr double kVector = 16, kThreads = 128, kMostCtas = 4224, kSlots = 628.32;
    CustomOp op;
    op.read = op.write = storage(whole_, u.params);
    op.dtype = whole_;
    const double blocks = std::ceil(joined.longest * bits(whole_) / 8 / (kVector * kThreads));
    const double ctas = joined.count * std::min(kMostCtas, blocks);
    op.instructions = ctas * kSlots;
    op.executed = storage(whole_, u.params).in(units::B) / kVector / 32 * 40;
    op.executed = std::min(op.executed, op.instructions);
    s_.add("grad_join"_node, op);
  }

  /// Of what has just been written. Beside the pass or not, a copy takes its bytes from it.
  void copy(NodeTag name, double params, DType from, DType to) {
    const std::int64_t rows = ceil_div(static_cast<std::int64_t>(params), width_);
    s_.add(name, Rowwise{RowwiseKind::copy, std::max<std::int64_t>(1, rows), width_, false, from, to});
  }

  void exchange(NodeTag name, CollectiveKind kind, NodeRole beside, const Unit& u, bool hides, DType type) {
    const ParallelPlan& plan = s_.workload.parallel;
    s_.collective(name.as(hides ? beside : NodeRole::plain), kind, storage(type, u.params), type, copies(plan),
                  plan.tensor);
  }

  Step& s_;
  std::int64_t width_;
  DType shared_, whole_;  ///< of shares and sums; of what is gathered and of the gradients that are summed
};

/// What is outside of the layers: embedding and head, which may be one matrix.
double ends_of(const Step& s, const Llm& llm, double params) {
  const double matrix = d(llm.vocab) * d(llm.hidden) / d(s.tp());
  return std::min(params, (llm.tied_embeddings || !llm.has_head ? 1 : 2) * matrix);
}

void sum_in_buckets(Step& s, const Llm& llm, double params) {
  const double ends = ends_of(s, llm, params), element = bits(s.workload.training.gradient) / 8.0;
  const double head = llm.tied_embeddings || !llm.has_head ? 0 : ends / 2;  // the first gradient that is there
  const Buckets found = fill_buckets(s, llm, element, head);
  Exchanges exchanges(s, llm.hidden);
  // of what is in no list of tensors the last bucket has the rest
  const double full = found.full > 0 ? std::min(found.in_full, params - (ends - head)) : 0;
  double listed = 0;
  for (const auto& [elements, count] : found.tensors) {
    exchanges.copy_to_buckets_and_back({"replicas_copies", count, elements, true, false, false}, false);
    listed += elements * d(count);
  }
  const double rest = std::max(0.0, params - listed - head);
  // the first bucket's sum is copied back while a sum before the last still travels, which is in no time here but that copy's
  if (head > 0) exchanges.copy_to_buckets_and_back({"replicas_head_copies", 1, head, false, false, false}, true);
  if (rest > 0) exchanges.copy_to_buckets_and_back({"replicas_ends_copies", 1, rest, false, false, false}, true);
  if (full > 0) exchanges.sum_buckets({"replicas", found.full, full / d(found.full), true, true, true});
  exchanges.sum_last_bucket({"replicas_ends", 1, params - full, false, false, false});
}

Joined joined_of_layer(const Step& s, const Llm& llm, double layers) {
  Joined found;
  for (const auto& [elements, count] : fill_buckets(s, llm, 1, 0).tensors) {
    found.count += d(count) / layers;
    found.longest = std::max(found.longest, elements);
  }
  return found;
}

/// Elements of a layer's unit. Its tensors are padded so that each rank's part is whole 16 bytes, by which NCCL copies; what is in
/// no list of tensors, and the last norm, is the root's.
double layer_of(const Step& s, const Llm& llm, double params, std::int64_t layers) {
  double listed = 0;
  for (const auto& [elements, count] : fill_buckets(s, llm, 1, 0).tensors) listed += elements * d(count);
  const double whole = 8 * d(copies(s.workload.parallel));
  const double each = std::min(listed, params - ends_of(s, llm, params)) / d(layers);
  return std::floor(each / whole) * whole;
}

void shard(Step& s, const Llm& llm, double params) {
  const auto layers = static_cast<std::int64_t>(llm.main().order.size());
  const double each = layer_of(s, llm, params, layers), ends = params - each * d(layers);
  const Unit units[] = {{"replicas", layers - 1, each, true, true, true},
                        {"replicas_first_layer", 1, each, true, false, true},
                        {"replicas_ends", 1, ends, false, false, false}};
  const bool flat = s.workload.training.flat_shards;
  s.graph.eager.sharded_units = layers + 1;
  s.graph.eager.flat = flat;
  // a rank's share of a flat tensor holds that part of its tensors, one of which it cuts
  if (flat) s.graph.eager.tensors = ceil_div(s.graph.eager.tensors, copies(s.workload.parallel)) + layers + 1;
  s.graph.eager.gathers_again = s.workload.parallel.zero == 3;
  const Joined of_layer = joined_of_layer(s, llm, d(layers));
  const Joined of_ends = {llm.tied_embeddings || !llm.has_head ? 2.0 : 3.0, d(llm.vocab) * d(llm.hidden) / d(s.tp())};
  Exchanges exchanges(s, llm.hidden);
  for (const Unit& unit : units) {
    if (!(unit.params > 0) || unit.repeat == 0) continue;
    const bool stays = flat && !unit.of_layers;  // the root of the first kind
    exchanges.gather(unit, true, flat);
    if (s.workload.parallel.zero == 3 && !stays) exchanges.gather(unit, false, flat);
    if (flat) exchanges.scatter_flat(unit, unit.of_layers ? of_layer : of_ends);
    else exchanges.scatter_sums(unit);
  }
}

}  // namespace

std::vector<TensorShape> tensors_of(const Step& s, int i) {
  std::vector<TensorShape> found;
  const Node& node = s.graph.nodes[static_cast<std::size_t>(i)];
  if (const auto* product = std::get_if<Gemm>(&node.op); product != nullptr && node.role == NodeRole::plain) {
    for (const std::int64_t columns : s.matrices_of(i)) {
      found.push_back({columns, product->k});
      if (product->bias) found.push_back({1, columns});
    }
  } else if (const auto* experts = std::get_if<GroupedGemm>(&node.op)) {
    found.push_back({experts->experts * experts->n, experts->k, experts->experts});
  } else if (const auto* row = std::get_if<Rowwise>(&node.op)) {
    const bool layer_norm = row->kind == RowwiseKind::layernorm;
    if (layer_norm || row->kind == RowwiseKind::rmsnorm) found.push_back({1, row->cols});
    if (layer_norm) found.push_back({1, row->cols});
  }
  return found;
}

std::int64_t tensors_of_layers(const Step& s, const Llm& llm) {
  std::int64_t tensors = 0;
  for (const Segment& segment : s.graph.segments) {
    if (!segment.layers || segment.forward >= 0) continue;
    for (int i = segment.first; i < segment.first + segment.size; ++i) {
      each_tensor(s, i, [&](double) { tensors += copies_of(llm, segment); });
    }
  }
  return tensors;
}

void exchange_eagerly(Step& s, const Llm& llm, double params) {
  EagerParameters& eager = s.graph.eager;
  eager = {};
  eager.tensors = tensors_of_layers(s, llm) + (llm.tied_embeddings ? 2 : 3);  // embedding, last norm, head
  // transformers' decoders ask whether documents are packed, behind the embedding (masking_utils.py,
  // find_packed_sequence_indices())
  eager.waits_in_front = llm.main().role != StackSpec::Role::encoder;
  if (copies(s.workload.parallel) == 1) return;
  eager.replicas = true;
  s.pass = Pass::backward;
  if (s.workload.parallel.zero < 2) sum_in_buckets(s, llm, params);
  else shard(s, llm, params);
}

}  // namespace plumbline::lowering

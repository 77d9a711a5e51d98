// Updates of eager PyTorch that exchange something between replicas (PyTorch 2.11).
//
// ZeroRedundancyOptimizer (torch/distributed/optim/zero_redundancy_optimizer.py): each rank steps the tensors that were dealt
// to it, then each tensor is broadcast from its rank, one call a tensor, one behind the other (_sync_params()).
//
// Muon (torch/optim/_muon.py) of fully_shard's tensors, of which each rank has rows (torch/distributed/tensor; traced under a
// fake process group of two and four). All that goes element by element goes by rows that are there. The square of the norm is
// summed over the ranks. Of a matrix of no more rows than columns each of the five steps copies this rank's rows turned, gathers
// them and joins them side by side; makes its rows of the square; gathers that for its rows of the square's square, and the
// matrix for its rows of the last product. A taller one is turned, so that ranks have columns of it: each makes the whole square
// of them, copies it and adds it up over the ranks, takes its square as all others do, adds that up again, and makes its columns
// of the last product. addmm copies what it adds to first.
#include <algorithm>

#include "ops/as_double.hpp"
#include "ops/lower/tensors.hpp"

namespace plumbline::lowering {
namespace {

constexpr int kSteps = 5;
/// What torch.distributed.broadcast() of a tensor takes the host, in calls of operators: 1.7 and 2.2 narrow launches beside the
/// lists of two iterations (two.shards in data/measurements/h200/pytorch_training), of which a call here is 0.73.
constexpr double kCallsOfBroadcast = 2.7;
constexpr Precision kProducts{DType::bf16, DType::bf16, DType::bf16, DType::bf16};

void exchange(Step& s, NodeTag name, CollectiveKind kind, double elements, DType type) {
  const ParallelPlan& plan = s.workload.parallel;
  s.collective(name, kind, storage(type, elements), type, copies(plan), plan.tensor);
}

void copy(Step& s, NodeTag name, std::int64_t rows, std::int64_t cols) {
  s.add(name, Rowwise{RowwiseKind::copy, rows, cols, false, DType::bf16, DType::bf16});
}

void product(Step& s, NodeTag name, std::int64_t rows, std::int64_t cols, std::int64_t inner) {
  s.gemm(name, rows, cols, inner, kProducts, false, 1);
}

/// A step of a matrix of no more rows than columns, of which this rank has `own` rows.
void step_by_rows(Step& s, const TensorShape& whole, std::int64_t own) {
  copy(s, "muon_turn"_node, whole.cols, own);
  exchange(s, "muon_all_gather"_node, CollectiveKind::all_gather, d(whole.rows) * d(whole.cols), DType::bf16);
  copy(s, "muon_join"_node, whole.cols, whole.rows);
  product(s, "muon_gram"_node, own, whole.rows, whole.cols);
  exchange(s, "muon_all_gather"_node, CollectiveKind::all_gather, d(whole.rows) * d(whole.rows), DType::bf16);
  copy(s, "muon_copy"_node, own, whole.rows);
  product(s, "muon_square"_node, own, whole.rows, whole.rows);
  exchange(s, "muon_all_gather"_node, CollectiveKind::all_gather, d(whole.rows) * d(whole.cols), DType::bf16);
  copy(s, "muon_copy"_node, own, whole.cols);
  product(s, "muon_product"_node, own, whole.cols, whole.rows);
}

/// ... of a taller one, turned, without the copy in front of its last product, which the first step turns back.
void step_by_columns(Step& s, const TensorShape& whole, std::int64_t own) {
  const double square = d(whole.cols) * d(whole.cols);
  product(s, "muon_gram"_node, whole.cols, whole.cols, own);
  copy(s, "muon_copy"_node, whole.cols, whole.cols);
  exchange(s, "muon_all_reduce"_node, CollectiveKind::all_reduce, square, DType::bf16);
  copy(s, "muon_copy"_node, whole.cols, whole.cols);
  product(s, "muon_square"_node, whole.cols, whole.cols, whole.cols);
  copy(s, "muon_copy"_node, whole.cols, whole.cols);
  exchange(s, "muon_all_reduce"_node, CollectiveKind::all_reduce, square, DType::bf16);
  product(s, "muon_product"_node, whole.cols, own, whole.cols);
}

}  // namespace

double muon_by_share(Step& s, const Llm& llm, double params) {
  const DType type = s.workload.training.gradient;
  const std::int64_t ranks = copies(s.workload.parallel);
  for (const auto& [tensor, count] : tensors_of_all_layers(s, llm)) {
    if (tensor.rows == 1 || tensor.stacked > 1) continue;
    const std::int64_t own = ceil_div(tensor.rows, ranks);
    const bool turned = tensor.rows > tensor.cols;
    open_loop(s, count);
    s.add(turned ? "muon_share_turned"_node : "muon_share"_node,
          Rowwise{RowwiseKind::adamw, own, tensor.cols, false, type, type});
    exchange(s, "muon_norm_all_reduce"_node, CollectiveKind::all_reduce, 1, DType::bf16);
    if (turned) copy(s, "muon_turn"_node, tensor.cols, own);
    open_loop(s, kSteps * count);
    if (turned) step_by_columns(s, tensor, own);
    else step_by_rows(s, tensor, own);
    if (turned) {
      open_loop(s, (kSteps - 1) * count);
      copy(s, "muon_copy"_node, own, tensor.cols);
    }
    s.graph.eager.tensors -= count;  // those that are in lists
    s.graph.eager.shared_matrices += count;
    params -= d(own) * d(tensor.cols) * d(count);
  }
  open_update(s);
  return std::max(params, d(llm.hidden));
}

void broadcast_tensors(Step& s, const Llm& llm, double params) {
  for (const auto& [tensor, count] : tensors_of_rank(s, llm, params)) {
    open_loop(s, count);
    exchange(s, "weight_broadcast"_node, CollectiveKind::broadcast, d(tensor.rows) * d(tensor.cols),
             s.workload.training.gradient);
    s.graph.nodes.back().calls = kCallsOfBroadcast;
  }
  open_update(s);
}

}  // namespace plumbline::lowering

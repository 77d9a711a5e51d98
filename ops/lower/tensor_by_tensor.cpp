// Optimizers of PyTorch that go through the parameters in a loop of Python, each tensor by launches of its own:
// Adafactor as it comes by itself (PyTorch 2.11, torch/optim/_adafactor.py, _single_tensor_adafactor), Muon
// (torch/optim/_muon.py), which knows no lists, AdamW where it is told to take none (foreach=False; torch/optim/adam.py,
// _single_tensor_adam), and Adam with moments of 8 bits (bitsandbytes 0.50, bitsandbytes/optim/optimizer.py). Their
// launches are on file by node (data/launches); here stand the tensors' shapes and how many there are of each. Each
// shape is a segment of its own that runs once a tensor; it is `layers`, as the host issues each launch of it.
//
// Muon takes the layers' matrices; embeddings, head, norms and biases are left to AdamW, as its documentation asks, and
// so are experts, as it refuses tensors of three dimensions. Adafactor factors the last two of those. Adam of 8 bits
// has one launch for any tensor, and for those of few elements another one, whose moments are in fp32.
#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "ops/as_double.hpp"
#include "ops/lower/tensors.hpp"
#include "ops/resolve/joined_matrices.hpp"

namespace plumbline::lowering {
namespace {

using Tensors = std::map<TensorShape, std::int64_t>;

/// Whether a node's matrix stands in the source behind the rows of the product before it. Of experts gate and up always
/// do (gate_up_proj of transformers 5).
bool stands_behind(const Llm& llm, std::string_view name) {
  if (name == "experts_up") return true;
  if (name == "k_proj" || name == "v_proj") return joins_queries(llm);
  return name == "up_proj" && joins_gate(llm);
}

double elements_of(const TensorShape& t) { return d(t.rows) * d(t.cols); }

/// A segment that runs once for each of `count` tensors of one shape, behind what is open.
void add(Step& s, NodeTag name, const TensorShape& tensor, std::int64_t count) {
  const DType type = s.workload.training.gradient;
  open_loop(s, count);
  s.add(name, Rowwise{RowwiseKind::adamw, tensor.rows, tensor.cols, false, type, type});
}

}  // namespace

void open_loop(Step& s, std::int64_t times) {
  s.close();
  s.open("optimizer_loop", times);
  s.graph.segments.back().once = true;
  s.graph.segments.back().layers = true;
}

void open_update(Step& s) {
  s.close();
  s.open("optimizer", 1);
  s.graph.segments.back().once = true;
}

Tensors tensors_of_all_layers(const Step& s, const Llm& llm) {
  Tensors all;
  for (const Segment& segment : s.graph.segments) {
    if (!segment.layers || segment.forward >= 0) continue;
    std::vector<TensorShape> found;
    std::size_t first = 0;  // tensor of the last product that others stand behind
    for (int i = segment.first; i < segment.first + segment.size; ++i) {
      const std::vector<TensorShape> own = tensors_of(s, i);
      if (own.empty()) continue;
      if (stands_behind(llm, s.graph.nodes[static_cast<std::size_t>(i)].name) && found.size() >= first + own.size()) {
        for (std::size_t t = 0; t < own.size(); ++t) {
          TensorShape& joined = found[first + t];
          (joined.rows == 1 ? joined.cols : joined.rows) += own[t].rows == 1 ? own[t].cols : own[t].rows;
        }
        continue;
      }
      first = found.size();
      found.insert(found.end(), own.begin(), own.end());
    }
    for (const TensorShape& tensor : found) all[tensor] += copies_of(llm, segment);
  }
  return all;
}

Tensors tensors_of_rank(const Step& s, const Llm& llm, double params) {
  Tensors all = tensors_of_all_layers(s, llm);
  double rest = params;
  for (const auto& [tensor, count] : all) rest -= elements_of(tensor) * d(count);
  const TensorShape table{llm.vocab / s.tp(), llm.hidden};
  for (int i = 0; i < (llm.tied_embeddings || !llm.has_head ? 1 : 2) && rest >= elements_of(table); ++i) {
    ++all[table];
    rest -= elements_of(table);
  }
  // The last norm, one vector or two, and two more in front of an encoder's layers; or with them a table of positions, of 512
  // rows and more: any number between tells the two apart.
  constexpr std::int64_t kFewRows = 8;
  const auto rows = static_cast<std::int64_t>(rest / d(llm.hidden));
  if (rows > kFewRows) ++all[{rows, llm.hidden}];
  else if (rows > 0) all[{1, llm.hidden}] += rows;
  return all;
}

void adafactor_by_tensor(Step& s, const Llm& llm, double params) {
  const Tensors all = tensors_of_rank(s, llm, params);
  ++s.graph.eager.walks;  // to gather them, and to leave their gradients behind
  for (const auto& [tensor, count] : all) {
    if (tensor.rows == 1) add(s, "adafactor_vector"_node, tensor, count);
    else if (tensor.stacked > 1) add(s, "adafactor_experts"_node, tensor, count);
    else add(s, "adafactor_matrix"_node, tensor, count);
  }
}

void adam_by_tensor(Step& s, const Llm& llm, double params) {
  const Tensors all = tensors_of_rank(s, llm, params);
  for (const auto& [tensor, count] : all) add(s, "adamw_tensor"_node, tensor, count);
}

void adam_8_bits_by_tensor(Step& s, const Llm& llm, double params) {
  const Tensors all = tensors_of_rank(s, llm, params);
  for (const auto& [tensor, count] : all) add(s, "adam8bit_tensor"_node, tensor, count);
}

double muon_by_tensor(Step& s, const Llm& llm, double params) {
  const Tensors all = tensors_of_all_layers(s, llm);
  for (const auto& [tensor, count] : all) {
    if (tensor.rows == 1 || tensor.stacked > 1) continue;
    add(s, "muon_matrix"_node, tensor, count);
    s.graph.eager.tensors -= count;  // those that are in lists
    params -= elements_of(tensor) * d(count);
  }
  open_update(s);
  return std::max(params, d(llm.hidden));
}

}  // namespace plumbline::lowering

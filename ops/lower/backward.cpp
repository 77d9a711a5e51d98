// The backward pass: the gradients of the forward nodes, segments and nodes in reverse order. Which operators a
// gradient consists of stands in each operator's own file (ops/op/<operator>.cpp). Layers that keep their input alone run
// forward once more before it, collectives and all (Workload::training.recompute).
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ops/graph/exchange.hpp"
#include "ops/lower/parts.hpp"
#include "ops/resolve/ranks.hpp"

namespace plumbline::lowering {
namespace {

bool is_product(const Op& op) { return std::holds_alternative<Gemm>(op); }

bool is_sum(const Op& op) {
  const auto* c = std::get_if<Collective>(&op);
  return c != nullptr && c->kind != CollectiveKind::all_gather;
}

/// Tensor ranks that share the vocabulary add up what each found of the embedding's rows, and every rank goes on with the same
/// rows, so that the sum has no gradient to exchange (_ReduceFromModelParallelRegion of Megatron-LM's mpu/mappings.py). Sums
/// behind the head's product are the loss's, whose gradient each rank has of its own part (mpu/cross_entropy.py).
bool has_no_gradient(const Segment& segment, const Node& node) {
  const auto* c = std::get_if<Collective>(&node.op);
  const std::string_view name = segment.name;
  return c != nullptr && c->kind == CollectiveKind::all_reduce && (name == "embedding" || name == "head");
}

/// The head's product with the vocabulary, where ranks that share it read the same input: the gradient of that input is a sum
/// over them (_CopyToModelParallelRegion). Ranks that have parts of the input gathered them, whose gradient is a scattered sum
/// already. -1 elsewhere.
int product_of_copies(const Step& s, const Segment& segment) {
  if (s.scattered || s.tp() == 1 || std::string_view(segment.name) != "head") return -1;
  for (int n = segment.first + segment.size; n-- > segment.first;) {
    if (is_product(s.graph.nodes[static_cast<std::size_t>(n)].op)) return n;
  }
  return -1;
}

void sum_of_copies(Step& s, int product) {
  const auto& of = std::get<Gemm>(s.graph.nodes[static_cast<std::size_t>(product)].op);
  const Bytes bytes = storage(s.types.base, static_cast<double>(of.m) * static_cast<double>(of.k));
  s.collective("head_all_reduce"_node, CollectiveKind::all_reduce, bytes, s.types.base, s.tp());
}

/// Again so many columns of a product.
void recompute_matrices(Step& s, int node, std::int64_t columns) {
  s.recompute(node, node + 1);
  std::get<Gemm>(s.graph.nodes.back().op).n = columns;
}

/// Of a layer [first, end) what Recompute::products computes again: what stands between results that are kept, as far as the
/// backward pass reads it. Products count as the model's source has them, matrix by matrix: every second one is not kept
/// (torchtitan's _save_list; the sum of a product over ranks is, and so that product is not needed again).
void recompute_products(Step& s, int first, int end) {
  const auto op = [&s](int i) -> const Op& { return s.graph.nodes[static_cast<std::size_t>(i)].op; };
  int last = end, products = 0;
  while (last > first && !is_product(op(last - 1))) --last;
  for (int i = first; i < last; ++i) {
    if (!is_product(op(i))) {
      if (!std::holds_alternative<AttentionPrefill>(op(i)) && !is_sum(op(i))) s.recompute(i, i + 1);
      continue;
    }
    std::int64_t again = 0;
    for (const std::int64_t columns : s.matrices_of(i)) again += ++products % 2 == 0 ? columns : 0;
    const bool ends = i + 1 == last || is_sum(op(i + 1));  // the layer, or what is kept
    if (again > 0 && !ends) recompute_matrices(s, i, again);
  }
}

/// A layer's segment, as often as it is not, or is, computed again.
struct Part {
  std::int64_t repeat;
  Recompute again;
};

/// Of a segment's layers those behind the first ones come first.
std::array<Part, 2> parts_of(const Step& s, const Llm& llm, int segment) {
  const Segment& of = s.graph.segments[static_cast<std::size_t>(segment)];
  const Training& t = s.workload.training;
  if (!of.layers || t.recomputed_layers == 0) return {{{of.repeat, t.recompute}, {0, t.recompute}}};
  const std::vector<std::int64_t> again = layers_by_kind(llm.main(), {0, t.recomputed_layers});
  std::int64_t first = 0;
  for (const auto& [forward, kind] : s.kind_segments) {
    if (forward == segment) first = again[static_cast<std::size_t>(kind)];
  }
  return {{{of.repeat - first, Recompute::none}, {first, t.recompute}}};
}

/// Where the residual stream is split over the tensor ranks, what they gathered for a product is not kept: they gather it once
/// more for the gradient of its weights, beside the product that makes that of its input (arXiv 2205.05198, section 4.2.2).
int gathered_again(const Step& s, int first, int n, Recompute again) {
  const auto node = [&s](int i) -> const Node& { return s.graph.nodes[static_cast<std::size_t>(i)]; };
  if (s.workload.overlap != Overlap::iteration || again == Recompute::full || again == Recompute::products) return -1;
  int gather = n - 1;
  const auto* cast = gather > first ? std::get_if<Rowwise>(&node(gather).op) : nullptr;
  if (cast != nullptr && cast->kind == RowwiseKind::quantize) --gather;
  if (!is_product(node(n).op) || gather < first || !is_tensor_exchange(node(gather))) return -1;
  return stands_before_its_product(node(gather)) ? gather : -1;
}

void backward_of(Step& s, int forward, const Part& part) {
  const Segment segment = s.graph.segments[static_cast<std::size_t>(forward)];
  s.open(segment.name, part.repeat);
  s.graph.segments.back().forward = forward;
  const Node& last = s.graph.nodes[static_cast<std::size_t>(segment.first + segment.size - 1)];
  if (const auto* copy = std::get_if<Transfer>(&last.op); copy != nullptr && last.role == NodeRole::copied_forward) {
    const Bytes kept = static_cast<double>(copy->bytes) * units::B;
    s.copy_from_host("activations_from_host"_node, kept);
  }
  if (part.again == Recompute::full && segment.layers) s.recompute(segment.first, segment.first + segment.size);
  if (part.again == Recompute::products && segment.layers) {
    recompute_products(s, segment.first, segment.first + segment.size);
  }
  const int copies = product_of_copies(s, segment);
  for (int n = segment.first + segment.size; n-- > segment.first;) {
    if (has_no_gradient(segment, s.graph.nodes[static_cast<std::size_t>(n)])) continue;
    if (const int gather = gathered_again(s, segment.first, n, part.again); gather >= 0)
      s.recompute(gather, gather + 1);
    s.add_gradient(static_cast<std::size_t>(n));
    if (n == copies) sum_of_copies(s, n);
  }
  s.close();
}

}  // namespace

void backward(Step& s, const Llm& llm) {
  s.pass = Pass::backward;
  const int forward_segments = static_cast<int>(s.graph.segments.size());
  for (int i = forward_segments; i-- > 0;) {
    for (const Part& part : parts_of(s, llm, i)) {
      if (part.repeat > 0) backward_of(s, i, part);
    }
  }
}

}  // namespace plumbline::lowering

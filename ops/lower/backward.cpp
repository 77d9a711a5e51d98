// The backward pass: the gradients of the forward nodes, segments and nodes in reverse order. Which operators a
// gradient consists of stands in each operator's own file (ops/op/<operator>.cpp). Layers that keep their input alone run
// forward once more before it, collectives and all (Workload::training.recompute).
#include "ops/lower/parts.hpp"

namespace plumbline::lowering {
namespace {

/// Of a layer [first, end) what Recompute::products computes again: each of its runs between nodes whose results are kept.
void recompute_products(Step& s, int first, int end) {
  int products = 0;
  for (int i = first; i < end; ++i) {
    const Op& op = s.graph.nodes[static_cast<std::size_t>(i)].op;
    const auto* c = std::get_if<Collective>(&op);
    bool kept = std::holds_alternative<AttentionPrefill>(op) || (c != nullptr && c->kind != CollectiveKind::all_gather);
    if (std::holds_alternative<Gemm>(op)) kept = ++products % 2 == 1;
    if (!kept) s.recompute(i, i + 1);
  }
}

}  // namespace

void backward(Step& s) {
  s.pass = Pass::backward;
  const int forward_segments = static_cast<int>(s.graph.segments.size());
  for (int i = forward_segments; i-- > 0;) {
    const Segment segment = s.graph.segments[static_cast<std::size_t>(i)];
    s.open(segment.name, segment.repeat);
    s.graph.segments.back().forward = i;
    const Node& last = s.graph.nodes[static_cast<std::size_t>(segment.first + segment.size - 1)];
    if (const auto* copy = std::get_if<Transfer>(&last.op); copy != nullptr && last.role == NodeRole::copied_forward) {
      const Bytes kept = static_cast<double>(copy->bytes) * units::B;
      s.copy_from_host("activations_from_host"_node, kept);
    }
    if (s.workload.training.recompute == Recompute::full && segment.layers) {
      s.recompute(segment.first, segment.first + segment.size);
    }
    if (s.workload.training.recompute == Recompute::products && segment.layers) {
      recompute_products(s, segment.first, segment.first + segment.size);
    }
    for (int n = segment.first + segment.size; n-- > segment.first;) s.add_gradient(static_cast<std::size_t>(n));
    s.close();
  }
}

}  // namespace plumbline::lowering

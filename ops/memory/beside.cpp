// Where a layer's backward pass holds much beside what the layer has kept, as PyTorch's autograd runs it.
#include <algorithm>

#include "ops/memory/view.hpp"

namespace plumbline::lowering {
namespace {

/// The gradient of the residual stream, which waits for what a layer's part adds to it.
double waiting_gradient(const View& v) { return v.tokens * v.hidden * (v.autocast() ? 4 : v.element); }

/// In the backward pass of an attention that is written out, the gradient of the probabilities, its product with them, which
/// lives inside softmax's (softmax_backward_cuda_out() of aten/src/ATen/native/cuda/SoftMax.cu), and the gradient of the scores
/// are there at once; gone are what the part behind attention kept, and what dropout and the second product read.
Beside beside_scores(const LayerSpec& l, const View& v) {
  const auto* attention = l.mixer.as<AttentionSpec>();
  if (attention == nullptr) return {};
  const bool fp32 = v.writes_scores_in_fp32() || (v.flash() && stored_scores(l, v) > 0);
  if (v.no_scores() && !fp32) return {};
  const double wide = fp32 || !v.narrow_softmax() ? 4 : v.element, heads = d(attention->q_heads) / v.tp();
  const double dropped = v.dropout && !v.source.keeps_all_scores ? 1 + (fp32 ? 4 : v.element) : 0;
  const double cast = fp32 || v.narrow_softmax() ? 0 : v.element;
  const double scores = (3 * wide - dropped - cast) * v.tokens * v.kv_len * heads;
  const double behind = (l.ffn ? stored_ffn(*l.ffn, v) : 0) + (l.cross ? l.cross->stored(v.cross_load()) : 0) +
                        v.tokens * v.element * heads * d(attention->v_dim);
  const double keys = d(attention->kv_heads) * d(attention->qk_dim + attention->v_dim);
  const double projections = v.hidden * (d(attention->q_heads * attention->qk_dim) + keys) / v.tp();
  return {scores - behind + waiting_gradient(v), l.params / v.tp() - projections};
}

/// In that of a dense feed-forward part: gradients of what its activation reads, when its last matrix has its own and autocast's
/// cast of that is gone.
Beside beside_dense(const LayerSpec& l, const View& v) {
  if (!l.ffn || l.ffn->is_moe()) return {};
  const double width = d(l.ffn->width) / v.tp(), matrix = v.hidden * width;
  const double made = v.tokens * width * v.element * (l.ffn->gated ? 2 : 1) + waiting_gradient(v);
  return {made - (v.autocast() ? v.element * matrix : 0), matrix};
}

/// In that of experts, where their activation is: the gradient of its product and of both factors, when the last matrices have
/// theirs; gone are the product and the results that weights of the routing multiplied. (Of a part without gate it is less.)
Beside beside_experts_activation(const LayerSpec& l, const View& v) {
  if (!l.ffn || !l.ffn->is_moe()) return {};
  const double rows = routed_rows(*l.ffn, v), width = d(l.ffn->expert_width) / expert_split(*l.ffn, v);
  const double in = l.ffn->latent > 0 ? d(l.ffn->latent) : v.hidden, matrices = l.ffn->gated ? 3 : 2;
  const double more = rows * v.of_experts() * ((matrices - 1) * width - in);
  return {more + waiting_gradient(v), l.expert_params / matrices / v.tp()};
}

/// In that of experts, at their first matrices: the gradient of what their activation read, when all matrices have theirs; gone is
/// what the activation kept. The gradient of the rows that came in stands where the results did.
Beside beside_experts(const LayerSpec& l, const View& v) {
  if (!l.ffn || !l.ffn->is_moe()) return {};
  const double rows = routed_rows(*l.ffn, v), width = d(l.ffn->expert_width) / expert_split(*l.ffn, v);
  const double gone = stored_dense(*l.ffn, v, rows, 0, width, v.input_of_experts(), v.of_experts());
  const double made = rows * v.of_experts() * (l.ffn->gated ? 2 : 1) * width;
  return {made - gone + waiting_gradient(v), l.expert_params / v.tp()};
}

/// In that of the norm before a layer, when all that stands behind it has gradients: of an RMSNorm that is written out in fp32 its
/// rows, of the two gradients of these the one by the product and, spread from the mean, the one of their squares, and three rows
/// that this one is made of (pow_backward() of torch/csrc/autograd/FunctionsManual.cpp).
Beside beside_first_norm(const LayerSpec& l, const View& v, double kept) {
  if (l.norm != NormKind::rms || v.source.wide_centred_norms) return {};
  return {6 * 4 * v.tokens * v.hidden + waiting_gradient(v) - kept, l.params / v.tp()};
}

void add(Beside::Others& to, const LayerSpec& l, double kept, double tensor) {
  ++to.layers;
  to.kept += kept;
  to.params += l.params / tensor;
  to.cast += (l.params - l.expert_params) / tensor;
}

/// What stands in front of the layers of one kind, and behind them.
void add_others(Beside& of, const StackSpec& stack, std::size_t kind, const std::vector<double>& kept, double tensor) {
  const auto is_kind = [kind](int other) { return static_cast<std::size_t>(other) == kind; };
  const auto first = std::find_if(stack.order.begin(), stack.order.end(), is_kind);
  std::for_each(stack.order.begin(), first, [&](int other) {
    const auto number = static_cast<std::size_t>(other);
    add(of.before, stack.kinds[number], kept[number], tensor);
  });
  of.last = is_kind(stack.order.back());
  of.whole = stack.kinds[kind].params / tensor;
}

}  // namespace

std::vector<Beside> beside_layers(const Llm& llm, const Workload& w, const Types& types) {
  std::vector<Beside> found;
  if (llm.stacks.size() > 1)
    return found;  // layers of an encoder and a decoder keep unlike, and are not told apart here
  for (const StackSpec& stack : llm.stacks) {
    if (!runs(llm, w, stack)) continue;
    View v = view_of(llm, w, types, stack);
    std::vector<double> kept;
    for (const LayerSpec& l : stack.kinds) {
      v.dropout = trains_with_dropout(l, stack.role);
      kept.push_back(stored_layer(l, v));
    }
    for (std::size_t kind = 0; kind < stack.kinds.size(); ++kind) {
      const LayerSpec& l = stack.kinds[kind];
      v.dropout = trains_with_dropout(l, stack.role);
      Beside around;
      add_others(around, stack, kind, kept, v.tp());
      for (Beside beside : {beside_scores(l, v), beside_dense(l, v), beside_experts(l, v),
                            beside_experts_activation(l, v), beside_first_norm(l, v, kept[kind])}) {
        around.bytes = beside.bytes;
        around.params = beside.params;
        around.kept = kept[kind];
        found.push_back(around);
      }
    }
  }
  return found;
}

double most_of_a_layer(const Llm& llm, const Workload& w, const Types& types) {
  double most = 0;
  for (const StackSpec& stack : llm.stacks) {
    if (!runs(llm, w, stack)) continue;
    View v = view_of(llm, w, types, stack);
    for (const LayerSpec& l : stack.kinds) {
      v.dropout = trains_with_dropout(l, stack.role);
      most = std::max(most, stored_layer(l, v));
    }
  }
  return most;
}

}  // namespace plumbline::lowering

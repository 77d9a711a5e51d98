// The backward pass, derived node by node from the forward one, segments and nodes in reverse order.
//
// GEMM        dX[M,K] = dY[M,N] W[N,K] and dW[N,K] = dY^T[N,M] X[M,K]: together twice the forward FLOPs. For the
// batched
//             GEMMs of eager attention these are the gradients of both activations.
// attention   flash attention recomputes the scores, so five products where the forward pass has two (FlashAttention-2,
//             arXiv 2307.08691, algorithm 2): S and dQ, dK over the QK width, dP and dV over the V width. Three nodes
//             hold them exactly: `.dv` {S, dV} and `.dk` {dK, dP} each of the forward shape, `.dq` {dQ} at half the
//             width. Today's kernels do all of it in one launch; a sum over the nodes is right, two launches are too
//             many.
// row-wise    by the bytes moved: a norm reads dY, X and the residual's gradient and writes one (the residual form);
//             SwiGLU reads dY, gate and up and writes two (its residual form: five passes); softmax and dropout have
//             kinds of their own; activations read two and write one (as `add`); a product reads three and writes two
//             (two `add`s, as eager autograd does).
// embedding   rows scattered back.
// recurrence  twice: the states are recomputed, then scanned in reverse. Convolution: input and weight gradients.
// Bias and router top-k gradients are left out (less than 1e-3 of a layer's bytes).
#include <array>
#include <string_view>
#include <utility>
#include <variant>

#include "ops/lower/step.hpp"

namespace plumbline::lowering {
namespace {

struct GradNames {
  std::string_view forward;
  const char *dx, *dw;
};
// clang-format off
constexpr std::array kGradNames{
    GradNames{"qkv_proj", "qkv_proj.dx", "qkv_proj.dw"},
    GradNames{"q_proj", "q_proj.dx", "q_proj.dw"},
    GradNames{"k_proj", "k_proj.dx", "k_proj.dw"},
    GradNames{"v_proj", "v_proj.dx", "v_proj.dw"},
    GradNames{"o_proj", "o_proj.dx", "o_proj.dw"},
    GradNames{"attn_scores", "attn_scores.dq", "attn_scores.dk"},
    GradNames{"attn_context", "attn_context.dp", "attn_context.dv"},
    GradNames{"cross_q_proj", "cross_q_proj.dx", "cross_q_proj.dw"},
    GradNames{"cross_k_proj", "cross_k_proj.dx", "cross_k_proj.dw"},
    GradNames{"cross_v_proj", "cross_v_proj.dx", "cross_v_proj.dw"},
    GradNames{"cross_kv_proj", "cross_kv_proj.dx", "cross_kv_proj.dw"},
    GradNames{"cross_o_proj", "cross_o_proj.dx", "cross_o_proj.dw"},
    GradNames{"q_a_proj", "q_a_proj.dx", "q_a_proj.dw"},
    GradNames{"kv_a_proj", "kv_a_proj.dx", "kv_a_proj.dw"},
    GradNames{"qkv_a_proj", "qkv_a_proj.dx", "qkv_a_proj.dw"},
    GradNames{"q_b_proj", "q_b_proj.dx", "q_b_proj.dw"},
    GradNames{"kv_b_proj", "kv_b_proj.dx", "kv_b_proj.dw"},
    GradNames{"kv_proj", "kv_proj.dx", "kv_proj.dw"},
    GradNames{"o_a_proj", "o_a_proj.dx", "o_a_proj.dw"},
    GradNames{"o_b_proj", "o_b_proj.dx", "o_b_proj.dw"},
    GradNames{"compress_proj", "compress_proj.dx", "compress_proj.dw"},
    GradNames{"index_q_proj", "index_q_proj.dx", "index_q_proj.dw"},
    GradNames{"index_k_proj", "index_k_proj.dx", "index_k_proj.dw"},
    GradNames{"index_weights_proj", "index_weights_proj.dx", "index_weights_proj.dw"},
    GradNames{"index_scores", "index_scores.dq", "index_scores.dk"},
    GradNames{"gate_up_proj", "gate_up_proj.dx", "gate_up_proj.dw"},
    GradNames{"gate_proj", "gate_proj.dx", "gate_proj.dw"},
    GradNames{"up_proj", "up_proj.dx", "up_proj.dw"},
    GradNames{"down_proj", "down_proj.dx", "down_proj.dw"},
    GradNames{"shared_gate_up_proj", "shared_gate_up_proj.dx", "shared_gate_up_proj.dw"},
    GradNames{"shared_gate_proj", "shared_gate_proj.dx", "shared_gate_proj.dw"},
    GradNames{"shared_up_proj", "shared_up_proj.dx", "shared_up_proj.dw"},
    GradNames{"shared_down_proj", "shared_down_proj.dx", "shared_down_proj.dw"},
    GradNames{"router", "router.dx", "router.dw"},
    GradNames{"shared_gate", "shared_gate.dx", "shared_gate.dw"},
    GradNames{"latent_down", "latent_down.dx", "latent_down.dw"},
    GradNames{"latent_up", "latent_up.dx", "latent_up.dw"},
    GradNames{"experts_gate_up", "experts_gate_up.dx", "experts_gate_up.dw"},
    GradNames{"experts_gate", "experts_gate.dx", "experts_gate.dw"},
    GradNames{"experts_up", "experts_up.dx", "experts_up.dw"},
    GradNames{"experts_down", "experts_down.dx", "experts_down.dw"},
    GradNames{"in_proj", "in_proj.dx", "in_proj.dw"},
    GradNames{"gates_proj", "gates_proj.dx", "gates_proj.dw"},
    GradNames{"x_proj", "x_proj.dx", "x_proj.dw"},
    GradNames{"dt_proj", "dt_proj.dx", "dt_proj.dw"},
    GradNames{"out_proj", "out_proj.dx", "out_proj.dw"},
    GradNames{"conv1d", "conv1d.dx", "conv1d.dw"},
    GradNames{"recurrence", "recurrence.recompute", "recurrence.reverse"},
    GradNames{"modulation", "modulation.dx", "modulation.dw"},
    GradNames{"text_qkv_proj", "text_qkv_proj.dx", "text_qkv_proj.dw"},
    GradNames{"text_o_proj", "text_o_proj.dx", "text_o_proj.dw"},
    GradNames{"text_gate_up_proj", "text_gate_up_proj.dx", "text_gate_up_proj.dw"},
    GradNames{"text_gate_proj", "text_gate_proj.dx", "text_gate_proj.dw"},
    GradNames{"text_up_proj", "text_up_proj.dx", "text_up_proj.dw"},
    GradNames{"text_down_proj", "text_down_proj.dx", "text_down_proj.dw"},
    GradNames{"lm_head", "lm_head.dx", "lm_head.dw"},
};
// clang-format on

GradNames grad_names(const char* forward) {
  for (const GradNames& names : kGradNames) {
    if (names.forward == forward) return names;
  }
  return {forward, forward, forward};
}

bool is_product(std::string_view name) { return name.size() > 4 && name.substr(name.size() - 4) == "_mul"; }

/// Appends the gradient nodes of one forward operator.
struct Derive {
  Step& s;
  const char* name;

  void operator()(const Gemm& g) const {
    const GradNames names = grad_names(name);
    s.add(names.dx, Gemm{g.m, g.k, g.n, g.batch, g.precision, false});
    s.add(names.dw, Gemm{g.n, g.k, g.m, g.batch, g.precision, false});
  }
  void operator()(const GroupedGemm& g) const {
    const GradNames names = grad_names(name);
    s.add(names.dx, GroupedGemm{g.experts, g.topk, g.tokens, g.k, g.n, g.skew, g.precision});
    s.add(names.dw, g);  // the same FLOPs; weight gradients are written where weights were read
  }
  void operator()(const AttentionPrefill& a) const {
    const bool cross = std::string_view(name) == "cross_attention";
    AttentionPrefill half = a;
    half.qk_dim = half.v_dim = (a.qk_dim + 1) / 2;
    s.add(cross ? "cross_attention.dv" : "attention.dv", a);
    s.add(cross ? "cross_attention.dk" : "attention.dk", a);
    s.add(cross ? "cross_attention.dq" : "attention.dq", half);
  }
  void operator()(const Rowwise& r) const {
    Rowwise grad = r;
    switch (r.kind) {
      case RowwiseKind::layernorm:
      case RowwiseKind::rmsnorm:
      case RowwiseKind::swiglu:
        grad.residual = true;
        grad.output = r.input;
        break;
      case RowwiseKind::softmax:
        if (std::string_view(name) == "loss") return;
        grad.kind = RowwiseKind::softmax_backward;
        break;
      case RowwiseKind::dropout: grad.kind = RowwiseKind::dropout_backward; break;
      case RowwiseKind::silu:
      case RowwiseKind::gelu:
      case RowwiseKind::relu: grad.kind = RowwiseKind::add; break;
      case RowwiseKind::add:
        if (is_product(name)) s.add(name, r);
        break;
      case RowwiseKind::copy: std::swap(grad.input, grad.output); break;
      case RowwiseKind::sum_rows: grad.kind = RowwiseKind::copy; break;
      case RowwiseKind::mask:
      case RowwiseKind::argmax: return;  // adds a constant; no gradient
      default: break;                    // scale, quantize (of the incoming gradient): the same pass
    }
    s.add(name, grad);
  }
  void operator()(const Recurrence& r) const { twice(r); }
  void operator()(const CausalConv& c) const { twice(c); }
  void operator()(const MoePermute& p) const {
    MoePermute grad = p;
    grad.combine = !p.combine;
    s.add(name, grad);
  }
  void operator()(const Rope& r) const { s.add(name, r); }
  void operator()(const Embedding& e) const { s.add(name, e); }
  void operator()(const Collective& c) const { s.add(name, c, 1); }
  void operator()(const TopK&) const {}
  template <class Other>
  void operator()(const Other&) const {}  // not in a training step

 private:
  template <class Shape>
  void twice(const Shape& shape) const {
    const GradNames names = grad_names(name);
    s.add(names.dx, shape);
    s.add(names.dw, shape);
  }
};

}  // namespace

void backward(Step& s) {
  s.pass = Pass::backward;
  const int forward_segments = static_cast<int>(s.graph.segments.size());
  for (int i = forward_segments; i-- > 0;) {
    const Segment segment = s.graph.segments[static_cast<std::size_t>(i)];
    s.open(segment.name, segment.repeat);
    for (int n = segment.first + segment.size; n-- > segment.first;) {
      const Node node = s.graph.nodes[static_cast<std::size_t>(n)];  // a copy: appending moves the nodes
      std::visit(Derive{s, node.name}, node.op);
    }
    s.close();
  }
}

}  // namespace plumbline::lowering

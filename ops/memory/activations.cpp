// Activation memory of a step.
//
// Training, per layer, after Korthikanti et al., "Reducing activation recomputation" (arXiv 2205.05198) section 4.1:
// every input of an operator that its gradient needs is kept, each tensor once, dropout masks at one byte. For their
// GPT layer (heads x width = h, FFN 4h, dropout) the parts below add up to their
//     s b h (34 + 5 a s / h)
// without fusion; flash attention keeps one fp32 log-sum a query head instead of the 5 a s^2 b of scores.
#include <algorithm>

#include "ops/memory/parts.hpp"

namespace plumbline::lowering {
namespace {

double d(std::int64_t n) { return static_cast<double>(n); }

struct View {
  const Workload& w;
  const Types& types;
  double element;  ///< bytes of one activation
  double hidden = 0, tokens = 0, q_len = 0, kv_len = 0, cross_tokens = 0, cross_len = 0;
  bool dropout = false;
  bool flash() const { return w.fusion != Fusion::none; }
  double tp() const { return d(w.parallel.tensor); }
};

/// Elements a token: the query, key and value projections and the attention's result, on this rank.
struct Widths {
  double q = 0, kv = 0, out = 0, extra = 0, heads = 0;
};

Widths widths(const AttentionSpec& a, double tp) {
  Widths n;
  n.heads = d(a.q_heads) / tp;
  n.q = n.heads * d(a.qk_dim) * (a.output_gate ? 2 : 1);
  n.out = n.heads * d(a.v_dim);
  n.kv = d(a.kv_heads) * d(a.qk_dim + a.v_dim) / tp;
  if (a.kind == AttentionSpec::Kind::mla) {
    n.kv = n.heads * d(a.qk_dim + a.v_dim);                                  // expanded
    n.extra = 2 * d(a.q_lora_rank) + 2 * d(a.kv_lora_rank) + d(a.rope_dim);  // latents before and after their norm
  }
  return n;
}

/// 11 s b h + 5 a s^2 b: input of QKV 2, Q and K 4, V 2, input of the output projection 2, mask 1; scores: softmax 2,
/// its dropout mask 1, result 2.
double stored_attention(const AttentionSpec& a, const View& v, double kv_tokens, double kv_len) {
  const Widths n = widths(a, v.tp());
  double bytes = v.tokens * v.element * (v.hidden + n.q + n.out + n.extra) + kv_tokens * v.element * n.kv;
  if (v.dropout) bytes += v.tokens * v.hidden;
  if (v.flash()) return bytes + v.tokens * n.heads * 4;
  const double pairs = v.tokens * n.heads * kv_len;
  return bytes + pairs * (v.dropout ? 2 * v.element + 1 : v.element);
}

/// Input, inputs and result of the activation (SwiGLU recomputes its product at `max`), mask of the output's dropout.
double stored_dense(const FfnSpec& f, const View& v, double rows, double in, double width) {
  const double gates = f.gated ? 2 : 1;
  double kept = gates * width;                                 // gate and up, or up
  if (!(f.gated && v.w.fusion == Fusion::max)) kept += width;  // what the down projection reads
  if (f.gated && !v.flash()) kept += width;                    // eager code keeps silu(gate) as well
  return rows * v.element * (in + kept);
}

double stored_ffn(const FfnSpec& f, const View& v) {
  double bytes = v.dropout ? v.tokens * v.hidden : 0;
  if (!f.is_moe()) return bytes + stored_dense(f, v, v.tokens, v.hidden, d(f.width) / v.tp());
  const double rows = v.tokens * d(f.topk), in = f.latent > 0 ? d(f.latent) : v.hidden;
  bytes += stored_dense(f, v, rows, in, d(f.expert_width) / v.tp());
  bytes += rows * v.element * in;                             // expert results, for the gradient of the routing weights
  bytes += v.tokens * v.element * (v.hidden + d(f.experts));  // router input and scores
  const double beside = d(f.shared_width + f.width) / v.tp();
  if (beside > 0) bytes += stored_dense(f, v, v.tokens, 0, beside);  // its input is the router's
  return bytes;
}

/// Input of the projections, their result (all that convolution, recurrence and gate read), the output before and
/// after the gate, and the fp32 state at every chunk of 256 tokens (mamba_ssm's default chunk).
double stored_recurrent(const RecurrentSpec& r, const View& v) {
  constexpr double kChunk = 256;
  const double inner = d(r.inner) / v.tp(), keys = d(r.key_heads * r.key_dim) / v.tp();
  const double mixed = r.kind == RecurrentKind::gated_delta_net ? 2 * keys : 2 * d(r.groups * r.state) / v.tp();
  const double state = d(r.state > 0 ? r.state : r.key_dim);
  return v.tokens * v.element * (v.hidden + 2 * (inner + mixed) + inner + 2 * inner) +
         v.tokens / kChunk * inner * state * 4;
}

/// 4 s b h for two norms: the input of each.
double stored_layer(const LayerSpec& l, const View& v) {
  double bytes = d(l.norms) * v.tokens * v.element * v.hidden;
  if (l.attention) bytes += stored_attention(*l.attention, v, v.tokens, v.kv_len);
  if (l.cross)
    bytes += stored_attention(*l.cross, v, v.cross_tokens, v.cross_len) + v.cross_tokens * v.element * v.hidden;
  if (l.recurrent) bytes += stored_recurrent(*l.recurrent, v);
  if (l.ffn) bytes += stored_ffn(*l.ffn, v);
  return bytes;
}

/// Widest set of tensors alive inside one layer beside the residual stream, elements in all: a part's input, what its
/// first projection made, and what the next kernel writes.
double live_layer(const LayerSpec& l, const View& v) {
  double most = 0;
  if (l.attention || l.cross) {
    const AttentionSpec& a = l.attention ? *l.attention : *l.cross;
    const Widths n = widths(a, v.tp());
    const bool decode = v.w.phase == Phase::decode;
    const double kv = decode && a.kind == AttentionSpec::Kind::mla ? 0 : n.kv;  // absorbed: no keys are made
    double elements = v.tokens * (v.hidden + n.q + kv + n.out + n.extra);
    if (!v.flash()) elements += 2 * v.tokens * n.heads * v.kv_len;  // scores and their softmax
    most = std::max(most, elements);
  }
  if (l.recurrent) most = std::max(most, v.tokens * (v.hidden + 4 * d(l.recurrent->inner) / v.tp()));
  if (l.ffn) {
    const FfnSpec& f = *l.ffn;
    const double copies = v.flash() ? (f.gated ? 3 : 2) : (f.gated ? 4 : 2);
    double elements = v.tokens * (v.hidden + copies * d(std::max(f.width, f.shared_width)) / v.tp());
    if (f.is_moe()) {
      const double in = f.latent > 0 ? d(f.latent) : v.hidden;
      const double routed = v.tokens * d(f.topk) * (2 * in + copies * d(f.expert_width) / v.tp());
      elements = std::max(elements, v.tokens * 2 * v.hidden + routed);
    }
    most = std::max(most, elements);
  }
  return most;
}

View view_of(const Llm& llm, const Workload& w, const Types& types, const StackSpec& stack) {
  const Lengths n = lengths_of(llm, w, stack);
  View v{w, types, bits(types.base) / 8};
  v.hidden = d(stack.hidden > 0 ? stack.hidden : llm.hidden);
  v.q_len = d(n.q_len + n.text_tokens);
  v.kv_len = d(n.kv_len + n.text_tokens);
  v.tokens = d(w.batch) * v.q_len;
  v.cross_len = d(n.cross_len);
  v.cross_tokens = d(w.batch) * v.cross_len;
  return v;
}

double logits(const Llm& llm, const Workload& w, const View& v) {
  if (!llm.has_head) return 0;
  const bool last_only = w.phase != Phase::train && llm.main().role == StackSpec::Role::decoder;
  return (last_only ? d(w.batch) : v.tokens) * d(llm.vocab) / v.tp();
}

}  // namespace

Bytes live_activations(const Llm& llm, const Workload& w, const Types& types) {
  double most = 0;
  for (const StackSpec& stack : llm.stacks) {
    if (!runs(llm, w, stack)) continue;
    const View v = view_of(llm, w, types, stack);
    const double residual = v.tokens * v.hidden;
    for (const LayerSpec& l : stack.kinds) most = std::max(most, (residual + live_layer(l, v)) * v.element);
    if (&stack == &llm.main()) most = std::max(most, (2 * residual + logits(llm, w, v)) * v.element);
  }
  return most * units::B;
}

Bytes stored_activations(const Llm& llm, const Workload& w, const Types& types) {
  double bytes = 0;
  for (const StackSpec& stack : llm.stacks) {
    if (!runs(llm, w, stack)) continue;
    View v = view_of(llm, w, types, stack);
    for (const int kind : stack.order) {
      const LayerSpec& l = stack.kinds[static_cast<std::size_t>(kind)];
      v.dropout = trains_with_dropout(l, stack.role);
      bytes += stored_layer(l, v);  // the view holds the tokens of both MMDiT streams
    }
    if (&stack != &llm.main()) continue;
    // Final norm and head inputs; logits, and in eager code their fp32 softmax.
    bytes += 2 * v.tokens * v.hidden * v.element + logits(llm, w, v) * (v.flash() ? v.element : v.element + 4);
  }
  return bytes * units::B;
}

}  // namespace plumbline::lowering

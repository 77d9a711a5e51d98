// Recurrent mixers: projections, causal convolution, the recurrence, gated norm.
//
// Sources: mamba_ssm (state-spaces/mamba: modules/mamba_simple.py, mamba2.py), Qwen3-Next's gated delta net
// (transformers, modeling_qwen3_next.py); widths as in the reference notes on configs, sections 5 and 7.
#include <algorithm>

#include "ops/lower/step.hpp"

namespace plumbline::lowering {
namespace {

void conv(Step& s, const RecurrentSpec& r, std::int64_t channels) {
  if (r.conv > 0) s.add("conv1d"_node, CausalConv{s.batch, s.q_len, channels, r.conv, s.types.base});
}

/// norm(y * silu(z)): reads two, writes one, which is what a SwiGLU kernel moves; three kernels in eager code.
void gated_norm(Step& s, std::int64_t rows, std::int64_t cols, bool norm) {
  if (!s.none()) {
    s.row(norm ? "gated_norm"_node : "gate"_node, RowwiseKind::swiglu, rows, cols);
    return;
  }
  s.row("gate_act"_node, RowwiseKind::silu, rows, cols);
  s.row("gate_mul"_node.as(NodeRole::product), RowwiseKind::add, rows, cols);
  if (norm) s.norm("gated_norm"_node, NormKind::rms, rows, cols);
}

void recur(Step& s, const RecurrentSpec& r, std::int64_t heads, std::int64_t head_dim, std::int64_t state,
           std::int64_t groups) {
  s.add("recurrence"_node, Recurrence{r.kind, s.batch, s.q_len, heads, head_dim, state,
                                      std::max<std::int64_t>(1, groups), s.types.base, r.state_dtype});
}

void mamba2(Step& s, const RecurrentSpec& r) {
  const std::int64_t inner = s.share(r.inner), heads = s.share(r.heads), groups = s.share(r.groups);
  const std::int64_t bc = 2 * groups * r.state;
  s.linear("in_proj"_node, s.tokens, 2 * inner + bc + heads, s.hidden);
  conv(s, r, inner + bc);
  recur(s, r, heads, inner / heads, r.state, groups);
  gated_norm(s, s.tokens, inner, true);
  s.quantize("out_quantize"_node, s.tokens, inner, s.types.linear);
  s.linear("out_proj"_node, s.tokens, s.hidden, inner);
}

/// One channel a head. The scan kernel applies the gate itself (selective_scan_fn takes z), so only eager code pays.
void mamba1(Step& s, const RecurrentSpec& r) {
  const std::int64_t inner = s.share(r.inner);
  s.linear("in_proj"_node, s.tokens, 2 * inner, s.hidden);
  conv(s, r, inner);
  s.linear("x_proj"_node, s.tokens, r.dt_rank + 2 * r.state, inner);
  if (r.inner_norms) s.norm("inner_norm"_node, NormKind::rms, s.tokens, r.dt_rank + 2 * r.state);
  s.linear("dt_proj"_node, s.tokens, inner, r.dt_rank);
  recur(s, r, inner, 1, r.state, 1);
  if (s.none()) gated_norm(s, s.tokens, inner, false);
  s.quantize("out_quantize"_node, s.tokens, inner, s.types.linear);
  s.linear("out_proj"_node, s.tokens, s.hidden, inner);
}

/// Two input projections (q, k, v, z and the two gates a head), one at `max`. Q and K are L2-normalized inside the
/// recurrence kernel, outside it in eager code.
void delta_net(Step& s, const RecurrentSpec& r) {
  const std::int64_t heads = s.share(r.heads), key_heads = s.share(r.key_heads), values = s.share(r.inner);
  const std::int64_t keys = key_heads * r.key_dim, state = r.state > 0 ? r.state : r.key_dim;
  if (s.max()) {
    s.linear("in_proj"_node, s.tokens, 2 * keys + 2 * values + 2 * heads, s.hidden);
  } else {
    s.linear("in_proj"_node, s.tokens, 2 * keys + 2 * values, s.hidden);
    s.linear("gates_proj"_node, s.tokens, 2 * heads, s.hidden);
  }
  conv(s, r, 2 * keys + values);
  if (s.none()) {
    s.norm("q_norm"_node, NormKind::rms, s.tokens * key_heads, r.key_dim);
    s.norm("k_norm"_node, NormKind::rms, s.tokens * key_heads, r.key_dim);
  }
  recur(s, r, heads, values / heads, state, key_heads);
  gated_norm(s, s.tokens * heads, values / heads, true);
  s.quantize("out_quantize"_node, s.tokens, values, s.types.linear);
  s.linear("out_proj"_node, s.tokens, s.hidden, values);
}

}  // namespace

void recurrence(Step& s, const RecurrentSpec& r) {
  s.quantize("in_quantize"_node, s.tokens, s.hidden, s.types.linear);
  switch (r.kind) {
    case RecurrentKind::mamba1: mamba1(s, r); break;
    case RecurrentKind::mamba2: mamba2(s, r); break;
    case RecurrentKind::gated_delta_net: delta_net(s, r); break;
  }
  s.all_reduce("mixer_all_reduce"_node, s.tokens);
}

}  // namespace plumbline::lowering

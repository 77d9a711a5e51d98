#include "ops/mixer/attention_core.hpp"

#include <algorithm>

#include "arch/error.hpp"

namespace plumbline::lowering {
namespace {

void flash(Step& s, NodeTag name, const Core& c, std::int64_t sequences, std::int64_t q_len, std::int64_t kv_len) {
  // in training one of as many tokens as there are is kept too: transformers makes a mask of it
  const bool slides = c.window < kv_len || (c.window == kv_len && s.train() && s.none());
  const std::int64_t window = slides && !c.chunked ? c.window : 0;
  s.add(name, AttentionPrefill{sequences, c.q_heads, c.kv_heads, c.qk_dim, c.v_dim, q_len, kv_len, c.causal, window,
                               c.append, s.types.base, c.kv});
}

/// Fixed chunks (Llama-4): every full chunk is a sequence of its own, the rest a shorter one. Behind a cache the first
/// new tokens fill up the chunk that has begun.
void chunked_prefill(Step& s, const Core& c) {
  const std::int64_t begun = (c.kv_len - c.q_len) % c.window;
  const std::int64_t filling = begun == 0 ? 0 : std::min(c.q_len, c.window - begun);
  const std::int64_t full = (c.q_len - filling) / c.window, rest = (c.q_len - filling) % c.window;
  if (filling > 0) flash(s, "attention_filling"_node, c, s.batch, filling, begun + filling);
  if (full > 0) flash(s, "attention"_node, c, s.batch * full, c.window, c.window);
  if (rest > 0) flash(s, "attention_rest"_node, c, s.batch, rest, rest);
}

/// Keys one decode query sees: a sliding window holds at most its width, a chunk what has been filled of it.
std::int64_t decode_keys(const Core& c) {
  if (c.window == 0) return c.kv_len;
  return c.chunked ? (c.kv_len - 1) % c.window + 1 : std::min(c.kv_len, c.window);
}

/// AttentionDecode.append: no launch writes the cache once more where a node of the step has written it (`rope`,
/// `kv_append`) or nothing new is written (keys of another layer); else whatever the attention's kernels do themselves.
int write_before_decode(const Core& c) { return c.append == 1 ? -1 : 0; }

}  // namespace

void eager_core(Step& s, const Core& c) {
  const std::int64_t heads = s.batch * c.q_heads, rows = heads * c.q_len;
  if (c.kv_heads != c.q_heads) {
    s.copy("repeat_k"_node, heads * c.kv_len, c.qk_dim);
    s.copy("repeat_v"_node, heads * c.kv_len, c.v_dim);
  }
  s.gemm("attn_scores"_node.as(NodeRole::scores), c.q_len, c.kv_len, c.qk_dim, s.types.plain, false, heads);
  s.row("attn_scale"_node, RowwiseKind::scale, rows, c.kv_len);
  if (c.q_len > 1 && (c.causal || s.padded)) s.row("attn_mask"_node, RowwiseKind::mask, rows, c.kv_len);
  s.row("attn_softmax"_node, RowwiseKind::softmax, rows, c.kv_len);
  if (s.dropout) s.row("attn_dropout"_node, RowwiseKind::dropout, rows, c.kv_len);
  s.gemm("attn_context"_node.as(NodeRole::context), c.q_len, c.v_dim, c.kv_len, s.types.plain, false, heads);
}

namespace {

/// PyTorch trains with scores written out where scaled_dot_product_attention has no kernel: fp32 with fewer key heads than
/// query heads (cuDNN's and FlashAttention's are of 16 bits, xFormers' knows no shared heads:
/// aten/src/ATen/native/transformers/cuda/sdp_utils.cpp).
bool writes_scores(const Step& s, const Core& c) {
  if (!s.none()) return false;
  const bool wide = s.train() && s.workload.training.eager && bits(s.types.base) > 16;
  return !s.workload.fused_attention || (wide && c.kv_heads < c.q_heads);
}

/// One kernel scales, masks and takes the softmax (megatron/fused_kernels); it is counted as if it read and wrote all
/// scores, those that a causal mask hides too.
void fused_softmax_core(Step& s, const Core& c) {
  const std::int64_t heads = s.batch * c.q_heads, rows = heads * c.q_len;
  const int first = static_cast<int>(s.graph.nodes.size());
  s.gemm("attn_scores"_node.as(NodeRole::scores), c.q_len, c.kv_len, c.qk_dim, s.types.plain, false, heads);
  s.row("attn_softmax"_node, RowwiseKind::softmax, rows, c.kv_len);
  if (s.dropout) s.row("attn_dropout"_node, RowwiseKind::dropout, rows, c.kv_len);
  s.gemm("attn_context"_node.as(NodeRole::context), c.q_len, c.v_dim, c.kv_len, s.types.plain, false, heads);
  if (s.workload.training.recompute == Recompute::selective) s.keep_none_from(first);
  s.copy("attn_context_rows"_node, s.batch * c.q_len, c.q_heads * c.v_dim);  // heads of a token side by side
}

}  // namespace

void attention_core(Step& s, const Core& c) {
  if (s.train() && s.workload.training.written_out && !s.none()) {
    if (c.kv_heads != c.q_heads || c.window > 0) {
      throw NotModelled("attention that is written out: expected as many KV heads as query heads, and no window");
    }
    fused_softmax_core(s, c);
  } else if (writes_scores(s, c)) {
    Core seen = c;
    if (c.decode) seen.kv_len = decode_keys(c);
    eager_core(s, seen);
  } else if (c.decode) {
    // A chunk is a shorter context; a sliding window is the kernel's own business.
    const bool slides = c.window > 0 && !c.chunked && c.window < c.kv_len;
    s.add("attention"_node,
          AttentionDecode{s.batch, c.q_heads, c.kv_heads, c.qk_dim, c.v_dim, c.chunked ? decode_keys(c) : c.kv_len,
                          s.workload.page, slides ? c.window : 0, s.types.base, c.kv, write_before_decode(c)});
  } else if (c.chunked && c.window > 0 && c.window < c.kv_len) {
    chunked_prefill(s, c);
  } else {
    flash(s, "attention"_node, c, s.batch, c.q_len, c.kv_len);
  }
}

void cross_core(Step& s, const Core& c) {
  if (writes_scores(s, c)) {
    eager_core(s, c);
  } else if (c.decode) {
    s.add("cross_attention"_node,
          AttentionDecode{s.batch, c.q_heads, c.kv_heads, c.qk_dim, c.v_dim, c.kv_len, 0, 0, s.types.base, s.types.kv,
                          /*append=*/0});
  } else {
    flash(s, "cross_attention"_node, c, s.batch, c.q_len, c.kv_len);
  }
}

void gather_context(Step& s, std::int64_t width, DType type) {
  if (s.cp() == 1 || s.decode) return;
  s.all_gather("kv_all_gather"_node, s.batch * s.all_keys, width, type, s.cp(), s.workload.parallel.tensor);
}

void merge_context(Step& s, std::int64_t heads, std::int64_t width) {
  if (s.cp() == 1 || !s.decode) return;
  const std::int64_t apart = s.workload.parallel.tensor;
  s.all_gather("lse_all_gather"_node, s.tokens * s.cp(), heads, DType::fp32, s.cp(), apart);
  const Bytes bytes = storage(s.types.base, static_cast<double>(s.tokens * heads) * static_cast<double>(width));
  s.collective("context_all_reduce"_node, CollectiveKind::all_reduce, bytes, s.types.base, s.cp(), apart);
}

}  // namespace plumbline::lowering

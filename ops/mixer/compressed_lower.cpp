#include <algorithm>

#include "ops/mixer/attention_core.hpp"
#include "ops/mixer/compressed.hpp"

namespace plumbline::lowering {
namespace {

/// V4: one stream serves as key and value. A window of it is kept whole; the rest is pooled, `compress_ratio` tokens to
/// one by learned weights (two projections: values and gates), and with an indexer only the top k of the pooled ones.
/// Our reading of the published config: windows and pooled stream are attended in one softmax.
std::int64_t pooled_keys(const CompressedSpec& a, std::int64_t keys) {
  if (a.ratio <= 0) return 0;
  const std::int64_t pooled = keys / a.ratio;
  return a.index.topk > 0 ? std::min(pooled, a.index.topk) : pooled;
}

void compressor(Step& s, const CompressedSpec& a) {
  if (a.ratio <= 0) return;
  s.linear("compress_proj"_node, s.tokens, 2 * a.compressor_width(), s.hidden);
  // Pooling reads values and gates of all tokens and writes one row in `ratio`: at least the read is there.
  s.row("compress_pool"_node, RowwiseKind::sum_rows, s.tokens, 2 * a.compressor_width());
}

void compressed_core(Step& s, const CompressedSpec& a, std::int64_t heads) {
  const std::int64_t dim = a.dim, window = a.window > 0 ? std::min(a.window, s.kv_len) : s.kv_len;
  if (s.decode) {
    const std::int64_t keys = window + pooled_keys(a, s.kv_len);
    // Values over the whole width, no part that only scores: an MLA of latent = head width and no rotary rest.
    if (!s.none()) {
      s.add("attention"_node, MlaDecode{s.batch, heads, keys, dim, 0, s.types.base, s.types.kv});
      return;
    }
    s.gemm("attn_scores"_node.as(NodeRole::scores), heads, keys, dim, s.types.plain, false, s.batch);
    s.row("attn_scale"_node, RowwiseKind::scale, s.batch * heads, keys);
    s.row("attn_softmax"_node, RowwiseKind::softmax, s.batch * heads, keys);
    s.gemm("attn_context"_node.as(NodeRole::context), heads, dim, keys, s.types.plain, false, s.batch);
    return;
  }
  attention_core(s, {heads, 1, dim, dim, s.q_len, s.kv_len, true, window, false, false, 0, s.kept()});
  // A query sees the pooled tokens before it: of the new ones half on average, at most top k.
  const std::int64_t pooled = pooled_keys(a, s.mean_seen(s.kv_len));
  if (pooled == 0) return;
  if (s.none()) attention_core(s, {heads, 1, dim, dim, s.q_len, pooled, false, 0, false, false, 0, s.kept()});
  else
    s.add("attention_pooled"_node,
          AttentionPrefill{s.batch, heads, 1, dim, dim, s.q_len, pooled, false, 0, 0, s.types.base, s.kept()});
}

void compressed_attention(Step& s, const CompressedSpec& a) {
  const std::int64_t heads = s.share(a.heads), dim = a.dim;
  s.quantize("qkv_a_quantize"_node, s.tokens, s.hidden, s.types.linear);
  const std::int64_t q_first = a.q_lora_rank > 0 ? a.q_lora_rank : heads * dim;
  if (s.none()) {
    s.linear("q_a_proj"_node, s.tokens, q_first, s.hidden);
    s.linear("kv_proj"_node, s.tokens, dim, s.hidden);
  } else {
    s.linear("qkv_a_proj"_node, s.tokens, q_first + dim, s.hidden);
  }
  if (a.q_lora_rank > 0) {
    s.norm("q_a_norm"_node, NormKind::rms, s.tokens, a.q_lora_rank);
    s.quantize("q_b_quantize"_node, s.tokens, a.q_lora_rank, s.types.linear);
    s.linear("q_b_proj"_node, s.tokens, heads * dim, a.q_lora_rank);
  }
  compressor(s, a);
  if (a.index.heads > 0 && a.ratio > 0) {
    indexer(s, a.index, a.rope_dim, a.q_lora_rank > 0 ? a.q_lora_rank : s.hidden,
            std::max<std::int64_t>(1, s.kv_len / a.ratio));
    // Values and gates of two windows where the indexer of DeepSeek-V3.2 has one key.
    if (a.whole) s.linear("index_compress_proj"_node, s.tokens, 3 * a.index.dim, s.hidden);
  }
  if (!s.max()) {
    s.add("rope"_node, Rope{s.tokens, heads + 1, a.rope_dim > 0 ? a.rope_dim : dim, s.types.base});
    if (s.cache) s.copy("kv_append"_node, s.tokens, dim);
  }
  compressed_core(s, a, heads);
  if (a.out_groups > 0) {
    const std::int64_t groups = s.share(a.out_groups), width = groups * a.out_lora_rank;
    s.gemm("o_a_proj"_node, s.tokens, a.out_lora_rank, heads * dim / groups, s.types.plain, false, groups);
    s.quantize("o_quantize"_node, s.tokens, width, s.types.linear);
    s.linear("o_b_proj"_node, s.tokens, s.hidden, width);
  } else {
    s.quantize("o_quantize"_node, s.tokens, heads * dim, s.types.linear);
    s.linear("o_proj"_node, s.tokens, s.hidden, heads * dim, a.out_bias);
  }
  s.all_reduce("attn_all_reduce"_node, "attn_reduce_scatter"_node, s.tokens);
}

}  // namespace
}  // namespace plumbline::lowering

namespace plumbline {

void CompressedSpec::lower(lowering::Step& step) const { lowering::compressed_attention(step, *this); }

}  // namespace plumbline

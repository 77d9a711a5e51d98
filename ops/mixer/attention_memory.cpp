#include "ops/mixer/attention_memory.hpp"

#include "ops/step/libraries.hpp"

namespace plumbline {

double stored_attention(const AttentionWidths& n, const MixerLoad& v) {
  double bytes = v.tokens * v.element * (v.hidden + n.q + n.out + n.extra) + v.kv_tokens * v.element * n.kv;
  if (v.dropout) bytes += v.tokens * v.hidden;
  if (v.flash) return bytes + v.tokens * n.heads * 4;
  const double pairs = v.tokens * n.heads * v.kv_len;
  if (v.eager) {
    // the softmax, and what multiplies values: its cast, or what dropout made of that and the mask; keys and values repeated
    // for each query head
    bytes += v.tokens * v.element * (n.q + n.out) - v.kv_tokens * v.element * n.kv;
    if (v.score_bytes > 0) return bytes + pairs * v.score_bytes;
    const double cast = v.softmax > v.element ? v.element : 0;
    return bytes + pairs * (v.softmax + (v.dropout ? v.element + 1 : cast));
  }
  if (v.score_bytes > 0) return bytes + pairs * v.score_bytes;
  return bytes + pairs * (v.dropout ? 2 * v.element + 1 : v.element);
}

double live_attention(const AttentionWidths& n, const MixerLoad& v) {
  double elements = v.tokens * (v.hidden + n.q + n.kv + n.out + n.extra);
  if (!v.flash) elements += 2 * v.tokens * n.heads * v.kv_len;  // scores and their softmax
  return elements;
}

Bytes split_partials(double sequences, double heads, std::int64_t width) {
  return storage(DType::fp32, sequences * heads * static_cast<double>(width + 1) * lowering::kDecodeSplits);
}

}  // namespace plumbline

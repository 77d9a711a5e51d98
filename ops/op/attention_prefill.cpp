#include "ops/shape/attention_prefill.hpp"

#include <algorithm>
#include <array>

#include "ops/facts/facts.hpp"
#include "ops/op/attention_math.hpp"
#include "ops/op/counting.hpp"
#include "ops/shape/attention_backward.hpp"

namespace plumbline {
namespace {

using namespace counting;

constexpr auto kAttentionPrefillNames = std::to_array<OperatorName>({{"attention_prefill", 0, false, Pattern::none}});
constexpr auto kAttentionPrefillKeys = std::to_array<Key>(
    {key<&AttentionPrefill::batch>("B"), key<&AttentionPrefill::q_heads>("Hq"), key<&AttentionPrefill::kv_heads>("Hkv"),
     key<&AttentionPrefill::qk_dim>("D"), key<&AttentionPrefill::q_len>("S"), key<&AttentionPrefill::causal>("causal"),
     optional_key<&AttentionPrefill::kv_len>("Skv", same_as<&AttentionPrefill::q_len>),
     optional_count<&AttentionPrefill::window>("window"), optional_key<&AttentionPrefill::append>("append"),
     optional_key<&AttentionPrefill::masked>("mask"),
     optional_key<&AttentionPrefill::v_dim>("Dv", same_as<&AttentionPrefill::qk_dim>),
     optional_key<&AttentionPrefill::kv_dtype>("kv", same_as<&AttentionPrefill::dtype>)});

constexpr auto kAttentionPrefillRelations = std::to_array<Relation<AttentionPrefill>>(
    {{"key 'Hq': expected a multiple of Hkv", [](const AttentionPrefill& s) { return s.q_heads % s.kv_heads == 0; },
      [](AttentionPrefill& s) { s.q_heads += s.kv_heads - s.q_heads % s.kv_heads; }},
     {"key 'Skv': expected at least S (it counts the new tokens too)",
      [](const AttentionPrefill& s) {  // cross attention reads a sequence of its own
        return s.kv_len >= s.q_len || (!s.causal && s.append == 0);
      },
      [](AttentionPrefill& s) { s.kv_len = s.q_len; }},
     {"key 'D': expected an even number (it is rotated)",
      [](const AttentionPrefill& s) { return s.append != 1 || s.qk_dim % 2 == 0; },
      [](AttentionPrefill& s) { ++s.qk_dim; }}});

/// append: Q and the new K, V come unrotated from the QKV projection in `dtype`; K (rotated) and V go to the cache in
/// `kv_dtype`; only the older keys are read from it. append = -1 counts as 0 here. Of keys that are wider than values by a
/// rotated part (latent attention) only that part is written: the rest lies where the projection left it, and the cache
/// keeps what it was made from.
Work work_of(const AttentionPrefill& s) {
  const double batch = d(s.batch), q_heads = d(s.q_heads), kv_heads = d(s.kv_heads), qk = d(s.qk_dim), v = d(s.v_dim);
  const double queries = batch * q_heads * d(s.q_len);
  Work w = attention_math(batch * q_heads * visible_pairs(s), queries, qk, v, s.dtype);
  w.read = storage(s.dtype, queries * qk);
  w.write = storage(attention_output(s.dtype), queries * v);
  double cached = visible_keys(s);
  if (s.append == 1) {
    const double tokens = batch * d(s.q_len), fresh = tokens * kv_heads * (qk + v);
    cached = std::max(0.0, cached - d(s.q_len));
    w.read += storage(s.dtype, fresh);
    const double kept = s.qk_dim > s.v_dim ? tokens * kv_heads * (qk - v) : fresh;
    w.write += storage(s.kv_dtype, kept);
    add_rotation(w, queries * qk + tokens * kv_heads * qk, tokens, qk);
  }
  w.read += storage(s.kv_dtype, batch * kv_heads * cached * (qk + v));
  return w;
}

Volume volume_of(const AttentionPrefill& s) {
  return {product_of({s.batch, s.q_heads, s.kv_len, s.qk_dim + s.v_dim}),
          product_of({s.batch, s.q_heads, s.q_len, s.kv_len, s.qk_dim + s.v_dim})};
}

void gradient_of(const AttentionPrefill& s, NodeRole, Gradient& out) { out.add(GradientPart::whole, backward_of(s)); }

}  // namespace

const Facts<AttentionPrefill>& AttentionPrefill::facts() {
  static constexpr Facts<AttentionPrefill> kFacts{
      .names = kAttentionPrefillNames,
      .keys = kAttentionPrefillKeys,
      .relations = kAttentionPrefillRelations,
      .work = work_of,
      .volume = volume_of,
      .gradient = gradient_of,
  };
  return kFacts;
}

double visible_pairs(const AttentionPrefill& shape) {
  const double queries = d(shape.q_len), keys = d(shape.kv_len);
  const double window = shape.window > 0 ? std::min(d(shape.window), keys) : keys;
  if (!shape.causal) return queries * window;
  // Query i sees min(first + i, window) keys, first = Skv - S + 1: `growing` queries see fewer than the window.
  const double first = keys - queries + 1;
  const double growing = std::clamp(window - first, 0.0, queries);
  return growing * first + growing * (growing - 1) / 2 + (queries - growing) * window;
}

double visible_keys(const AttentionPrefill& shape) {
  const double keys = d(shape.kv_len);
  if (shape.window == 0) return keys;
  return std::min(keys, shape.causal ? d(shape.q_len) - 1 + d(shape.window) : d(shape.window));
}

}  // namespace plumbline

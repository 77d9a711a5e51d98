#include "ops/shape/attention_backward.hpp"

#include <array>

#include "ops/facts/facts.hpp"
#include "ops/op/counting.hpp"

namespace plumbline {
namespace {

using namespace counting;

constexpr auto kAttentionBackwardNames = std::to_array<OperatorName>({{"attention_backward", 0, false, Pattern::none}});
constexpr auto kAttentionBackwardKeys = std::to_array<Key>(
    {key<&AttentionBackward::batch>("B"), key<&AttentionBackward::q_heads>("Hq"),
     key<&AttentionBackward::kv_heads>("Hkv"), key<&AttentionBackward::qk_dim>("D"),
     key<&AttentionBackward::q_len>("S"), key<&AttentionBackward::causal>("causal"),
     optional_key<&AttentionBackward::kv_len>("Skv", same_as<&AttentionBackward::q_len>),
     optional_count<&AttentionBackward::window>("window"), optional_key<&AttentionBackward::masked>("mask"),
     optional_key<&AttentionBackward::deterministic>("deterministic"),
     optional_key<&AttentionBackward::v_dim>("Dv", same_as<&AttentionBackward::qk_dim>)});

constexpr auto kAttentionBackwardRelations = std::to_array<Relation<AttentionBackward>>(
    {{"key 'Hq': expected a multiple of Hkv", [](const AttentionBackward& s) { return s.q_heads % s.kv_heads == 0; },
      [](AttentionBackward& s) { s.q_heads += s.kv_heads - s.q_heads % s.kv_heads; }},
     {"key 'Skv': expected at least S (it counts the new tokens too)",
      [](const AttentionBackward& s) { return s.kv_len >= s.q_len; },
      [](AttentionBackward& s) { s.kv_len = s.q_len; }}});

/// S, dQ and dK over the width of queries and keys, dP and dV over that of values. A pair: scale, minus log-sum-exp, exp;
/// dP minus the row's sum, times P, scale. A query: the sum of dO O.
Work work_of(const AttentionBackward& s) {
  const double batch = d(s.batch), qk = d(s.qk_dim), v = d(s.v_dim);
  const double queries = batch * d(s.q_heads) * d(s.q_len);
  const double pairs = batch * d(s.q_heads) * visible_pairs(forward_of(s));
  const double keys = batch * d(s.kv_heads) * visible_keys(forward_of(s)) * (qk + v);
  Work w;
  w.math = s.dtype;
  w.tensor = flop(2 * pairs * (3 * qk + 2 * v));
  w.fp32 = flop(5 * pairs + 2 * queries * v);
  w.sfu = pairs;
  w.read = storage(s.dtype, queries * (qk + 2 * v) + keys) + byte(kFloatBytes * queries);
  w.write = storage(s.dtype, queries * qk + keys);
  return w;
}

Volume volume_of(const AttentionBackward& s) {
  return {product_of({s.batch, s.q_heads, s.kv_len, s.qk_dim + s.v_dim}),
          product_of({s.batch, s.q_heads, s.q_len, s.kv_len, 3 * (s.qk_dim + s.v_dim)})};
}

}  // namespace

const Facts<AttentionBackward>& AttentionBackward::facts() {
  static constexpr Facts<AttentionBackward> kFacts{
      .names = kAttentionBackwardNames,
      .keys = kAttentionBackwardKeys,
      .relations = kAttentionBackwardRelations,
      .work = work_of,
      .volume = volume_of,
  };
  return kFacts;
}

}  // namespace plumbline

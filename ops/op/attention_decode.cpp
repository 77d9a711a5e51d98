#include "ops/shape/attention_decode.hpp"

#include <algorithm>
#include <array>

#include "ops/facts/facts.hpp"
#include "ops/op/attention_math.hpp"
#include "ops/op/counting.hpp"

namespace plumbline {
namespace {

using namespace counting;

constexpr auto kAttentionDecodeNames = std::to_array<OperatorName>({{"attention_decode", 0, false, Pattern::none}});
constexpr auto kAttentionDecodeKeys = std::to_array<Key>(
    {key<&AttentionDecode::batch>("B"), key<&AttentionDecode::q_heads>("Hq"), key<&AttentionDecode::kv_heads>("Hkv"),
     key<&AttentionDecode::qk_dim>("D"), key<&AttentionDecode::context>("S"),
     optional_count<&AttentionDecode::page>("page"), optional_count<&AttentionDecode::window>("window"),
     optional_key<&AttentionDecode::append>("append"),
     optional_key<&AttentionDecode::v_dim>("Dv", same_as<&AttentionDecode::qk_dim>),
     optional_key<&AttentionDecode::kv_dtype>("kv", same_as<&AttentionDecode::dtype>)});

constexpr auto kAttentionDecodeRelations = std::to_array<Relation<AttentionDecode>>(
    {{"key 'Hq': expected a multiple of Hkv", [](const AttentionDecode& s) { return s.q_heads % s.kv_heads == 0; },
      [](AttentionDecode& s) { s.q_heads += s.kv_heads - s.q_heads % s.kv_heads; }}});

/// One page-table entry for each page that holds a visible key. What `append` writes, one token's keys and values, is not
/// counted.
Work work_of(const AttentionDecode& s) {
  const double batch = d(s.batch), qk = d(s.qk_dim), v = d(s.v_dim), rows = batch * d(s.q_heads);
  const std::int64_t seen = s.window > 0 ? std::min(s.window, s.context) : s.context;
  Work w = attention_math(rows * d(seen), rows, qk, v, s.dtype);
  w.read = storage(s.dtype, rows * qk) + storage(s.kv_dtype, batch * d(s.kv_heads) * d(seen) * (qk + v));
  if (s.page > 0) {
    const std::int64_t pages = (s.context - 1) / s.page - (s.context - seen) / s.page + 1;
    w.read += byte(kIndexBytes * batch * d(pages));
  }
  w.write = storage(attention_output(s.dtype), rows * v);
  return w;
}

Volume volume_of(const AttentionDecode& s) {
  return {product_of({s.batch, s.q_heads, s.context, s.qk_dim + s.v_dim}), 0};
}

}  // namespace

const Facts<AttentionDecode>& AttentionDecode::facts() {
  static constexpr Facts<AttentionDecode> kFacts{
      .names = kAttentionDecodeNames,
      .keys = kAttentionDecodeKeys,
      .relations = kAttentionDecodeRelations,
      .work = work_of,
      .volume = volume_of,
  };
  return kFacts;
}

}  // namespace plumbline

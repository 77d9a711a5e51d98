#include "ops/shape/mla_decode.hpp"

#include <algorithm>
#include <array>

#include "ops/facts/facts.hpp"
#include "ops/op/attention_math.hpp"
#include "ops/op/counting.hpp"

namespace plumbline {
namespace {

using namespace counting;

constexpr auto kMlaDecodeNames = std::to_array<OperatorName>({{"mla_decode", 0, false, Pattern::none}});
constexpr auto kMlaDecodeKeys =
    std::to_array<Key>({key<&MlaDecode::batch>("B"), key<&MlaDecode::heads>("H"), key<&MlaDecode::context>("S"),
                        key<&MlaDecode::latent>("Dc"), key<&MlaDecode::rope>("Dr"),
                        optional_key<&MlaDecode::kv_dtype>("kv", same_as<&MlaDecode::dtype>)});

Work work_of(const MlaDecode& s) {
  const double batch = d(s.batch), rows = batch * d(s.heads), context = d(s.context), latent = d(s.latent);
  const double width = latent + d(s.rope);
  Work w = attention_math(rows * context, rows, width, latent, s.dtype);
  w.read = storage(s.dtype, rows * width) + storage(s.kv_dtype, batch * context * width);
  w.write = storage(attention_output(s.dtype), rows * latent);
  return w;
}

Volume volume_of(const MlaDecode& s) { return {product_of({s.batch, s.heads, s.context, 2 * s.latent + s.rope}), 0}; }

}  // namespace

const Facts<MlaDecode>& MlaDecode::facts() {
  static constexpr Facts<MlaDecode> kFacts{
      .names = kMlaDecodeNames,
      .keys = kMlaDecodeKeys,
      .work = work_of,
      .volume = volume_of,
  };
  return kFacts;
}

}  // namespace plumbline

// Random operators for property tests: every kind, small and large dims, all within what parse_op accepts.
#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ops/op/text.hpp"

namespace plumbline::testing_support {

/// 1 .. 2^most_bits, small numbers as likely as large ones.
inline std::int64_t random_dim(int most_bits) {
  const int width = *rc::gen::inRange(0, most_bits);
  return *rc::gen::inRange<std::int64_t>(std::int64_t{1} << width, (std::int64_t{2} << width) + 1);
}

inline DType random_dtype() { return static_cast<DType>(*rc::gen::inRange(0, static_cast<int>(kDTypeCount))); }

inline Precision random_precision() {
  if (*rc::gen::inRange(0, 3) == 0) return {random_dtype(), random_dtype(), random_dtype(), random_dtype()};
  const std::string name =
      *rc::gen::element<std::string>("bf16", "fp16", "fp32", "tf32", "fp64", "fp8", "int8", "w4a16", "mxfp4", "nvfp4");
  return *parse_precision(name);
}

inline bool coin() { return *rc::gen::inRange(0, 2) == 1; }

inline Op random_matrix_op(int which) {
  if (which == 0) {
    return Gemm{random_dim(13), random_dim(13), random_dim(13), coin() ? 1 : random_dim(5), random_precision(), coin()};
  }
  if (which == 1) {
    const std::int64_t experts = random_dim(8);
    const double skew = coin() ? 0 : *rc::gen::inRange(0, 1001) / 10.0;
    return GroupedGemm{
        experts,           std::min(experts, random_dim(3)), random_dim(10), random_dim(10), random_dim(10), skew,
        random_precision()};
  }
  return GemmSparse24{random_dim(13), random_dim(13), 4 * random_dim(10), random_precision()};
}

inline Op random_attention_op(int which) {
  const std::int64_t kv_heads = random_dim(4), q_heads = kv_heads * random_dim(3), dim = 2 * random_dim(7);
  const std::int64_t v_dim = coin() ? dim : random_dim(8), keys = random_dim(12);
  const std::int64_t window = coin() ? 0 : random_dim(12);
  const DType type = random_dtype(), kv = coin() ? type : random_dtype();
  if (which == 0) {
    const std::int64_t queries = coin() ? keys : *rc::gen::inRange<std::int64_t>(1, keys + 1);
    return AttentionPrefill{random_dim(5), q_heads, kv_heads, dim,    v_dim,
                            queries,       keys,    coin(),   window, *rc::gen::inRange(-1, 2),
                            type,          kv};
  }
  if (which == 1) {
    return AttentionDecode{random_dim(5), q_heads, kv_heads, dim, v_dim, keys, coin() ? 0 : random_dim(6),
                           window,        type,    kv};
  }
  return MlaDecode{random_dim(5), q_heads, keys, random_dim(9), random_dim(6), type, kv};
}

inline Op random_rowwise() {
  const auto kind = static_cast<RowwiseKind>(*rc::gen::inRange(0, static_cast<int>(RowwiseKind::count_)));
  const bool norm = kind == RowwiseKind::layernorm || kind == RowwiseKind::rmsnorm;
  const DType type = random_dtype();
  return Rowwise{kind, random_dim(14), random_dim(14), norm && coin(), type, coin() ? type : random_dtype()};
}

inline Op random_other_op(int which) {
  const DType type = random_dtype();
  const std::int64_t a = random_dim(12), b = random_dim(12);
  const int four = *rc::gen::inRange(0, 4);
  switch (which) {
    case 0: return Rope{a, random_dim(6), 2 * random_dim(7), type};
    case 1: return TopK{a, b, std::min(b, random_dim(6)), type};
    case 2: return Embedding{a, b, type};
    case 3: return Scan{coin() ? ScanKind::sum_all : ScanKind::cumsum, random_dim(30), type};
    case 4: return Spmv{a, b, std::min(a * b, random_dim(20)), type};
    case 5: {
      const std::int64_t groups = random_dim(3);
      return Recurrence{static_cast<RecurrentKind>(four % 3),
                        random_dim(4),
                        random_dim(9),
                        groups * random_dim(3),
                        random_dim(6),
                        random_dim(6),
                        groups,
                        type,
                        coin() ? DType::fp32 : random_dtype()};
    }
    case 6: return CausalConv{random_dim(4), a, b, random_dim(2), type};
    case 7: return MoePermute{a, random_dim(3), b, coin(), type};
    case 8: return SoftmaxTopK{a, b, std::min(b, random_dim(6)), type};
    case 9: return Collective{static_cast<CollectiveKind>(four), random_dim(34), random_dim(6), type};
    default: return Transfer{static_cast<TransferKind>(four), random_dim(34)};
  }
}

inline Op random_op() {
  const int which = *rc::gen::inRange(0, 23);
  if (which < 4) return random_matrix_op(which % 3);
  if (which < 8) return random_attention_op(which % 3);
  if (which < 12) return random_rowwise();
  return random_other_op(which - 12);
}

}  // namespace plumbline::testing_support

// What a whole step needs beside the operators' own kernels, in plain C++; the rules of launch.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/common/launch.hpp"
#include "ops/shape/shapes.hpp"

namespace plumbline {

/// Where rope_append finds and puts heads, all of one type, bf16 or fp16. A token of `qkv` has q_heads, then kv_heads of K, then kv_heads of
/// V, each head_dim wide; token t's K and V become row `rows[t]` of the cache.
struct RopeAppend {
  const void* qkv = nullptr;
  void* q = nullptr;  ///< [tokens, q_heads, D]
  void* k = nullptr;  ///< [rows, kv_heads, D]
  void* v = nullptr;
  const std::int32_t* rows = nullptr;
  const std::int32_t* positions = nullptr;
  const float* inverse_frequency = nullptr;
  std::int64_t q_heads = 0;
};

/// launch_rope's kernel on q_heads + 2 kv_heads heads, writing to their places instead of back: Q turned, K turned into
/// the cache, V copied into the cache.
void launch_rope_append(const Rope& shape, const RopeAppend& buffers, StreamHandle stream);

/// mean + sigma x standard normal, as bf16, fp16 or fp8 (e4m3); `bytes` a multiple of 4. Other values for other seeds.
void fill_normal(void* data, std::size_t bytes, DType type, float mean, float sigma, std::uint64_t seed,
                 StreamHandle stream);

}  // namespace plumbline

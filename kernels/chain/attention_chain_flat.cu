// scale, mask, dropout and dropout backward as kernels of their own: what eager code runs between attention's products.
// Each thread handles one group of eight elements. Variants and their figures: docs/lab/attention_chain.md.
#include "kernels/chain/attention_chain_flat.cuh"

#include <cstdint>

#include "kernels/common/cuda_check.hpp"

namespace plumbline {
namespace device {

constexpr int kChainFlatThreads = 256;

/// Eight bytes of the stored choice.
template <bool kWhole>
__device__ uint2 load_bytes(const unsigned char* row, int group, int cols) {
  if constexpr (kWhole) return reinterpret_cast<const uint2*>(row)[group];
  std::uint32_t words[2] = {0, 0};
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    if (group * kVector + i < cols) words[i / 4] |= std::uint32_t{row[group * kVector + i]} << (i % 4 * 8);
  }
  return make_uint2(words[0], words[1]);
}
template <bool kWhole>
__device__ void store_bytes(unsigned char* row, int group, int cols, uint2 bytes) {
  if constexpr (kWhole) {
    reinterpret_cast<uint2*>(row)[group] = bytes;
  } else {
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      const std::uint32_t word = i < 4 ? bytes.x : bytes.y;
      if (group * kVector + i < cols) row[group * kVector + i] = static_cast<unsigned char>(word >> (i % 4 * 8));
    }
  }
}

__device__ inline std::uint32_t byte_at(uint2 bytes, int i) {
  return (i < 4 ? bytes.x : bytes.y) >> (i % 4 * 8) & 0xffU;
}

/// A group: row, place in it, and number in the whole (which is also its random counter).
struct Place {
  std::int64_t row, number;
  int group;
};

template <RowwiseKind kKind, bool kWhole>
struct FlatGroup {
  uint4 x;
  uint2 keep_mask;

  __device__ void load(const ChainArgs& a, const Place& at) {
    const bf16* from = kKind == RowwiseKind::dropout_backward ? a.dy : a.x;
    x = load_group<kWhole>(from + at.row * a.cols, at.group, a.cols);
    if (kKind == RowwiseKind::dropout_backward) {
      keep_mask = load_bytes<kWhole>(a.keep_mask + at.row * a.cols, at.group, a.cols);
    }
  }

  __device__ void store(const ChainArgs& a, const Place& at) {
    float v[kVector];
    unpack(x, v);
    if constexpr (kKind == RowwiseKind::scale) {
#pragma unroll
      for (float& e : v) e *= a.scale;
    } else if constexpr (kKind == RowwiseKind::mask) {
      float m[kVector];
      unpack(load_mask<kWhole>(a.mask, at.group, a.cols), m);
#pragma unroll
      for (int i = 0; i < kVector; ++i) v[i] += m[i];
    } else if constexpr (kKind == RowwiseKind::dropout) {
      const Choice choice(a, at.number);
      keep_mask = make_uint2(0, 0);
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        const bool keep = choice.keeps(i);
        v[i] = keep ? v[i] * a.keep_scale : 0.0F;
        (i < 4 ? keep_mask.x : keep_mask.y) |= (keep ? 1U : 0U) << (i % 4 * 8);
      }
      store_bytes<kWhole>(a.keep_mask + at.row * a.cols, at.group, a.cols, keep_mask);
    } else {
#pragma unroll
      for (int i = 0; i < kVector; ++i) v[i] = byte_at(keep_mask, i) != 0 ? v[i] * a.keep_scale : 0.0F;
    }
    store_group<kWhole>(a.y + at.row * a.cols, at.group, a.cols, v);
  }
};

template <RowwiseKind kKind, bool kWhole>
__global__ void __launch_bounds__(kChainFlatThreads) chain_flat(const ChainArgs a, std::int64_t groups) {
  const auto a_row = static_cast<std::uint32_t>(groups_of(a.cols));
  Place at{};
  at.number = std::int64_t{blockIdx.x} * kChainFlatThreads + threadIdx.x;
  if (at.number >= groups) return;
  at.row = groups >> 32 == 0 ? static_cast<std::uint32_t>(at.number) / a_row : at.number / a_row;
  at.group = static_cast<int>(at.number - at.row * a_row);
  FlatGroup<kKind, kWhole> held;
  held.load(a, at);
  held.store(a, at);
}

}  // namespace device

namespace {

using device::ChainArgs;
using device::kChainFlatThreads;
using device::kVector;

std::int64_t groups_in(std::int64_t rows, std::int64_t cols) {
  return rows * device::groups_of(static_cast<int>(cols));
}
std::int64_t ctas_for(std::int64_t groups) { return (groups + kChainFlatThreads - 1) / kChainFlatThreads; }

template <RowwiseKind kKind, bool kWhole>
void launch(const ChainArgs& a, cudaStream_t stream) {
  const std::int64_t groups = groups_in(a.rows, a.cols);
  device::chain_flat<kKind, kWhole>
      <<<static_cast<unsigned>(ctas_for(groups)), kChainFlatThreads, 0, stream>>>(a, groups);
}

template <RowwiseKind kKind>
void launch(const ChainArgs& a, cudaStream_t stream) {
  if (a.cols % kVector == 0) launch<kKind, true>(a, stream);
  else launch<kKind, false>(a, stream);
}

}  // namespace

KernelPlan chain_flat_plan(const Rowwise& s) {
  KernelPlan p;
  p.ctas = ctas_for(groups_in(s.rows, s.cols));
  p.threads = kChainFlatThreads;
  return p;
}

void launch_chain_flat(const Rowwise& s, const ChainArgs& a, cudaStream_t stream) {
  switch (s.kind) {
    case RowwiseKind::scale: return launch<RowwiseKind::scale>(a, stream);
    case RowwiseKind::mask: return launch<RowwiseKind::mask>(a, stream);
    case RowwiseKind::dropout: return launch<RowwiseKind::dropout>(a, stream);
    default: return launch<RowwiseKind::dropout_backward>(a, stream);
  }
}

}  // namespace plumbline

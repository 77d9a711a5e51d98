// Backward pass of rmsnorm and layernorm: dx by rows, and the gradients of gamma and beta, which are sums by columns.
//
// Persistent CTAs, in groups of threads that take rows in turn, a thread always the same columns: so a thread
// keeps its columns' sums in registers; at the end the groups' are added up and go to memory once. The next row is on its
// way while this one is worked on.
#include <algorithm>
#include <string>

#include "kernels/common/cuda_check.hpp"
#include "kernels/common/measure.cuh"
#include "kernels/common/vector.cuh"
#include "kernels/training/training.hpp"

namespace plumbline {
namespace device {

struct NormBackward {
  const bf16 *dy, *x, *gamma, *residual;
  bf16* dx;
  float *dgamma, *dbeta;
  std::int64_t rows;
  int cols;
};

/// kWhole: rows are whole vectors. Else elements are read one by one, zeros beyond the row.
template <bool kWhole>
__device__ inline uint4 load_piece(const bf16* row, int at, int cols) {
  if (at >= cols) return make_uint4(0, 0, 0, 0);
  if constexpr (kWhole) return load_vector(row + at);
  std::uint32_t words[4] = {};
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    if (at + i < cols) words[i / 2] |= std::uint32_t{__bfloat16_as_ushort(row[at + i])} << (i % 2 * 16);
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

template <bool kWhole>
__device__ inline void store_piece(bf16* row, int at, int cols, const float (&v)[kVector]) {
  if (at >= cols) return;
  if constexpr (kWhole) {
    store_vector(row + at, pack(v));
  } else {
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      if (at + i < cols) row[at + i] = __float2bfloat16_rn(v[i]);
    }
  }
}

template <bool kWhole>
__device__ inline void add_piece(float* sums, int at, int cols, const float (&v)[kVector]) {
  if (at >= cols) return;
  if constexpr (kWhole) {
#pragma unroll
    for (int i = 0; i < kVector; i += 4) {
      asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(sums + at + i), "f"(v[i]), "f"(v[i + 1]),
                   "f"(v[i + 2]), "f"(v[i + 3])
                   : "memory");
    }
  } else {
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      if (at + i < cols) atomicAdd(sums + at + i, v[i]);
    }
  }
}

/// The threads that share a row, and as many such groups in a CTA as make 512 threads: so few CTAs have columns' sums to
/// add to memory, where additions to the same place wait for each other (2112 CTAs of 128 threads took 20 us for it).
constexpr int kNormThreads = 512;

template <int kThreads>
__device__ inline void group_barrier(int group) {
  if constexpr (kThreads == kNormThreads) __syncthreads();
  else asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(kThreads) : "memory");
}

/// Sums of kCount values over a group, for all of its threads; one barrier: the halves of `slots` take turns.
template <int kThreads, int kCount>
__device__ inline void sum_over(float (&v)[kCount], float (&slots)[kCount][kNormThreads / kWarp], int group) {
  constexpr int kWarps = kThreads / kWarp;
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
#pragma unroll
    for (float& each : v) each += __shfl_xor_sync(~0U, each, step);
  }
  if (threadIdx.x % kWarp == 0) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) slots[i][threadIdx.x / kWarp] = v[i];
  }
  group_barrier<kThreads>(group);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    v[i] = slots[i][group * kWarps + static_cast<int>(threadIdx.x) % kWarps];
#pragma unroll
    for (int step = kWarps / 2; step > 0; step /= 2) v[i] += __shfl_xor_sync(~0U, v[i], step);
  }
}

/// Adds up the groups' sums of the same columns in `held`, which is zeros, and then to memory.
template <int kThreads, int kVecs, bool kWhole>
__device__ inline void add_columns(float (&sums)[kVecs][kVector], float* to, int cols, float* held) {
  constexpr int kGroups = kNormThreads / kThreads;
  const int me = static_cast<int>(threadIdx.x) % kThreads;
  if constexpr (kGroups > 1) {
#pragma unroll
    for (int v = 0; v < kVecs; ++v) {
#pragma unroll
      for (int i = 0; i < kVector; ++i) atomicAdd(held + (v * kVector + i) * kThreads + me, sums[v][i]);
    }
    __syncthreads();
    if (static_cast<int>(threadIdx.x) >= kThreads) return;
  }
#pragma unroll
  for (int v = 0; v < kVecs; ++v) {
    if constexpr (kGroups > 1) {
#pragma unroll
      for (int i = 0; i < kVector; ++i) sums[v][i] = held[(v * kVector + i) * kThreads + me];
    }
    add_piece<kWhole>(to, (v * kThreads + me) * kVector, cols, sums[v]);
  }
}

/// CTAs that share an SM.
constexpr int norm_ctas(int vecs, bool layer) { return vecs == 1 && !layer ? 2 : 1; }

/// A row's operands, as they lie.
template <int kVecs, bool kResidual>
struct NormRow {
  uint4 dy[kVecs], x[kVecs], residual[kResidual ? kVecs : 1];
};

template <int kThreads, int kVecs, bool kLayer, bool kResidual, bool kWhole>
__global__ void __launch_bounds__(kNormThreads, norm_ctas(kVecs, kLayer)) norm_backward(const NormBackward a) {
  constexpr int kGroups = kNormThreads / kThreads, kSums = kLayer ? 3 : 2;
  constexpr bool kAhead = kVecs <= 2;  // the next row is fetched while this one is worked on
  __shared__ float mean_slots[2][1][kNormThreads / kWarp];
  __shared__ float slots[2][kSums][kNormThreads / kWarp];
  constexpr int kHeld = kGroups > 1 ? kThreads * kVecs * kVector : 1;
  __shared__ float held[kLayer ? 2 : 1][kHeld];
  if constexpr (kGroups > 1) {
    for (int i = static_cast<int>(threadIdx.x); i < (kLayer ? 2 : 1) * kHeld; i += kNormThreads) held[0][i] = 0;
    __syncthreads();
  }
  const int me = static_cast<int>(threadIdx.x) % kThreads, group = static_cast<int>(threadIdx.x) / kThreads;
  const auto column = [me](int v) { return (v * kThreads + me) * kVector; };
  float dgamma[kVecs][kVector] = {}, dbeta[kVecs][kVector] = {};
  const float each = 1.0F / static_cast<float>(a.cols);
  using Row = NormRow<kVecs, kResidual>;
  const auto fetch = [&](std::int64_t row) {
    Row out;
#pragma unroll
    for (int v = 0; v < kVecs; ++v) {
      out.dy[v] = load_piece<kWhole>(a.dy + row * a.cols, column(v), a.cols);
      out.x[v] = load_piece<kWhole>(a.x + row * a.cols, column(v), a.cols);
      if constexpr (kResidual) out.residual[v] = load_piece<kWhole>(a.residual + row * a.cols, column(v), a.cols);
    }
    return out;
  };
  const std::int64_t stride = std::int64_t{gridDim.x} * kGroups;
  std::int64_t row = std::int64_t{blockIdx.x} * kGroups + group;
  Row next{};
  if (kAhead && row < a.rows) next = fetch(row);
  for (int turn = 0; row < a.rows; row += stride, turn ^= 1) {
    Row now;
    if constexpr (kAhead) {
      now = next;
      if (row + stride < a.rows) next = fetch(row + stride);
    } else {
      now = fetch(row);
    }
    float mean = 0;
    if constexpr (kLayer) {
      float sum[1] = {0};
#pragma unroll
      for (int v = 0; v < kVecs; ++v) {
        float f[kVector];
        unpack(now.x[v], f);
#pragma unroll
        for (float e : f) sum[0] += e;
      }
      sum_over<kThreads>(sum, mean_slots[turn], group);
      mean = sum[0] * each;
    }
    float sums[kSums] = {};
#pragma unroll
    for (int v = 0; v < kVecs; ++v) {
      float f[kVector], d[kVector], g[kVector];
      unpack(now.x[v], f);
      unpack(now.dy[v], d);
      unpack(load_piece<kWhole>(a.gamma, column(v), a.cols), g);
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        const float c = kLayer && column(v) + i < a.cols ? f[i] - mean : f[i];
        sums[0] = fmaf(c, c, sums[0]);
        sums[1] = fmaf(d[i] * g[i], c, sums[1]);
        if constexpr (kLayer) sums[2] = fmaf(d[i], g[i], sums[2]);
      }
    }
    sum_over<kThreads>(sums, slots[turn], group);
    const float r = rsqrtf(fmaf(sums[0], each, kNormEpsilon));
    const float back = r * r * r * sums[1] * each;
    float shift = 0;
    if constexpr (kLayer) shift = r * sums[2] * each;
#pragma unroll
    for (int v = 0; v < kVecs; ++v) {
      float f[kVector], d[kVector], g[kVector], out[kVector];
      unpack(now.x[v], f);
      unpack(now.dy[v], d);
      unpack(load_piece<kWhole>(a.gamma, column(v), a.cols), g);
      if constexpr (kResidual) unpack(now.residual[v], out);
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        const float c = f[i] - mean;
        const float dx = fmaf(r * d[i], g[i], -fmaf(back, c, shift));
        out[i] = kResidual ? out[i] + dx : dx;
        dgamma[v][i] = fmaf(d[i] * r, c, dgamma[v][i]);
        if constexpr (kLayer) dbeta[v][i] += d[i];
      }
      store_piece<kWhole>(a.dx + row * a.cols, column(v), a.cols, out);
    }
  }
  add_columns<kThreads, kVecs, kWhole>(dgamma, a.dgamma, a.cols, held[0]);
  if constexpr (kLayer) add_columns<kThreads, kVecs, kWhole>(dbeta, a.dbeta, a.cols, held[1]);
}

}  // namespace device

namespace {

using device::NormBackward;
using NormKernel = void (*)(NormBackward);

struct NormChoice {
  NormKernel kernel = nullptr;
  int groups = 1, ctas_per_sm = 1;
};

template <int kThreads, int kVecs>
NormChoice norm_kernel(NormKind kind, bool residual, bool whole) {
  using namespace device;
  constexpr NormKernel kKernels[2][2][2] = {
      {{norm_backward<kThreads, kVecs, false, false, false>, norm_backward<kThreads, kVecs, false, false, true>},
       {norm_backward<kThreads, kVecs, false, true, false>, norm_backward<kThreads, kVecs, false, true, true>}},
      {{norm_backward<kThreads, kVecs, true, false, false>, norm_backward<kThreads, kVecs, true, false, true>},
       {norm_backward<kThreads, kVecs, true, true, false>, norm_backward<kThreads, kVecs, true, true, true>}}};
  return {kKernels[kind == NormKind::layer][residual][whole], kNormThreads / kThreads,
          norm_ctas(kVecs, kind == NormKind::layer)};
}

NormChoice choose_norm(NormKind kind, const Rows& s, bool residual) {
  const std::int64_t vectors = (s.cols + device::kVector - 1) / device::kVector;
  const bool whole = s.cols % device::kVector == 0;
  if (vectors <= 128) return norm_kernel<128, 1>(kind, residual, whole);
  if (vectors <= 256) return norm_kernel<128, 2>(kind, residual, whole);
  if (vectors <= 512) return norm_kernel<256, 2>(kind, residual, whole);
  if (vectors <= 1024) return norm_kernel<512, 2>(kind, residual, whole);
  if (vectors <= 2048) return norm_kernel<512, 4>(kind, residual, whole);
  throw NotModelled("norm backward: our kernel takes rows of up to 16 Ki columns");
}

KernelPlan plan_of(const NormChoice& choice, std::int64_t rows) {
  KernelPlan plan;
  plan.threads = device::kNormThreads;
  plan.ctas_per_sm = choice.ctas_per_sm;
  plan.ctas = std::min<std::int64_t>((rows + choice.groups - 1) / choice.groups, plan.ctas_per_sm * sm_count());
  return plan;
}

}  // namespace

KernelPlan norm_backward_plan(NormKind kind, const Rows& shape) {
  return plan_of(choose_norm(kind, shape, true), shape.rows);
}

void launch_norm_backward(NormKind kind, const Rows& s, const NormBackwardBuffers& b, StreamHandle stream) {
  using device::bf16;
  if (s.rows < 1 || s.cols < 1) throw BadInput("norm backward: expected rows and cols of 1 and more");
  const NormChoice choice = choose_norm(kind, s, b.residual != nullptr);
  const NormBackward a{static_cast<const bf16*>(b.dy),
                       static_cast<const bf16*>(b.x),
                       static_cast<const bf16*>(b.gamma),
                       static_cast<const bf16*>(b.residual),
                       static_cast<bf16*>(b.dx),
                       b.dgamma,
                       b.dbeta,
                       s.rows,
                       static_cast<int>(s.cols)};
  const auto ctas = static_cast<unsigned>(plan_of(choice, s.rows).ctas);
  choice.kernel<<<ctas, device::kNormThreads, 0, static_cast<cudaStream_t>(stream)>>>(a);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace plumbline

// Scans and sums of a whole array: cumsum, sum_all.
//
// cumsum makes one pass of 2 n elements of traffic. A CTA scans a tile in registers, publishes its sum, looks back over
// the tiles before it until it meets one whose whole prefix is known ("Single-pass parallel prefix scan with decoupled
// look-back", Merrill and Garland 2016), and writes. Tiles go to CTAs in launch order, which the hardware preserves.
// States carry the number of the launch, so that nothing needs to be cleared between launches. The order of additions
// depends on timing.
// Variants and their figures: docs/lab/scan.md.
#include <algorithm>
#include <string>

#include "kernels/common/cuda_check.hpp"
#include "kernels/common/launch.hpp"
#include "kernels/common/measure.cuh"
#include "kernels/rows/row.cuh"

namespace plumbline {
namespace device {

// --- elements in 16-byte vectors, as fp32 ----------------------------------------------------------------------------

template <class T>
constexpr int kPerVector = 16 / static_cast<int>(sizeof(T));

__device__ inline void widen(const uint4& v, float (&x)[8]) { unpack(v, x); }
__device__ inline void widen(const uint4& v, float (&x)[4]) {
  x[0] = __uint_as_float(v.x);
  x[1] = __uint_as_float(v.y);
  x[2] = __uint_as_float(v.z);
  x[3] = __uint_as_float(v.w);
}
__device__ inline uint4 narrow(const float (&x)[8]) { return pack(x); }
__device__ inline uint4 narrow(const float (&x)[4]) {
  return make_uint4(__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]), __float_as_uint(x[3]));
}
__device__ inline float to_float(float x) { return x; }
__device__ inline void put(float* y, float x) { *y = x; }
__device__ inline void put(bf16* y, float x) { *y = __float2bfloat16_rn(x); }

/// The vector at `at` of n elements, zeros behind the end.
template <class T>
__device__ uint4 load_padded(const T* x, std::int64_t at, std::int64_t n) {
  if (at + kPerVector<T> <= n) return __ldcs(reinterpret_cast<const uint4*>(x + at));
  float e[kPerVector<T>];
#pragma unroll
  for (int j = 0; j < kPerVector<T>; ++j) e[j] = at + j < n ? to_float(x[at + j]) : 0.0F;
  return narrow(e);
}

// --- cumsum ----------------------------------------------------------------------------------------------------------

/// What is known of a tile, in one word, so that it is read and written whole. `state`: launch * 4 + kSum or kPrefix.
struct TileState {
  std::uint32_t state;
  float value;
};
constexpr std::uint32_t kSum = 1, kPrefix = 2;

struct ScanWorkspace {
  std::uint32_t launches;  ///< finished so far
  std::uint32_t unused[3];
  TileState tiles[1];
};

__device__ inline void publish(TileState* at, TileState s) {
  const std::uint64_t word = std::uint64_t{__float_as_uint(s.value)} << 32 | s.state;
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(at), "l"(word) : "memory");
}
__device__ inline TileState look(const TileState* at) {
  std::uint64_t word;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(at) : "memory");
  return {static_cast<std::uint32_t>(word), __uint_as_float(static_cast<std::uint32_t>(word >> 32))};
}

/// The sum of all tiles before `tile`, computed by a whole warp. Each lane looks at one tile at a time, and looks again
/// until every tile behind the nearest known prefix has published. `kPause`: ns between looks.
template <int kPause>
__device__ float look_back(const TileState* tiles, std::int64_t tile, std::uint32_t launch) {
  const unsigned lane = threadIdx.x % kWarp;
  float sum = 0;
  for (std::int64_t end = tile;; end -= kWarp) {
    const std::int64_t at = end - 1 - lane;
    TileState seen{launch * 4 + kPrefix, 0.0F};  // before the first tile: nothing
    unsigned prefix, missing;
    while (true) {
      if (at >= 0) seen = look(tiles + at);
      const bool there = seen.state >> 2 == launch;
      prefix = __reduce_min_sync(~0U, there && (seen.state & 3) == kPrefix ? lane : kWarp);
      missing = __reduce_min_sync(~0U, there ? kWarp : lane);
      if (missing >= prefix) break;
      if constexpr (kPause > 0) __nanosleep(kPause);
    }
    float part = lane <= prefix ? seen.value : 0.0F;
#pragma unroll
    for (int step = kWarp / 2; step > 0; step /= 2) part += __shfl_xor_sync(~0U, part, step);
    sum += part;
    if (prefix < kWarp) return sum;
  }
}

template <class T, int kThreads, int kVecs, int kMinCtas, int kPause>
__global__ void __launch_bounds__(kThreads, kMinCtas)
    cumsum(const T* x, T* y, std::int64_t n, std::int64_t tiles, ScanWorkspace* workspace) {
  constexpr int kWarps = kThreads / kWarp, kEach = kPerVector<T>, kWarpItems = kWarp * kEach * kVecs,
                kItems = kWarpItems * kWarps;
  __shared__ float sums[kWarps], before_tile;
  const auto t = static_cast<int>(threadIdx.x), lane = t % kWarp, warp = t / kWarp;
  const std::int64_t tile = blockIdx.x, first = tile * kItems + warp * kWarpItems + lane * kEach;
  const std::uint32_t launch = (__ldcg(&workspace->launches) + 1) & 0x3fffffffU;
  uint4 held[kVecs];
#pragma unroll
  for (int i = 0; i < kVecs; ++i) held[i] = load_padded(x, first + i * kWarp * kEach, n);
  // each vector's sum, then the sums before it in the warp
  float before[kVecs], total = 0;
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    float e[kEach], sum = 0;
    widen(held[i], e);
#pragma unroll
    for (int j = 0; j < kEach; ++j) sum += e[j];
    float scanned = sum;
#pragma unroll
    for (int step = 1; step < kWarp; step *= 2) {
      const float other = __shfl_up_sync(~0U, scanned, step);
      if (lane >= step) scanned += other;
    }
    before[i] = total + scanned - sum;
    total += __shfl_sync(~0U, scanned, kWarp - 1);
  }
  if (lane == 0) sums[warp] = total;
  __syncthreads();
  float warps_before = 0, sum = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    warps_before += w < warp ? sums[w] : 0.0F;
    sum += sums[w];
  }
  if (warp == 0) {
    TileState* own = workspace->tiles + tile;
    if (lane == 0 && tile > 0) publish(own, {launch * 4 + kSum, sum});
    const float found = look_back<kPause>(workspace->tiles, tile, launch);
    if (lane == 0) {
      publish(own, {launch * 4 + kPrefix, found + sum});
      before_tile = found;
      if (tile == tiles - 1) workspace->launches = launch;  // every tile has published, so all have read the number
    }
  }
  __syncthreads();
  const float prefix = before_tile;
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    float e[kEach], running = prefix + warps_before + before[i];
    widen(held[i], e);
#pragma unroll
    for (int j = 0; j < kEach; ++j) e[j] = running += e[j];
    const std::int64_t at = first + i * kWarp * kEach;
    if (at + kEach <= n) {
      __stcs(reinterpret_cast<uint4*>(y + at), narrow(e));
    } else {
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        if (at + j < n) put(y + at + j, e[j]);
      }
    }
  }
}

constexpr int kScanThreads = 256, kScanVecs = 12, kScanMinCtas = 3, kScanPause = 100;  // ns

// --- sum_all ---------------------------------------------------------------------------------------------------------

// All CTAs queue at one counter at the end, so that there are no more than keep memory busy: this many have 17 MB of loads
// in flight, what 20 TB/s deliver in 0.9 us. No fewer on a GPU of fewer SMs, which runs them in turns: with a grid that
// grows with the SMs so does the queue. (`most_ctas` of data/kernels/own_sm90.json is the planner's.)
constexpr int kSumThreads = 512, kSumVecs = 4, kMostSumCtas = 528;

struct SumScratch {
  float partial[kMostSumCtas];
  unsigned arrived;
};

/// Each CTA leaves one partial sum; the last to arrive adds them in order and clears the counter for the next launch.
template <class T>
__global__ void __launch_bounds__(kSumThreads) sum_all(const T* x, std::int64_t n, float* y, SumScratch* scratch) {
  constexpr int kEach = kPerVector<T>;
  const std::int64_t vectors = n / kEach, stride = std::int64_t{gridDim.x} * kSumThreads;
  const std::int64_t first = std::int64_t{blockIdx.x} * kSumThreads + threadIdx.x;
  float sum = 0;
  for (std::int64_t v = first; v < vectors; v += stride * kSumVecs) {
    uint4 a[kSumVecs];
#pragma unroll
    for (int i = 0; i < kSumVecs; ++i) {
      const std::int64_t at = v + i * stride;
      a[i] = at < vectors ? __ldcs(reinterpret_cast<const uint4*>(x) + at) : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int i = 0; i < kSumVecs; ++i) {
      float e[kEach], part = 0;
      widen(a[i], e);
#pragma unroll
      for (int j = 0; j < kEach; j += 2) part += e[j] + e[j + 1];
      sum += part;
    }
  }
  const std::int64_t tail = vectors * kEach + first;
  if (tail < n) sum += to_float(x[tail]);
  sum = reduce<kSumThreads>(sum, Add{});
  __shared__ bool last;
  if (threadIdx.x == 0) {
    scratch->partial[blockIdx.x] = sum;
    __threadfence();
    last = atomicAdd(&scratch->arrived, 1U) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  float total = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += kSumThreads) total += __ldcg(&scratch->partial[i]);
  total = reduce<kSumThreads>(total, Add{});
  if (threadIdx.x == 0) {
    *y = total;
    scratch->arrived = 0;
  }
}

}  // namespace device

namespace {

using device::bf16;

std::int64_t tiles_of(const Scan& s) {
  const std::int64_t items =
      std::int64_t{16 * device::kScanThreads * device::kScanVecs} / (s.dtype == DType::fp32 ? 4 : 2);
  return (s.n + items - 1) / items;
}

void check(const Scan& s, ScanKind kind) {
  if (s.kind != kind || (s.dtype != DType::bf16 && s.dtype != DType::fp32)) {
    throw NotModelled(std::string(name(kind)) + ": our kernel is for bf16 and fp32");
  }
  if (s.n < 1 || s.n > (std::int64_t{1} << 42)) throw BadInput(std::string(name(kind)) + ": expected n from 1 to 2^42");
}

}  // namespace

KernelPlan scan_plan(const Scan& s) {
  KernelPlan p;
  if (s.kind == ScanKind::cumsum) {
    p.ctas = tiles_of(s);
    p.threads = device::kScanThreads;
    return p;
  }
  const std::int64_t per_cta = std::int64_t{device::kSumThreads} * (s.dtype == DType::fp32 ? 4 : 8);
  p.ctas = std::min<std::int64_t>((s.n + per_cta - 1) / per_cta, device::kMostSumCtas);
  p.threads = device::kSumThreads;
  return p;
}

std::size_t cumsum_workspace_bytes(const Scan& s) {
  return sizeof(device::ScanWorkspace) + static_cast<std::size_t>(tiles_of(s)) * sizeof(device::TileState);
}

void launch_cumsum(const Scan& s, const void* x, void* y, void* workspace, StreamHandle handle) {
  check(s, ScanKind::cumsum);
  auto* stream = static_cast<cudaStream_t>(handle);
  auto* states = static_cast<device::ScanWorkspace*>(workspace);
  const std::int64_t tiles = tiles_of(s);
  if (tiles > 0x7fffffff) throw NotModelled("cumsum: too many tiles for one launch");
  const auto ctas = static_cast<unsigned>(tiles);
  if (s.dtype == DType::fp32) {
    device::cumsum<float, device::kScanThreads, device::kScanVecs, device::kScanMinCtas, device::kScanPause>
        <<<ctas, device::kScanThreads, 0, stream>>>(static_cast<const float*>(x), static_cast<float*>(y), s.n, tiles,
                                                    states);
  } else {
    device::cumsum<bf16, device::kScanThreads, device::kScanVecs, device::kScanMinCtas, device::kScanPause>
        <<<ctas, device::kScanThreads, 0, stream>>>(static_cast<const bf16*>(x), static_cast<bf16*>(y), s.n, tiles,
                                                    states);
  }
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

std::size_t sum_all_scratch_bytes() { return sizeof(device::SumScratch); }

void launch_sum_all(const Scan& s, const void* x, float* y, void* scratch, StreamHandle handle) {
  check(s, ScanKind::sum_all);
  auto* stream = static_cast<cudaStream_t>(handle);
  auto* partial = static_cast<device::SumScratch*>(scratch);
  const auto ctas = static_cast<unsigned>(scan_plan(s).ctas);
  if (s.dtype == DType::fp32) {
    device::sum_all<float><<<ctas, device::kSumThreads, 0, stream>>>(static_cast<const float*>(x), s.n, y, partial);
  } else {
    device::sum_all<bf16><<<ctas, device::kSumThreads, 0, stream>>>(static_cast<const bf16*>(x), s.n, y, partial);
  }
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace plumbline

#include "kernels/collective/fabric.hpp"

#include <algorithm>

#include "kernels/collective/peer_sync.cuh"
#include "kernels/common/cuda_check.hpp"

namespace plumbline {
namespace device {
namespace {

constexpr int kThreads = 512, kDeep = 8;

struct Span {
  std::int64_t first, stride, count;  // packs
  __device__ explicit Span(std::int64_t packs)
      : first(static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x),
        stride(static_cast<std::int64_t>(gridDim.x) * kThreads),
        count(packs) {}
};

__global__ void __launch_bounds__(kThreads, 1) stream_read(const uint4* there, std::int64_t packs, uint4* sink) {
  const Span span(packs);
  uint4 mixed = make_uint4(0, 0, 0, 0);
  for (std::int64_t v = span.first; v < packs; v += kDeep * span.stride) {
    uint4 x[kDeep] = {};
#pragma unroll
    for (int d = 0; d < kDeep; ++d) {
      if (v + d * span.stride < packs) x[d] = load_peer(there + v + d * span.stride);
    }
#pragma unroll
    for (int d = 0; d < kDeep; ++d) {
      mixed.x ^= x[d].x;
      mixed.y ^= x[d].y;
      mixed.z ^= x[d].z;
      mixed.w ^= x[d].w;
    }
  }
  if (mixed.x == 0x13579bdfU && mixed.y == 0x2468ace0U && mixed.z == 0xfdb97531U && mixed.w == 0x0eca8642U)
    *sink = mixed;
}

__global__ void __launch_bounds__(kThreads, 1) stream_write(uint4* there, std::int64_t packs) {
  const Span span(packs);
  const auto seed = static_cast<std::uint32_t>(span.first) * 2654435761U;
  for (std::int64_t v = span.first; v < packs; v += span.stride) {
    const std::uint32_t x = seed ^ static_cast<std::uint32_t>(v) * 2246822519U;
    there[v] = make_uint4(x, x * 3266489917U, x ^ 0x9e3779b9U, ~x);
  }
}

__global__ void __launch_bounds__(kThreads, 1) stream_copy(const uint4* x, uint4* y, std::int64_t packs) {
  const Span span(packs);
  for (std::int64_t v = span.first; v < packs; v += kDeep * span.stride) {
    uint4 held[kDeep] = {};
#pragma unroll
    for (int d = 0; d < kDeep; ++d) {
      if (v + d * span.stride < packs) held[d] = load_vector(x + v + d * span.stride);
    }
#pragma unroll
    for (int d = 0; d < kDeep; ++d) {
      if (v + d * span.stride < packs) y[v + d * span.stride] = held[d];
    }
  }
}

__global__ void nothing() {}

__global__ void flag_game(FlagGame game) {
  const auto wait_for = [&](std::uint32_t number) {
    const unsigned long long began = global_nanoseconds();
    for (unsigned polls = 1; *static_cast<volatile std::uint32_t*>(game.mine) != number; ++polls) {
      if (polls % 4096 == 0 && global_nanoseconds() - began > 2000ULL * 1000 * 1000) return false;
    }
    return true;
  };
  unsigned long long began = 0;
  bool here = true;
  for (int round = 0; here && round <= game.rounds; ++round) {
    if (round == 1) began = global_nanoseconds();  // the first round waits for the peer's start
    const std::uint32_t number = game.base + static_cast<std::uint32_t>(round);
    if (!game.serves) here = wait_for(number);
    if (here) store_relaxed(game.theirs, number);
    if (game.serves) here = wait_for(number);
  }
  *game.elapsed_ns = here ? global_nanoseconds() - began : 0;
}

constexpr std::uint32_t kLineBytes = 128,
                        kRingStep = 7919;  // a prime: neighbours in the ring are no neighbours in memory

__global__ void link_ring(char* there, std::uint32_t lines) {
  for (std::uint32_t i = threadIdx.x; i < lines; i += blockDim.x) {
    const std::uint32_t next = (i + kRingStep) % lines;
    *reinterpret_cast<unsigned long long*>(there + std::size_t{i} * kLineBytes) =
        reinterpret_cast<unsigned long long>(there + std::size_t{next} * kLineBytes);
  }
}

__global__ void chase(const char* there, int hops, unsigned long long* elapsed_ns) {
  auto at = reinterpret_cast<unsigned long long>(there);
  const auto hop = [&] { at = *reinterpret_cast<const volatile unsigned long long*>(at); };
  for (int i = 0; i < 32; ++i) hop();  // pages get known
  const unsigned long long began = global_nanoseconds();
  for (int i = 0; i < hops; ++i) hop();
  const unsigned long long ended = global_nanoseconds();
  *elapsed_ns = at == 0 ? 0 : ended - began;
}

__device__ inline std::uint32_t mixed_bits(std::uint64_t seed, std::uint64_t i) {
  std::uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15ULL;  // splitmix64
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return static_cast<std::uint32_t>((z ^ (z >> 31)) >> 16);
}
__device__ inline float uniform(std::uint32_t bits) { return static_cast<float>(static_cast<int>(bits)) * 0x1p-31F; }

template <bool kHalf>
__global__ void fill_uniform(std::uint32_t* words, std::size_t count, std::uint64_t seed) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    const std::uint32_t bits = mixed_bits(seed, i);
    words[i] = kHalf ? pack_pair(uniform(bits), uniform(bits * 2654435761U)) : __float_as_uint(uniform(bits));
  }
}

}  // namespace
}  // namespace device

namespace {

constexpr int kFillCtas = 1024;

cudaStream_t as_stream(StreamHandle stream) { return static_cast<cudaStream_t>(stream); }
std::int64_t packs_of(std::size_t bytes) { return static_cast<std::int64_t>(bytes / sizeof(uint4)); }

}  // namespace

void launch_stream_read(const void* there, std::size_t bytes, int ctas, void* sink, StreamHandle stream) {
  device::stream_read<<<static_cast<unsigned>(ctas), device::kThreads, 0, as_stream(stream)>>>(
      static_cast<const uint4*>(there), packs_of(bytes), static_cast<uint4*>(sink));
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

void launch_stream_write(void* there, std::size_t bytes, int ctas, StreamHandle stream) {
  device::stream_write<<<static_cast<unsigned>(ctas), device::kThreads, 0, as_stream(stream)>>>(
      static_cast<uint4*>(there), packs_of(bytes));
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

void launch_stream_copy(const void* x, void* y, std::size_t bytes, int ctas, StreamHandle stream) {
  device::stream_copy<<<static_cast<unsigned>(ctas), device::kThreads, 0, as_stream(stream)>>>(
      static_cast<const uint4*>(x), static_cast<uint4*>(y), packs_of(bytes));
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

void launch_nothing(StreamHandle stream) {
  device::nothing<<<1, 32, 0, as_stream(stream)>>>();
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

void launch_flag_game(const FlagGame& game, StreamHandle stream) {
  device::flag_game<<<1, 1, 0, as_stream(stream)>>>(game);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

void launch_link_ring(void* there, std::uint32_t lines, StreamHandle stream) {
  device::link_ring<<<1, 1024, 0, as_stream(stream)>>>(static_cast<char*>(there), lines);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

void launch_chase(const void* there, int hops, unsigned long long* elapsed_ns, StreamHandle stream) {
  device::chase<<<1, 1, 0, as_stream(stream)>>>(static_cast<const char*>(there), hops, elapsed_ns);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

void fill_uniform_bf16(void* data, std::size_t bytes, std::uint64_t seed, StreamHandle stream) {
  device::fill_uniform<true>
      <<<kFillCtas, 256, 0, as_stream(stream)>>>(static_cast<std::uint32_t*>(data), bytes / 4, seed);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

void fill_uniform_fp32(void* data, std::size_t bytes, std::uint64_t seed, StreamHandle stream) {
  device::fill_uniform<false>
      <<<kFillCtas, 256, 0, as_stream(stream)>>>(static_cast<std::uint32_t*>(data), bytes / 4, seed);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace plumbline

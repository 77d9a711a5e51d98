#include "kernels/run/arena.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/common/measure.cuh"

namespace plumbline {
namespace {

constexpr std::size_t kGiB = std::size_t{1} << 30;
/// By region: the key-value cache of a long decode batch is the largest single operand (17 GB).
constexpr std::array<std::size_t, kRegions> kWanted = {24 * kGiB, 4 * kGiB, 5 * kGiB, 8 * kGiB,
                                                       kGiB / 4,  kGiB,     8 * kGiB};
constexpr double kShareOfFree = 0.8;  // of the card's free memory, all regions together

__device__ std::uint64_t mix(std::uint64_t z) {
  z = (z + 1) * 0x9e3779b97f4a7c15ULL;  // splitmix64 (Steele, Lea, Flood, OOPSLA 2014)
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

/// Two independent standard normal values (Box-Muller).
__device__ float2 normal_pair(std::uint64_t i) {
  const std::uint64_t z = mix(i);
  const float u = (static_cast<float>(z >> 40) + 0.5F) * 0x1p-24F;
  const float turn = static_cast<float>(z & 0xffffffU) * 0x1p-24F;
  const float radius = sqrtf(-2.0F * __logf(u));
  float sine, cosine;
  sincospif(2.0F * turn, &sine, &cosine);
  return {radius * cosine, radius * sine};
}

struct ToBf16 {
  using Pair = __nv_bfloat162;
  __device__ static Pair pack(float2 v) { return __floats2bfloat162_rn(v.x, v.y); }
};
struct ToFp16 {
  using Pair = __half2;
  __device__ static Pair pack(float2 v) { return __floats2half2_rn(v.x, v.y); }
};
struct ToFp8 {
  using Pair = __nv_fp8x2_e4m3;
  __device__ static Pair pack(float2 v) { return Pair(v); }
};
struct ToFp32 {
  using Pair = float2;
  __device__ static Pair pack(float2 v) { return v; }
};

/// Two values of a pattern, independent of those of other indices.
__device__ float2 pair_of(DataPattern pattern, std::uint64_t i) {
  if (pattern == DataPattern::normal) return normal_pair(i);
  if (pattern == DataPattern::zeros) return {0, 0};
  const std::uint64_t z = mix(i);
  const auto first = static_cast<std::uint32_t>(z >> 32), second = static_cast<std::uint32_t>(z);
  if (pattern == DataPattern::ternary) return {static_cast<float>(first % 3) - 1, static_cast<float>(second % 3) - 1};
  return {static_cast<float>(first >> 8) * 0x1p-23F - 1, static_cast<float>(second >> 8) * 0x1p-23F - 1};
}

template <class To>
__global__ void fill_pattern(typename To::Pair* pairs, std::size_t count, std::uint64_t seed, DataPattern pattern) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    pairs[i] = To::pack(pair_of(pattern, i ^ (seed << 48)));
  }
}

__global__ void random_ids(std::int32_t* ids, std::int64_t count, std::uint64_t limit, std::uint64_t seed) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  // 32 random bits times the limit, the upper half: uniform to 2^-32 of it
  if (i < count)
    ids[i] = static_cast<std::int32_t>((mix(static_cast<std::uint64_t>(i) ^ (seed << 40)) >> 32) * limit >> 32);
}

__global__ void counting(std::int32_t* values, std::int64_t count, std::int64_t period) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) values[i] = static_cast<std::int32_t>(i % period);
}

__global__ void inverse_frequency(float* values, std::int64_t dim, double base) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < dim / 2) values[i] = static_cast<float>(pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(dim)));
}

cudaStream_t stream_of(StreamHandle stream) { return static_cast<cudaStream_t>(stream); }
unsigned blocks(std::int64_t count) { return static_cast<unsigned>((count + 255) / 256); }

template <class To>
void fill(char* data, std::size_t bytes, std::uint64_t seed, DataPattern pattern, cudaStream_t stream) {
  using Pair = typename To::Pair;
  const auto pairs = reinterpret_cast<Pair*>(data);
  fill_pattern<To><<<sm_count() * 16, 256, 0, stream>>>(pairs, bytes / sizeof(Pair), seed, pattern);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

struct Arena::Memory {
  std::array<std::size_t, kRegions> bytes{};
  std::array<std::unique_ptr<DeviceBuffer>, kRegions> buffers;
  DataPattern pattern = DataPattern::normal;

  void fill_region(std::size_t at, cudaStream_t stream) const {
    char* data = buffers[at]->as();
    const std::size_t n = buffers[at]->bytes();
    switch (static_cast<Region>(at)) {
      case Region::normal_bf16:
      case Region::output: fill<ToBf16>(data, n, at + 1, pattern, stream); break;
      case Region::normal_fp16: fill<ToFp16>(data, n, at + 1, pattern, stream); break;
      case Region::normal_fp8: fill<ToFp8>(data, n, at + 1, pattern, stream); break;
      case Region::normal_fp32: fill<ToFp32>(data, n, at + 1, pattern, stream); break;
      default: clear(data, n, stream); break;
    }
  }
};

Arena::Arena() : memory_(std::make_unique<Memory>()) {
  std::size_t available = 0, total = 0, wanted = 0;
  PLUMBLINE_CUDA_CHECK(cudaMemGetInfo(&available, &total));
  for (const std::size_t each : kWanted) wanted += each;
  const double scale = std::min(1.0, kShareOfFree * static_cast<double>(available) / static_cast<double>(wanted));
  for (std::size_t i = 0; i < kRegions; ++i) {
    memory_->bytes[i] = static_cast<std::size_t>(scale * static_cast<double>(kWanted[i])) / 4096 * 4096;
  }
}
Arena::~Arena() = default;

std::size_t Arena::bytes(Region region) const { return memory_->bytes[static_cast<std::size_t>(region)]; }

char* Arena::data(Region region, StreamHandle stream) {
  const auto at = static_cast<std::size_t>(region);
  std::unique_ptr<DeviceBuffer>& buffer = memory_->buffers[at];
  if (buffer != nullptr) return buffer->as();
  buffer = std::make_unique<DeviceBuffer>(memory_->bytes[at]);
  memory_->fill_region(at, stream_of(stream));
  return buffer->as();
}

void Arena::hold(DataPattern pattern, StreamHandle stream) {
  if (memory_->pattern == pattern) return;
  memory_->pattern = pattern;
  for (std::size_t i = 0; i < kRegions; ++i) {
    const auto region = static_cast<Region>(i);
    if (region == Region::index || region == Region::scratch || memory_->buffers[i] == nullptr) continue;
    memory_->fill_region(i, stream_of(stream));
  }
}

void fill_random_ids(std::int32_t* ids, std::int64_t count, std::int64_t limit, std::uint64_t seed,
                     StreamHandle stream) {
  if (count <= 0) return;
  random_ids<<<blocks(count), 256, 0, stream_of(stream)>>>(ids, count, static_cast<std::uint64_t>(limit), seed);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

void fill_counting(std::int32_t* values, std::int64_t count, std::int64_t period, StreamHandle stream) {
  if (count <= 0) return;
  counting<<<blocks(count), 256, 0, stream_of(stream)>>>(values, count, period);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

void fill_inverse_frequency(float* values, std::int64_t dim, float base, StreamHandle stream) {
  inverse_frequency<<<blocks(dim / 2), 256, 0, stream_of(stream)>>>(values, dim, static_cast<double>(base));
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

void upload(void* device, const void* host, std::size_t bytes, StreamHandle stream) {
  PLUMBLINE_CUDA_CHECK(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_of(stream)));
  PLUMBLINE_CUDA_CHECK(cudaStreamSynchronize(stream_of(stream)));
}

void copy_on_device(void* to, const void* from, std::size_t bytes, StreamHandle stream) {
  PLUMBLINE_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_of(stream)));
}

void clear(void* device, std::size_t bytes, StreamHandle stream) {
  PLUMBLINE_CUDA_CHECK(cudaMemsetAsync(device, 0, bytes, stream_of(stream)));
}

}  // namespace plumbline

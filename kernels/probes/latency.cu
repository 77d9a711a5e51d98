// Latency probes: pointer chasing through L2 and DRAM, alone and under load.
#include <cuda_runtime.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include "kernels/probes/memory.cuh"
#include "kernels/probes/probes.hpp"

namespace plumbline {
namespace device {

constexpr int kLine = 128;  // bytes; a node of a chain lives alone in its line

/// nodes[i] (a line number) gets the line of the next one: a ring.
__global__ void link_ring(char* base, const unsigned* nodes, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  *reinterpret_cast<unsigned long long*>(base + std::size_t{nodes[i]} * kLine) =
      reinterpret_cast<unsigned long long>(base + std::size_t{nodes[(i + 1) % count]} * kLine);
}

/// Every load waits for the one before it; `ld.cg` keeps L1 out.
__device__ inline unsigned long long follow(unsigned long long at, int hops) {
  for (int i = 0; i < hops; ++i) at = __ldcg(reinterpret_cast<const unsigned long long*>(at));
  return at;
}

__device__ inline unsigned long long nanoseconds() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

/// Goes on where the last chase stopped.
__global__ void chase(unsigned long long* at, int hops) { *at = follow(*at, hops); }

/// Ordinary loads, which push other lines out of L2 (streaming ones would leave them).
__global__ void evict(const uint4* x, std::size_t n, uint4* sink) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  uint4 mixed = make_uint4(0, 0, 0, 0);
  for (std::size_t v = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; v < n; v += stride)
    mixed = merge(mixed, x[v]);
  consume(mixed, sink);
}

/// How long `clocks` SM clocks take.
__global__ void spin(long long clocks, unsigned long long* elapsed_ns) {
  const unsigned long long begin = nanoseconds();
  for (const long long start = clock64(); clock64() - start < clocks;) {
  }
  *elapsed_ns = nanoseconds() - begin;
}

struct LoadedResult {
  unsigned long long chase_ns, streamed_bytes, stream_ns;
  unsigned done;
};

/// CTA 0 chases a chain; the others stream reads until it is done, and count what they moved.
template <int kVecs>
__global__ void __launch_bounds__(kThreads) chase_under_load(unsigned long long* start, int hops, const uint4* x,
                                                             std::size_t n, LoadedResult* result, uint4* sink) {
  if (blockIdx.x == 0) {
    if (threadIdx.x != 0) return;
    const unsigned long long at = follow(*start, hops / 8);  // the others get going
    const unsigned long long begin = nanoseconds();
    const unsigned long long end_at = follow(at, hops);
    *start = end_at;  // waits for the last load
    __threadfence();
    result->chase_ns = nanoseconds() - begin;
    atomicExch(&result->done, 1U);
    return;
  }
  const std::size_t stride = std::size_t{gridDim.x - 1} * kThreads * kVecs;
  const std::size_t first = (std::size_t{blockIdx.x} - 1) * kThreads * kVecs + threadIdx.x;
  std::size_t v = first;
  uint4 mixed = make_uint4(0, 0, 0, 0);
  unsigned long long moved = 0;
  const unsigned long long begin = nanoseconds();
  while (*reinterpret_cast<volatile unsigned*>(&result->done) == 0) {
    for (int round = 0; round < 16; ++round) {
      uint4 a[kVecs];
#pragma unroll
      for (int i = 0; i < kVecs; ++i) a[i] = __ldcs(x + v + i * kThreads);
#pragma unroll
      for (int i = 0; i < kVecs; ++i) mixed = merge(mixed, a[i]);
      v += stride;
      if (v >= n) v = first;
      moved += sizeof(uint4) * kVecs;
    }
  }
  atomicAdd(&result->streamed_bytes, moved);
  atomicMax(&result->stream_ns, nanoseconds() - begin);
  consume(mixed, sink);
}

}  // namespace device

namespace {

using device::kLine;
using device::kThreads;

/// A ring through `nodes` random lines of the first `footprint` bytes, in random order. Returns its first address.
unsigned long long make_ring(const DeviceBuffer& memory, std::size_t footprint, unsigned nodes, cudaStream_t stream) {
  std::vector<unsigned> lines(footprint / kLine);
  std::iota(lines.begin(), lines.end(), 0U);
  std::mt19937 random(static_cast<unsigned>(footprint / kLine) ^ nodes);
  nodes = std::min<unsigned>(nodes, static_cast<unsigned>(lines.size()));
  for (unsigned i = 0; i < nodes; ++i) {
    std::swap(lines[i], lines[i + random() % (lines.size() - i)]);
  }
  const DeviceBuffer order(nodes * sizeof(unsigned));
  PLUMBLINE_CUDA_CHECK(
      cudaMemcpyAsync(order.as(), lines.data(), nodes * sizeof(unsigned), cudaMemcpyHostToDevice, stream));
  device::link_ring<<<(nodes + 255) / 256, 256, 0, stream>>>(memory.as(), order.as<unsigned>(), nodes);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
  PLUMBLINE_CUDA_CHECK(cudaStreamSynchronize(stream));
  return reinterpret_cast<unsigned long long>(memory.as()) + std::size_t{lines[0]} * kLine;
}

/// The SM clock while one thread spins for some 20 ms.
double sm_clock(cudaStream_t s) {
  constexpr long long kClocks = 40000000;
  const DeviceBuffer elapsed(sizeof(unsigned long long));
  device::spin<<<1, 1, 0, s>>>(kClocks, elapsed.as<unsigned long long>());
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
  unsigned long long ns = 0;
  PLUMBLINE_CUDA_CHECK(cudaMemcpyAsync(&ns, elapsed.as(), sizeof(ns), cudaMemcpyDeviceToHost, s));
  PLUMBLINE_CUDA_CHECK(cudaStreamSynchronize(s));
  return 1e9 * static_cast<double>(kClocks) / static_cast<double>(ns);
}

constexpr int kDramHops = 20000;
constexpr unsigned kRingNodes = 1U << 20;  // 128 MiB of lines, more than twice the L2

/// Pushes everything else out of L2.
void flush_l2(const DeviceBuffer& other, cudaStream_t stream) {
  device::evict<<<1024, kThreads, 0, stream>>>(other.as<uint4>(), 512 * kMiB / sizeof(uint4), other.as<uint4>());
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

/// One footprint: nanoseconds a hop. Rings that fit L2 are walked once before; longer ones start cold, and no line is
/// met twice.
Record chase_footprint(const DeviceBuffer& memory, const DeviceBuffer& other, std::size_t footprint, cudaStream_t s) {
  const bool warm = footprint <= l2_bytes();
  const unsigned long long start = make_ring(memory, footprint, kRingNodes, s);
  const DeviceBuffer at(sizeof(start));
  PLUMBLINE_CUDA_CHECK(cudaMemcpyAsync(at.as(), &start, sizeof(start), cudaMemcpyHostToDevice, s));
  const auto go = [&](int hops) { device::chase<<<1, 1, 0, s>>>(at.as<unsigned long long>(), hops); };
  if (warm) go(static_cast<int>(footprint / kLine));
  if (!warm) flush_l2(other, s);
  std::vector<double> samples = time_each(s, 1, 5, [&] { go(kDramHops); });
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
  for (double& t : samples) t /= kDramHops;
  return record("latency_s", "footprint_MiB=" + std::to_string(footprint / kMiB), samples);
}

}  // namespace

std::vector<Record> probe_latency() {
  const Stream s;
  const DeviceBuffer memory(8192 * kMiB), other(512 * kMiB);
  fill(other, s, 1);
  std::vector<Record> out;
  std::set<std::size_t> footprints_MiB{1, 4, 8, 16, 24, 32, 40, 48, 56, 256, 1024, 2048, 8192};
  for (const double share : {0.25, 0.4, 0.65, 0.8}) {  // where other sizes of L2 have their steps
    footprints_MiB.insert(static_cast<std::size_t>(share * static_cast<double>(l2_bytes() / kMiB)));
  }
  for (const std::size_t mib : footprints_MiB) {
    out.push_back(chase_footprint(memory, other, mib * kMiB, s));
  }
  out.push_back(record("sm_clock_Hz", "one spinning thread", {sm_clock(s)}));
  return out;
}

std::vector<Record> probe_loaded_latency() {
  const Stream s;
  const DeviceBuffer memory(1024 * kMiB), streamed(kStreamBytes), result(sizeof(device::LoadedResult)), sink(16);
  fill(streamed, s, 2);
  const unsigned long long start = make_ring(memory, memory.bytes(), kRingNodes, s);
  const DeviceBuffer at(sizeof(start));
  PLUMBLINE_CUDA_CHECK(cudaMemcpyAsync(at.as(), &start, sizeof(start), cudaMemcpyHostToDevice, s));
  flush_l2(streamed, s);
  const std::size_t n = (streamed.bytes() - 64 * kMiB) / sizeof(uint4);  // the stride past the end stays inside
  std::vector<Record> out;
  for (const int ctas : {0, 1, 2, 3, 4, 6, 7}) {
    std::vector<double> latency, bandwidth;
    for (int i = 0; i < 5; ++i) {
      PLUMBLINE_CUDA_CHECK(cudaMemsetAsync(result.as(), 0, result.bytes(), s));
      const auto grid = static_cast<unsigned>(1 + ctas * sm_count());
      device::chase_under_load<4><<<grid, kThreads, 0, s>>>(at.as<unsigned long long>(), kDramHops / 4,
                                                            streamed.as<uint4>(), n, result.as<device::LoadedResult>(),
                                                            sink.as<uint4>());
      PLUMBLINE_CUDA_CHECK(cudaGetLastError());
      device::LoadedResult r{};
      PLUMBLINE_CUDA_CHECK(cudaMemcpyAsync(&r, result.as(), sizeof(r), cudaMemcpyDeviceToHost, s));
      s.wait();
      latency.push_back(1e-9 * static_cast<double>(r.chase_ns) / (kDramHops / 4));
      bandwidth.push_back(r.stream_ns > 0 ? 1e9 * static_cast<double>(r.streamed_bytes) / r.stream_ns : 0.0);
    }
    const std::string setting = "ctas_per_sm=" + std::to_string(ctas) + ";vectors=4;threads=256";
    out.push_back(record("loaded_latency_s", setting, latency));
    out.push_back(record("loaded_bandwidth_B_per_s", setting, bandwidth));
  }
  return out;
}

}  // namespace plumbline

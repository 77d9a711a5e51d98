// Latency probes: pointer chasing through L2 and DRAM, alone and under load.
#include <cuda_runtime.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

#include "kernels/probes.hpp"
#include "kernels/probes_memory.cuh"

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

__global__ void chase(unsigned long long start, int hops, unsigned long long* sink) { *sink = follow(start, hops); }

/// How long `clocks` SM clocks take.
__global__ void spin(long long clocks, unsigned long long* elapsed_ns) {
  const unsigned long long begin = nanoseconds();
  for (const long long start = clock64(); clock64() - start < clocks;) {
  }
  *elapsed_ns = nanoseconds() - begin;
}

/// Clocks of one load of each line, warm: the same lines were touched before by this SM, through L2.
__global__ void time_lines(const char* base, int lines, unsigned* clocks, unsigned* sm) {
  unsigned sink = 0;
  for (int i = 0; i < lines; ++i) sink += __ldcg(reinterpret_cast<const unsigned*>(base + std::size_t(i) * kLine));
  for (int i = 0; i < lines; ++i) {
    const auto* p = reinterpret_cast<const unsigned*>(base + std::size_t(i) * kLine);
    unsigned value;
    const long long begin = clock64();
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(value) : "l"(p) : "memory");
    sink += value;
    asm volatile("" : "+r"(sink)::"memory");
    const long long end = clock64() + (sink & 0);  // the second clock is read once the value is there
    clocks[i] = static_cast<unsigned>(end - begin);
  }
  unsigned id;
  asm volatile("mov.u32 %0, %smid;" : "=r"(id));
  *sm = id + (sink == 0x5eed5eedU ? 1 : 0);
}

struct LoadedResult {
  unsigned long long chase_ns, streamed_bytes, stream_ns;
  unsigned done;
};

/// CTA 0 chases a chain; the others stream reads until it is done, and count what they moved.
template <int kVecs>
__global__ void __launch_bounds__(kThreads) chase_under_load(unsigned long long start, int hops, const uint4* x,
                                                             std::size_t n, LoadedResult* result, uint4* sink) {
  if (blockIdx.x == 0) {
    if (threadIdx.x != 0) return;
    const unsigned long long at = follow(start, hops / 8);  // the others get going
    const unsigned long long begin = nanoseconds();
    const unsigned long long end_at = follow(at, hops);
    result->chase_ns = nanoseconds() - begin + (end_at == 1 ? 1 : 0);
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

/// Pushes everything else out of L2.
void flush_l2(const DeviceBuffer& other, cudaStream_t stream) {
  device::stream_read<4>
      <<<1024, kThreads, 0, stream>>>(other.as<uint4>(), 512 * kMiB / sizeof(uint4), other.as<uint4>());
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

/// One footprint: nanoseconds a hop. Rings that fit L2 are walked once before, longer ones start cold.
Record chase_footprint(const DeviceBuffer& memory, const DeviceBuffer& other, std::size_t footprint, cudaStream_t s) {
  const bool warm = footprint <= 32 * kMiB;
  const unsigned nodes = warm ? 1U << 18 : 4U * kDramHops;
  const unsigned long long start = make_ring(memory, footprint, nodes, s);
  const int ring = static_cast<int>(std::min<std::size_t>(nodes, footprint / kLine));
  const DeviceBuffer sink(sizeof(unsigned long long));
  const Stopwatch watch;
  std::vector<double> samples;
  for (int i = 0; i < 5; ++i) {
    if (!warm) flush_l2(other, s);
    if (warm && i == 0) device::chase<<<1, 1, 0, s>>>(start, ring, sink.as<unsigned long long>());
    watch.start(s);
    device::chase<<<1, 1, 0, s>>>(start, kDramHops, sink.as<unsigned long long>());
    watch.stop(s);
    PLUMBLINE_CUDA_CHECK(cudaGetLastError());
    samples.push_back(watch.seconds() / kDramHops);
  }
  return record("latency_s", "footprint_MiB=" + std::to_string(footprint / kMiB), samples);
}

/// The two partitions of L2: lines nearer than the midpoint of the extremes, and the others; medians of each.
void split_partitions(std::vector<unsigned> clocks, double seconds_a_clock, const std::string& setting,
                      std::vector<Record>& out) {
  std::sort(clocks.begin(), clocks.end());
  const double low = clocks[clocks.size() / 20], high = clocks[clocks.size() - 1 - clocks.size() / 20];
  std::vector<double> near, far;
  for (const unsigned c : clocks) (2.0 * c < low + high ? near : far).push_back(c * seconds_a_clock);
  if (!near.empty()) out.push_back(record("l2_near_latency_s", setting, near));
  if (!far.empty()) out.push_back(record("l2_far_latency_s", setting, far));
  out.push_back(record("l2_near_fraction", setting, {static_cast<double>(near.size()) / clocks.size()}));
}

}  // namespace

std::vector<Record> probe_latency() {
  const Stream s;
  const DeviceBuffer memory(8192 * kMiB), other(512 * kMiB);
  fill(other, s, 1);
  std::vector<Record> out;
  for (const std::size_t mib : {1, 2, 4, 8, 16, 24, 32, 256, 1024, 2048, 8192}) {
    out.push_back(chase_footprint(memory, other, mib * kMiB, s));
  }
  constexpr int kLines = 8192;
  const DeviceBuffer clocks(kLines * sizeof(unsigned)), sm(sizeof(unsigned));
  const double clock = sm_clock(s);
  out.push_back(record("sm_clock_Hz", "one spinning thread", {clock}));
  for (int i = 0; i < 2; ++i) {
    device::time_lines<<<1, 1, 0, s>>>(memory.as(), kLines, clocks.as<unsigned>(), sm.as<unsigned>());
    PLUMBLINE_CUDA_CHECK(cudaGetLastError());
    std::vector<unsigned> host(kLines);
    unsigned id = 0;
    PLUMBLINE_CUDA_CHECK(cudaMemcpyAsync(host.data(), clocks.as(), clocks.bytes(), cudaMemcpyDeviceToHost, s));
    PLUMBLINE_CUDA_CHECK(cudaMemcpyAsync(&id, sm.as(), sizeof(id), cudaMemcpyDeviceToHost, s));
    s.wait();
    const std::string setting = "run=" + std::to_string(i) + ";sm=" + std::to_string(id);
    split_partitions(host, 1.0 / clock, setting, out);
  }
  return out;
}

std::vector<Record> probe_loaded_latency() {
  const Stream s;
  const DeviceBuffer memory(1024 * kMiB), streamed(kStreamBytes), result(sizeof(device::LoadedResult)), sink(16);
  fill(streamed, s, 2);
  const unsigned long long start = make_ring(memory, memory.bytes(), 4U * kDramHops, s);
  const std::size_t n = (streamed.bytes() - 64 * kMiB) / sizeof(uint4);  // the stride past the end stays inside
  std::vector<Record> out;
  for (const int ctas : {0, 1, 2, 3, 4, 6, 7}) {
    std::vector<double> latency, bandwidth;
    for (int i = 0; i < 5; ++i) {
      PLUMBLINE_CUDA_CHECK(cudaMemsetAsync(result.as(), 0, result.bytes(), s));
      const auto grid = static_cast<unsigned>(1 + ctas * sm_count());
      device::chase_under_load<4><<<grid, kThreads, 0, s>>>(start, kDramHops / 4, streamed.as<uint4>(), n,
                                                            result.as<device::LoadedResult>(), sink.as<uint4>());
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

// Memory probes: latency by pointer chasing, bandwidth of DRAM and L2 by bytes in flight and by footprint.
#include <cuda_runtime.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

#include "kernels/measure.cuh"
#include "kernels/probes.hpp"

namespace plumbline {
namespace device {

constexpr int kLine = 128;  // bytes; a node of a chain lives alone in its line
constexpr int kThreads = 256;

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

// --- streaming -------------------------------------------------------------------------------------------------------

/// Keeps a value alive without a store that would be counted.
__device__ inline void consume(uint4 v, uint4* sink) {
  if ((v.x ^ v.y ^ v.z ^ v.w) == 0x9e3779b9U) *sink = v;  // about never, for random data
}

__device__ inline uint4 merge(uint4 a, uint4 b) { return make_uint4(a.x ^ b.x, a.y ^ b.y, a.z ^ b.z, a.w ^ b.w); }

template <int kVecs>
__global__ void __launch_bounds__(kThreads) stream_read(const uint4* x, std::size_t n, uint4* sink) {
  const std::size_t stride = std::size_t{gridDim.x} * kThreads;
  uint4 mixed = make_uint4(0, 0, 0, 0);
  for (std::size_t v = std::size_t{blockIdx.x} * kThreads * kVecs + threadIdx.x; v < n; v += stride * kVecs) {
    uint4 a[kVecs];
#pragma unroll
    for (int i = 0; i < kVecs; ++i) a[i] = __ldcs(x + v + i * kThreads);
#pragma unroll
    for (int i = 0; i < kVecs; ++i) mixed = merge(mixed, a[i]);
  }
  consume(mixed, sink);
}

template <int kVecs>
__global__ void __launch_bounds__(kThreads) stream_write(uint4* y, std::size_t n, unsigned seed) {
  const std::size_t stride = std::size_t{gridDim.x} * kThreads;
  for (std::size_t v = std::size_t{blockIdx.x} * kThreads * kVecs + threadIdx.x; v < n; v += stride * kVecs) {
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      const unsigned h = static_cast<unsigned>(v + i) * 2654435761U ^ seed;
      __stcs(y + v + i * kThreads, make_uint4(h, h ^ 0x85ebca6bU, h * 3U, h * 5U));
    }
  }
}

/// y = x, or y = x ^ z when z is given (two reads a write).
template <int kVecs>
__global__ void __launch_bounds__(kThreads) stream_copy(const uint4* x, const uint4* z, uint4* y, std::size_t n) {
  const std::size_t stride = std::size_t{gridDim.x} * kThreads;
  for (std::size_t v = std::size_t{blockIdx.x} * kThreads * kVecs + threadIdx.x; v < n; v += stride * kVecs) {
    uint4 a[kVecs];
#pragma unroll
    for (int i = 0; i < kVecs; ++i) a[i] = __ldcs(x + v + i * kThreads);
    if (z != nullptr) {
#pragma unroll
      for (int i = 0; i < kVecs; ++i) {
        const uint4 b = __ldcs(z + v + i * kThreads);
        a[i] = make_uint4(a[i].x ^ b.x, a[i].y ^ b.y, a[i].z ^ b.z, a[i].w ^ b.w);
      }
    }
#pragma unroll
    for (int i = 0; i < kVecs; ++i) __stcs(y + v + i * kThreads, a[i]);
  }
}

/// Reads the first `n` vectors `passes` times; each pass starts `shift` CTAs further, so that an SM meets other lines.
/// `ld.cg` keeps L1 out.
__global__ void __launch_bounds__(512) read_l2(const uint4* x, std::size_t n, int passes, unsigned shift, uint4* sink) {
  constexpr int kVecs = 4;
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  uint4 mixed = make_uint4(0, 0, 0, 0);
  for (int pass = 0; pass < passes; ++pass) {
    const unsigned block = (blockIdx.x + static_cast<unsigned>(pass) * shift) % gridDim.x;
    for (std::size_t v = std::size_t{block} * blockDim.x + threadIdx.x; v < n; v += stride * kVecs) {
      uint4 a[kVecs];
#pragma unroll
      for (int i = 0; i < kVecs; ++i) a[i] = v + i * stride < n ? __ldcg(x + v + i * stride) : mixed;
#pragma unroll
      for (int i = 0; i < kVecs; ++i) {
        mixed.x ^= a[i].x;
        mixed.y += a[i].y;
        mixed.z ^= a[i].z;
        mixed.w += a[i].w;
      }
    }
  }
  consume(mixed, sink);
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

/// Bits that no pattern of DRAM or of data compression can favour.
__global__ void fill_random(uint4* x, std::size_t n, unsigned seed) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t v = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; v < n; v += stride) {
    unsigned long long s = (v + 1) * 0x9e3779b97f4a7c15ULL ^ seed;  // splitmix64
    unsigned w[4];
    for (unsigned& word : w) {
      s += 0x9e3779b97f4a7c15ULL;
      unsigned long long z = (s ^ (s >> 30)) * 0xbf58476d1ce4e5b9ULL;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
      word = static_cast<unsigned>(z >> 32);
    }
    x[v] = make_uint4(w[0], w[1], w[2], w[3]);
  }
}

}  // namespace device

namespace {

using device::kLine;
using device::kThreads;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kStreamBytes = 2048 * kMiB;  // of each stream: 34 times the L2 of an H200

int sm_count() {
  int sms = 0;
  PLUMBLINE_CUDA_CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
  return sms;
}

void fill(const DeviceBuffer& buffer, cudaStream_t stream, unsigned seed) {
  device::fill_random<<<1024, 256, 0, stream>>>(buffer.as<uint4>(), buffer.bytes() / sizeof(uint4), seed);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

Record record(std::string name, std::string setting, std::vector<double> samples) {
  return {std::move(name), std::move(setting), spread(std::move(samples))};
}

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

namespace {

struct Streams {
  const DeviceBuffer x{kStreamBytes}, z{kStreamBytes}, y{kStreamBytes};
  std::size_t n = kStreamBytes / sizeof(uint4);
};

/// All four mixes at one setting; `ctas_per_sm` 0: as many CTAs as the work has, each going once.
template <int kVecs>
void dram_setting(const Streams& m, int ctas_per_sm, cudaStream_t s, std::vector<Record>& out) {
  const auto whole = static_cast<unsigned>(m.n / (std::size_t{kThreads} * kVecs));
  const unsigned grid = ctas_per_sm > 0 ? static_cast<unsigned>(ctas_per_sm * sm_count()) : whole;
  auto *x = m.x.as<uint4>(), *z = m.z.as<uint4>(), *y = m.y.as<uint4>();
  const std::string in_flight =
      ctas_per_sm > 0 ? std::to_string(std::size_t(ctas_per_sm) * kThreads * kVecs * sizeof(uint4)) : "once";
  const std::string setting = "vectors=" + std::to_string(kVecs) + ";ctas_per_sm=" + std::to_string(ctas_per_sm) +
                              ";in_flight_B_per_sm=" + in_flight;
  const auto measure = [&](const char* name, double streams, const std::function<void()>& work) {
    std::vector<double> rate = time_each(s, 2, 9, work);
    for (double& v : rate) v = streams * static_cast<double>(kStreamBytes) / v;
    PLUMBLINE_CUDA_CHECK(cudaGetLastError());
    out.push_back(record(name, setting, rate));
  };
  unsigned seed = 1;
  measure("dram_read_B_per_s", 1, [&] { device::stream_read<kVecs><<<grid, kThreads, 0, s>>>(x, m.n, y); });
  measure("dram_write_B_per_s", 1, [&] { device::stream_write<kVecs><<<grid, kThreads, 0, s>>>(y, m.n, ++seed); });
  measure("dram_copy_B_per_s", 2, [&] { device::stream_copy<kVecs><<<grid, kThreads, 0, s>>>(x, nullptr, y, m.n); });
  measure("dram_add_B_per_s", 3, [&] { device::stream_copy<kVecs><<<grid, kThreads, 0, s>>>(x, z, y, m.n); });
}

}  // namespace

std::vector<Record> probe_dram() {
  const Stream s;
  const Streams m;
  fill(m.x, s, 3);
  fill(m.z, s, 4);
  std::vector<Record> out;
  for (const int ctas : {0, 1, 2, 4, 8}) {
    dram_setting<1>(m, ctas, s, out);
    dram_setting<2>(m, ctas, s, out);
    dram_setting<4>(m, ctas, s, out);
    dram_setting<8>(m, ctas, s, out);
  }
  return out;
}

std::vector<Record> probe_l2() {
  const Stream s;
  const DeviceBuffer x(256 * kMiB), sink(16);
  fill(x, s, 5);
  std::vector<Record> out;
  for (const unsigned shift : {0U, 37U}) {
    for (const std::size_t mb : {1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 70, 80, 100, 160}) {
      const std::size_t bytes = mb * 1000000 / 16 * 16;
      const int passes = static_cast<int>(std::max<std::size_t>(8, 2000000000 / bytes));
      const auto work = [&](int count) {
        device::read_l2<<<static_cast<unsigned>(4 * sm_count()), 512, 0, s>>>(x.as<uint4>(), bytes / 16, count, shift,
                                                                              sink.as<uint4>());
      };
      // two lengths, so that the launch and the cold first pass cancel
      const std::vector<double> whole = time_each(s, 2, 7, [&] { work(passes); });
      const double part = spread(time_each(s, 2, 7, [&] { work(passes / 2); })).median;
      PLUMBLINE_CUDA_CHECK(cudaGetLastError());
      std::vector<double> rate;
      for (const double t : whole) rate.push_back(static_cast<double>(bytes) * (passes - passes / 2) / (t - part));
      out.push_back(
          record("l2_read_B_per_s", "footprint_MB=" + std::to_string(mb) + ";shift=" + std::to_string(shift), rate));
    }
  }
  return out;
}

}  // namespace plumbline

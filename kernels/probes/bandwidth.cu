// Bandwidth probes: DRAM by mix and bytes in flight, L2 by footprint, the link to the host.
#include <cuda_runtime.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>

#include "kernels/probes/memory.cuh"
#include "kernels/probes/probes.hpp"

namespace plumbline {
namespace device {

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

/// y = x, or y = x ^ z when z is given (two reads a write). `kStreaming`: marked as used once (ld.cs, st.cs).
template <int kVecs, bool kStreaming>
__global__ void __launch_bounds__(kThreads) stream_copy(const uint4* x, const uint4* z, uint4* y, std::size_t n) {
  const std::size_t stride = std::size_t{gridDim.x} * kThreads;
  for (std::size_t v = std::size_t{blockIdx.x} * kThreads * kVecs + threadIdx.x; v < n; v += stride * kVecs) {
    uint4 a[kVecs];
#pragma unroll
    for (int i = 0; i < kVecs; ++i) a[i] = kStreaming ? __ldcs(x + v + i * kThreads) : x[v + i * kThreads];
    if (z != nullptr) {
#pragma unroll
      for (int i = 0; i < kVecs; ++i) {
        const uint4 b = __ldcs(z + v + i * kThreads);
        a[i] = make_uint4(a[i].x ^ b.x, a[i].y ^ b.y, a[i].z ^ b.z, a[i].w ^ b.w);
      }
    }
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      if constexpr (kStreaming) __stcs(y + v + i * kThreads, a[i]);
      if constexpr (!kStreaming) y[v + i * kThreads] = a[i];
    }
  }
}

}  // namespace device

namespace {

using device::kThreads;

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
  measure("dram_copy_B_per_s", 2,
          [&] { device::stream_copy<kVecs, true><<<grid, kThreads, 0, s>>>(x, nullptr, y, m.n); });
  measure("dram_add_B_per_s", 3, [&] { device::stream_copy<kVecs, true><<<grid, kThreads, 0, s>>>(x, z, y, m.n); });
  if (ctas_per_sm > 0) return;
  const auto plain = device::stream_copy<kVecs, false>;
  measure("dram_copy_plain_B_per_s", 2, [&] { plain<<<grid, kThreads, 0, s>>>(x, nullptr, y, m.n); });
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
  std::set<std::size_t> footprints_MB{1,  2,  4,  8,  12, 16, 20, 24, 28, 32,  36, 40,
                                      44, 48, 52, 56, 60, 64, 70, 75, 80, 100, 160};
  for (const double share : {0.25, 0.4, 0.55, 0.7, 0.85, 0.93, 1.0, 1.1, 1.2}) {  // where other sizes of L2 end
    footprints_MB.insert(static_cast<std::size_t>(share * 1e-6 * static_cast<double>(l2_bytes())));
  }
  const std::size_t places = 3, apart = 48 * kMiB;
  const DeviceBuffer x(*footprints_MB.rbegin() * 1000000 + places * apart), sink(16);
  fill(x, s, 5);
  std::vector<Record> out;
  for (const unsigned shift : {0U, 37U}) {
    for (const std::size_t mb :
         {1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 64, 70, 75, 80, 100, 160}) {
      const std::size_t bytes = mb * 1000000 / 16 * 16;
      const int passes = static_cast<int>(std::max<std::size_t>(8, 2000000000 / bytes));
      // Several places: which slices of L2 the pages fall on decides by up to a tenth how much of it is usable.
      std::vector<double> rate;
      for (std::size_t place = 0; place < places; ++place) {
        const uint4* from = x.as<uint4>() + place * apart / sizeof(uint4);
        const auto work = [&](int count) {
          device::read_l2<4>
              <<<static_cast<unsigned>(4 * sm_count()), 512, 0, s>>>(from, bytes / 16, count, shift, sink.as<uint4>());
        };
        // two lengths, so that the launch and the cold first pass cancel
        const std::vector<double> whole = time_each(s, 2, 7, [&] { work(passes); });
        const double part = spread(time_each(s, 2, 7, [&] { work(passes / 2); })).median;
        PLUMBLINE_CUDA_CHECK(cudaGetLastError());
        for (const double t : whole) rate.push_back(static_cast<double>(bytes) * (passes - passes / 2) / (t - part));
      }
      out.push_back(
          record("l2_read_B_per_s", "footprint_MB=" + std::to_string(mb) + ";shift=" + std::to_string(shift), rate));
    }
  }
  return out;
}

std::vector<Record> probe_host_link() {
  constexpr std::size_t kBytes = 256 * kMiB;
  const Stream s;
  const DeviceBuffer device(kBytes);
  void* host = nullptr;
  PLUMBLINE_CUDA_CHECK(cudaHostAlloc(&host, kBytes, cudaHostAllocDefault));
  const std::unique_ptr<void, void (*)(void*)> held(host, [](void* p) { cudaFreeHost(p); });
  std::vector<Record> out;
  const auto measure = [&](const char* name, void* to, const void* from, cudaMemcpyKind kind) {
    std::vector<double> rate =
        time_each(s, 2, 7, [&] { PLUMBLINE_CUDA_CHECK(cudaMemcpyAsync(to, from, kBytes, kind, s)); });
    for (double& v : rate) v = static_cast<double>(kBytes) / v;
    out.push_back(record(name, "pinned;bytes=" + std::to_string(kBytes), rate));
  };
  measure("host_to_device_B_per_s", device.as(), host, cudaMemcpyHostToDevice);
  measure("device_to_host_B_per_s", host, device.as(), cudaMemcpyDeviceToHost);
  return out;
}

}  // namespace plumbline

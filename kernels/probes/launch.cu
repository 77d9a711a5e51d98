// Launch and barrier probes: what it costs to start the next kernel, and to have all CTAs meet.
#include <cuda_runtime.h>

#include <chrono>
#include <memory>
#include <string>

#include "kernels/common/measure.cuh"
#include "kernels/probes/probes.hpp"

namespace plumbline {
namespace device {

__global__ void empty() {}

/// Lets its successor start at once and waits for its predecessor (programmatic dependent launch).
__global__ void empty_pdl() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Holds the stream until the host says go, so that the queue behind it is full when timing starts.
__global__ void hold(volatile unsigned* go, unsigned ticket) {
  while (*go < ticket) __nanosleep(500);
}

/// All CTAs meet `rounds` times: one thread of each arrives at a counter and polls it.
__global__ void meet(unsigned* counter, int rounds) {
  for (int i = 1; i <= rounds; ++i) {
    __syncthreads();
    if (threadIdx.x == 0) {
      const unsigned goal = static_cast<unsigned>(i) * gridDim.x;
      unsigned seen;
      asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
      do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(counter) : "memory");
      } while (seen < goal);
    }
    __syncthreads();
  }
}

/// CTA 0 and CTA `partner` answer each other `rounds` times, each through a flag of its own in L2.
__global__ void answer(unsigned* flags, unsigned partner, unsigned rounds) {
  if (blockIdx.x != 0 && blockIdx.x != partner) return;
  constexpr unsigned kApart = 64;  // words: flags in lines of their own
  const bool first = blockIdx.x == 0;
  unsigned *mine = flags + (first ? 0 : kApart), *theirs = flags + (first ? kApart : 0);
  for (unsigned i = 1; i <= rounds; ++i) {
    unsigned seen;
    if (first) asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(mine), "r"(i) : "memory");
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(theirs) : "memory");
    } while (seen < i);
    if (!first) asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(mine), "r"(i) : "memory");
  }
}

}  // namespace device

namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Launch {
  const char* name;
  dim3 grid, block;
  bool pdl;
};

void enqueue(const Launch& l, int count, cudaStream_t s) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = l.grid;
  config.blockDim = l.block;
  config.stream = s;
  config.attrs = &attribute;
  config.numAttrs = l.pdl ? 1 : 0;
  for (int i = 0; i < count; ++i) {
    PLUMBLINE_CUDA_CHECK(cudaLaunchKernelEx(&config, l.pdl ? device::empty_pdl : device::empty));
  }
}

/// A flag in host memory that the device polls.
class Gate {
 public:
  Gate() {
    PLUMBLINE_CUDA_CHECK(cudaHostAlloc(&host_, sizeof(unsigned), cudaHostAllocMapped));
    *host_ = 0;
    PLUMBLINE_CUDA_CHECK(cudaHostGetDevicePointer(&device_, host_, 0));
  }
  ~Gate() { cudaFreeHost(host_); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void close(cudaStream_t s) {
    device::hold<<<1, 1, 0, s>>>(device_, ++ticket_);
    PLUMBLINE_CUDA_CHECK(cudaGetLastError());
  }
  void open() { *static_cast<volatile unsigned*>(host_) = ticket_; }

 private:
  unsigned* host_ = nullptr;
  unsigned* device_ = nullptr;
  unsigned ticket_ = 0;
};

constexpr int kQueued = 400;  // below the 1024 launches that a stream takes before the host must wait
constexpr int kNodes = 2000;
constexpr int kSamples = 15;

/// `kQueued` launches wait behind a closed gate: the device then runs them without the host; what the host spent is
/// known.
void in_stream(const Launch& l, cudaStream_t s, std::vector<Record>& out, const std::string& setting) {
  Gate gate;
  const Stopwatch watch;
  std::vector<double> gap, host;
  enqueue(l, kQueued, s);
  PLUMBLINE_CUDA_CHECK(cudaStreamSynchronize(s));
  for (int i = 0; i < kSamples; ++i) {
    gate.close(s);
    watch.start(s);
    const auto begin = Clock::now();
    enqueue(l, kQueued, s);
    host.push_back(since(begin) / kQueued);
    watch.stop(s);
    gate.open();
    gap.push_back(watch.seconds() / kQueued);
  }
  out.push_back({l.pdl ? "gap_stream_pdl_s" : "gap_stream_s", setting, spread(gap)});
  out.push_back({l.pdl ? "host_per_launch_pdl_s" : "host_per_launch_s", setting, spread(host)});
}

/// A chain of nodes: time each, and from a second length what a graph launch costs beside them.
void in_graph(const Launch& l, cudaStream_t s, std::vector<Record>& out, const std::string& setting) {
  const CudaGraph one(s, [&] { enqueue(l, kNodes / 2, s); }), two(s, [&] { enqueue(l, kNodes, s); });
  const std::vector<double> shorter = time_each(s, 3, kSamples, [&] { one.launch(s); });
  const std::vector<double> longer = time_each(s, 3, kSamples, [&] { two.launch(s); });
  std::vector<double> gap, fixed, host;
  for (int i = 0; i < kSamples; ++i) {
    const auto at = static_cast<std::size_t>(i);
    gap.push_back((longer[at] - shorter[at]) / (kNodes - kNodes / 2));
    fixed.push_back(2.0 * shorter[at] - longer[at]);
  }
  for (int i = 0; i < kSamples; ++i) {
    const auto begin = Clock::now();
    two.launch(s);
    host.push_back(since(begin));
    PLUMBLINE_CUDA_CHECK(cudaStreamSynchronize(s));
  }
  out.push_back({l.pdl ? "gap_graph_pdl_s" : "gap_graph_s", setting, spread(gap)});
  out.push_back({"graph_fixed_s", setting + (l.pdl ? ";pdl=1" : ""), spread(fixed)});
  out.push_back(
      {"host_graph_launch_s", setting + (l.pdl ? ";pdl=1" : "") + ";nodes=" + std::to_string(kNodes), spread(host)});
}

}  // namespace

std::vector<Record> probe_launches() {
  const Stream s;
  const auto sms = static_cast<unsigned>(sm_count());
  std::vector<Record> out;
  for (const bool pdl : {false, true}) {
    if (pdl && compute_capability() < 90) break;
    for (const Launch& l :
         {Launch{"small", 1, 32, pdl}, Launch{"wide", sms, 256, pdl}, Launch{"full", 8 * sms, 256, pdl}}) {
      const std::string setting = "ctas=" + std::to_string(l.grid.x) + ";threads=" + std::to_string(l.block.x);
      in_stream(l, s, out, setting);
      in_graph(l, s, out, setting);
    }
  }
  return out;
}

std::vector<Record> probe_barrier() {
  const Stream s;
  const DeviceBuffer counter(sizeof(unsigned));
  std::vector<Record> out;
  for (const int threads : {32, 256, 1024}) {
    constexpr int kRounds = 2000;
    const auto run = [&](int rounds) {
      unsigned* at = counter.as<unsigned>();
      void* args[] = {&at, &rounds};
      PLUMBLINE_CUDA_CHECK(cudaMemsetAsync(at, 0, sizeof(unsigned), s));
      // cooperative: all CTAs are resident, or the launch is refused
      PLUMBLINE_CUDA_CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(device::meet),
                                                       dim3(static_cast<unsigned>(sm_count())),
                                                       dim3(static_cast<unsigned>(threads)), args, 0, s));
    };
    const std::vector<double> longer = time_each(s, 2, kSamples, [&] { run(kRounds); });
    const double shorter = spread(time_each(s, 2, kSamples, [&] { run(kRounds / 2); })).median;
    std::vector<double> each;
    for (const double t : longer) each.push_back((t - shorter) / (kRounds - kRounds / 2));
    out.push_back({"grid_barrier_s", "ctas_per_sm=1;threads=" + std::to_string(threads), spread(each)});
  }
  return out;
}

std::vector<Record> probe_flag() {
  constexpr unsigned kRounds = 2000;
  const Stream s;
  const DeviceBuffer flags(1024);
  const auto sms = static_cast<unsigned>(sm_count());
  std::vector<double> each;
  for (unsigned partner = 1; partner < sms; partner += 5) {
    const auto run = [&](unsigned rounds) {
      unsigned* at = flags.as<unsigned>();
      void* args[] = {&at, &partner, &rounds};
      PLUMBLINE_CUDA_CHECK(cudaMemsetAsync(at, 0, flags.bytes(), s));
      // cooperative: both are resident, or the launch is refused
      PLUMBLINE_CUDA_CHECK(
          cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(device::answer), dim3(sms), dim3(1), args, 0, s));
    };
    const double longer = spread(time_each(s, 1, 3, [&] { run(kRounds); })).median;
    const double shorter = spread(time_each(s, 1, 3, [&] { run(kRounds / 2); })).median;
    each.push_back((longer - shorter) / (kRounds - kRounds / 2) / 2);
  }
  return {{"flag_latency_s", "one way;pairs of CTAs", spread(each)}};
}

}  // namespace plumbline

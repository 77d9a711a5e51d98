#include "kernels/probes/energy.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "kernels/probes/instructions.cuh"
#include "kernels/probes/memory.cuh"

namespace plumbline {
namespace device {

/// One thread an SM that sleeps: what the board draws with its clocks running and nothing to do.
__global__ void sleep_for(long long ns) {
  const auto now = [] {
    long long t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
  };
  for (const long long start = now(); now() - start < ns;) __nanosleep(100000);
}

/// x' = z - x forever, with values of every lane's own: the lanes' inputs change with every instruction.
__global__ void __launch_bounds__(512) multiply_add(const float* data, int iterations, float* sink) {
  constexpr int kChains = 8, kRepeats = 16;
  float x[kChains], z[kChains];
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  for (int j = 0; j < kChains; ++j) {
    x[j] = data[(thread * kChains + static_cast<unsigned>(j)) * 2];
    z[j] = data[(thread * kChains + static_cast<unsigned>(j)) * 2 + 1];
  }
  const float minus_one = data[0] == 12345.0F ? 0.0F : -1.0F;  // not known to the compiler
  for (int i = 0; i < iterations; ++i) {
#pragma unroll
    for (int k = 0; k < kRepeats; ++k) {
#pragma unroll
      for (int j = 0; j < kChains; ++j) {
        asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x[j]) : "f"(minus_one), "f"(z[j]));
      }
    }
  }
  float sum = 0;
  for (const float v : x) sum += v;
  if (sum == 0x1p-100F) *sink = sum;  // about never
}

/// Writes 64 KB of the data over and over.
__global__ void __launch_bounds__(kThreads) write_data(const uint4* data, uint4* y, std::size_t n) {
  constexpr int kVecs = 4;
  uint4 held[kVecs];
  for (int i = 0; i < kVecs; ++i)
    held[i] = data[(blockIdx.x % 4 * kVecs + static_cast<unsigned>(i)) * kThreads + threadIdx.x];
  const std::size_t stride = std::size_t{gridDim.x} * kThreads * kVecs;
  for (std::size_t v = std::size_t{blockIdx.x} * kThreads * kVecs + threadIdx.x; v < n; v += stride) {
#pragma unroll
    for (int i = 0; i < kVecs; ++i) __stcs(y + v + i * kThreads, held[i]);
  }
}

}  // namespace device

namespace {

using device::TensorKind;

constexpr int kSharedBytes = device::kOperandBytes + device::kRingBytes + 1024;

Runner runner_of(std::function<void(cudaStream_t)> launch) {
  Runner r;
  r.slot_bytes = 1;
  r.max_slots = 1;
  r.prepare = [](std::int64_t, StreamHandle) {};
  r.enqueue = [launch = std::move(launch)](std::int64_t, StreamHandle s) {
    launch(static_cast<cudaStream_t>(s));
    PLUMBLINE_CUDA_CHECK(cudaGetLastError());
  };
  return r;
}

constexpr int kFillSlots = 8;  // copies of 8 KiB

/// A body of the instruction probes on `ctas` SMs, with bulk copies from L2 beside it when asked for.
template <class Body>
void repeat_body(SteadyLoad& load, const void* data, int iterations, int ctas, bool fill = false) {
  const auto n = static_cast<std::size_t>(ctas);
  const auto samples = std::make_shared<DeviceBuffer>(n * sizeof(device::PortSample));
  const auto sink = std::make_shared<DeviceBuffer>(16);
  const auto kernel = device::repeat<Body>;
  PLUMBLINE_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
  load.runner = runner_of([=](cudaStream_t s) {
    kernel<<<static_cast<unsigned>(ctas), Body::kThreads + 32, kSharedBytes, s>>>(
        static_cast<const unsigned char*>(data), std::size_t{8} << 20, iterations, fill ? kFillSlots : 0,
        samples->template as<device::PortSample>(), sink->template as<int>());
  });
  if (!fill) return;
  load.filled_B = [=] {
    std::vector<device::PortSample> host(n);
    PLUMBLINE_CUDA_CHECK(cudaMemcpy(host.data(), samples->as(), samples->bytes(), cudaMemcpyDeviceToHost));
    double bytes = 0;
    for (const device::PortSample& s : host) bytes += static_cast<double>(s.fill_bytes);
    return bytes;
  };
}

/// wgmma 64 x 256 from shared memory by two warpgroups; some 3 ms at the boost clock.
template <TensorKind kKind>
SteadyLoad tensor_load(const char* kind, const void* data, DataPattern pattern, int ctas, bool fill = false) {
  using Body = device::TensorBody<kKind, 256, 2>;
  constexpr int kIterations = 5800;
  constexpr double kOperandBytes = (64 + 256) * 32.0;  // of one instruction
  SteadyLoad load;
  load.data = pattern;
  load.setting = std::string(fill ? "load=tensor_and_l2_fill;kind=" : "load=tensor;kind=") + kind +
                 ";data=" + std::string(name(pattern)) + ";sms=" + std::to_string(ctas);
  const double iterations = double(kIterations) * ctas;
  load.work.tensor_FLOP = Body::kPerIteration * iterations;
  load.work.smem_B = 8 * kOperandBytes * iterations;
  repeat_body<Body>(load, data, kIterations, ctas, fill);
  return load;
}

/// Random reads of shared memory: a load and three more instructions for 16 bytes.
SteadyLoad shared_load(const void* data, int ctas) {
  using Body = device::SharedReadBody<8, false>;
  constexpr int kIterations = 24000;
  SteadyLoad load;
  load.setting = "load=smem;data=normal;sms=" + std::to_string(ctas);
  load.work.smem_B = Body::kPerIteration * kIterations * ctas;
  load.work.instructions = 4 * load.work.smem_B / 16;
  repeat_body<Body>(load, data, kIterations, ctas);
  return load;
}

SteadyLoad idle_load(int ctas) {
  SteadyLoad load;
  load.setting = "load=idle;data=normal;sms=" + std::to_string(ctas);
  load.runner =
      runner_of([ctas](cudaStream_t s) { device::sleep_for<<<static_cast<unsigned>(ctas), 1, 0, s>>>(3000000); });
  return load;
}

SteadyLoad multiply_add_load(const void* data, int ctas) {
  constexpr int kIterations = 5500, kBlock = 512, kInstructions = 128;
  const auto grid = static_cast<unsigned>(2 * ctas);
  const auto sink = std::make_shared<DeviceBuffer>(16);
  SteadyLoad load;
  load.setting = "load=fma;data=normal;sms=" + std::to_string(ctas);
  load.work.instructions = double(kInstructions) * kIterations * kBlock * grid;
  load.runner = runner_of([=](cudaStream_t s) {
    device::multiply_add<<<grid, kBlock, 0, s>>>(static_cast<const float*>(data), kIterations, sink->as<float>());
  });
  return load;
}

/// Loads come with a merge and an address: some five instructions of a thread for 16 bytes, seven where four are
/// summed.
SteadyLoad l2_load(const void* data, int ctas) {
  constexpr std::size_t kBytes = 20000000 / 16 * 16;
  constexpr int kPasses = 1000;
  const auto sink = std::make_shared<DeviceBuffer>(16);
  SteadyLoad load;
  load.setting = "load=l2_read;data=normal;sms=" + std::to_string(ctas);
  load.work.l2_B = double(kBytes) * kPasses;
  load.work.instructions = 7 * load.work.l2_B / 16;
  load.runner = runner_of([=](cudaStream_t s) {
    device::read_l2<4><<<static_cast<unsigned>(4 * ctas), 512, 0, s>>>(static_cast<const uint4*>(data), kBytes / 16,
                                                                       kPasses, 37, sink->as<uint4>());
  });
  return load;
}

/// Bulk copies from L2 into shared memory, as tiles of GEMM and attention travel: no instructions, no registers.
SteadyLoad l2_fill_load(const void* data, int ctas) {
  constexpr int kIterations = 90000;  // of 64 clk
  SteadyLoad load;
  load.setting = "load=l2_fill;data=normal;sms=" + std::to_string(ctas);
  repeat_body<device::IdleBody>(load, data, kIterations, ctas, true);
  return load;
}

SteadyLoad dram_read_load(const void* data, DataPattern pattern, int ctas) {
  const auto sink = std::make_shared<DeviceBuffer>(16);
  SteadyLoad load;
  load.data = pattern;
  load.setting = "load=dram_read;data=" + std::string(name(pattern)) + ";sms=" + std::to_string(ctas);
  load.work.dram_read_B = load.work.l2_B = double(kStreamBytes);
  load.work.instructions = 5 * load.work.l2_B / 16;
  load.runner = runner_of([=](cudaStream_t s) {
    device::stream_read<4><<<static_cast<unsigned>(8 * ctas), device::kThreads, 0, s>>>(
        static_cast<const uint4*>(data), kStreamBytes / 16, sink->as<uint4>());
  });
  return load;
}

SteadyLoad dram_write_load(const void* data, void* out, int ctas) {
  SteadyLoad load;
  load.setting = "load=dram_write;data=normal;sms=" + std::to_string(ctas);
  load.work.dram_write_B = load.work.l2_B = double(kStreamBytes);
  load.work.instructions = 3 * load.work.l2_B / 16;
  load.runner = runner_of([=](cudaStream_t s) {
    device::write_data<<<static_cast<unsigned>(8 * ctas), device::kThreads, 0, s>>>(
        static_cast<const uint4*>(data), static_cast<uint4*>(out), kStreamBytes / 16);
  });
  return load;
}

}  // namespace

std::vector<SteadyLoad> steady_loads(Arena& arena, StreamHandle stream) {
  const void* bf16 = arena.data(Region::normal_bf16, stream);
  const void* fp8 = arena.data(Region::normal_fp8, stream);
  const void* fp32 = arena.data(Region::normal_fp32, stream);
  void* out = arena.data(Region::output, stream);
  if (std::min(arena.bytes(Region::normal_bf16), arena.bytes(Region::output)) < kStreamBytes) {
    throw NotModelled("the card's memory is too small for streams of 2 GiB");
  }
  const int sms = sm_count(), half = sms / 2;
  std::vector<SteadyLoad> loads;
  loads.push_back(idle_load(sms));
  loads.push_back(tensor_load<TensorKind::bf16>("bf16", bf16, DataPattern::normal, half));
  loads.push_back(tensor_load<TensorKind::fp8>("fp8", fp8, DataPattern::normal, half));
  loads.push_back(tensor_load<TensorKind::bf16>("bf16", bf16, DataPattern::normal, sms / 4));
  loads.push_back(l2_load(bf16, sms));
  loads.push_back(l2_fill_load(bf16, sms));
  loads.push_back(dram_read_load(bf16, DataPattern::normal, sms));
  loads.push_back(dram_write_load(bf16, out, sms));
  loads.push_back(shared_load(bf16, sms));
  loads.push_back(multiply_add_load(fp32, sms));
  // where the cap bites: the clock that is left says how voltage falls with it
  loads.push_back(tensor_load<TensorKind::bf16>("bf16", bf16, DataPattern::normal, 3 * sms / 4));
  loads.push_back(tensor_load<TensorKind::bf16>("bf16", bf16, DataPattern::normal, 7 * sms / 8));
  loads.push_back(tensor_load<TensorKind::bf16>("bf16", bf16, DataPattern::normal, sms));
  loads.push_back(tensor_load<TensorKind::fp8>("fp8", fp8, DataPattern::normal, sms));
  loads.push_back(tensor_load<TensorKind::bf16>("bf16", bf16, DataPattern::normal, sms, true));
  loads.push_back(tensor_load<TensorKind::fp8>("fp8", fp8, DataPattern::normal, sms, true));
  loads.push_back(tensor_load<TensorKind::bf16>("bf16", bf16, DataPattern::ternary, half));
  loads.push_back(dram_read_load(bf16, DataPattern::ternary, sms));
  loads.push_back(dram_read_load(bf16, DataPattern::zeros, sms));
  loads.push_back(tensor_load<TensorKind::bf16>("bf16", bf16, DataPattern::zeros, sms));
  return loads;
}

}  // namespace plumbline

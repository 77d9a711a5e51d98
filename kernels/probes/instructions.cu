// Probes of single instructions and of the ports of an SM (probes.hpp), in units a clock of the SM. What they said on
// an H200: docs/lab/instructions.md.
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "kernels/common/measure.cuh"
#include "kernels/probes/instructions.cuh"
#include "kernels/probes/probes.hpp"

namespace plumbline {
namespace {

using device::LaneOp;
using device::PortSample;
using device::TensorKind;

constexpr std::size_t kWindow = std::size_t{8} << 20;  // of what fills read: well inside one half of the L2
constexpr int kSharedBytes = device::kOperandBytes + device::kRingBytes + 1024;
constexpr int kFillSlots = 8;      // of 8 KiB
constexpr double kClocks = 150e3;  // about how long a launch shall take

enum class Contents { bf16, fp8, int8 };

/// Random normal values of a type, as bytes.
std::vector<unsigned char> random_bytes(Contents contents) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<unsigned char> out;
  out.reserve(kWindow);
  while (out.size() < kWindow) {
    const float x = normal(random);
    if (contents == Contents::bf16) {
      const __nv_bfloat16_raw raw = __float2bfloat16_rn(x);
      out.push_back(static_cast<unsigned char>(raw.x & 0xff));
      out.push_back(static_cast<unsigned char>(raw.x >> 8));
    } else if (contents == Contents::fp8) {
      out.push_back(__nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3));
    } else {
      out.push_back(static_cast<unsigned char>(static_cast<int>(std::clamp(32 * x, -127.0F, 127.0F))));
    }
  }
  return out;
}

class Operands {
 public:
  explicit Operands(Contents contents) : data_(kWindow) {
    const std::vector<unsigned char> host = random_bytes(contents);
    PLUMBLINE_CUDA_CHECK(cudaMemcpy(data_.as(), host.data(), host.size(), cudaMemcpyHostToDevice));
  }
  const unsigned char* get() const { return data_.as<unsigned char>(); }

 private:
  DeviceBuffer data_;
};

/// One launch on `ctas` SMs behind a warm-up of the same; what each SM counted.
template <class Body>
std::vector<PortSample> samples_of(const Operands& operands, int iterations, int fill_slots, int ctas) {
  const Stream s;
  const auto n = static_cast<std::size_t>(ctas);
  const DeviceBuffer samples(n * sizeof(PortSample)), sink(16);
  const auto kernel = device::repeat<Body>;
  PLUMBLINE_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
  for (int i = 0; i < 2; ++i) {
    kernel<<<static_cast<unsigned>(ctas), Body::kThreads + 32, kSharedBytes, s>>>(
        operands.get(), kWindow, iterations, fill_slots, samples.as<PortSample>(), sink.as<int>());
    PLUMBLINE_CUDA_CHECK(cudaGetLastError());
  }
  s.wait();
  std::vector<PortSample> out(n);
  PLUMBLINE_CUDA_CHECK(cudaMemcpy(out.data(), samples.as(), n * sizeof(PortSample), cudaMemcpyDeviceToHost));
  return out;
}

template <class Body>
int iterations_for(const Operands& operands) {
  const double each = static_cast<double>(samples_of<Body>(operands, 64, 0, 1).front().clocks) / 64;
  return std::max(64, static_cast<int>(kClocks / each));
}

/// `name` in Body's units a clock, over `ctas` SMs; with `fill` also what the fills reached beside it.
template <class Body>
void measure_on(const char* name, const std::string& setting, const Operands& operands, bool fill, int ctas,
                std::vector<Record>& out) {
  std::vector<double> rate, fill_rate;
  const int iterations = iterations_for<Body>(operands);
  for (const PortSample& s : samples_of<Body>(operands, iterations, fill ? kFillSlots : 0, ctas)) {
    rate.push_back(Body::kPerIteration * iterations / static_cast<double>(s.clocks));
    if (fill) fill_rate.push_back(static_cast<double>(s.fill_bytes) / static_cast<double>(s.fill_clocks));
  }
  const std::string sms = ";sms=" + std::to_string(ctas);
  out.push_back({name, setting + sms + (fill ? ";fill=1" : ""), spread(rate)});
  if (fill) out.push_back({"smem_fill_B_per_clk", "beside:" + setting + sms, spread(fill_rate)});
}

/// On all SMs; fills on one alone as well, where L2 has more to give to it.
template <class Body>
void measure(const char* name, const std::string& setting, const Operands& operands, bool fill,
             std::vector<Record>& out) {
  measure_on<Body>(name, setting, operands, fill, sm_count(), out);
  if (fill) measure_on<Body>(name, setting, operands, fill, 1, out);
}

template <TensorKind kKind, int kN>
void tensor_width(const char* kind, const Operands& operands, std::vector<Record>& out) {
  const std::string setting = std::string("instruction=wgmma;kind=") + kind + ";n=" + std::to_string(kN);
  const char* name = "tensor_FLOP_per_clk";
  measure<device::TensorBody<kKind, kN, 1>>(name, setting + ";warpgroups=1", operands, false, out);
  measure<device::TensorBody<kKind, kN, 2>>(name, setting + ";warpgroups=2", operands, false, out);
  measure<device::TensorBody<kKind, kN, 2>>(name, setting + ";warpgroups=2", operands, true, out);
}

template <TensorKind kKind>
void tensor_kind(const char* kind, const Operands& operands, std::vector<Record>& out) {
  tensor_width<kKind, 8>(kind, operands, out);
  tensor_width<kKind, 16>(kind, operands, out);
  tensor_width<kKind, 32>(kind, operands, out);
  tensor_width<kKind, 64>(kind, operands, out);
  tensor_width<kKind, 128>(kind, operands, out);
  tensor_width<kKind, 256>(kind, operands, out);
}

template <int kWarps>
void warp_tensor(const Operands& operands, std::vector<Record>& out) {
  measure<device::WarpTensorBody<kWarps>>("tensor_FLOP_per_clk",
                                          "instruction=mma_m16n8k16;kind=bf16;warps=" + std::to_string(kWarps),
                                          operands, false, out);
}

template <int kWarps>
void shared_reads(const Operands& operands, std::vector<Record>& out) {
  const std::string warps = ";warps=" + std::to_string(kWarps);
  for (const bool fill : {false, true}) {
    measure<device::SharedReadBody<kWarps, false>>("smem_read_B_per_clk", "instruction=ld_v4" + warps, operands, fill,
                                                   out);
    measure<device::SharedReadBody<kWarps, true>>("smem_read_B_per_clk", "instruction=ldmatrix_x4" + warps, operands,
                                                  fill, out);
  }
}

template <LaneOp kOp>
void lanes(const char* name, const Operands& operands, std::vector<Record>& out) {
  measure<device::LaneBody<kOp, 8>>(name, "warps=8", operands, false, out);
  measure<device::LaneBody<kOp, 16>>(name, "warps=16", operands, false, out);
}

/// Fills with nothing beside them, on one SM and on all, in copies of several sizes.
void fills_alone(const Operands& operands, std::vector<Record>& out) {
  for (const int slots : {2, 4, 8, 16, 32}) {
    for (const int ctas : {1, sm_count() / 2, sm_count()}) {
      std::vector<double> rate;
      const int iterations = static_cast<int>(kClocks / 64);
      for (const PortSample& s : samples_of<device::IdleBody>(operands, iterations, slots, ctas)) {
        rate.push_back(static_cast<double>(s.fill_bytes) / static_cast<double>(s.fill_clocks));
      }
      const std::string copy = ";copy_B=" + std::to_string(device::kRingBytes / slots);
      out.push_back({"smem_fill_B_per_clk", "sms=" + std::to_string(ctas) + copy, spread(rate)});
    }
  }
}

}  // namespace

std::vector<Record> probe_instructions() {
  const Operands bf16(Contents::bf16), fp8(Contents::fp8), int8(Contents::int8);
  std::vector<Record> out;
  tensor_kind<TensorKind::bf16>("bf16", bf16, out);
  tensor_kind<TensorKind::bf16_registers>("bf16_a_from_registers", bf16, out);
  tensor_kind<TensorKind::fp8>("fp8", fp8, out);
  tensor_kind<TensorKind::int8>("int8", int8, out);
  warp_tensor<4>(bf16, out);
  warp_tensor<8>(bf16, out);
  warp_tensor<16>(bf16, out);
  shared_reads<4>(bf16, out);
  shared_reads<8>(bf16, out);
  shared_reads<16>(bf16, out);
  fills_alone(bf16, out);
  lanes<LaneOp::fma>("fp32_fma_per_clk", bf16, out);
  lanes<LaneOp::exp2>("sfu_exp2_per_clk", bf16, out);
  lanes<LaneOp::convert>("bf16x2_convert_per_clk", bf16, out);
  return out;
}

}  // namespace plumbline

// Gradients of activations, element by element: one vector of 16 bytes of each operand a thread (docs/lab/flat.md).
#include <string>

#include "kernels/common/cuda_check.hpp"
#include "kernels/common/vector.cuh"
#include "kernels/training/training.hpp"

namespace plumbline {
namespace device {

constexpr int kGradientThreads = 256;

/// Phi(x) + x phi(x). Phi(-|x|) = t p(t) e^(-x^2 / 2) / 2 with t = 1 / (1 + 0.3275911 |x| / sqrt 2), within 0.8e-7
/// (Abramowitz and Stegun, 7.1.26): the exponential is phi's too. erff() costs a sixth of the bandwidth.
struct GeluGradient {
  static __device__ float f(float x) {
    const float e = exp2_approx(-0.72134752F * x * x), t = __fdividef(1.0F, fmaf(0.23164189F, fabsf(x), 1.0F));
    const float p =
        fmaf(fmaf(fmaf(fmaf(0.5307027F, t, -0.72657602F), t, 0.71070687F), t, -0.14224837F), t, 0.12741480F);
    const float below = t * p * e;
    return fmaf(0.3989422804F * x, e, x > 0 ? 1.0F - below : below);
  }
};
/// s (1 + x (1 - s)), s the sigmoid.
struct SiluGradient {
  static __device__ float f(float x) {
    const float s = __fdividef(1.0F, 1.0F + __expf(-x));
    return s * fmaf(x, 1.0F - s, 1.0F);
  }
};
struct ReluGradient {
  static __device__ float f(float x) { return x > 0 ? 1.0F : 0.0F; }
};

template <class Gradient>
__global__ void __launch_bounds__(kGradientThreads)
    activation_backward(const bf16* dy, const bf16* x, bf16* dx, std::int64_t n) {
  const std::int64_t at = (std::int64_t{blockIdx.x} * kGradientThreads + threadIdx.x) * kVector;
  if (at + kVector <= n) {
    const uint4 a = load_vector(dy + at), b = load_vector(x + at);
    float d[kVector], v[kVector];
    unpack(a, d);
    unpack(b, v);
#pragma unroll
    for (int i = 0; i < kVector; ++i) d[i] *= Gradient::f(v[i]);
    return store_vector(dx + at, pack(d));
  }
  for (std::int64_t i = at; i < n; ++i) {
    dx[i] = __float2bfloat16_rn(__bfloat162float(dy[i]) * Gradient::f(__bfloat162float(x[i])));
  }
}

/// d of silu(gate) up: gate's and up's.
__device__ inline void swiglu_gradient(float d, float& gate, float& up) {
  const float s = __fdividef(1.0F, 1.0F + __expf(-gate)), silu = gate * s;
  const float d_gate = d * up * fmaf(silu, 1.0F - s, s);
  up = d * silu;
  gate = d_gate;
}

/// `row_vectors` vectors a row of dy; x and dx have as many of gate, then of up.
__global__ void __launch_bounds__(kGradientThreads)
    swiglu_backward(const bf16* dy, const bf16* x, bf16* dx, std::uint32_t vectors, Divider row_vectors) {
  const std::uint32_t v = blockIdx.x * kGradientThreads + threadIdx.x;
  if (v >= vectors) return;
  const std::int64_t width = std::int64_t{row_vectors.by} * kVector, at = std::int64_t{v} * kVector;
  const std::int64_t gate_at = at + row_vectors.quotient(v) * width;
  const uint4 a = load_vector(dy + at), b = load_vector(x + gate_at), c = load_vector(x + gate_at + width);
  float d[kVector], gate[kVector], up[kVector];
  unpack(a, d);
  unpack(b, gate);
  unpack(c, up);
#pragma unroll
  for (int i = 0; i < kVector; ++i) swiglu_gradient(d[i], gate[i], up[i]);
  store_vector(dx + gate_at, pack(gate));
  store_vector(dx + gate_at + width, pack(up));
}

/// Rows that are not whole vectors: an element a thread.
__global__ void __launch_bounds__(kGradientThreads)
    swiglu_backward_single(const bf16* dy, const bf16* x, bf16* dx, std::int64_t n, std::int64_t width) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kGradientThreads + threadIdx.x;
  if (i >= n) return;
  const std::int64_t gate_at = i + i / width * width;
  float gate = __bfloat162float(x[gate_at]), up = __bfloat162float(x[gate_at + width]);
  swiglu_gradient(__bfloat162float(dy[i]), gate, up);
  dx[gate_at] = __float2bfloat16_rn(gate);
  dx[gate_at + width] = __float2bfloat16_rn(up);
}

}  // namespace device

namespace {

using device::bf16;
using device::kGradientThreads;
using device::kVector;

unsigned gradient_ctas(std::int64_t items) {
  const std::int64_t ctas = (items + kGradientThreads - 1) / kGradientThreads;
  if (ctas > 0x7fffffff) throw NotModelled("activation backward: our kernels take up to 2^31 CTAs");
  return static_cast<unsigned>(ctas);
}

}  // namespace

void launch_activation_backward(RowwiseKind kind, const Rows& s, const void* dy, const void* x, void* dx,
                                StreamHandle handle) {
  const std::int64_t n = s.rows * s.cols;
  void (*kernel)(const bf16*, const bf16*, bf16*, std::int64_t) = nullptr;
  if (kind == RowwiseKind::gelu) kernel = device::activation_backward<device::GeluGradient>;
  else if (kind == RowwiseKind::silu) kernel = device::activation_backward<device::SiluGradient>;
  else if (kind == RowwiseKind::relu) kernel = device::activation_backward<device::ReluGradient>;
  else throw NotModelled(std::string(name(kind)) + " backward: no kernel of ours");
  kernel<<<gradient_ctas((n + kVector - 1) / kVector), kGradientThreads, 0, static_cast<cudaStream_t>(handle)>>>(
      static_cast<const bf16*>(dy), static_cast<const bf16*>(x), static_cast<bf16*>(dx), n);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

void launch_swiglu_backward(const Rows& s, const void* dy, const void* x, void* dx, StreamHandle handle) {
  const std::int64_t n = s.rows * s.cols;
  auto* stream = static_cast<cudaStream_t>(handle);
  const auto *from = static_cast<const bf16*>(dy), *in = static_cast<const bf16*>(x);
  if (s.cols % kVector == 0) {
    if (n / kVector > 0x7fffff00) throw NotModelled("swiglu backward: our kernel takes up to 2^31 vectors");
    device::swiglu_backward<<<gradient_ctas(n / kVector), kGradientThreads, 0, stream>>>(
        from, in, static_cast<bf16*>(dx), static_cast<std::uint32_t>(n / kVector), device::Divider(s.cols / kVector));
  } else {
    device::swiglu_backward_single<<<gradient_ctas(n), kGradientThreads, 0, stream>>>(from, in, static_cast<bf16*>(dx),
                                                                                      n, s.cols);
  }
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace plumbline

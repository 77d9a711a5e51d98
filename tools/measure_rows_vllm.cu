// vLLM's row-wise kernels behind plain pointers, to be called from Python without its build: tools/measure_rows.py. None of its
// code is here: kernels and the launches around them come from a copy of the package's csrc (vllm's sdist on PyPI; Apache
// License 2.0), which this file includes behind the few names of PyTorch's C++ that they use, in place of PyTorch's headers.
//
//   mkdir -p empty/torch empty/c10/cuda empty/c10/util empty/ATen/cuda; cd empty; touch torch/all.h torch/cuda.h \
//     c10/cuda/CUDAGuard.h c10/util/Float8_e4m3fn.h c10/util/Float8_e4m3fnuz.h ATen/cuda/CUDAContext.h; cd ..
//   nvcc -O3 -std=c++17 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -shared -Xcompiler -fPIC -Iempty -IPATH/csrc \
//     tools/measure_rows_vllm.cu -o librows_vllm.so
#include <cuda.h>  // CUDA_VERSION, by which the package has its wide kernels
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace c10 {

/// Arithmetic goes by way of fp32, as PyTorch's types have it.
template <class Native>
struct Narrow {
  Native value;
  Narrow() = default;
  __host__ __device__ Narrow(float x) : value(static_cast<Native>(x)) {}
  __host__ __device__ operator float() const { return static_cast<float>(value); }
};
template <class N>
__host__ __device__ Narrow<N> operator*(const Narrow<N>& a, const Narrow<N>& b) {
  return static_cast<float>(a) * static_cast<float>(b);
}
template <class N>
__host__ __device__ Narrow<N>& operator+=(Narrow<N>& a, const Narrow<N>& b) {
  return a = static_cast<float>(a) + static_cast<float>(b);
}
using Half = Narrow<__half>;
using BFloat16 = Narrow<__nv_bfloat16>;
struct Float8_e4m3fn {};  // named, not used
struct Float8_e4m3fnuz {};

}  // namespace c10

template <class N>
__device__ __forceinline__ c10::Narrow<N> __ldg(const c10::Narrow<N>* from) {
  const auto bits = __ldg(reinterpret_cast<const unsigned short*>(from));
  return *reinterpret_cast<const c10::Narrow<N>*>(&bits);
}

namespace at {

enum class ScalarType { Float, Half, BFloat16, Float8_e4m3fn, Char, Byte, Short, Int, Long };
namespace cuda {
inline cudaStream_t& getCurrentCUDAStream() {
  static cudaStream_t stream = nullptr;
  return stream;
}
struct OptionalCUDAGuard {
  explicit OptionalCUDAGuard(int) {}
};
}  // namespace cuda

}  // namespace at

namespace torch {

/// Rows without gaps, of which the last side is whole.
struct Tensor {
  void* data = nullptr;
  std::vector<std::int64_t> sides;
  at::ScalarType type = at::ScalarType::BFloat16;
  std::int64_t row = 0;  // elements from one row to the next
  std::int64_t dim() const { return static_cast<std::int64_t>(sides.size()); }
  std::int64_t size(std::int64_t i) const { return sides.at(i < 0 ? sides.size() + i : i); }
  std::int64_t numel() const {
    return std::accumulate(sides.begin(), sides.end(), std::int64_t{1}, std::multiplies<>{});
  }
  std::int64_t stride(std::int64_t i) const { return (i < 0 ? i + dim() : i) + 1 == dim() ? 1 : row; }
  bool is_contiguous() const { return row == sides.back(); }
  at::ScalarType scalar_type() const { return type; }
  Tensor view(std::initializer_list<std::int64_t>) const { return *this; }
  void* data_ptr() const { return data; }
  template <class T>
  T* data_ptr() const {
    return static_cast<T*>(data);
  }
};

}  // namespace torch
inline int device_of(const torch::Tensor&) { return 0; }

template <at::ScalarType>
struct TypeOf;
template <>
struct TypeOf<at::ScalarType::Float> {
  using Type = float;
};
template <>
struct TypeOf<at::ScalarType::Half> {
  using Type = c10::Half;
};
template <>
struct TypeOf<at::ScalarType::BFloat16> {
  using Type = c10::BFloat16;
};
#define TORCH_CHECK(right, ...) \
  if (!(right)) throw std::runtime_error(#right)
#define AT_DISPATCH_CASE(TYPE, ...)             \
  case TYPE: {                                  \
    using scalar_t = typename TypeOf<TYPE>::Type; \
    return __VA_ARGS__();                       \
  }
#define AT_DISPATCH_SWITCH(TYPE, NAME, ...)            \
  [&] {                                                \
    switch (TYPE) {                                    \
      __VA_ARGS__ default : throw std::runtime_error(NAME); \
    }                                                  \
  }()

#include <activation_kernels.cu>
#include <layernorm_kernels.cu>
#include <pos_encoding_kernels.cu>

namespace {

torch::Tensor matrix(int bf16, void* data, std::int64_t rows, std::int64_t width, std::int64_t row = 0) {
  return {data, {rows, width}, bf16 != 0 ? at::ScalarType::BFloat16 : at::ScalarType::Half, row > 0 ? row : width};
}

torch::Tensor vector(int bf16, void* data, std::int64_t width) {
  return {data, {width}, bf16 != 0 ? at::ScalarType::BFloat16 : at::ScalarType::Half, width};
}

template <class Call>
int by(cudaStream_t stream, const Call& call) {
  at::cuda::getCurrentCUDAStream() = stream;
  try {
    call();
  } catch (const std::exception&) {
    return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

}  // namespace

// As those of tools/measure_rows.cu; the table of `rows_rope` has the operands' type and positions are 64-bit integers.
extern "C" {

int rows_rmsnorm(int bf16, void* in, void* weight, void* out, int rows, int width, cudaStream_t stream) {
  auto x = matrix(bf16, in, rows, width), y = matrix(bf16, out, rows, width), w = vector(bf16, weight, width);
  return by(stream, [&] { rms_norm(y, x, w, 1e-5); });
}

int rows_add_rmsnorm(int bf16, void* in, void* residual, void* weight, int rows, int width, cudaStream_t stream) {
  auto x = matrix(bf16, in, rows, width), y = matrix(bf16, residual, rows, width), w = vector(bf16, weight, width);
  return by(stream, [&] { fused_add_rms_norm(x, y, w, 1e-5); });
}

int rows_swiglu(int bf16, void* out, void* in, int rows, int width, cudaStream_t stream) {
  auto x = matrix(bf16, in, rows, 2 * static_cast<std::int64_t>(width)), y = matrix(bf16, out, rows, width);
  return by(stream, [&] { silu_and_mul(y, x); });
}

int rows_rope(int bf16, void* q, void* k, void* table, void* positions, int tokens, int q_heads, int k_heads, int width,
              cudaStream_t stream) {
  const std::int64_t row = (q_heads + 2 * k_heads) * width;
  auto queries = matrix(bf16, q, tokens, q_heads * width, row);
  std::optional<torch::Tensor> keys = matrix(bf16, k, tokens, k_heads * width, row);
  auto angles = matrix(bf16, table, 1, width);
  torch::Tensor places{positions, {tokens}, at::ScalarType::Long, tokens};
  return by(stream, [&] { rotary_embedding(places, queries, keys, width, angles, true); });
}
}

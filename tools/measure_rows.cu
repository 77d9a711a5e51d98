// FlashInfer's row-wise kernels behind plain pointers, to be called from Python without its own bindings: tools/measure_rows.py.
// None of its code is here: the headers come from a copy of the package (flashinfer-python on PyPI; Apache License 2.0).
//
//   H=PATH/flashinfer/data/include; nvcc -O3 -use_fast_math -std=c++17 --expt-relaxed-constexpr \
//     -gencode=arch=compute_90a,code=sm_90a -shared -Xcompiler -fPIC -DFLASHINFER_ENABLE_BF16 -DFLASHINFER_ENABLE_F16 -I$H/../cccl/libcudacxx/include \
//     -I$H/../cccl/cub -I$H/../cccl/thrust -I$H -I$H/../spdlog/include tools/measure_rows.cu -o librows.so
//
// Launches are those of the package's csrc: grids and blocks of norms, rotation and append are chosen by the headers; those of gated
// units by csrc/activation.cu (a CTA a row, a thread each 16 bytes, 1024 threads at most), said again below.
// Optimization and fast mathematics are as flashinfer/jit/core.py compiles them: without the latter a gated unit takes 214
// instructions a vector for 94, and 33 registers for 31, which leaves an SM one CTA of 1024 threads for two.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <flashinfer/activation.cuh>
#include <flashinfer/norm.cuh>
#include <flashinfer/page.cuh>
#include <flashinfer/pos_enc.cuh>

namespace {

__device__ __forceinline__ float sigmoid_times(const float& x) { return x / (1.0F + __expf(-x)); }

template <class T>
int gated_unit(void* out, const void* in, int rows, int width, cudaStream_t stream) {
  const int threads = std::min<int>(width / static_cast<int>(16 / sizeof(T)), 1024);
  flashinfer::activation::act_and_mul_kernel<T, sigmoid_times>
      <<<rows, threads, 0, stream>>>(static_cast<T*>(out), static_cast<const T*>(in), width);
  return cudaGetLastError();
}

template <class T>
int rotate(void* q, void* k, float* table, int* positions, std::uint32_t tokens, std::uint32_t q_heads,
           std::uint32_t k_heads, std::uint32_t width, cudaStream_t stream) {
  T *queries = static_cast<T*>(q), *keys = static_cast<T*>(k);
  // queries, keys and values stand in one row, as the product before left them
  const std::size_t row = (q_heads + 2 * k_heads) * width;
  return flashinfer::BatchQKApplyRotaryPosIdsCosSinCache(queries, keys, queries, keys, table, positions, tokens, q_heads,
                                                         k_heads, width, width, row, width, row, width, row, width, row,
                                                         width, false, stream);
}

template <class T>
int append(void* cache_k, void* cache_v, int* pages, int* page_begins, int* last, void* k, void* v, int* sequences,
           int* positions, std::uint32_t tokens, std::uint32_t batch, std::uint32_t heads, std::uint32_t width,
           std::uint32_t page, std::size_t row, cudaStream_t stream) {
  flashinfer::paged_kv_t<T, int> cache(heads, page, width, batch, flashinfer::QKVLayout::kNHD, static_cast<T*>(cache_k),
                                       static_cast<T*>(cache_v), pages, page_begins, last);
  return flashinfer::AppendPagedKVCache(cache, static_cast<T*>(k), static_cast<T*>(v), sequences, positions, tokens, row,
                                        width, row, width, stream);
}

}  // namespace

// `bf16`: 1, else fp16. All return CUDA's error.
extern "C" {

int rows_rmsnorm(int bf16, void* in, void* weight, void* out, int rows, int width, cudaStream_t stream) {
  const auto run = [&](auto* x) {
    using T = std::remove_pointer_t<decltype(x)>;
    return flashinfer::norm::RMSNorm(static_cast<T*>(in), static_cast<T*>(weight), static_cast<T*>(out), rows, width, width,
                                     width, 1e-5F, false, stream);
  };
  return bf16 != 0 ? run(static_cast<__nv_bfloat16*>(nullptr)) : run(static_cast<__half*>(nullptr));
}

int rows_add_rmsnorm(int bf16, void* in, void* residual, void* weight, int rows, int width, cudaStream_t stream) {
  const auto run = [&](auto* x) {
    using T = std::remove_pointer_t<decltype(x)>;
    return flashinfer::norm::FusedAddRMSNorm(static_cast<T*>(in), static_cast<T*>(residual), static_cast<T*>(weight), rows,
                                             width, width, width, 1e-5F, false, stream);
  };
  return bf16 != 0 ? run(static_cast<__nv_bfloat16*>(nullptr)) : run(static_cast<__half*>(nullptr));
}

int rows_swiglu(int bf16, void* out, void* in, int rows, int width, cudaStream_t stream) {
  return bf16 != 0 ? gated_unit<__nv_bfloat16>(out, in, rows, width, stream)
                   : gated_unit<__half>(out, in, rows, width, stream);
}

int rows_rope(int bf16, void* q, void* k, void* table, void* positions, int tokens, int q_heads, int k_heads, int width,
              cudaStream_t stream) {
  const auto run = bf16 != 0 ? rotate<__nv_bfloat16> : rotate<__half>;
  return run(q, k, static_cast<float*>(table), static_cast<int*>(positions), tokens, q_heads, k_heads, width, stream);
}

int rows_append(int bf16, void* cache_k, void* cache_v, void* pages, void* page_begins, void* last, void* k, void* v,
                void* sequences, void* positions, int tokens, int batch, int heads, int width, int page, int row,
                cudaStream_t stream) {
  const auto run = bf16 != 0 ? append<__nv_bfloat16> : append<__half>;
  return run(cache_k, cache_v, static_cast<int*>(pages), static_cast<int*>(page_begins), static_cast<int*>(last), k, v,
             static_cast<int*>(sequences), static_cast<int*>(positions), tokens, batch, heads, width, page, row, stream);
}
}

// Asks cuBLASLt which kernels it would take for products (cublasLtMatmulAlgoGetHeuristic); nothing is launched.
//
//   g++ -O2 -std=c++20 -I CUDA/include tools/cublaslt_choices.cpp -o cublaslt_choices -L CUDA/lib64 -lcublasLt -lcudart
//   cublaslt_choices RESULTS < SHAPES > ANSWERS      (with PyTorch's own libcublasLt first in LD_LIBRARY_PATH)
//
// SHAPES, one a line: type layout M N K batch. The type: bf16, fp16, tf32, fp32, int8, fp8_tensor, fp8_row, fp8_block. The layout: nk
// (weights [N,K]), kn. x [M,K] and the result [M,N] are row-major. As PyTorch asks: 32 MiB of workspace, pointers of 256 bytes.
// ANSWERS: a CSV, RESULTS lines a shape at most, best first.
#include <cublasLt.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

struct Type {
  const char* name;
  cudaDataType_t in, out;
  cublasComputeType_t compute;
  cudaDataType_t scale;
  int scale_a, scale_b;  // -1: none
  int8_t fast;
};

constexpr Type kTypes[] = {
    {"bf16", CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F, -1, -1, 0},
    {"fp16", CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F, CUDA_R_32F, -1, -1, 0},
    {"tf32", CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F, -1, -1, 0},
    {"fp32", CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F, CUDA_R_32F, -1, -1, 0},
    {"int8", CUDA_R_8I, CUDA_R_32I, CUBLAS_COMPUTE_32I, CUDA_R_32I, -1, -1, 0},
    {"fp8_tensor", CUDA_R_8F_E4M3, CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F,
     CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F, 1},
    {"fp8_row", CUDA_R_8F_E4M3, CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F,
     CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F, 1},
    {"fp8_block", CUDA_R_8F_E4M3, CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F,
     CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F, 0},
};

template <class T>
T attribute(const cublasLtMatmulAlgo_t& algo, cublasLtMatmulAlgoConfigAttributes_t which) {
  T value{};
  size_t written = 0;
  if (cublasLtMatmulAlgoConfigGetAttribute(&algo, which, &value, sizeof value, &written) != CUBLAS_STATUS_SUCCESS) {
    return static_cast<T>(-1);
  }
  return value;
}

template <class T>
void set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t which, T value) {
  const cublasStatus_t s = cublasLtMatmulDescSetAttribute(desc, which, &value, sizeof value);
  if (s != CUBLAS_STATUS_SUCCESS) std::fprintf(stderr, "attribute %d: status %d\n", which, s);
}

void batched(cublasLtMatrixLayout_t layout, int32_t batch, int64_t stride) {
  cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
  cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
}

}  // namespace

int main(int argc, char** argv) {
  const int wanted = argc > 1 ? std::atoi(argv[1]) : 1;
  cublasLtHandle_t handle = nullptr;
  if (cublasLtCreate(&handle) != CUBLAS_STATUS_SUCCESS) return std::fprintf(stderr, "no handle\n"), 1;
  void* scales = nullptr;
  cudaMalloc(&scales, 64 << 20);
  std::fprintf(stderr, "cublasLt %zu\n", cublasLtGetVersion());
  std::printf("type,layout,M,N,K,batch,rank,algo,tile,stages,splitk,reduction,swizzle,custom,inner,cluster,waves,workspace\n");
  char type_name[32], layout_name[8];
  long long m, n, k, batch;
  std::vector<cublasLtMatmulHeuristicResult_t> results(wanted);
  while (std::scanf("%31s %7s %lld %lld %lld %lld", type_name, layout_name, &m, &n, &k, &batch) == 6) {
    const Type* type = nullptr;
    for (const Type& t : kTypes)
      if (std::strcmp(t.name, type_name) == 0) type = &t;
    if (type == nullptr) return std::fprintf(stderr, "no type %s\n", type_name), 1;
    const bool nk = std::strcmp(layout_name, "nk") == 0;
    cublasLtMatmulDesc_t desc = nullptr;
    cublasLtMatmulDescCreate(&desc, type->compute, type->scale);
    set<int32_t>(desc, CUBLASLT_MATMUL_DESC_TRANSA, nk ? CUBLAS_OP_T : CUBLAS_OP_N);
    set<int32_t>(desc, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
    if (type->fast) set<int8_t>(desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, 1);
    if (type->scale_a >= 0) {
      set<void*>(desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scales);
      set<void*>(desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scales);
      if (type->scale_a > 0) {
        set<int32_t>(desc, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, type->scale_a);
        set<int32_t>(desc, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, type->scale_b);
      }
    }
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
    if (nk) cublasLtMatrixLayoutCreate(&a, type->in, k, n, k);
    else cublasLtMatrixLayoutCreate(&a, type->in, n, k, n);
    cublasLtMatrixLayoutCreate(&b, type->in, k, m, k);
    cublasLtMatrixLayoutCreate(&d, type->out, n, m, n);
    if (batch > 1) {
      batched(a, static_cast<int32_t>(batch), n * k);
      batched(b, static_cast<int32_t>(batch), m * k);
      batched(d, static_cast<int32_t>(batch), m * n);
    }
    cublasLtMatmulPreference_t preference = nullptr;
    cublasLtMatmulPreferenceCreate(&preference);
    const uint64_t workspace = 32ULL << 20;
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    int found = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle, desc, a, b, d, d, preference, wanted, results.data(), &found);
    if (status != CUBLAS_STATUS_SUCCESS || found == 0)
      std::printf("%s,%s,%lld,%lld,%lld,%lld,-1,%d,,,,,,,,,,\n", type_name, layout_name, m, n, k, batch, status);
    for (int i = 0; i < found; ++i) {
      const cublasLtMatmulAlgo_t& algo = results[i].algo;
      std::printf("%s,%s,%lld,%lld,%lld,%lld,%d,%d,%u,%u,%d,%u,%u,%u,%u,%u,%.4f,%zu\n", type_name, layout_name, m, n, k, batch, i,
                  attribute<int32_t>(algo, CUBLASLT_ALGO_CONFIG_ID), attribute<uint32_t>(algo, CUBLASLT_ALGO_CONFIG_TILE_ID),
                  attribute<uint32_t>(algo, CUBLASLT_ALGO_CONFIG_STAGES_ID), attribute<int32_t>(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
                  attribute<uint32_t>(algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME),
                  attribute<uint32_t>(algo, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING),
                  attribute<uint32_t>(algo, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION),
                  attribute<uint16_t>(algo, CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID),
                  attribute<uint16_t>(algo, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID), results[i].wavesCount, results[i].workspaceSize);
    }
    cublasLtMatmulPreferenceDestroy(preference);
    cublasLtMatrixLayoutDestroy(a);
    cublasLtMatrixLayoutDestroy(b);
    cublasLtMatrixLayoutDestroy(d);
    cublasLtMatmulDescDestroy(desc);
  }
  return 0;
}

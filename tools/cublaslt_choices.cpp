// Asks cuBLASLt which kernels it would take for products (cublasLtMatmulAlgoGetHeuristic); nothing is launched.
//
//   g++ -O2 -std=c++20 -I CUDA/include tools/cublaslt_choices.cpp -o cublaslt_choices -L CUDA/lib64 -lcublasLt -lcudart
//   cublaslt_choices RESULTS < SHAPES > ANSWERS      (with PyTorch's own libcublasLt first in LD_LIBRARY_PATH)
//
// SHAPES, one a line: type layout M N K batch. The type: bf16, fp16, tf32, fp32, int8, fp8_tensor, fp8_row, fp8_block. The
// layout: nk (weights [N,K]), kn, km (weights [K,N] and x [K,M]). Otherwise x [M,K] and the result [M,N] are row-major. Answers
// are for a workspace of 32 MiB (PyTorch 2.11 hands over 1 MiB: an answer with a larger `workspace` is not what it runs) and
// pointers of 256 bytes.
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
    {"fp8_block", CUDA_R_8F_E4M3, CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F,
     CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F, CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F, 0},
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

struct Shape {
  char type[32], layout[8];
  long long m, n, k, batch;
  bool weights_nk() const { return std::strcmp(layout, "nk") == 0; }
  bool inputs_km() const { return std::strcmp(layout, "km") == 0; }
};

const Type* type_of(const Shape& s) {
  for (const Type& t : kTypes) {
    if (std::strcmp(t.name, s.type) == 0) return &t;
  }
  return nullptr;
}

/// What cuBLASLt is asked of a product. Its first operand is our weights, as its matrices are column-major.
class Product {
 public:
  Product(const Shape& s, const Type& type, void* scales) {
    cublasLtMatmulDescCreate(&desc_, type.compute, type.scale);
    set<int32_t>(desc_, CUBLASLT_MATMUL_DESC_TRANSA, s.weights_nk() ? CUBLAS_OP_T : CUBLAS_OP_N);
    set<int32_t>(desc_, CUBLASLT_MATMUL_DESC_TRANSB, s.inputs_km() ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (type.fast) set<int8_t>(desc_, CUBLASLT_MATMUL_DESC_FAST_ACCUM, 1);
    if (type.scale_a >= 0) set_scales(type, scales);
    if (s.weights_nk()) cublasLtMatrixLayoutCreate(&a_, type.in, s.k, s.n, s.k);
    else cublasLtMatrixLayoutCreate(&a_, type.in, s.n, s.k, s.n);
    if (s.inputs_km()) cublasLtMatrixLayoutCreate(&b_, type.in, s.m, s.k, s.m);
    else cublasLtMatrixLayoutCreate(&b_, type.in, s.k, s.m, s.k);
    cublasLtMatrixLayoutCreate(&d_, type.out, s.n, s.m, s.n);
    if (s.batch > 1) {
      batched(a_, static_cast<int32_t>(s.batch), s.n * s.k);
      batched(b_, static_cast<int32_t>(s.batch), s.m * s.k);
      batched(d_, static_cast<int32_t>(s.batch), s.m * s.n);
    }
    cublasLtMatmulPreferenceCreate(&preference_);
    const uint64_t workspace = 32ULL << 20;
    cublasLtMatmulPreferenceSetAttribute(preference_, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                         sizeof workspace);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;
  ~Product() {
    cublasLtMatmulPreferenceDestroy(preference_);
    cublasLtMatrixLayoutDestroy(a_);
    cublasLtMatrixLayoutDestroy(b_);
    cublasLtMatrixLayoutDestroy(d_);
    cublasLtMatmulDescDestroy(desc_);
  }

  cublasStatus_t ask(cublasLtHandle_t handle, std::vector<cublasLtMatmulHeuristicResult_t>& results, int* found) const {
    return cublasLtMatmulAlgoGetHeuristic(handle, desc_, a_, b_, d_, d_, preference_, static_cast<int>(results.size()),
                                          results.data(), found);
  }

 private:
  void set_scales(const Type& type, void* scales) {
    set<void*>(desc_, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scales);
    set<void*>(desc_, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scales);
    if (type.scale_a == 0) return;
    set<int32_t>(desc_, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, type.scale_a);
    set<int32_t>(desc_, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, type.scale_b);
  }

  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, d_ = nullptr;
  cublasLtMatmulPreference_t preference_ = nullptr;
};

void print_shape(const Shape& s) {
  std::printf("%s,%s,%lld,%lld,%lld,%lld,", s.type, s.layout, s.m, s.n, s.k, s.batch);
}

void print_answer(const Shape& s, int rank, const cublasLtMatmulHeuristicResult_t& result) {
  const cublasLtMatmulAlgo_t& algo = result.algo;
  print_shape(s);
  std::printf("%d,%d,%u,%u,%d,%u,%u,%u,%u,%u,%.4f,%zu\n", rank, attribute<int32_t>(algo, CUBLASLT_ALGO_CONFIG_ID),
              attribute<uint32_t>(algo, CUBLASLT_ALGO_CONFIG_TILE_ID),
              attribute<uint32_t>(algo, CUBLASLT_ALGO_CONFIG_STAGES_ID),
              attribute<int32_t>(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
              attribute<uint32_t>(algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME),
              attribute<uint32_t>(algo, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING),
              attribute<uint32_t>(algo, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION),
              attribute<uint16_t>(algo, CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID),
              attribute<uint16_t>(algo, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID), result.wavesCount,
              result.workspaceSize);
}

}  // namespace

int main(int argc, char** argv) {
  const int wanted = argc > 1 ? std::atoi(argv[1]) : 1;
  if (wanted < 1) return std::fprintf(stderr, "RESULTS: expected a number above 0\n"), 2;
  cublasLtHandle_t handle = nullptr;
  if (cublasLtCreate(&handle) != CUBLAS_STATUS_SUCCESS) return std::fprintf(stderr, "no handle\n"), 1;
  void* scales = nullptr;
  cudaMalloc(&scales, 64 << 20);
  std::fprintf(stderr, "cublasLt %zu\n", cublasLtGetVersion());
  std::printf(
      "type,layout,M,N,K,batch,rank,algo,tile,stages,splitk,reduction,swizzle,custom,inner,cluster,waves,workspace\n");
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(wanted));
  Shape s{};
  while (std::scanf("%31s %7s %lld %lld %lld %lld", s.type, s.layout, &s.m, &s.n, &s.k, &s.batch) == 6) {
    const Type* type = type_of(s);
    if (type == nullptr) return std::fprintf(stderr, "no type %s\n", s.type), 1;
    int found = 0;
    const cublasStatus_t status = Product(s, *type, scales).ask(handle, results, &found);
    if (status != CUBLAS_STATUS_SUCCESS || found == 0) {
      print_shape(s);
      std::printf("-1,%d,,,,,,,,,,\n", status);
      continue;
    }
    for (int i = 0; i < found; ++i) print_answer(s, i, results[static_cast<std::size_t>(i)]);
  }
  return 0;
}

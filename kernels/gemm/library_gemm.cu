#include "kernels/gemm/library_gemm.hpp"

#include <cuda_runtime.h>
#include <dlfcn.h>

#include <cstdio>

#include "kernels/common/measure.cuh"
#include "kernels/common/shared_library.hpp"

// A toolkit can be installed without the library's header: then there is no library to compare with.
#if __has_include(<cublasLt.h>)
#include <cublasLt.h>

namespace plumbline {
namespace {

/// The library's functions, bound once. It stays loaded.
struct CublasLt {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtGetVersion) version = nullptr;
  decltype(&cublasLtGetStatusString) status_string = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) config_get = nullptr;
  cublasLtHandle_t handle = nullptr;
  std::unique_ptr<DeviceBuffer> one;  // 1.0F, the scale of an fp8 operand

  CublasLt() {
    void* library = nullptr;
    for (const char* file : {"libcublasLt.so.13", "libcublasLt.so.12"}) {
      for (const std::string& place : library_candidates(file, "PLUMBLINE_CUBLASLT")) {
        if (library == nullptr) library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
      }
    }
    if (library == nullptr) throw DeviceError("no libcublasLt.so.13 or .12 found; set PLUMBLINE_CUBLASLT=/path/to/it");
    bind(library, create, "cublasLtCreate");
    bind(library, version, "cublasLtGetVersion");
    bind(library, status_string, "cublasLtGetStatusString");
    bind(library, matmul, "cublasLtMatmul");
    bind(library, desc_create, "cublasLtMatmulDescCreate");
    bind(library, desc_destroy, "cublasLtMatmulDescDestroy");
    bind(library, desc_set, "cublasLtMatmulDescSetAttribute");
    bind(library, layout_create, "cublasLtMatrixLayoutCreate");
    bind(library, layout_destroy, "cublasLtMatrixLayoutDestroy");
    bind(library, layout_set, "cublasLtMatrixLayoutSetAttribute");
    bind(library, preference_create, "cublasLtMatmulPreferenceCreate");
    bind(library, preference_destroy, "cublasLtMatmulPreferenceDestroy");
    bind(library, preference_set, "cublasLtMatmulPreferenceSetAttribute");
    bind(library, heuristic, "cublasLtMatmulAlgoGetHeuristic");
    bind(library, config_get, "cublasLtMatmulAlgoConfigGetAttribute");
    check(create(&handle), "cublasLtCreate");
    one = std::make_unique<DeviceBuffer>(sizeof(float));
    const float value = 1;
    PLUMBLINE_CUDA_CHECK(cudaMemcpy(one->as(), &value, sizeof value, cudaMemcpyHostToDevice));
  }

  template <class F>
  static void bind(void* library, F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(library, name));
    if (function == nullptr) throw DeviceError(std::string("libcublasLt: no ") + name);
  }

  void check(cublasStatus_t status, const char* call) const {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    throw DeviceError(std::string(call) + ": " + status_string(status) + " (" + std::to_string(status) + ")");
  }
};

/// Never destroyed: at exit the driver may be gone before it.
const CublasLt& library() {
  static const CublasLt* const one = new CublasLt;
  return *one;
}

}  // namespace

struct LibraryGemm::Plan {
  const CublasLt& lt = library();
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t w = nullptr, x = nullptr, y = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulHeuristicResult_t chosen{};
  std::string text;

  ~Plan() {
    if (preference != nullptr) lt.preference_destroy(preference);
    for (cublasLtMatrixLayout_t layout : {w, x, y}) {
      if (layout != nullptr) lt.layout_destroy(layout);
    }
    if (desc != nullptr) lt.desc_destroy(desc);
  }

  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    lt.check(lt.desc_set(desc, attribute, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
  }

  void describe(const Gemm& s, bool fp8) {
    lt.check(lt.desc_create(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    set(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
    if (fp8) {
      const void* scale = lt.one->as();
      set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scale);
      set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scale);
      set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1});
    }
    const cudaDataType_t in = fp8 ? CUDA_R_8F_E4M3 : CUDA_R_16BF;
    layout(w, in, s.k, s.n, s.batch);
    layout(x, in, s.k, s.m, s.batch);
    layout(y, CUDA_R_16BF, s.n, s.m, s.batch);
  }

  /// Column-major, dense, batches one behind the other.
  void layout(cublasLtMatrixLayout_t& out, cudaDataType_t type, std::int64_t rows, std::int64_t cols,
              std::int64_t batch) {
    lt.check(lt.layout_create(&out, type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(cols), rows),
             "cublasLtMatrixLayoutCreate");
    if (batch == 1) return;
    const auto count = static_cast<std::int32_t>(batch);
    const std::int64_t stride = rows * cols;
    lt.check(lt.layout_set(out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count), "batch count");
    lt.check(lt.layout_set(out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride), "batch stride");
  }

  void choose() {
    lt.check(lt.preference_create(&preference), "cublasLtMatmulPreferenceCreate");
    lt.check(lt.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kLibraryWorkspace,
                               sizeof kLibraryWorkspace),
             "cublasLtMatmulPreferenceSetAttribute");
    int found = 0;
    const cublasStatus_t status = lt.heuristic(lt.handle, desc, w, x, y, y, preference, 1, &chosen, &found);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || found == 0)
      throw NotModelled("cuBLASLt has no algorithm for the shape");
    lt.check(status, "cublasLtMatmulAlgoGetHeuristic");
    int id = -1;
    std::size_t written = 0;
    lt.config_get(&chosen.algo, CUBLASLT_ALGO_CONFIG_ID, &id, sizeof id, &written);
    const std::size_t v = lt.version();
    char line[96];
    std::snprintf(line, sizeof line, "cuBLASLt %zu.%zu.%zu algorithm=%d waves=%.2f", v / 10000, v / 100 % 100, v % 100,
                  id, static_cast<double>(chosen.wavesCount));
    text = line;
  }
};

LibraryGemm::LibraryGemm(const Gemm& shape) : plan_(std::make_unique<Plan>()) {
  plan_->describe(shape, shape.precision.math == DType::fp8);
  plan_->choose();
}
LibraryGemm::~LibraryGemm() = default;

void LibraryGemm::launch(const GemmBuffers& b, StreamHandle stream) const {
  const float one = 1, zero = 0;
  const Plan& p = *plan_;
  p.lt.check(p.lt.matmul(p.lt.handle, p.desc, &one, b.w, p.w, b.x, p.x, &zero, b.y, p.y, b.y, p.y, &p.chosen.algo,
                         b.workspace, kLibraryWorkspace, static_cast<cudaStream_t>(stream)),
             "cublasLtMatmul");
}

const std::string& LibraryGemm::plan() const { return plan_->text; }

}  // namespace plumbline

#else

namespace plumbline {

struct LibraryGemm::Plan {
  std::string text;
};

LibraryGemm::LibraryGemm(const Gemm&) { throw NotModelled("no library kernel: built without cuBLASLt's header"); }
LibraryGemm::~LibraryGemm() = default;
void LibraryGemm::launch(const GemmBuffers&, StreamHandle) const {}
const std::string& LibraryGemm::plan() const { return plan_->text; }

}  // namespace plumbline

#endif

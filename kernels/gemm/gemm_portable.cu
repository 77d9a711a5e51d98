// The portable GEMM's launcher. The kernel is in gemm_portable.cuh.
//
// Design: mma.sync m16n8k16 reads XOR-swizzled shared memory, which cp.async fills three or more steps ahead. Fragments
// are read one substep ahead, and there is one barrier a step. Tiles are walked in super-rows. A result goes through
// shared memory so that whole vectors are stored. K that is not a multiple of 8 is loaded in pieces: pairs by cp.async
// where K is even, else single elements through registers.
// Variants and their figures: docs/lab/gemm_portable.md.
#include "kernels/gemm/gemm_portable.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "kernels/common/cuda_check.hpp"
#include "kernels/gemm/gemm_portable.cuh"
#include "ops/plan/kernel_menu.hpp"

namespace plumbline {
namespace {

using device::bf16;
using device::PortableArgs;
using device::PortableTile;

/// One compiled tile: its part of the plan, and its kernels for K that is a multiple of 8, of 2, of neither.
struct Variant {
  int rows, cols, step, stages, threads, shared_bytes, ctas_per_sm;
  void (*chunks)(PortableArgs);
  void (*pairs)(PortableArgs);
  void (*elements)(PortableArgs);
};

template <class T>
Variant variant() {
  return {T::kRows,
          T::kCols,
          T::kStep,
          T::kStages,
          T::kThreads,
          T::kSharedBytes,
          T::kCtas,
          device::gemm_portable<T, device::Rows::chunks>,
          device::gemm_portable<T, device::Rows::pairs>,
          device::gemm_portable<T, device::Rows::elements>};
}

/// kMma of ops/plan/kernel_menu.cpp, in its order.
template <class E>
auto menu_of() {
  return std::array{
      variant<PortableTile<E, 128, 256, 32, 4, 2, 4, 1>>(), variant<PortableTile<E, 128, 128, 32, 4, 2, 2, 2>>(),
      variant<PortableTile<E, 128, 64, 64, 3, 2, 2, 3>>(), variant<PortableTile<E, 64, 64, 64, 4, 2, 2, 3>>(),
      variant<PortableTile<E, 64, 16, 64, 6, 4, 1, 3>>()};
}
std::span<const Variant> variants(bool fp16) {
  static const auto kBf16 = menu_of<bf16>(), kFp16 = menu_of<__half>();
  return fp16 ? kFp16 : kBf16;
}

const Variant* find(const Gemm& s, const GemmPlan& p) {
  const std::int64_t rows = p.swapped ? p.tile_n : p.tile_m, cols = p.swapped ? p.tile_m : p.tile_n;
  for (const Variant& v : variants(s.precision.math == DType::fp16)) {
    if (v.rows == rows && v.cols == cols && v.step == p.tile_k && v.stages == p.stages) return &v;
  }
  return nullptr;
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Tiles along the row and the column side of the tensor instruction.
struct Tiles {
  std::int64_t rows, cols;
};
Tiles tiles_of(const Gemm& s, const GemmPlan& p, const Variant& v) {
  return {ceil_div(p.swapped ? s.n : s.m, v.rows), ceil_div(p.swapped ? s.m : s.n, v.cols)};
}

constexpr std::int64_t kPartialAlign = 4;  // fp32 elements in 16 bytes
std::int64_t partial_width(const Gemm& s) { return ceil_div(s.n, kPartialAlign) * kPartialAlign; }

void launch(const Gemm& s, const GemmPlan& p, const GemmBuffers& b, cudaStream_t stream) {
  const Variant& v = *find(s, p);
  const Tiles tiles = tiles_of(s, p, v);
  PortableArgs g{};
  g.a = p.swapped ? b.w : b.x;
  g.b = p.swapped ? b.x : b.w;
  g.y = b.y;
  g.partial = p.splits > 1 ? static_cast<float*>(b.workspace) : nullptr;
  g.rows = static_cast<int>(p.swapped ? s.n : s.m);
  g.cols = static_cast<int>(p.swapped ? s.m : s.n);
  g.k = static_cast<int>(s.k);
  g.tiles_r = static_cast<int>(tiles.rows);
  g.tiles_c = static_cast<int>(tiles.cols);
  g.partial_width = partial_width(s);
  g.scale = b.scale;
  g.swapped = p.swapped;
  void (*kernel)(PortableArgs) = s.k % device::kVector == 0 ? v.chunks : s.k % 2 == 0 ? v.pairs : v.elements;
  PLUMBLINE_CUDA_CHECK(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                            cudaFuncAttributeMaxDynamicSharedMemorySize, v.shared_bytes));
  const dim3 grid(static_cast<unsigned>(tiles.rows * tiles.cols), static_cast<unsigned>(p.splits),
                  static_cast<unsigned>(s.batch));
  kernel<<<grid, static_cast<unsigned>(v.threads), static_cast<std::size_t>(v.shared_bytes), stream>>>(g);
}

}  // namespace

const char* gemm_portable_refusal(const Gemm& s, const GemmPlan& p) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max() - 1024;  // room to round up
  constexpr std::int64_t kMostInGridYZ = 65535;
  if (!(s.precision == Precision{}) && !(s.precision == *parse_precision("fp16"))) {
    return "only bf16 or fp16 operands and result";
  }
  if (s.bias) return "no bias";
  if (s.m < 1 || s.n < 1 || s.k < 1 || s.batch < 1 || s.m > kMost || s.n > kMost || s.k > kMost) {
    return "M, N and K must be from 1 to 2^31 - 1025";
  }
  if (s.batch > kMostInGridYZ) return "batch must be at most 65535";
  if (p.engine != GemmEngine::mma_sync) return "the plan is for another engine";
  if (p.cluster_m != 1 || p.cluster_n != 1) return "no clusters";
  if (p.clipped) return "no boxes to clip";
  const Variant* v = find(s, p);
  if (v == nullptr) return "no kernel is compiled for this tile and ring";
  if (p.splits < 1 || p.splits > kMostInGridYZ) return "splits must be from 1 to 65535";
  if (p.splits > 1 && p.splits > ceil_div(s.k, p.tile_k)) return "more splits than steps of K";
  const Tiles tiles = tiles_of(s, p, *v);
  if (tiles.rows * tiles.cols > kMost) return "more tiles than a grid holds";
  return nullptr;
}

std::size_t gemm_portable_workspace_bytes(const Gemm& s, const GemmPlan& p) {
  if (p.splits <= 1) return 0;
  return static_cast<std::size_t>(p.splits * s.batch * s.m * partial_width(s)) * sizeof(float);
}

KernelPlan gemm_portable_launch_plan(const Gemm& s, const GemmPlan& p) {
  const Variant& v = *find(s, p);
  const Tiles tiles = tiles_of(s, p, v);
  KernelPlan k;
  k.ctas = tiles.rows * tiles.cols * p.splits * s.batch;
  k.ctas_per_sm = v.ctas_per_sm;
  k.threads = v.threads;
  k.shared_memory = static_cast<double>(v.shared_bytes) * units::B;
  const std::int64_t steps = ceil_div(s.k, p.tile_k);
  k.steps = static_cast<double>(steps) / static_cast<double>(p.splits);
  k.longest = static_cast<double>(ceil_div(steps, p.splits));
  return k;
}

void launch_gemm_portable(const Gemm& s, const GemmPlan& p, const GemmBuffers& b, StreamHandle handle) {
  if (const char* refusal = gemm_portable_refusal(s, p)) throw NotModelled(std::string("gemm (mma.sync): ") + refusal);
  auto* stream = static_cast<cudaStream_t>(handle);
  launch(s, p, b, stream);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
  if (p.splits <= 1) return;
  const std::int64_t rows = s.batch * s.m, threads = device::kReduceThreads;
  const std::int64_t ctas = ceil_div(rows * (partial_width(s) / kPartialAlign), threads);
  const auto reduce = [&]<class E>(E* y) {
    device::gemm_portable_reduce<<<static_cast<unsigned>(ctas), static_cast<unsigned>(threads), 0, stream>>>(
        static_cast<const float*>(b.workspace), y, rows, static_cast<int>(s.n), static_cast<int>(p.splits), b.scale);
  };
  if (s.precision.math == DType::fp16) reduce(static_cast<__half*>(b.y));
  else reduce(static_cast<bf16*>(b.y));
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace plumbline

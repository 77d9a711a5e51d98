// What the flash attention kernels need beyond hopper.cuh: bulk loads of four-dimensional boxes and warpgroup matrix
// products with A from shared memory or registers. Thin wrappers of PTX, names after the PTX ISA.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/common/half.cuh"
#include "kernels/common/hopper.cuh"

namespace plumbline::flash {

using namespace hopper;

// --- mbarriers and bulk loads ---------------------------------------------------------------------------------------

/// Arrival of those threads for which `mine` holds, without a branch that could split the warp.
__device__ inline void barrier_arrive_if(std::uint32_t barrier, bool mine) {
  asm volatile(
      "{\n"
      ".reg .pred mine;\n"
      "setp.ne.b32 mine, %1, 0;\n"
      "@mine mbarrier.arrive.shared::cta.b64 _, [%0];\n"
      "}\n" ::"r"(barrier),
      "r"(static_cast<int>(mine))
      : "memory");
}
/// A box of a four-dimensional tensor; elements outside of the tensor arrive as zeros.
__device__ inline void load_box(std::uint32_t to, const CUtensorMap* map, std::uint32_t barrier, int c0, int c1, int c2,
                                int c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}

// --- warps ----------------------------------------------------------------------------------------------------------

__device__ inline void named_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// --- warpgroup matrix products --------------------------------------------------------------------------------------

/// Keeps the compiler from moving uses of these registers across the waits above.
template <int kCount>
__device__ inline void pin(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(values[i])::"memory");
}
template <int kCount>
__device__ inline void pin(std::uint32_t (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(values[i])::"memory");
}

/// Descriptor of a tile in shared memory whose rows of 64 two-byte elements are swizzled over 128 bytes. `stride`:
/// bytes from 8 rows to the next 8. `leading`: bytes from 64 columns to the next 64, where columns are the operand's
/// outer dimension (V); unused where they are the summed one (Q, K).
__device__ constexpr std::uint64_t tile_descriptor_base(std::uint32_t leading, std::uint32_t stride) {
  return (std::uint64_t{1} << 62) | (std::uint64_t{stride >> 4} << 32) | (std::uint64_t{leading >> 4} << 16);
}
__device__ inline std::uint64_t tile_descriptor(std::uint64_t base, std::uint32_t address) {
  return base | ((address & 0x3ffff) >> 4);
}

/// d[64 x N] (+)= A B, fp32 += E x E (bf16 or fp16), 16 deep. `scores`: A [64, 16] and B [N, 16] from shared memory, the summed
/// index contiguous in both. `values`: A from registers, B [16, N] with N contiguous. `across`: A as in `scores`, B as in
/// `values`.
template <int kColumns, class E = __nv_bfloat16>
struct Wgmma;

#define PLUMBLINE_D8(i)                                                                                       \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define PLUMBLINE_T0 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define PLUMBLINE_T1 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define PLUMBLINE_T2 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define PLUMBLINE_T3 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define PLUMBLINE_T4 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define PLUMBLINE_T5 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define PLUMBLINE_T6 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define PLUMBLINE_T7 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define PLUMBLINE_TEXT_32 PLUMBLINE_T0 ", " PLUMBLINE_T1
#define PLUMBLINE_TEXT_40 PLUMBLINE_TEXT_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define PLUMBLINE_TEXT_64 PLUMBLINE_TEXT_32 ", " PLUMBLINE_T2 ", " PLUMBLINE_T3
#define PLUMBLINE_TEXT_80 PLUMBLINE_TEXT_64 ", " PLUMBLINE_T4
#define PLUMBLINE_TEXT_88 PLUMBLINE_TEXT_80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define PLUMBLINE_TEXT_128 PLUMBLINE_TEXT_80 ", " PLUMBLINE_T5 ", " PLUMBLINE_T6 ", " PLUMBLINE_T7
#define PLUMBLINE_D32 PLUMBLINE_D8(0), PLUMBLINE_D8(8), PLUMBLINE_D8(16), PLUMBLINE_D8(24)
#define PLUMBLINE_D40 PLUMBLINE_D32, PLUMBLINE_D8(32)
#define PLUMBLINE_D64 PLUMBLINE_D40, PLUMBLINE_D8(40), PLUMBLINE_D8(48), PLUMBLINE_D8(56)
#define PLUMBLINE_D80 PLUMBLINE_D64, PLUMBLINE_D8(64), PLUMBLINE_D8(72)
#define PLUMBLINE_D88 PLUMBLINE_D80, PLUMBLINE_D8(80)
#define PLUMBLINE_D128 \
  PLUMBLINE_D88, PLUMBLINE_D8(88), PLUMBLINE_D8(96), PLUMBLINE_D8(104), PLUMBLINE_D8(112), PLUMBLINE_D8(120)

// R accumulator registers are operands 0 .. R-1; i0 .. i5 are the numbers of those behind them.
#define PLUMBLINE_WGMMA_OF(E, type, N, R, i0, i1, i2, i3, i4, i5)                                           \
  template <>                                                                                               \
  struct Wgmma<N, E> {                                                                                      \
    static __device__ inline void scores(float (&d)[R], std::uint64_t a, std::uint64_t b, int add) {        \
      asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" #i2                                             \
                   ", 0;\n"                                                                                 \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type " {" PLUMBLINE_TEXT_##R  \
                   "}, %" #i0 ", %" #i1 ", add, 1, 1, 0, 0;\n}\n"                                           \
                   : PLUMBLINE_D##R                                                                         \
                   : "l"(a), "l"(b), "r"(add));                                                             \
    }                                                                                                       \
    static __device__ inline void across(float (&d)[R], std::uint64_t a, std::uint64_t b, int add) {        \
      asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" #i2                                             \
                   ", 0;\n"                                                                                 \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type " {" PLUMBLINE_TEXT_##R  \
                   "}, %" #i0 ", %" #i1 ", add, 1, 1, 0, 1;\n}\n"                                           \
                   : PLUMBLINE_D##R                                                                         \
                   : "l"(a), "l"(b), "r"(add));                                                             \
    }                                                                                                       \
    static __device__ inline void values(float (&d)[R], const std::uint32_t* a, std::uint64_t b, int add) { \
      asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" #i5                                             \
                   ", 0;\n"                                                                                 \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type " {" PLUMBLINE_TEXT_##R  \
                   "}, {%" #i0 ", %" #i1 ", %" #i2 ", %" #i3 "}, %" #i4 ", add, 1, 1, 1;\n}\n"              \
                   : PLUMBLINE_D##R                                                                         \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));                         \
    }                                                                                                       \
  };

#define PLUMBLINE_WGMMA(...)                             \
  PLUMBLINE_WGMMA_OF(__nv_bfloat16, "bf16", __VA_ARGS__) \
  PLUMBLINE_WGMMA_OF(__half, "f16", __VA_ARGS__)

PLUMBLINE_WGMMA(64, 32, 32, 33, 34, 35, 36, 37)
PLUMBLINE_WGMMA(80, 40, 40, 41, 42, 43, 44, 45)
PLUMBLINE_WGMMA(128, 64, 64, 65, 66, 67, 68, 69)
PLUMBLINE_WGMMA(160, 80, 80, 81, 82, 83, 84, 85)
PLUMBLINE_WGMMA(176, 88, 88, 89, 90, 91, 92, 93)
PLUMBLINE_WGMMA(256, 128, 128, 129, 130, 131, 132, 133)

}  // namespace plumbline::flash

// wgmma of 64 rows by N columns for the probes, one specialisation a width and kind (PTX ISA, "wgmma.mma_async"): the
// instruction's name holds N, and its accumulators are N / 2 operands.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/common/hopper.cuh"

namespace plumbline::device {

enum class TensorKind { bf16, bf16_registers, fp8, int8 };  ///< `_registers`: A comes from registers, else from SMEM

/// Elements of K that an instruction takes: 32 bytes.
constexpr int tensor_k(TensorKind kind) {
  return kind == TensorKind::bf16 || kind == TensorKind::bf16_registers ? 16 : 32;
}

using hopper::wgmma_commit;
using hopper::wgmma_fence;
using hopper::wgmma_wait;

/// K-major operand in rows of 128 bytes with the 128-byte swizzle, 8 rows = 1024 bytes apart ("matrix descriptor").
__device__ inline std::uint64_t operand_descriptor(std::uint32_t shared) {
  const std::uint64_t address = (shared & 0x3ffff) >> 4;
  return address | std::uint64_t{1} << 16 | std::uint64_t{1024 >> 4} << 32 | std::uint64_t{1} << 62;
}

template <TensorKind kKind, int kN>
struct Wgmma;

// clang-format off
#define PLUMBLINE_NAMES_4 "%0, %1, %2, %3"
#define PLUMBLINE_NAMES_8 PLUMBLINE_NAMES_4 ", %4, %5, %6, %7"
#define PLUMBLINE_NAMES_16 PLUMBLINE_NAMES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define PLUMBLINE_NAMES_32 PLUMBLINE_NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define PLUMBLINE_NAMES_64 PLUMBLINE_NAMES_32 \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define PLUMBLINE_NAMES_128 PLUMBLINE_NAMES_64 \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95" \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define PLUMBLINE_SUMS_4(t, i) t(d[i]), t(d[i + 1]), t(d[i + 2]), t(d[i + 3])
#define PLUMBLINE_SUMS_8(t, i) PLUMBLINE_SUMS_4(t, i), PLUMBLINE_SUMS_4(t, i + 4)
#define PLUMBLINE_SUMS_16(t, i) PLUMBLINE_SUMS_8(t, i), PLUMBLINE_SUMS_8(t, i + 8)
#define PLUMBLINE_SUMS_32(t, i) PLUMBLINE_SUMS_16(t, i), PLUMBLINE_SUMS_16(t, i + 16)
#define PLUMBLINE_SUMS_64(t, i) PLUMBLINE_SUMS_32(t, i), PLUMBLINE_SUMS_32(t, i + 32)
#define PLUMBLINE_SUMS_128(t, i) PLUMBLINE_SUMS_64(t, i), PLUMBLINE_SUMS_64(t, i + 64)

/// `types`: "k16.f32.bf16.bf16"; `flags`: immediates behind the operands (scale-d, signs, transposes).
#define PLUMBLINE_WGMMA_SHARED(kind, n, sums, a_at, b_at, types, flags, value, t)                                 \
  template <>                                                                                                     \
  struct Wgmma<TensorKind::kind, n> {                                                                             \
    using Value = value;                                                                                          \
    static __device__ void run(Value (&d)[sums], const std::uint32_t (&)[4], std::uint64_t a, std::uint64_t b) {  \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #n types " {" PLUMBLINE_NAMES_##sums "}, %" #a_at ", %" #b_at flags ";" \
                   : PLUMBLINE_SUMS_##sums(t, 0)                                                                  \
                   : "l"(a), "l"(b));                                                                             \
    }                                                                                                             \
  };
#define PLUMBLINE_WGMMA_REGISTERS(n, sums, a0, a1, a2, a3, b_at)                                                  \
  template <>                                                                                                     \
  struct Wgmma<TensorKind::bf16_registers, n> {                                                                   \
    using Value = float;                                                                                          \
    static __device__ void run(Value (&d)[sums], const std::uint32_t (&a)[4], std::uint64_t, std::uint64_t b) {   \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.bf16.bf16 {" PLUMBLINE_NAMES_##sums            \
                   "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #b_at ", 1, 1, 1, 0;"                         \
                   : PLUMBLINE_SUMS_##sums("+f", 0)                                                               \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                         \
    }                                                                                                             \
  };
#define PLUMBLINE_WGMMA(n, sums, p0, p1, p2, p3, p4)                                                              \
  PLUMBLINE_WGMMA_SHARED(bf16, n, sums, p0, p1, "k16.f32.bf16.bf16", ", 1, 1, 1, 0, 0", float, "+f")              \
  PLUMBLINE_WGMMA_SHARED(fp8, n, sums, p0, p1, "k32.f32.e4m3.e4m3", ", 1, 1, 1", float, "+f")                     \
  PLUMBLINE_WGMMA_SHARED(int8, n, sums, p0, p1, "k32.s32.s8.s8", ", 1", int, "+r")                                \
  PLUMBLINE_WGMMA_REGISTERS(n, sums, p0, p1, p2, p3, p4)
// clang-format on

PLUMBLINE_WGMMA(8, 4, 4, 5, 6, 7, 8)
PLUMBLINE_WGMMA(16, 8, 8, 9, 10, 11, 12)
PLUMBLINE_WGMMA(32, 16, 16, 17, 18, 19, 20)
PLUMBLINE_WGMMA(64, 32, 32, 33, 34, 35, 36)
PLUMBLINE_WGMMA(128, 64, 64, 65, 66, 67, 68)
PLUMBLINE_WGMMA(256, 128, 128, 129, 130, 131, 132)

#undef PLUMBLINE_WGMMA
#undef PLUMBLINE_WGMMA_SHARED
#undef PLUMBLINE_WGMMA_REGISTERS

}  // namespace plumbline::device

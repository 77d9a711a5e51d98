// wgmma: D[64, N] (+)= A[64, 32 bytes of K] B[N, 32 bytes of K]^T by one warpgroup, both operands from shared memory in
// the 128-byte swizzle, K innermost; fp32 accumulators, N / 2 a thread.
//
// Thread t of the warpgroup holds of row 16 (t / 32) + (t % 32) / 4, and of the row 8 below it, columns
// 8 j + 2 (t % 4) and the next: d[4 j], d[4 j + 1], and d[4 j + 2], d[4 j + 3] (PTX ISA, "wgmma register fragment").
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/common/hopper.cuh"

namespace plumbline::device::sm90 {

/// Matrix descriptor of a K-major operand in shared memory, 128-byte swizzle: rows of 128 bytes, 8 of them (1024 bytes)
/// a swizzle atom. Bits 0-13 address / 16, 16-29 leading offset (unused with swizzle), 32-45 atom stride / 16, 62-63
/// swizzle (1: 128 bytes).
__device__ inline std::uint64_t operand(std::uint32_t address) {
  constexpr std::uint64_t kAtomStride = 1024 / 16, kSwizzle128 = 1;
  return std::uint64_t{(address & 0x3ffffU) >> 4} | (std::uint64_t{1} << 16) | (kAtomStride << 32) |
         (kSwizzle128 << 62);
}

/// `accumulate` 0: D is overwritten.
template <int kN, bool kFp8>
struct Wgmma;

// Lists of asm operands by tens: %p0 .. %p9 and d[p0] .. d[p9], p empty for the first ten.
#define PLUMBLINE_NAMES2(p) "%" #p "0,%" #p "1"
#define PLUMBLINE_NAMES4(p) PLUMBLINE_NAMES2(p) ",%" #p "2,%" #p "3"
#define PLUMBLINE_NAMES6(p) PLUMBLINE_NAMES4(p) ",%" #p "4,%" #p "5"
#define PLUMBLINE_NAMES8(p) PLUMBLINE_NAMES6(p) ",%" #p "6,%" #p "7"
#define PLUMBLINE_NAMES10(p) PLUMBLINE_NAMES8(p) ",%" #p "8,%" #p "9"
#define PLUMBLINE_HELD2(p) "+f"(d[p##0]), "+f"(d[p##1])
#define PLUMBLINE_HELD4(p) PLUMBLINE_HELD2(p), "+f"(d[p##2]), "+f"(d[p##3])
#define PLUMBLINE_HELD6(p) PLUMBLINE_HELD4(p), "+f"(d[p##4]), "+f"(d[p##5])
#define PLUMBLINE_HELD8(p) PLUMBLINE_HELD6(p), "+f"(d[p##6]), "+f"(d[p##7])
#define PLUMBLINE_HELD10(p) PLUMBLINE_HELD8(p), "+f"(d[p##8]), "+f"(d[p##9])

#define PLUMBLINE_NAMES_30 PLUMBLINE_NAMES10() "," PLUMBLINE_NAMES10(1) "," PLUMBLINE_NAMES10(2)
#define PLUMBLINE_HELD_30 PLUMBLINE_HELD10(), PLUMBLINE_HELD10(1), PLUMBLINE_HELD10(2)
#define PLUMBLINE_NAMES_60 PLUMBLINE_NAMES_30 "," PLUMBLINE_NAMES10(3) "," PLUMBLINE_NAMES10(4) "," PLUMBLINE_NAMES10(5)
#define PLUMBLINE_HELD_60 PLUMBLINE_HELD_30, PLUMBLINE_HELD10(3), PLUMBLINE_HELD10(4), PLUMBLINE_HELD10(5)
#define PLUMBLINE_NAMES_90 PLUMBLINE_NAMES_60 "," PLUMBLINE_NAMES10(6) "," PLUMBLINE_NAMES10(7) "," PLUMBLINE_NAMES10(8)
#define PLUMBLINE_HELD_90 PLUMBLINE_HELD_60, PLUMBLINE_HELD10(6), PLUMBLINE_HELD10(7), PLUMBLINE_HELD10(8)
#define PLUMBLINE_NAMES_120 \
  PLUMBLINE_NAMES_90 "," PLUMBLINE_NAMES10(9) "," PLUMBLINE_NAMES10(10) "," PLUMBLINE_NAMES10(11)
#define PLUMBLINE_HELD_120 PLUMBLINE_HELD_90, PLUMBLINE_HELD10(9), PLUMBLINE_HELD10(10), PLUMBLINE_HELD10(11)

#define PLUMBLINE_NAMES_8 PLUMBLINE_NAMES8()
#define PLUMBLINE_HELD_8 PLUMBLINE_HELD8()
#define PLUMBLINE_NAMES_16 PLUMBLINE_NAMES10() "," PLUMBLINE_NAMES6(1)
#define PLUMBLINE_HELD_16 PLUMBLINE_HELD10(), PLUMBLINE_HELD6(1)
#define PLUMBLINE_NAMES_32 PLUMBLINE_NAMES_30 "," PLUMBLINE_NAMES2(3)
#define PLUMBLINE_HELD_32 PLUMBLINE_HELD_30, PLUMBLINE_HELD2(3)
#define PLUMBLINE_NAMES_48 PLUMBLINE_NAMES_30 "," PLUMBLINE_NAMES10(3) "," PLUMBLINE_NAMES8(4)
#define PLUMBLINE_HELD_48 PLUMBLINE_HELD_30, PLUMBLINE_HELD10(3), PLUMBLINE_HELD8(4)
#define PLUMBLINE_NAMES_56 PLUMBLINE_NAMES_30 "," PLUMBLINE_NAMES10(3) "," PLUMBLINE_NAMES10(4) "," PLUMBLINE_NAMES6(5)
#define PLUMBLINE_HELD_56 PLUMBLINE_HELD_30, PLUMBLINE_HELD10(3), PLUMBLINE_HELD10(4), PLUMBLINE_HELD6(5)
#define PLUMBLINE_NAMES_64 PLUMBLINE_NAMES_60 "," PLUMBLINE_NAMES4(6)
#define PLUMBLINE_HELD_64 PLUMBLINE_HELD_60, PLUMBLINE_HELD4(6)
#define PLUMBLINE_NAMES_80 PLUMBLINE_NAMES_60 "," PLUMBLINE_NAMES10(6) "," PLUMBLINE_NAMES10(7)
#define PLUMBLINE_HELD_80 PLUMBLINE_HELD_60, PLUMBLINE_HELD10(6), PLUMBLINE_HELD10(7)
#define PLUMBLINE_NAMES_96 PLUMBLINE_NAMES_90 "," PLUMBLINE_NAMES6(9)
#define PLUMBLINE_HELD_96 PLUMBLINE_HELD_90, PLUMBLINE_HELD6(9)
#define PLUMBLINE_NAMES_112 \
  PLUMBLINE_NAMES_90 "," PLUMBLINE_NAMES10(9) "," PLUMBLINE_NAMES10(10) "," PLUMBLINE_NAMES2(11)
#define PLUMBLINE_HELD_112 PLUMBLINE_HELD_90, PLUMBLINE_HELD10(9), PLUMBLINE_HELD10(10), PLUMBLINE_HELD2(11)
#define PLUMBLINE_NAMES_128 PLUMBLINE_NAMES_120 "," PLUMBLINE_NAMES8(12)
#define PLUMBLINE_HELD_128 PLUMBLINE_HELD_120, PLUMBLINE_HELD8(12)

// n: columns; r: n / 2 registers; a, b, p: the numbers of the three operands behind them.
#define PLUMBLINE_WGMMA(n, r, a, b, p, fp8, shape_k, type, tail)                                                 \
  template <>                                                                                                    \
  struct Wgmma<n, fp8> {                                                                                         \
    __device__ static void run(float (&d)[r], std::uint64_t rows, std::uint64_t cols, int accumulate) {          \
      asm volatile("{ .reg .pred keep;\nsetp.ne.b32 keep, %" #p                                                  \
                   ", 0;\n"                                                                                      \
                   "wgmma.mma_async.sync.aligned.m64n" #n shape_k ".f32." type "." type " {" PLUMBLINE_NAMES_##r \
                   "}, %" #a ", %" #b ", keep, 1, 1" tail "; }"                                                  \
                   : PLUMBLINE_HELD_##r                                                                          \
                   : "l"(rows), "l"(cols), "r"(accumulate));                                                     \
    }                                                                                                            \
  };
#define PLUMBLINE_WGMMA_BOTH(n, r, a, b, p)                                    \
  PLUMBLINE_WGMMA(n, r, a, b, p, false, "k16", "bf16", ", 0, 0") /* K-major */ \
  PLUMBLINE_WGMMA(n, r, a, b, p, true, "k32", "e4m3", "")

PLUMBLINE_WGMMA_BOTH(16, 8, 8, 9, 10)
PLUMBLINE_WGMMA_BOTH(32, 16, 16, 17, 18)
PLUMBLINE_WGMMA_BOTH(64, 32, 32, 33, 34)
PLUMBLINE_WGMMA_BOTH(96, 48, 48, 49, 50)
PLUMBLINE_WGMMA_BOTH(112, 56, 56, 57, 58)
PLUMBLINE_WGMMA_BOTH(128, 64, 64, 65, 66)
PLUMBLINE_WGMMA_BOTH(160, 80, 80, 81, 82)
PLUMBLINE_WGMMA_BOTH(192, 96, 96, 97, 98)
PLUMBLINE_WGMMA_BOTH(224, 112, 112, 113, 114)
PLUMBLINE_WGMMA_BOTH(256, 128, 128, 129, 130)

#undef PLUMBLINE_WGMMA_BOTH
#undef PLUMBLINE_WGMMA

}  // namespace plumbline::device::sm90

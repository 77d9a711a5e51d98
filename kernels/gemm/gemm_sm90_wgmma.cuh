// wgmma: D[64, N] (+)= A[64, 32 bytes of K] B[N, 32 bytes of K]^T by one warpgroup, both operands from shared memory in
// the 128-byte swizzle; fp32 accumulators, N / 2 a thread.
//
// Thread t of the warpgroup holds of row 16 (t / 32) + (t % 32) / 4, and of the row 8 below it, columns
// 8 j + 2 (t % 4) and the next: d[4 j], d[4 j + 1], and d[4 j + 2], d[4 j + 3] (PTX ISA, "wgmma register fragment").
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/common/hopper.cuh"

namespace plumbline::device::sm90 {

/// Types of the operands, and how they lie in memory: rows of K elements, or (`outside`) K rows of them, as a gradient
/// finds what the forward pass left.
enum class Operands { bf16, fp16, fp8, bf16_cols_outside, bf16_both_outside };

constexpr int kOutsideBox = 64;  ///< elements of a row in the swizzle's span, and rows of K in a step

/// Matrix descriptor of an operand in shared memory, 128-byte swizzle. K inside: rows of 128 bytes of K, 8 of them (1024
/// bytes) a swizzle atom. K outside: 64 rows (K) of 128 bytes, and behind these 8192 bytes those of the next 64 elements.
/// Bits 0-13 address / 16, 16-29 leading offset / 16 (from 64 elements to the next; unused with K inside), 32-45 offset
/// of the next 8 rows / 16, 62-63 swizzle (1: 128 bytes).
template <bool kOutside>
__device__ inline std::uint64_t operand(std::uint32_t address) {
  constexpr std::uint64_t kAtomStride = 1024 / 16, kSwizzle128 = 1, kLeading = kOutside ? 8192 / 16 : 1;
  return std::uint64_t{(address & 0x3ffffU) >> 4} | (kLeading << 16) | (kAtomStride << 32) | (kSwizzle128 << 62);
}
/// From one instruction's 32 bytes of K to the next in a descriptor's units: inside a row, or 16 rows on.
template <bool kOutside>
constexpr int step_of = (kOutside ? 16 * 128 : 32) / 16;

/// `accumulate` 0: D is overwritten.
template <int kN, Operands kOperands>
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
#define PLUMBLINE_WGMMA(n, r, a, b, p, kind, shape_k, type, tail)                                                \
  template <>                                                                                                    \
  struct Wgmma<n, Operands::kind> {                                                                              \
    __device__ static void run(float (&d)[r], std::uint64_t rows, std::uint64_t cols, int accumulate) {          \
      asm volatile("{ .reg .pred keep;\nsetp.ne.b32 keep, %" #p                                                  \
                   ", 0;\n"                                                                                      \
                   "wgmma.mma_async.sync.aligned.m64n" #n shape_k ".f32." type "." type " {" PLUMBLINE_NAMES_##r \
                   "}, %" #a ", %" #b ", keep, 1, 1" tail "; }"                                                  \
                   : PLUMBLINE_HELD_##r                                                                          \
                   : "l"(rows), "l"(cols), "r"(accumulate));                                                     \
    }                                                                                                            \
  };
#define PLUMBLINE_WGMMA_EACH(n, r, a, b, p)                     \
  PLUMBLINE_WGMMA(n, r, a, b, p, bf16, "k16", "bf16", ", 0, 0") \
  PLUMBLINE_WGMMA(n, r, a, b, p, fp16, "k16", "f16", ", 0, 0")  \
  PLUMBLINE_WGMMA(n, r, a, b, p, fp8, "k32", "e4m3", "")
/// The last two numbers: whether K is outside, of A and of B.
#define PLUMBLINE_WGMMA_OUTSIDE(n, r, a, b, p)                               \
  PLUMBLINE_WGMMA(n, r, a, b, p, bf16_cols_outside, "k16", "bf16", ", 0, 1") \
  PLUMBLINE_WGMMA(n, r, a, b, p, bf16_both_outside, "k16", "bf16", ", 1, 1")

PLUMBLINE_WGMMA_EACH(16, 8, 8, 9, 10)
PLUMBLINE_WGMMA_EACH(32, 16, 16, 17, 18)
PLUMBLINE_WGMMA_EACH(64, 32, 32, 33, 34)
PLUMBLINE_WGMMA_EACH(96, 48, 48, 49, 50)
PLUMBLINE_WGMMA_EACH(112, 56, 56, 57, 58)
PLUMBLINE_WGMMA_EACH(128, 64, 64, 65, 66)
PLUMBLINE_WGMMA_EACH(160, 80, 80, 81, 82)
PLUMBLINE_WGMMA_EACH(192, 96, 96, 97, 98)
PLUMBLINE_WGMMA_EACH(224, 112, 112, 113, 114)
PLUMBLINE_WGMMA_EACH(256, 128, 128, 129, 130)

PLUMBLINE_WGMMA_OUTSIDE(64, 32, 32, 33, 34)
PLUMBLINE_WGMMA_OUTSIDE(128, 64, 64, 65, 66)
PLUMBLINE_WGMMA_OUTSIDE(192, 96, 96, 97, 98)
PLUMBLINE_WGMMA_OUTSIDE(256, 128, 128, 129, 130)

#undef PLUMBLINE_WGMMA_EACH
#undef PLUMBLINE_WGMMA_OUTSIDE
#undef PLUMBLINE_WGMMA

}  // namespace plumbline::device::sm90

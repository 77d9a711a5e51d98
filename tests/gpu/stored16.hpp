// Values as bf16 or fp16 on the host, for checks of kernels that take both.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "arch/dtype.hpp"

namespace plumbline::checking {

/// 16 bits a value; what they mean is the type's.
struct Stored16 {
  DType type = DType::bf16;

  unsigned short of(float x) const {
    return type == DType::fp16 ? __half_as_ushort(__float2half_rn(x)) : __bfloat16_as_ushort(__float2bfloat16_rn(x));
  }
  double value(unsigned short bits) const {
    return static_cast<double>(type == DType::fp16 ? __half2float(__ushort_as_half(bits))
                                                   : __bfloat162float(__ushort_as_bfloat16(bits)));
  }
  /// One rounding of it / one of bf16: three bits more.
  double finer() const { return type == DType::fp16 ? 0.125 : 1; }
};

}  // namespace plumbline::checking

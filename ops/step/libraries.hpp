// What the libraries of the day keep in memory beside a step's tensors. These are their numbers, not physics: a step's
// memory is off by them where other kernels run.
#pragma once

#include "arch/units.hpp"

namespace plumbline::lowering {

/// cuBLAS's workspace on Hopper (documentation of cublasSetWorkspace); on older cards it asks for 4 MiB, which is less.
inline constexpr Bytes kGemmWorkspace = 32.0 * units::MiB;
/// Most parts that FlashInfer and FlashAttention-3 split the keys of a decode query into.
inline constexpr double kDecodeSplits = 32;
/// Tokens between two states that mamba_ssm's scan keeps for the backward pass (its default chunk).
inline constexpr double kScanChunk = 256;

}  // namespace plumbline::lowering

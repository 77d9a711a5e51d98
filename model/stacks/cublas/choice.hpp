// Which of its kernels of any tile ("nvjet") cuBLASLt takes on Hopper, and into how many parts it cuts K.
#pragma once

#include <cstdint>

#include "model/stacks/common/gemm_tiles.hpp"

namespace plumbline::cublas {

/// A kernel's tile. `swapped`: wgmma's rows lie along N.
struct AnyTile {
  std::int16_t along_n, along_m;
  bool swapped;
};

struct KernelOfAnyTile {
  AnyTile tile;
  double parts;
};

/// The library's choice is no price of ours: it asks a table that was trained on measurements, which takes our cheapest tile in 35
/// of 100 cases. This is trained on its answers (tools/cublas_choice.py): a cost of its own form says which sixteen kernels are
/// likely, a net of two layers which of these it is (70 of 100 answers that were left out).
KernelOfAnyTile likely_kernel(const gemm::Context& context);

/// Whether a product is one of those that it was asked for: no batch, both operands of the type of the maths, 32 rows and more,
/// seven turns of the SMs at the most.
bool was_asked_for(const gemm::Context& context);

}  // namespace plumbline::cublas

// The wgmma GEMM kernels against fp64.
#pragma once

#include <vector>

#include "kernels/common/records.hpp"

namespace plumbline {

/// `shapes` random ones for each of bf16, fp16 and fp8: every tile of the menu in turn, both orientations, all ways of
/// cutting K, ragged sizes, batches.
std::vector<Check> check_gemm(unsigned seed, int shapes);
/// Products of gradients, all tiles in turn.
std::vector<Check> check_gradient_products(unsigned seed, int shapes);

}  // namespace plumbline

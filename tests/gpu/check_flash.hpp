// The checks of the flash attention kernels, forward and backward.
#pragma once

#include <vector>

#include "kernels/common/records.hpp"
#include "ops/plan/plans.hpp"
#include "ops/shape/shapes.hpp"

namespace plumbline {

/// One shape on fresh random inputs against fp64 on the CPU.
Check check_prefill(const AttentionPrefill& shape, const AttentionPlan& plan, unsigned seed);

/// `shapes` random ones: all head widths, causal and not, grouped heads, ragged lengths.
std::vector<Check> check_flash(unsigned seed, int shapes);
/// The same of the kernels of mma.sync, all of their menu in turn.
std::vector<Check> check_flash_portable(unsigned seed, int shapes);

/// The backward pass on `shapes` random ones: head widths of 64 and 128, causal and not, grouped heads, ragged lengths.
std::vector<Check> check_backward(unsigned seed, int shapes);

}  // namespace plumbline

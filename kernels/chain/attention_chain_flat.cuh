// The half of the training attention chain that treats each element alone; attention_chain.cu dispatches to it.
#pragma once

#include <cuda_runtime.h>

#include "kernels/chain/attention_chain.cuh"
#include "ops/plan/plans.hpp"
#include "ops/shape/shapes.hpp"

namespace plumbline {

KernelPlan chain_flat_plan(const Rowwise& shape);
void launch_chain_flat(const Rowwise& shape, const device::ChainArgs& args, cudaStream_t stream);

}  // namespace plumbline

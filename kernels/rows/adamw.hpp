// Launcher of the optimizer's update, in plain C++; the rules of kernels/common/launch.hpp.
#pragma once

#include "kernels/common/launch.hpp"

namespace plumbline {

/// Loshchilov and Hutter, "Decoupled weight decay regularization", algorithm 2. `step` counts from 1; the gradient is
/// multiplied by `gradient_scale` first (clipping, a mean over micro-batches).
struct AdamwSettings {
  double rate = 1e-4, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, decay = 0.1, gradient_scale = 1;
  int step = 1;
};

/// Of rows x cols elements each: the gradient (bf16) is read; both moments and the master weights (fp32) are updated in
/// place; the copy that layers read (bf16) is written.
struct AdamwBuffers {
  const void* gradient = nullptr;
  float* first = nullptr;
  float* second = nullptr;
  float* master = nullptr;
  void* weights = nullptr;
};

KernelPlan adamw_plan(const Rowwise& shape);
/// Rowwise of kind adamw, bf16.
void launch_adamw(const Rowwise& shape, const AdamwSettings& settings, const AdamwBuffers& buffers,
                  StreamHandle stream);

}  // namespace plumbline

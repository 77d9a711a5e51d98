// The half of the row-wise operators that treats each element alone; rowwise.cu dispatches to it.
#pragma once

#include "kernels/common/launch.hpp"

namespace plumbline {

/// Whether the operator needs a whole row before it can write.
inline bool is_by_rows(RowwiseKind kind) {
  return kind == RowwiseKind::rmsnorm || kind == RowwiseKind::layernorm || kind == RowwiseKind::softmax ||
         kind == RowwiseKind::sum_rows || kind == RowwiseKind::argmax || kind == RowwiseKind::quantize;
}

KernelPlan flat_plan(const Rowwise& shape);
void launch_flat(const Rowwise& shape, const RowwiseBuffers& buffers, StreamHandle stream);
KernelPlan transpose_plan(const Rowwise& shape);
void launch_transpose(const Rowwise& shape, const void* x, void* y, StreamHandle stream);

}  // namespace plumbline

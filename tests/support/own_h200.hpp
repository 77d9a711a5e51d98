// The H200 with our kernels first, and what they launch for a row-wise operator there.
#pragma once

#include "arch/files.hpp"
#include "model/predict.hpp"
#include "model/stacks/own/row_kernels.hpp"

namespace plumbline::testing_support {

inline const Machine& own_h200() {
  static const Machine machine = make_machine(load_gpu("h200_sxm"), MachineOptions{"own"});
  return machine;
}

inline RowKernel row_kernel_of(const Op& op) {
  const Rates& rates = own_h200().rates();
  return row_kernel(op, work(op), *rates.counts, rates.gpu);
}

}  // namespace plumbline::testing_support

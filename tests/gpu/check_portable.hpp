// The portable GEMM and the training attention chain against their references (cases.hpp says how).
#pragma once

#include <vector>

#include "kernels/common/records.hpp"

namespace plumbline {

std::vector<Check> check_gemm_portable(unsigned seed, int shapes);
std::vector<Check> check_attention_chain(unsigned seed, int shapes);

}  // namespace plumbline

// Inside of lowering: parameters tensor by tensor, and the optimizers of eager PyTorch that go through them so.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "ops/lower/parts.hpp"

namespace plumbline::lowering {

/// Of a parameter: rows and columns of a matrix as the source has it, or one row.
struct TensorShape {
  std::int64_t rows = 0, cols = 0;
  auto operator<=>(const TensorShape&) const = default;
};

/// The parameters of forward node `i`.
std::vector<TensorShape> tensors_of(const Step& s, int i);

/// tensor_by_tensor.cpp. Each puts its loop in a segment of its own in place of the open one. Of `params` parameters Muon takes
/// the layers' matrices; how many are left over.
void adafactor_by_tensor(Step& s, const Llm& llm, double params);
double muon_by_tensor(Step& s, const Llm& llm, double params);

}  // namespace plumbline::lowering

// Fills the L2 with lines that no operator uses. No CUDA type in here.
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/common/launch.hpp"

namespace plumbline {

class L2Sweep {
 public:
  /// Copies half of `bytes` to the other half: what is left in the L2 is partly dirty, as behind other operators.
  explicit L2Sweep(std::size_t bytes);
  ~L2Sweep();
  L2Sweep(const L2Sweep&) = delete;
  L2Sweep& operator=(const L2Sweep&) = delete;
  void enqueue(StreamHandle stream) const;

 private:
  struct Memory;
  std::unique_ptr<Memory> memory_;
};

}  // namespace plumbline

// Kernels that keep the card busy with one kind of work each, for the energies of calibrations: what they do is
// counted, what they draw is measured by `validate`. No CUDA type in here.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/run/arena.hpp"
#include "kernels/run/runner.hpp"
#include "ops/shape/shapes.hpp"

namespace plumbline {

/// What one launch does. Instructions are those of threads; an FMA is one, and is not counted as FLOPs besides.
struct LoadWork {
  double tensor_FLOP = 0, instructions = 0, smem_B = 0, l2_B = 0, dram_read_B = 0, dram_write_B = 0;
};

struct SteadyLoad {
  std::string setting;  ///< "load=tensor;kind=bf16;data=normal;sms=66"
  DataPattern data = DataPattern::normal;
  LoadWork work;
  /// Bytes that bulk copies of the last launch brought from L2 to shared memory, which is up to L2; empty: none.
  std::function<double()> filled_B;
  Runner runner;  ///< of one slot
};

/// Some ms a launch each. Tensor loads run on half of the SMs too, where no power cap slows them down. The arena must
/// outlive the loads.
std::vector<SteadyLoad> steady_loads(Arena& arena, StreamHandle stream);

}  // namespace plumbline

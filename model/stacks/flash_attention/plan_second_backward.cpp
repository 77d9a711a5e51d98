// Tiles and steps of FlashAttention-2's backward pass.
#include <algorithm>
#include <cmath>

#include "model/stacks/common/make_gemm_task.hpp"
#include "model/stacks/flash_attention/second_backward.hpp"

namespace plumbline {

using namespace flash_attention;

SecondBackwardTile flash_attention::second_backward_tile(double width, const Rates& m) {
  const double room = m.gpu.sm.smem_per_block / units::KiB;
  if (width <= 32) return {128, 128, 4, 4, 4, true};
  if (width <= 64)
    return room >= 144 ? SecondBackwardTile{128, 128, 4, 4, 4} : SecondBackwardTile{64, 128, 2, 4, 4, true};
  if (width <= 96) return {64, 128, 2, 4, 4, true};
  if (width <= 128)
    return room >= 144 ? SecondBackwardTile{64, 128, 2, 4, 2} : SecondBackwardTile{64, 64, 4, 2, 2, true};
  if (width <= 192) return {64, 64, 4, 2, 2, room < 136};
  return room >= 144 ? SecondBackwardTile{64, 64, 4, 2, 2} : SecondBackwardTile{64, 32, 4, 1, 2, true};
}

double flash_attention::second_backward_clk(const SecondBackwardTile& t, const Demand& d, double qk, double v,
                                            DType type, const Rates& m, const FamilyScalars& family) {
  SecondStep step;
  step.products = 2 * t.queries * t.keys * (3 * qk + 2 * v) / second_flop_per_clk(type, m);
  step.softmax = std::max(d.sfu_clk, d.fp32_clk);
  step.operands = d.smem_clk;
  // a sum takes L2 a read and a write, of which half a passage hides (chosen on clocks of five widths, H200: no scalar of a fit)
  constexpr double kPassages = 1.5;
  const Bandwidth here = m.l2 / m.sm_count;
  const double sums = kPassages * (t.queries * qk * 4.0 * units::B / here).in(units::s)*m.clock.in(units::Hz);
  return second_step_clk(step, kSecondBackwardWarps / kSmQuarters, family) + sums;
}

}  // namespace plumbline

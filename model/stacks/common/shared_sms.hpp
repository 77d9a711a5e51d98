// CTAs of unequal length that share SMs, dealt out in order: an SM takes the next one when one of its own has ended, and runs
// those that it holds side by side, each slower than it would run alone.
//
// Which SM gets which CTAs is a matter of their steps alone, not of the machine: were they dealt by the machine's own clocks, CTAs
// that end at nearly the same time would change places, and with them their neighbours, where a wait is a little shorter. (Of 200000
// drawn launches, with waits or steps shortened, 0.23 % ended later by more than 0.02 %, up to 9 %.) What is left is that a CTA which
// begins earlier slows its neighbour: 0.005 % of them, up to 1.4 %.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace plumbline {

/// So many CTAs of so many steps each, one after the other in the order of the launch.
struct CtaBatch {
  double steps = 0, ctas = 0;
};

/// What an SM gives those that it holds.
struct SmShare {
  static constexpr std::size_t kMost = 8;
  std::size_t resident = 1;  ///< CTAs that it holds, at most kMost
  double start_clk = 0;      ///< of a CTA, before its first step: it waits, and leaves the SM to the others
  /// Of a step of each CTA where so many are at their steps: [0] of one alone.
  std::array<double, kMost> step_clk{};
};

/// Clocks until the last CTA has ended. Of launches of many rounds only the last ones are followed CTA by CTA: those before
/// keep all SMs busy.
double clocks_of(std::span<const CtaBatch> batches, double sms, const SmShare& sm);

}  // namespace plumbline

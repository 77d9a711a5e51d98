// When enough has been measured: how often a kernel runs before and while it counts, when a steady load has settled, and
// between which steps of the energy counter its power is taken. Knows no CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "arch/units.hpp"
#include "validate/record/measurement.hpp"

namespace plumbline {

/// Bytes of a cold rotation, and of what is written to clear the L2, over the L2's.
inline constexpr double kColdL2s = 3.2;

/// Samples of a burst, given what one execution takes: as many as fit 20 ms, 10 to 30; five of long ones.
std::size_t burst_samples(Seconds one);

/// Executions before those that count: three, or a whole rotation of `slots` where that is short, so that the samples find
/// pages translated and the L2 full of other slots' lines (the first visit to 2 GB of slots costs row-wise kernels 5 to
/// 8 % that later ones do not). One of long ones.
std::size_t burst_warm_ups(Seconds one, std::size_t slots);

/// Sets of operands that a rotation needs to find the L2 cold: 3.2 times its bytes, but two even if one would fill it,
/// since some lines of a slot outlive its turn (the L2 does not evict in order). One where it is to be warm.
std::int64_t rotation_slots(CacheState cache, Bytes l2, Bytes slot, std::int64_t most);

/// The most sets of operands that a graph of a steady load can hold.
std::size_t most_steady_slots(std::size_t launches);
/// Executions in a graph of a steady load: whole rotations, 5 ms of them where the graph can hold so many.
std::size_t steady_executions(Seconds one, std::size_t launches, std::size_t slots);

/// Says when clock and power of a load have settled: between 1.2 and 2.0 s after it began, once neither moves by more than
/// 1 % from one third of a second to the next. A board that says neither is waited for 1.2 s.
class Settling {
 public:
  /// Whether a part ends now, `passed` after the load began.
  bool due(Seconds passed) const;
  /// `part`: the conditions since the last part ended.
  bool settled(Seconds passed, const Conditions& part);

 private:
  Seconds last_;
  Conditions before_;
};

/// The window between two steps of the energy counter, a reading between which would be off by up to what a step holds.
/// It opens at a step and closes at the first one after 0.6 s. A counter that does not move within a quarter of a second
/// has no steps to wait for.
class EnergyWindow {
 public:
  enum class Act { wait, open, close };
  /// `stepped`: the counter has just moved. After `close` there is nothing more to ask.
  Act look(Seconds passed, bool stepped);

 private:
  std::optional<Seconds> opened_;
  bool at_step_ = false;
};

}  // namespace plumbline

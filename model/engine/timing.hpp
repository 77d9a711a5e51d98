// The one timing engine: any Demand at any Rates -> time and what binds it.
//
//   T = fixed + chain + pnorm(resource times) + exposed + once
//
// Each resource's time is its own for all CTAs of the launch: SM-side terms are those of the busiest SM, at the SM clock,
// its CTAs one wave after another (a wave is what runs at a time: SMs x CTAs an SM, the last one counts whole); L2 and
// DRAM terms are those of all CTAs, in the memory's own time. Memory does not stand still between waves: CTAs start as
// others end, so that the terms are added up over the waves before they overlap. (Taken wave by wave, a launch whose
// waves are uneven would be slower than the same launch on fewer SMs whose waves are even.)
// But for work that is dealt out once: the few CTAs of its last wave have only their own bytes in flight, and DRAM waits
// for them.
// pnorm(t) = (sum t_i^p)^(1/p): p = infinity is the roofline (perfect overlap), p = 1 no overlap; p is a
// number of the kernel family (docs/sources.md: timing; ECM's overlap rule softened).
// DRAM follows Little's law: bandwidth <= bytes in flight / latency. CTAs of unequal length (causal attention, ragged
// batches) are list-scheduled heavy first: the makespan is at least the mean load and at least the longest CTA.
// Not valid for kernels whose CTAs wait for one another inside the launch (grid barriers): price those as launches.
#pragma once

#include "model/engine/demand.hpp"
#include "model/engine/launch_record.hpp"
#include "model/engine/rates.hpp"

namespace plumbline {

namespace engine {
struct Filling;  // model/engine/body.hpp
}

/// Time of one launch. Never below any single resource's own time.
LaunchTime price(const Demand& demand, const Rates& rates, const FamilyScalars& family);

/// What tiles that share lines reach of the rate at which L2 can look them up.
inline constexpr double kLookupShare = 0.9;

/// As the family's own scalars have it, when no clock has been solved for.
Speeds usual_speeds(const Demand& demand, const Rates& rates, const FamilyScalars& family);
LaunchTime price(const Demand& demand, const Rates& rates, const FamilyScalars& family, const Speeds& speeds);
/// The same, and how it came about.
LaunchTime price(const Demand& demand, const Rates& rates, const FamilyScalars& family, const Speeds& speeds,
                 LaunchRecord& record);

/// Never above price(), at a fraction of its cost: what plan searches prune by.
Seconds lower_bound(const Demand& demand, const Rates& rates, const FamilyScalars& family);

/// The same for many launches of one family.
class LowerBound {
 public:
  LowerBound(const Rates& rates, const FamilyScalars& family);
  Seconds operator()(const Demand& demand) const;

 private:
  using PerByte = Quantity<0, -1, 1, 0>;
  double tensor_share_at_most(const Demand& demand) const;
  Seconds l2(const Demand& demand, const engine::Filling& filling, double sm_clock) const;
  Seconds dram(const Demand& demand, const engine::Filling& filling) const;
  static Seconds norm(const PerResource<Seconds>& times, double p);

  const Rates& m;
  const FamilyScalars& family;
  double twice_ = 0;          ///< share of distinct lines that are looked up in two partitions
  double sinks_per_clk_ = 0;  ///< how far the clock sinks, per clock of dense work; 0: it does not
  Seconds clk_, tensor_clk_;  ///< one SM clock, and where tensor units work
  PerByte per_l2_, per_port_, per_read_, per_write_;
};

/// Only the total of price(), to the bit: what searches for a clock ask for.
Seconds price_total(const Demand& demand, const Rates& rates, const FamilyScalars& family, const Speeds& speeds);
/// Only the total, and it may stop early: when a lower bound exceeds `give_up` it returns that bound. For plan search.
Seconds price_total(const Demand& demand, const Rates& rates, const FamilyScalars& family, Seconds give_up);

/// (sum t^p)^(1/p) over the resources; never below the largest.
Seconds pnorm(const PerResource<Seconds>& times, double p);
/// The same, and how it divides by Euler's rule for a function that doubles with its terms: t dT/dt = T t^p / sum t^p of
/// each, which add up to it.
Seconds pnorm(const PerResource<Seconds>& times, double p, PerResource<Seconds>& spent);

/// What DRAM gives a mix of reads and writes: the times of both add up, plus a turnaround loss that is largest for an
/// even mix: 4 r w x loss, r and w the shares of bytes (docs/sources.md: streams; one bandwidth
/// for reads, one for writes, one loss).
Seconds dram_time(Bytes read, Bytes write, const Rates& rates);

}  // namespace plumbline

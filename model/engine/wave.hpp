// The terms of one wave: each resource's own time for the CTAs that run together. Written once for pricing and for
// explanations (formula.hpp): `N` says where numbers come from. Internal to the timing engine.
#pragma once

#include <algorithm>
#include <cmath>

#include "model/engine/formula.hpp"
#include "model/engine/timing.hpp"

namespace plumbline::engine {

/// Part of a launch that runs together.
struct Part {
  double ctas = 0, steps = 0;
  double turns = 1;  ///< how many CTAs one slot starts and ends, one after the other, within this wave
  double share = 1;  ///< of the launch
  bool last = false;
};

/// Own times of every resource for one part of a launch, and what overlaps with nothing.
template <class N>
struct Wave {
  PerResource<typename N::template Of<Seconds>> alone;
  typename N::template Of<Seconds> exposed;
};

/// Both directions of DRAM (timing.hpp, dram_time).
template <class N>
auto dram_time(Bytes read, Bytes write, const Rates& m) {
  const Bytes all = read + write;
  // Turning the bus round is lost time. Writes leave in batches, each with a turn: the loss is in proportion to them,
  // as long as there are reads to put between. (H200: 0.063 at two reads a write, 0.093 at 1:1 by our own probe, 0.11
  // at two reads to three writes by our dropout; fewer reads than one to two writes were not measured.)
  const double r = all > Bytes{} ? read / all : 1;
  const double turns = 1.0 + 2.0 * std::min(1.0 - r, 2.0 * r) * m.dram_mix_loss;
  return (N::number(read, "read") / N::number(m.dram_read, "") +
          N::number(write, "written") / N::number(m.dram_write, "")) *
         N::factor(turns, "for turns of the bus");
}

/// Work that is dealt out once and does not fill the SMs evenly: CTAs that have an SM (or a pair of SMs, which share
/// their way to L2) for themselves run ahead, and those that are left at the end draw less than DRAM could give. Found
/// for decode attention (64 to 256 items) and GEMM of few tokens on an H200, 2026-11-20: 3 % where 9 % of the last
/// layer is filled, 8 to 10 % at a half, 0 to 2 % at 94 %.
inline double uneven_fill(double ctas, const Rates& m) {
  constexpr double kLossAtHalf = 0.08;
  double filled = 1;
  if (ctas > m.sm_count) filled = ctas / m.sm_count - std::floor(ctas / m.sm_count);
  else if (ctas > m.sm_count / 2) filled = 2 * ctas / m.sm_count - 1;
  return 1 + 4 * kLossAtHalf * filled * (1 - filled);
}

/// Little's law of one SM: of a CTA's step the share that DRAM brings takes DRAM's latency, the rest L2's (the mean of
/// its near and its far half), and the SM has only so many bytes outstanding.
template <class N>
typename N::template Of<Seconds> outstanding(const Demand& d, const Rates& m, const FamilyScalars& family) {
  if (family.sm_in_flight <= Bytes{}) return {};
  const Bytes first = std::min(d.l2, d.dram_read / (static_cast<double>(d.plan.ctas) * d.plan.steps));
  const auto in_flight = N::number(family.sm_in_flight, "in flight");
  return N::number(first, "of DRAM") / in_flight * N::number(m.dram_latency, "") +
         N::number(d.l2 - first, "of L2") / in_flight * N::number(m.l2_mean_latency(), "");
}

/// The terms of one part. `N::number` names each number that goes into a term; factors of 1 are not worth a word.
template <class N>
class WaveTerms {
  template <class Q>
  using Of = typename N::template Of<Q>;

 public:
  WaveTerms(const Demand& demand, const Rates& rates, const FamilyScalars& scalars, const Part& part,
            const Speeds& speeds)
      : d(demand),
        m(rates),
        family(scalars),
        p(part),
        v(speeds),
        ctas(N::number(part.ctas, "CTAs")),
        steps(N::number(part.steps, "steps")),
        resident(N::number(std::ceil(part.ctas / rates.sm_count), "CTAs an SM")),
        on_sm(resident * steps),
        clk(N::per(1.0 / (rates.clock * speeds.sm), rates.clock * speeds.sm, "")),
        standing_clk(demand.loads_stop ? demand.serial_clk : 0) {}

  Wave<N> operator()() const {
    Wave<N> wave;
    wave.alone[Resource::tensor] = tensor();
    wave.alone[Resource::fp32] = on_sm * N::number(d.fp32_clk, "clk") * clk;
    wave.alone[Resource::sfu] = on_sm * N::number(d.sfu_clk, "clk") * clk;
    wave.alone[Resource::issue] = on_sm * N::number(d.issue_clk, "clk") * clk;
    wave.alone[Resource::smem] = smem();
    wave.alone[Resource::latency] = latency();
    const auto fill = on_sm * N::number(d.edge_fill_clk, "clk of rows outside") * clk;
    wave.alone[Resource::l2] = l2() + fill;
    wave.alone[Resource::dram] = dram() + fill;
    wave.exposed = exposed();
    return wave;
  }

 private:
  /// What a CTA's epilogue leaves of the tensor unit, a co-resident CTA takes.
  Of<Seconds> tensor() const {
    const auto work_clk = N::number(d.tensor_clk, "clk") / N::factor(v.tensor, "of the tensor rate");
    const auto serial = N::number(d.tensor_clk > 0 ? d.serial_clk : 0, "clk of epilogues");
    return larger(on_sm * work_clk, steps * work_clk + serial) * clk;
  }

  Of<Seconds> smem() const {
    const auto work_clk = N::number(d.smem_clk, "clk");
    const auto serial = N::number(d.smem_clk > 0 ? standing_clk : 0, "clk of epilogues");
    return larger(on_sm * work_clk, steps * work_clk + serial) * clk;
  }

  Of<Seconds> latency() const {
    return larger(steps * N::number(d.step_latency, "a step"), on_sm * outstanding<N>(d, m, family)) +
           N::number(standing_clk, "clk of epilogues") * clk +
           (p.last ? N::number(d.start, "until the first steps have come")
                   : N::number(d.next_tile_wait, "to the next tile"));
  }

  /// Behind the last read of a persistent launch comes one more step, and the epilogue.
  Of<Seconds> tail() const {
    if (!(d.loads_stop && d.plan.persistent && p.last)) return {};
    return N::number(d.step_latency, "last step") + N::number(standing_clk, "clk of epilogue") * clk;
  }

  /// What L2 gives distinct lines, at most what so many SMs can take.
  Of<Bandwidth> l2_rate() const {
    return smaller(N::number(m.l2, "L2"),
                   N::number(std::min(p.ctas, m.sm_count), "SMs") * N::number(m.l2_per_sm, "an SM"));
  }

  /// Half of the lines belong to the other partition: a lookup there passes through the near one too, which keeps a
  /// copy, so that lines that many SMs ask for are near for all but the first. Distinct lines come at m.l2, so lookups
  /// at (1 + 1/2) times that (two partitions), of which tiles reach nine tenths. Counted by ncu on an H200 (2026-11-20,
  /// GEMM): 1.5 to 1.6 lookups a distinct byte; L2's clock stays (1707 MHz) where SMs skip cycles.
  Of<Seconds> l2() const {
    const auto asked = ctas * steps * N::number(d.l2, "");
    if (d.l2_limit == L2Limit::ports) {
      return asked / (N::number(std::min(p.ctas, m.sm_count), "SMs") * N::number(m.l2_per_sm, "an SM") *
                      N::factor(v.sm, "of the clock"));
    }
    const auto clock = N::factor(v.l2, "of the clock");
    if (d.l2_limit == L2Limit::lines) return asked / (l2_rate() * clock);
    const auto partitions = static_cast<double>(std::max<std::int64_t>(1, m.gpu.l2.partitions));
    const double twice = 1 - 1 / partitions;  // share of distinct lines that are looked up in two partitions
    const auto lookups = N::factor(1 + twice, "lookups a line");
    const auto share = N::factor(p.share, "of the CTAs");
    const auto rate = N::factor(kLookupShare, "reached") * lookups * l2_rate() * clock;
    const auto read = (ctas * steps * N::number(d.lookups, "looked up") +
                       N::number(twice, "of lines") * share * N::number(d.l2_distinct, "distinct")) /
                      rate;
    return read + larger(lookups * share * N::number(d.l2_written, "written") / rate, tail());
  }

  Of<Seconds> dram() const {
    const Bytes all = d.dram_read + d.dram_write;
    if (all <= Bytes{}) return {};
    const auto share = N::factor(p.share, "of the CTAs");
    auto time =
        dram_time<N>(d.dram_read, d.dram_write, m) * (share / N::factor(family.dram_share, "by access pattern"));
    if (d.dealt_once) time = time * N::factor(uneven_fill(p.ctas, m), "for uneven fill");
    time = larger(time, time * N::factor(d.dram_read / all, "of it reads") + tail());
    if (d.in_flight <= Bytes{}) return time;
    return larger(time, N::number(all, "in all") * share /
                            (ctas * N::number(d.in_flight, "in flight") / N::number(m.dram_latency, "")));
  }

  /// per_cta is latency: co-resident CTAs go through it side by side; once_clk is throughput: they queue.
  Of<Seconds> exposed() const {
    const auto turns = N::factor(p.turns, "turns");
    return (on_sm * N::number(d.exposed_clk, "clk") + turns * resident * N::number(d.once_clk, "clk once")) * clk +
           turns * N::number(family.per_cta, "a CTA");
  }

  const Demand& d;
  const Rates& m;
  const FamilyScalars& family;
  const Part& p;
  const Speeds& v;
  const Of<double> ctas, steps, resident, on_sm;
  const Of<Seconds> clk;
  const double standing_clk;  ///< of loads and shared memory, beside the steps
};

}  // namespace plumbline::engine

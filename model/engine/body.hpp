// The terms of a launch: each resource's own time for all of its CTAs, as if it were alone. Written once for pricing and
// for explanations (formula.hpp): `N` says where numbers come from. Internal to the timing engine.
#pragma once

#include <algorithm>
#include <cmath>

#include "model/engine/formula.hpp"
#include "model/engine/timing.hpp"

namespace plumbline::engine {

/// How a launch fills the machine. CTAs come in waves of SMs x CTAs an SM; but a CTA starts as soon as another one ends,
/// memory knows no waves, and the terms of all of them are added up before they overlap.
struct Filling {
  double ctas = 0;       ///< slots where CTAs are unequal
  double steps = 0;      ///< of one CTA; of the longest slot
  double all_steps = 0;  ///< of all CTAs
  double waves = 1;
  double last = 0;        ///< CTAs of the last wave
  double on_sm = 0;       ///< CTAs that the busiest SM runs, one after the other or side by side
  double port_turns = 0;  ///< CTAs whose bytes pass through one SM's port, one after the other
  double ends_on_sm = 0;  ///< of `on_sm` those whose prologue and epilogue are seen
  double ends = 0;        ///< how often the latency of a CTA is seen, one after the other
};

/// Own times of every resource for a launch, and what overlaps with nothing.
template <class N>
struct Body {
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

/// At which the bytes of a launch cross its link: the demand's own, else the host link's.
inline Bandwidth link_rate(const Demand& d, const Rates& m) { return d.link_rate > Bandwidth{} ? d.link_rate : m.pcie; }

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

/// `N::number` names each number that goes into a term; factors of 1 are not worth a word.
template <class N>
class BodyTerms {
  template <class Q>
  using Of = typename N::template Of<Q>;

 public:
  BodyTerms(const Demand& demand, const Rates& rates, const FamilyScalars& scalars, const Filling& filling,
            const Speeds& speeds)
      : d(demand),
        m(rates),
        family(scalars),
        f(filling),
        v(speeds),
        waves(N::factor(filling.waves, "waves")),
        steps(N::number(filling.steps, "steps")),
        on_sm(N::factor(filling.on_sm, "CTAs an SM") * steps),
        clk(N::per(1.0 / (rates.clock * speeds.sm), rates.clock * speeds.sm, "")),
        standing_clk(demand.loads_stop ? demand.serial_clk : 0) {}

  Body<N> operator()() const {
    Body<N> body;
    body.alone[Resource::tensor] = tensor();
    body.alone[Resource::fp32] = on_sm * N::number(d.fp32_clk, "clk") * clk;
    body.alone[Resource::sfu] = on_sm * N::number(d.sfu_clk, "clk") * clk;
    body.alone[Resource::issue] = on_sm * N::number(d.issue_clk, "clk") * clk;
    body.alone[Resource::smem] = smem();
    body.alone[Resource::latency] = latency();
    const auto fill = on_sm * N::number(d.edge_fill_clk, "clk of rows outside") * clk;
    body.alone[Resource::l2] = l2() + fill + on_sm * N::number(d.port_fill_clk, "clk of rows outside") * clk;
    if (d.outside_clk > 0) body.alone[Resource::l2] = with_outside(body.alone[Resource::l2]);
    body.alone[Resource::dram] = dram() + fill;
    body.exposed = exposed();
    return body;
  }

 private:
  /// What a CTA's epilogue leaves of the tensor unit, a co-resident CTA takes.
  Of<Seconds> tensor() const {
    const auto work_clk = N::number(d.tensor_clk, "clk") / N::factor(v.tensor, "of the tensor rate");
    const auto serial = N::number(d.tensor_clk > 0 ? d.serial_clk : 0, "clk of epilogues");
    return larger(on_sm * work_clk, waves * (steps * work_clk + serial)) * clk;
  }

  Of<Seconds> smem() const {
    const auto work_clk = N::number(d.smem_clk, "clk");
    const auto serial = N::number(d.smem_clk > 0 ? standing_clk : 0, "clk of epilogues");
    return larger(on_sm * work_clk, waves * (steps * work_clk + serial)) * clk;
  }

  /// Of one CTA alone: its loads, or the chain of its instructions.
  Of<Seconds> step(const char* of = "a step") const {
    return larger(N::number(d.step_latency, of), N::number(d.chain_clk, "clk of a step's chain") * clk);
  }

  Of<Seconds> latency() const {
    return larger(waves * steps * step(), on_sm * outstanding<N>(d, m, family)) +
           waves * N::number(standing_clk, "clk of epilogues") * clk +
           N::number(d.dealt_clk, "clk until the last CTA has ended") * clk +
           N::number(d.start, "until the first steps have come") +
           N::number((f.waves - 1) * d.next_tile_wait, "to the next tiles");
  }

  /// Behind the last read of a persistent launch comes one more step, and the epilogue.
  Of<Seconds> tail() const {
    if (!(d.loads_stop && d.plan.persistent)) return {};
    return N::number(d.step_latency, "last step") + N::number(standing_clk, "clk of epilogue") * clk;
  }

  /// A share of the launch that its last wave has, if waves are alike.
  double of_a_wave() const { return 1 / f.waves; }

  /// Of L2 for so many bytes: what its slices give to all, and what passes through the busiest SM's port.
  Of<Seconds> slices_or_port(const Of<Bytes>& all, const Of<Bytes>& through_port, const Of<double>& share) const {
    return larger(all / (share * N::number(m.l2, "L2")), through_port / (share * N::number(m.l2_per_sm, "an SM")));
  }

  /// Half of the lines belong to the other partition: a lookup there passes through the near one too, which keeps a
  /// copy, so that lines that many SMs ask for are near for all but the first. Distinct lines come at m.l2, so lookups
  /// at (1 + 1/2) times that (two partitions), of which tiles reach nine tenths. Counted by ncu on an H200 (2026-11-20,
  /// GEMM): 1.5 to 1.6 lookups a distinct byte; L2's clock stays (1707 MHz) where SMs skip cycles.
  Of<Seconds> l2() const {
    const auto all_steps = N::number(f.all_steps, "steps of all");
    const auto port_steps = N::factor(f.port_turns, "CTAs a port") * steps;
    if (d.l2_limit == L2Limit::ports) {
      return port_steps * N::number(d.l2, "") / (N::number(m.l2_per_sm, "an SM") * N::factor(v.sm, "of the clock"));
    }
    const auto clock = N::factor(v.l2, "of the clock");
    if (d.l2_limit == L2Limit::lines) {
      const auto asked = N::number(d.l2, "");
      return slices_or_port(all_steps * asked, port_steps * asked, clock);
    }
    const auto partitions = static_cast<double>(std::max<std::int64_t>(1, m.gpu.l2.partitions));
    const double twice = 1 - 1 / partitions;  // share of distinct lines that are looked up in two partitions
    const auto lookups = N::factor(1 + twice, "lookups a line");
    const auto rate = N::factor(kLookupShare, "reached") * lookups * clock;
    const auto looked_up = N::number(d.lookups, "looked up"), distinct = N::number(d.l2_distinct, "distinct");
    const auto second = N::number(twice, "of lines"), at_port = N::factor(f.port_turns / f.ctas, "at a port");
    const auto read = slices_or_port(all_steps * looked_up + second * distinct,
                                     port_steps * looked_up + second * distinct * at_port, rate);
    const auto written = lookups * N::number(d.l2_written, "written");
    const auto write = slices_or_port(written, written * at_port, rate);
    // the last wave's results leave behind its last step
    return read + larger(write, write * N::factor(1 - of_a_wave(), "of it before the last wave") + tail());
  }

  /// Rows outside a tensor are asked of L2 all the same, at one place: behind what L2 gives, or beside what merged requests
  /// for the others take.
  Of<Seconds> with_outside(const Of<Seconds>& l2) const {
    const auto all_steps = N::number(f.all_steps, "steps of all");
    const auto outside = N::number(d.outside_clk, "clk of rows outside") * clk;
    if (d.l2_limit == L2Limit::lookups) return l2 + all_steps * outside;
    const auto others = N::number(d.lookups, "looked up") / (N::number(m.l2, "L2") * N::factor(v.l2, "of the clock"));
    return larger(l2, all_steps * (others + outside));
  }

  Of<Seconds> dram() const {
    const Bytes all = d.dram_read + d.dram_write;
    if (all <= Bytes{}) return {};
    auto time =
        dram_time<N>(d.dram_read, d.dram_write, m) / N::factor(family.dram_share * d.dram_share, "by access pattern");
    if (d.held > Bytes{})
      time = time + N::number(d.held, "held") / (N::number(m.l2, "L2") * N::factor(v.l2, "of the clock"));
    if (d.dealt_once) {
      const double loss = (uneven_fill(f.last, m) - 1) * f.last / f.ctas;
      time = time * N::factor(1 + loss, "for uneven fill");
    }
    if (d.dealt_once || d.ends_alone) time = with_last_wave(time);
    const double written = d.dram_write / all;
    time = larger(time, time * N::factor(1 - written * of_a_wave(), "of it before the last results") + tail());
    if (d.in_flight <= Bytes{}) return time;
    return larger(time, waves * wave_in_flight());
  }

  /// The few CTAs of a last wave pull no more than they have outstanding, once the others have ended: Little's law, a step
  /// taking DRAM's latency / the steps that are in flight. (Products of 64 tokens in tiles of 64 x 96 on an H200, 150, 299,
  /// 668 and 668 CTAs: 40.6, 127, 137 and 265 us; 30.2, 110, 124 and 243 without this, 35.9, 116, 132 and 259 with it.)
  Of<Seconds> with_last_wave(const Of<Seconds>& time) const {
    const double capacity = m.sm_count * static_cast<double>(d.plan.ctas_per_sm);
    if (f.waves <= 1 || f.last >= capacity) return time;
    const double share = f.last / f.ctas;
    const auto alone = last_wave_alone();
    if (share * value_of(time) >= value_of(alone)) return time;
    return time * N::factor(1 - share, "of it before the last wave") + alone;
  }

  Of<Seconds> last_wave_alone() const {
    const auto waited = step("a step of the last wave");
    if (!d.ends_alone) return steps * waited;
    const auto stepped = steps * larger(waited, N::number(d.issue_clk, "clk") * clk);
    return d.in_flight > Bytes{} ? larger(stepped, wave_in_flight()) : stepped;
  }

  /// Of a wave whose CTAs pull what they have outstanding and no more.
  Of<Seconds> wave_in_flight() const {
    return N::number(d.dram_read + d.dram_write, "in all") /
           (N::number(f.ctas, "CTAs") * N::number(d.in_flight, "in flight") / N::number(m.dram_latency, ""));
  }

  /// per_cta is latency: co-resident CTAs go through it side by side; once_clk is throughput: they queue.
  Of<Seconds> exposed() const {
    return (on_sm * N::number(d.exposed_clk, "clk") +
            N::factor(f.ends_on_sm, "CTAs an SM") * N::number(d.once_clk, "clk once")) *
               clk +
           N::factor(f.ends, "one after the other") * N::number(family.per_cta, "a CTA");
  }

  const Demand& d;
  const Rates& m;
  const FamilyScalars& family;
  const Filling& f;
  const Speeds& v;
  const Of<double> waves, steps, on_sm;
  const Of<Seconds> clk;
  const double standing_clk;  ///< of loads and shared memory, beside the steps
};

/// How the launch fills the machine.
Filling filling_of(const Demand& d, const Rates& m);

}  // namespace plumbline::engine

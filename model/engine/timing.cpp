#include "model/engine/timing.hpp"

#include <algorithm>
#include <cmath>

namespace plumbline {

/// Taken relative to the largest term so that it does not overflow. Terms that add less than one part in
/// 10^4 are left out; the powers are taken in single precision (2e-7): the plan search calls this some 10^5 times a
/// second. The result is never below the largest term.
Seconds pnorm(const PerResource<Seconds>& times, double p) {
  Seconds largest;
  for (const Seconds t : times) largest = std::max(largest, t);
  if (largest <= Seconds{}) return largest;
  constexpr float kNegligible = -13.3F;  // log2(1e-4)
  const auto power = static_cast<float>(p);
  // at most 1e-4 to the power p, without the logarithm
  const double floor = p >= 12 ? 0.46 : p >= 8 ? 0.31 : p >= 5 ? 0.15 : p >= 3.1 ? 0.05 : 1e-4;
  const Seconds least = floor * largest;
  float sum = 0;
  bool seen_largest = false;
  for (const Seconds t : times) {
    if (t <= least) continue;
    const double ratio = t / largest;
    if (ratio >= 1 && !seen_largest) {
      seen_largest = true;
      continue;
    }
    const float exponent = power * std::log2(static_cast<float>(ratio));
    if (exponent > kNegligible) sum += std::exp2(exponent);
  }
  return sum <= 0 ? largest : largest * static_cast<double>(std::exp2(std::log2(1 + sum) / power));
}

namespace {

/// Own times of every resource for `ctas` CTAs that run together, `steps` steps each.
struct Wave {
  PerResource<Seconds> own;
  Seconds exposed;
};

/// Share of the tensor peak at the clock: the clock sinks by the dense work of the launch, not by its length, so that a
/// faster memory does not sink it further.
double tensor_share(const Demand& d, const Machine& m, const FamilyScalars& family) {
  const double on_sm = std::ceil(static_cast<double>(d.plan.ctas) / m.sm_count) * d.plan.steps * d.tensor_clk;
  const Seconds dense = on_sm / (family.tensor_burst * family.efficiency) / m.clock;
  return m.sustained_fraction(dense, family) * family.efficiency;
}

/// As the family's own scalars have it, when no clock has been solved for.
Speeds usual_speeds(const Demand& d, const Machine& m, const FamilyScalars& family) {
  return {tensor_share(d, m, family), d.tensor_clk > 0 ? 1 - family.droop : 1, 1};
}

/// L2 takes what DRAM would write during the fixed part of a launch: dirty lines drain while nothing else asks for
/// DRAM. (1024 x 10240 x 32 takes 9.2 us where 21 MB of result alone would keep DRAM busy for 4.5 beside 5 of other
/// costs.)
Seconds late_writes(const Demand& d, const Machine& m, const FamilyScalars& family) {
  if (!d.late_writes) return Seconds{};
  const Seconds writing = dram_time(d.dram_read, d.dram_write, m) - dram_time(d.dram_read, Bytes{}, m);
  return std::min({writing / family.dram_share, family.fixed, m.l2_kept / m.dram_write});
}

/// Little's law of one SM: of a CTA's step the share that DRAM brings takes DRAM's latency, the rest L2's (the mean of
/// its near and its far half), and the SM has only so many bytes outstanding.
Seconds outstanding(const Demand& d, const Machine& m, const FamilyScalars& family) {
  if (family.sm_in_flight <= Bytes{}) return Seconds{};
  const Bytes first = std::min(d.l2, d.dram_read / (static_cast<double>(d.plan.ctas) * d.plan.steps));
  return (first / family.sm_in_flight) * m.dram_latency + ((d.l2 - first) / family.sm_in_flight) * m.l2_mean_latency();
}

/// Part of a launch that runs together.
struct Part {
  double ctas = 0, steps = 0;
  double turns = 1;  ///< how many CTAs one slot starts and ends, one after the other, within this wave
  double share = 1;  ///< of the launch
  bool last = false;
};

/// Time of the lookups in L2. Half of the lines belong to the other partition: a lookup there passes through the near
/// one too, which keeps a copy, so that lines that many SMs ask for are near for all but the first. Distinct lines come
/// at m.l2, so lookups at (1 + 1/2) times that (two partitions), of which tiles reach nine tenths. Counted by ncu on an
/// H200 (2026-11-20, GEMM): 1.5 to 1.6 lookups a distinct byte; L2's clock stays (1707 MHz) where SMs skip cycles.
/// `tail`: how long the launch goes on behind its last read.
Seconds l2_time(const Demand& d, const Machine& m, const Part& part, Seconds tail, const Speeds& speeds) {
  const double active_sms = std::min(part.ctas, m.sm_count);
  if (d.shared_reads) return part.ctas * part.steps * d.l2 / (active_sms * m.l2_per_sm * speeds.sm);
  if (d.lookups <= Bytes{})
    return part.ctas * part.steps * d.l2 / (std::min(m.l2, active_sms * m.l2_per_sm) * speeds.l2);
  const auto partitions = static_cast<double>(std::max<std::int64_t>(1, m.gpu.l2.partitions));
  const double twice = 1 - 1 / partitions;  // share of distinct lines that are looked up in two partitions
  const Bandwidth rate = kLookupShare * (1 + twice) * std::min(m.l2, active_sms * m.l2_per_sm) * speeds.l2;
  const Seconds read = (part.ctas * part.steps * d.lookups + twice * part.share * d.l2_distinct) / rate;
  return read + std::max((1 + twice) * part.share * d.l2_written / rate, tail);
}

/// Work that is dealt out once and does not fill the SMs evenly: CTAs that have an SM (or a pair of SMs, which share
/// their way to L2) for themselves run ahead, and those that are left at the end draw less than DRAM could give. Found
/// for decode attention (64 to 256 items) and GEMM of few tokens on an H200, 2026-11-20: 3 % where 9 % of the last
/// layer is filled, 8 to 10 % at a half, 0 to 2 % at 94 %.
double uneven_fill(double ctas, const Machine& m) {
  constexpr double kLossAtHalf = 0.08;
  double filled = 1;
  if (ctas > m.sm_count) filled = ctas / m.sm_count - std::floor(ctas / m.sm_count);
  else if (ctas > m.sm_count / 2) filled = 2 * ctas / m.sm_count - 1;
  return 1 + 4 * kLossAtHalf * filled * (1 - filled);
}

Seconds dram_wave(const Demand& d, const Machine& m, const FamilyScalars& family, const Part& part, Seconds tail) {
  const Bytes all = d.dram_read + d.dram_write;
  if (all <= Bytes{}) return Seconds{};
  Seconds time = dram_time(d.dram_read, d.dram_write, m) * (part.share / family.dram_share);
  time -= late_writes(d, m, family) * part.share;
  // libraries hand tiles out as they go, and what they write may stay in L2
  if (family.own && d.plan.persistent) time = time * uneven_fill(part.ctas, m);
  time = std::max(time, time * (d.dram_read / all) + tail);
  if (d.in_flight <= Bytes{}) return time;
  return std::max(time, all * part.share / (part.ctas * d.in_flight / m.dram_latency));
}

Wave wave_times(const Demand& d, const Machine& m, const FamilyScalars& family, const Part& part,
                const Speeds& speeds) {
  const double resident = std::ceil(part.ctas / m.sm_count), steps = part.steps;
  const double on_sm = resident * steps;
  const Seconds clk = 1.0 / (m.clock * speeds.sm);
  Wave wave;
  // what a CTA's epilogue leaves of the tensor unit, a co-resident CTA takes
  const double work_clk = d.tensor_clk / speeds.tensor;
  wave.own[Resource::tensor] = std::max(on_sm * work_clk, steps * work_clk + (work_clk > 0 ? d.serial_clk : 0)) * clk;
  wave.own[Resource::fp32] = on_sm * d.fp32_clk * clk;
  wave.own[Resource::sfu] = on_sm * d.sfu_clk * clk;
  wave.own[Resource::issue] = on_sm * d.issue_clk * clk;
  // loads of our kernels stand still with the CTA's steps; a library's run on
  const double standing_clk = family.own ? d.serial_clk : 0;
  wave.own[Resource::smem] =
      std::max(on_sm * d.smem_clk, steps * d.smem_clk + (d.smem_clk > 0 ? standing_clk : 0)) * clk;
  wave.own[Resource::latency] = std::max(steps * d.step_latency, on_sm * outstanding(d, m, family)) +
                                standing_clk * clk + (part.last ? d.start : d.between);
  // behind the last read of a persistent launch comes one more step, and the epilogue
  const Seconds tail = family.own && d.plan.persistent && part.last ? d.step_latency + standing_clk * clk : Seconds{};
  const Seconds fill = on_sm * d.fill_clk * clk;
  wave.own[Resource::l2] = l2_time(d, m, part, tail, speeds) + fill;
  wave.own[Resource::dram] = dram_wave(d, m, family, part, tail) + fill;
  // per_cta is latency: co-resident CTAs go through it side by side; once_clk is throughput: they queue
  wave.exposed = (on_sm * d.exposed_clk + part.turns * resident * d.once_clk) * clk + part.turns * family.per_cta;
  return wave;
}

/// Steps of the slot that ends last when CTAs are taken longest first: an SM that runs `most` CTAs has one that at most
/// (most - 1) x SMs are longer than; lengths spread evenly about the mean, as those of a causal triangle or trapezoid.
double falling_steps(const KernelPlan& plan, double slots, double sm_count) {
  const double ctas = static_cast<double>(plan.ctas);
  const double sms = std::min(ctas, sm_count), most = std::ceil(ctas / sms), resident = std::ceil(slots / sms);
  const double length = plan.longest - 2 * (plan.longest - plan.steps) * (most - 1) * sms / ctas;
  return std::max({ctas * plan.steps / slots, plan.longest, most * length / resident});
}

/// ... shortest first: the slot that takes the longest CTA has taken every `slots`-th before it, the j-th of which is
/// 2 (longest - mean) j slots / ctas shorter. Summed over the `most` that it runs.
double rising_steps(const KernelPlan& plan, double slots) {
  const double ctas = static_cast<double>(plan.ctas), most = std::ceil(ctas / slots);
  const double sum = most * plan.longest - (plan.longest - plan.steps) * (most - 1) * most * slots / ctas;
  return std::max({ctas * plan.steps / slots, plan.longest, sum});
}

/// Calls `visit(wave, times)` for the full waves together and for the last one.
template <class Visit>
void for_each_wave(const Demand& d, const Machine& m, const FamilyScalars& family, const Speeds& speeds, Visit visit) {
  const double ctas = static_cast<double>(d.plan.ctas);
  const double capacity = m.sm_count * static_cast<double>(d.plan.ctas_per_sm);
  if (d.plan.longest > d.plan.steps) {  // unequal CTAs over persistent slots
    const double slots = std::min(ctas, capacity);
    const double steps = d.plan.rising ? rising_steps(d.plan, slots) : falling_steps(d.plan, slots, m.sm_count);
    visit(wave_times(d, m, family, {slots, steps, ctas / slots, 1.0, true}, speeds), 1.0);
    return;
  }
  if (d.flowing) {
    visit(wave_times(d, m, family, {ctas, d.plan.steps, 0, 1.0, true}, speeds), 1.0);
    return;
  }
  const double full = std::floor(ctas / capacity);
  const double rest = ctas - full * capacity;
  const auto wave = [&](double at_once, double turns) {
    return wave_times(d, m, family, {at_once, d.plan.steps, turns, at_once / ctas, turns > 0}, speeds);
  };
  if (!d.plan.persistent) {
    if (full > 0) visit(wave(capacity, 1), full);
    if (rest > 0) visit(wave(rest, 1), 1.0);
    return;
  }
  // of a persistent CTA's work items the last one's drain is seen, and one prologue
  const double inner = rest > 0 ? full : full - 1;
  if (inner > 0) visit(wave(capacity, 0), inner);
  visit(wave(rest > 0 ? rest : capacity, 1), 1.0);
}

double overlap_of(const Demand& d, const FamilyScalars& family) { return d.overlap > 0 ? d.overlap : family.overlap; }

/// Only host copies so far: collectives between GPUs bring their own planner.
Seconds link_time(const Demand& d, const Machine& m) { return d.link > Bytes{} ? d.link / m.pcie : Seconds{}; }

}  // namespace

Seconds dram_time(Bytes read, Bytes write, const Machine& m) {
  const Bytes all = read + write;
  if (all <= Bytes{}) return Seconds{};
  const double r = read / all;
  // Turning the bus round is lost time. Writes leave in batches, each with a turn: the loss is in proportion to them,
  // as long as there are reads to put between. (H200: 0.063 at two reads a write, 0.093 at 1:1 by our own probe, 0.11
  // at two reads to three writes by our dropout; fewer reads than one to two writes were not measured.)
  return (read / m.dram_read + write / m.dram_write) * (1.0 + 2.0 * std::min(1.0 - r, 2.0 * r) * m.dram_mix_loss);
}

Seconds price_total(const Demand& d, const Machine& m, const FamilyScalars& family, Seconds give_up) {
  Seconds total = family.fixed + d.chain + link_time(d, m);
  for_each_wave(d, m, family, usual_speeds(d, m, family), [&](const Wave& wave, double times) {
    if (total >= give_up) return;
    Seconds largest;
    for (const Seconds t : wave.own) largest = std::max(largest, t);
    const Seconds bound = total + times * (largest + wave.exposed);
    total = bound >= give_up ? bound : total + times * (pnorm(wave.own, overlap_of(d, family)) + wave.exposed);
  });
  return total;
}

LaunchTime price(const Demand& d, const Machine& m, const FamilyScalars& family) {
  return price(d, m, family, usual_speeds(d, m, family));
}

LaunchTime price(const Demand& d, const Machine& m, const FamilyScalars& family, const Speeds& speeds) {
  LaunchTime out;
  out.fixed = family.fixed + d.chain;
  out.overlap = overlap_of(d, family);
  out.tensor_share = speeds.tensor;
  out.l2_share = d.shared_reads ? speeds.sm : speeds.l2;
  out.dram_share = family.dram_share;
  out.total = out.fixed + link_time(d, m);
  Seconds last;
  for_each_wave(d, m, family, speeds, [&](const Wave& wave, double times) {
    const Seconds one = pnorm(wave.own, out.overlap) + wave.exposed;
    out.total += times * one;
    out.body += times * one;
    last = one;
    for (std::size_t i = 0; i < kResourceCount; ++i) {
      const auto r = static_cast<Resource>(i);
      out.by_resource[r] += times * wave.own[r];
    }
    out.by_resource[Resource::latency] += times * wave.exposed;
  });
  out.by_resource[Resource::link] = link_time(d, m);
  out.by_resource[Resource::latency] += out.fixed;
  out.waves = static_cast<double>(d.plan.ctas) / (m.sm_count * static_cast<double>(d.plan.ctas_per_sm));
  out.tail = out.waves > 1 ? last : Seconds{};
  Seconds largest;
  for (std::size_t i = 0; i < kResourceCount; ++i) {
    const auto r = static_cast<Resource>(i);
    if (out.by_resource[r] <= largest) continue;
    largest = out.by_resource[r];
    out.limiter = r;
  }
  return out;
}

}  // namespace plumbline

#include "model/engine/timing.hpp"

#include <algorithm>
#include <cmath>

#include "model/engine/body.hpp"

namespace plumbline {
namespace {

constexpr float kNegligible = -13.3F;  // log2(1e-4)

/// Of the largest term; at most 1e-4 to the power p, without the logarithm.
double largest_left_out(double p) { return p >= 12 ? 0.46 : p >= 8 ? 0.31 : p >= 5 ? 0.15 : p >= 3.1 ? 0.05 : 1e-4; }

}  // namespace

namespace {

/// Taken relative to the largest term so that it does not overflow. Terms that add less than one part in
/// 10^4 are left out; the powers are taken in single precision (2e-7): the plan search calls this some 10^5 times a
/// second. The result is never below the largest term. `keep(i, power)` is told each term that counts.
template <class Keep>
Seconds pnorm_of(const PerResource<Seconds>& times, double p, const Keep& keep) {
  Seconds largest;
  for (const Seconds t : times) largest = std::max(largest, t);
  if (largest <= Seconds{}) return largest;
  const auto power = static_cast<float>(p);
  const Seconds least = largest_left_out(p) * largest;
  float sum = 0;
  bool seen_largest = false;
  std::size_t i = 0;
  for (const Seconds t : times) {
    const std::size_t at = i++;
    if (t <= least) continue;
    const double ratio = t / largest;
    if (ratio >= 1 && !seen_largest) {
      seen_largest = true;
      keep(at, 1.0F);
      continue;
    }
    const float exponent = power * std::log2(static_cast<float>(ratio));
    if (!(exponent > kNegligible))
      continue;  // of an infinite power and equal terms it is no number: the largest alone counts
    const float term = std::exp2(exponent);
    keep(at, term);
    sum += term;
  }
  return sum <= 0 ? largest : largest * static_cast<double>(std::exp2(std::log2(1 + sum) / power));
}

}  // namespace

Seconds pnorm(const PerResource<Seconds>& times, double p) {
  return pnorm_of(times, p, [](std::size_t, float) {});
}

Seconds pnorm(const PerResource<Seconds>& times, double p, PerResource<Seconds>& spent) {
  PerResource<double> powers;
  double sum = 0;
  const Seconds norm = pnorm_of(times, p, [&](std::size_t i, float power) {
    sum += powers[static_cast<Resource>(i)] = static_cast<double>(power);
  });
  if (norm <= Seconds{}) return norm;
  for (std::size_t i = 0; i < kResourceCount; ++i) {
    const auto r = static_cast<Resource>(i);
    spent[r] += powers[r] / sum * norm;
  }
  return norm;
}

namespace {

using engine::Body;
using engine::BodyTerms;
using engine::Filling;

/// Steps of the slot that ends last when CTAs are taken longest first: an SM that runs `most` CTAs has one that at most
/// (most - 1) x SMs are longer than; lengths spread evenly about the mean, as those of a causal triangle or trapezoid.
double longest_first_steps(const KernelPlan& plan, double slots, double sm_count) {
  const double ctas = static_cast<double>(plan.ctas);
  const double sms = std::min(ctas, sm_count), most = std::ceil(ctas / sms), resident = std::ceil(slots / sms);
  const double length = plan.longest - 2 * (plan.longest - plan.steps) * (most - 1) * sms / ctas;
  return std::max({ctas * plan.steps / slots, plan.longest, most * length / resident});
}

/// ... shortest first: the slot that takes the longest CTA has taken every `slots`-th before it, the j-th of which is
/// 2 (longest - mean) j slots / ctas shorter. Summed over the `most` that it runs.
double shortest_first_steps(const KernelPlan& plan, double slots) {
  const double ctas = static_cast<double>(plan.ctas), most = std::ceil(ctas / slots);
  const double sum = most * plan.longest - (plan.longest - plan.steps) * (most - 1) * most * slots / ctas;
  return std::max({ctas * plan.steps / slots, plan.longest, sum});
}

}  // namespace

Filling engine::filling_of(const Demand& d, const Rates& m) {
  const double ctas = static_cast<double>(d.plan.ctas), an_sm = static_cast<double>(d.plan.ctas_per_sm);
  const double capacity = m.sm_count * an_sm;
  Filling f;
  f.ctas = f.last = ctas;
  f.steps = d.plan.steps;
  f.all_steps = ctas * d.plan.steps;
  if (d.plan.longest > d.plan.steps) {  // unequal CTAs over persistent slots
    const double slots = std::min(ctas, capacity);
    f.ctas = f.last = slots;
    f.steps =
        d.plan.shortest_first ? shortest_first_steps(d.plan, slots) : longest_first_steps(d.plan, slots, m.sm_count);
    f.on_sm = std::ceil(slots / m.sm_count);
    f.port_turns = std::max(1.0, slots / m.sm_count);
    f.ends = ctas / slots;
    f.ends_on_sm = f.ends * f.on_sm;
    return f;
  }
  f.on_sm = std::ceil(ctas / m.sm_count);
  if (d.no_waves) {
    f.port_turns = std::max(1.0, ctas / m.sm_count);
    return f;
  }
  const double full = std::floor(ctas / capacity), rest = ctas - full * capacity;
  f.waves = rest > 0 ? full + 1 : full;
  f.last = rest > 0 ? rest : capacity;
  f.port_turns = full * an_sm + (rest > 0 ? std::max(1.0, rest / m.sm_count) : 0);
  // of a persistent CTA's work items the last one's drain is seen, and one prologue
  f.ends = d.plan.persistent ? 1 : f.waves;
  f.ends_on_sm = d.plan.persistent ? std::min(f.on_sm, an_sm) : f.on_sm;
  return f;
}

namespace {

double overlap_of(const Demand& d, const FamilyScalars& family) { return d.overlap > 0 ? d.overlap : family.overlap; }

/// Fixed costs, dependent latencies and the link: once a launch.
template <class N>
struct Once {
  typename N::template Of<Seconds> fixed, link;
};
template <class N>
Once<N> once(const Demand& d, const Rates& m, const FamilyScalars& family) {
  Once<N> out;
  out.fixed = N::number(family.fixed, "fixed") + N::number(d.serial_latency, d.serial_latency_of);
  if (d.link > Bytes{}) out.link = N::number(d.link, "over the link") / N::number(engine::link_rate(d, m), "");
  return out;
}

/// Share of the tensor peak at the clock: the clock sinks by the dense work of the launch, not by its length, so that a
/// faster memory does not sink it further.
double tensor_share(const Demand& d, const Rates& m, const FamilyScalars& family) {
  const double on_sm = std::ceil(static_cast<double>(d.plan.ctas) / m.sm_count) * d.plan.steps * d.tensor_clk;
  const Seconds dense = on_sm / (family.tensor_burst * family.efficiency) / m.clock;
  return m.sustained_fraction(dense, family) * family.efficiency;
}

void set_limiter(LaunchTime& time) {
  Seconds largest;
  for (std::size_t i = 0; i < kResourceCount; ++i) {
    const auto r = static_cast<Resource>(i);
    if (time.by_resource[r] <= largest) continue;
    largest = time.by_resource[r];
    time.limiter = r;
  }
}

/// The times without their formulas. Those that have none are not copied: copies of what was written a moment ago wait
/// for it to leave the store buffer.
const PerResource<Seconds>& plain(const Body<PlainNumbers>& body) { return body.alone; }
PerResource<Seconds> plain(const Body<WrittenNumbers>& body) {
  PerResource<Seconds> out;
  for (std::size_t i = 0; i < kResourceCount; ++i) {
    out[static_cast<Resource>(i)] = value_of(body.alone[static_cast<Resource>(i)]);
  }
  return out;
}

/// Which of the terms the p-norm takes (pnorm() leaves out what adds next to nothing).
PerResource<bool> terms_that_count(const PerResource<Seconds>& times, double p) {
  Seconds largest;
  for (const Seconds t : times) largest = std::max(largest, t);
  PerResource<bool> out;
  bool seen_largest = false;
  for (std::size_t i = 0; i < kResourceCount; ++i) {
    const Seconds t = times[static_cast<Resource>(i)];
    if (t <= largest_left_out(p) * largest) continue;
    const bool first_largest = t >= largest && !seen_largest;
    seen_largest = seen_largest || first_largest;
    const auto ratio = static_cast<float>(t / largest);
    out[static_cast<Resource>(i)] = first_largest || static_cast<float>(p) * std::log2(ratio) > kNegligible;
  }
  return out;
}

/// `to`: what is recorded, with WrittenNumbers alone.
template <class N>
LaunchTime price_with(const Demand& d, const Rates& m, const FamilyScalars& family, const Speeds& speeds,
                      [[maybe_unused]] LaunchRecord* to) {
  LaunchTime out;
  const Once<N> before = once<N>(d, m, family);
  out.fixed = value_of(before.fixed);
  const double p = overlap_of(d, family);
  const Filling filling = engine::filling_of(d, m);
  const Body<N> body = BodyTerms<N>(d, m, family, filling, speeds)();
  const Seconds link = value_of(before.link), exposed = value_of(body.exposed);
  out.by_resource = plain(body);
  out.body = pnorm(out.by_resource, p, out.spent) + exposed;
  out.total = out.fixed + link + out.body;
  if constexpr (std::is_same_v<N, WrittenNumbers>) {
    *to = {filling.waves,
           filling.ctas,
           body.alone,
           body.exposed,
           terms_that_count(out.by_resource, p),
           p,
           out.body,
           before.fixed + before.link,
           out.total};
  }
  out.by_resource[Resource::link] = link;
  out.by_resource[Resource::latency] += exposed + out.fixed;
  out.spent[Resource::link] += link;
  out.spent[Resource::latency] += exposed + out.fixed;
  out.waves = static_cast<double>(d.plan.ctas) / (m.sm_count * static_cast<double>(d.plan.ctas_per_sm));
  out.tail = out.waves > 1 ? out.body / filling.waves : Seconds{};
  set_limiter(out);
  return out;
}

}  // namespace

Seconds dram_time(Bytes read, Bytes write, const Rates& m) {
  return read + write <= Bytes{} ? Seconds{} : engine::dram_time<PlainNumbers>(read, write, m);
}

Speeds usual_speeds(const Demand& d, const Rates& m, const FamilyScalars& family) {
  if (d.tensor_clk <= 0) return {};
  return {tensor_share(d, m, family), 1 - family.skipped_cycles, 1};
}

Seconds price_total(const Demand& d, const Rates& m, const FamilyScalars& family, Seconds give_up) {
  const Once<PlainNumbers> before = once<PlainNumbers>(d, m, family);
  const Body<PlainNumbers> body =
      BodyTerms<PlainNumbers>(d, m, family, engine::filling_of(d, m), usual_speeds(d, m, family))();
  const Seconds beside = before.fixed + before.link + body.exposed;
  Seconds largest;
  for (const Seconds t : body.alone) largest = std::max(largest, t);
  if (beside + largest >= give_up) return beside + largest;
  return beside + pnorm(body.alone, overlap_of(d, family));
}

Seconds price_total(const Demand& d, const Rates& m, const FamilyScalars& family, const Speeds& speeds) {
  const Once<PlainNumbers> before = once<PlainNumbers>(d, m, family);
  const Body<PlainNumbers> body = BodyTerms<PlainNumbers>(d, m, family, engine::filling_of(d, m), speeds)();
  // in the order in which price() adds
  return before.fixed + before.link + (pnorm(body.alone, overlap_of(d, family)) + body.exposed);
}

LaunchTime price(const Demand& d, const Rates& m, const FamilyScalars& family) {
  return price(d, m, family, usual_speeds(d, m, family));
}

LaunchTime price(const Demand& d, const Rates& m, const FamilyScalars& family, const Speeds& speeds) {
  return price_with<PlainNumbers>(d, m, family, speeds, nullptr);
}

LaunchTime price(const Demand& d, const Rates& m, const FamilyScalars& family, const Speeds& speeds,
                 LaunchRecord& record) {
  record = LaunchRecord{};
  return price_with<WrittenNumbers>(d, m, family, speeds, &record);
}

}  // namespace plumbline

// The whiteboard text of an operator: prints what the engine recorded when it priced the launches (launch_record.hpp),
// and works nothing out by itself. Each equation holds within its printed digits; names stand for the lines above them.
//
//   gemm: 170 us, bound by tensor
//     grid     512 CTAs, 1 at a time on each of 132 SMs: 3.88 waves; 64.0 steps a CTA
//     clock    1654.1 MHz = 1980 MHz x 0.8354 of cycles not skipped
//       tensor   167.2 us = 4 waves x (64 steps x (1024 clk / 0.9950 of the tensor rate) + 3268.4 clk of epilogues) / ...
//       smem     117.6 us = 4 waves x (64 steps x 709.1 clk + 3268.4 clk of epilogues) / 1654.1 MHz
//       ...
//       body     168.6 us = (tensor^8 + smem^8 + l2^8)^(1/8)
//     time     170.0 us = 750 ns fixed + 660 ns to load tensor maps and what they describe + body
//   together
//     total    170.8 us = 170.0 us gemm + 1 x 716.3 ns gap in a graph
//     power    1.008 kW = 77.38 W constant + 44.21 W of clocks + (148.2 mJ chip + 3.114 mJ memory) / 170.8 us
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <string>

#include "arch/format.hpp"
#include "model/engine/launch_record.hpp"
#include "model/engine/rates.hpp"
#include "model/engine/timing.hpp"
#include "model/predict.hpp"
#include "model/report/formula_text.hpp"
#include "model/report/rule_loss.hpp"
#include "ops/facts/work.hpp"
#include "ops/table/text.hpp"

namespace plumbline {
namespace {

/// printf into a string: these are whiteboard lines, and aligned columns read best as formats.
[[gnu::format(printf, 2, 3)]] void line(std::string& out, const char* pattern, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(text, sizeof text, pattern, arguments);
  va_end(arguments);
  out += text;
  out += '\n';
}

void grid(std::string& out, const Demand& d, const LaunchTime& time, const Rates& m) {
  const KernelPlan& plan = d.plan;
  line(out, "    grid     %lld CTAs, %lld at a time on each of %.0f SMs: %s waves%s; %s steps a CTA%s",
       static_cast<long long>(plan.ctas), static_cast<long long>(plan.ctas_per_sm), m.sm_count,
       format(time.waves).c_str(), d.no_waves ? ", each CTA beginning as another ends" : "", format(plan.steps).c_str(),
       plan.longest > plan.steps ? (", longest " + format(plan.longest)).c_str() : "");
}

/// The SM clock as it came about: the board's, and what is left of its cycles.
void clock_line(std::string& out, const LaunchPrediction& l, const Rates& m) {
  if (l.speeds.sm == 1) return;
  using N = WrittenNumbers;
  const auto clock = N::number(m.clock, "") * N::factor(l.speeds.l2, "that the power limit leaves") *
                     N::factor(l.speeds.sm / l.speeds.l2, "of cycles not skipped");
  out += equation("clock", clock.value, formula_text(clock.how));
}

/// The p-norm over the terms that count, by their names.
std::string norm_text(const LaunchRecord& record) {
  std::string out;
  int terms = 0;
  char power[32];
  std::snprintf(power, sizeof power, "%.6g", record.overlap);
  for (std::size_t i = 0; i < kResourceCount; ++i) {
    if (record.counts[static_cast<Resource>(i)]) ++terms;
  }
  const bool bare = terms < 2 || record.overlap == 1;
  for (std::size_t i = 0; i < kResourceCount; ++i) {
    const auto r = static_cast<Resource>(i);
    if (!record.counts[r]) continue;
    out += (out.empty() ? "" : " + ") + std::string(name(r)) + (bare ? "" : "^" + std::string(power));
  }
  return bare ? out : "(" + out + ")^(1/" + power + ")";
}

/// A term that the p-norm takes, or that is at least 1 % of the body, has a line.
void body_lines(std::string& out, const LaunchRecord& record) {
  constexpr double kWorthALine = 0.01;
  if (record.body <= Seconds{}) return;
  std::string sum = norm_text(record);
  for (std::size_t i = 0; i < kResourceCount; ++i) {
    const auto r = static_cast<Resource>(i);
    if (!record.counts[r] && !(record.alone[r].value >= kWorthALine * record.body)) continue;
    out += "  " + equation(std::string(name(r)).c_str(), record.alone[r].value, formula_text(record.alone[r].how));
  }
  if (record.exposed.value > Seconds{}) {
    out += "  " + equation("exposed", record.exposed.value, formula_text(record.exposed.how));
    sum += sum.empty() ? "exposed" : " + exposed";
  }
  out += "  " + equation("body", record.body, sum);
}

void launch(std::string& out, const LaunchPrediction& l, const Rates& m) {
  LaunchRecord record;
  price(l.demand, m, *l.family, l.speeds, record);
  line(out, "  %s: %s, bound by %s", l.kernel, format(l.time.total).c_str(), std::string(name(l.time.limiter)).c_str());
  grid(out, l.demand, l.time, m);
  clock_line(out, l, m);
  body_lines(out, record);
  std::string sum = record.before.value > Seconds{} ? formula_text(record.before.how) : "";
  if (record.body > Seconds{}) sum += sum.empty() ? "body" : " + body";
  out += equation("time", record.total, sum.empty() ? "0 s" : sum);
}

/// The launches and the gaps behind them.
void total_lines(std::string& out, const OpPrediction& p, const Rates& m) {
  std::string sum;
  for (int i = 0; i < p.launch_count; ++i) {
    const LaunchPrediction& l = p.launches[static_cast<std::size_t>(i)];
    sum += number_text(l.time.total) + " " + l.kernel + " + ";
  }
  sum += std::to_string(p.launch_count) + " x " + number_text(m.gap_graph) + " gap in a graph";
  out += equation("total", p.time, sum);
  line(out, "    %s-bound: %s alone takes %.0f %% of the time", std::string(name(p.bound)).c_str(),
       std::string(name(p.limiter)).c_str(), 100 * p.limiter_share);
}

/// Where the watts go, and which clock they leave.
void power_lines(std::string& out, const OpPrediction& p, const Rates& m) {
  if (!p.power || !m.power || p.launch_count == 0) return;
  const double share = p.launches[0].speeds.l2;
  if (share < 1) {
    line(out, "    settled at %s, the clock at which the power meets the limit of %s",
         number_text(share * m.clock.in(units::Hz), Formula::Unit::hertz).c_str(), format(m.power_cap).c_str());
  }
  const RunEnergy run{p.chip_energy, p.memory_energy, p.tensor_estimate};
  const Written<Watts> power = written_power(*m.power, share, run, p.time);
  out += equation("power", power.value, formula_text(power.how));
  using N = WrittenNumbers;
  const auto energy = N::number(*p.power, "") * N::number(p.time, "");
  out += equation("energy", *p.energy, formula_text(energy.how));
}

void plan_line(std::string& out, const OpPrediction& p) {
  if (const GemmPlan& g = p.gemm_plan; g.tile_m > 0) {
    const std::string cut = g.splits == 0   ? "stream-K over the SMs"
                            : g.splits == 1 ? "no K split"
                                            : std::to_string(g.splits) + " K splits and a reduction";
    line(out, "  plan: tiles of %lld x %lld, K in steps of %lld, %lld stages, %s%s%s", static_cast<long long>(g.tile_m),
         static_cast<long long>(g.tile_n), static_cast<long long>(g.tile_k), static_cast<long long>(g.stages),
         cut.c_str(), g.swapped ? ", weights on the row side" : "",
         g.clipped ? ", last tiles with a map of their own rows" : "");
  }
  if (const AttentionPlan& a = p.attention_plan; a.kv_tile > 0) {
    line(out, "  plan: %lld keys a step, %s, %lld split(s) of the keys", static_cast<long long>(a.kv_tile),
         a.q_tile > 0 ? (std::to_string(a.q_tile) + " query rows a tile").c_str()
                      : (std::to_string(a.packed_heads) + " query heads packed").c_str(),
         static_cast<long long>(a.splits));
  }
}

}  // namespace

std::string explain(const Op& op, const OpPrediction& p, const Machine& machine) {
  return explain(op, p, machine, other_kernels(op, p, machine));
}

std::string explain(const Op& op, const OpPrediction& p, const Machine& machine, const OtherKernels& others) {
  const Rates& m = machine.rates();
  std::string out;
  const Work w = work(op);
  const Seconds floor = roofline(op, m.gpu);
  line(out, "%s %s %s on %s, SM clock %s: %s (%s to %s, %s)", std::string(op_name(op)).c_str(),
       std::string(dtype_text(op)).c_str(), shape_text(op).c_str(), machine.gpu().name.c_str(), format(p.clock).c_str(),
       format(p.time).c_str(), format(p.low).c_str(), format(p.high).c_str(), std::string(name(p.provenance)).c_str());
  const std::string ratio = w.bytes() > Bytes{} ? "; " + format(p.flops / w.bytes()) : "";
  line(out, "  work: %s tensor + %s other, %s read + %s written at least%s", format(w.tensor).c_str(),
       format(w.fp32).c_str(), format(w.read).c_str(), format(w.write).c_str(), ratio.c_str());
  if (floor > Seconds{}) {
    line(out, "  datasheet roofline %s: the prediction is %.2f x that", format(floor).c_str(), p.time / floor);
  }
  plan_line(out, p);
  if (others.rule) out += "  rule: " + rule_text(*others.rule) + "\n";
  if (others.untuned) {
    line(out, "  not tuned: %s, by the first tile of the library's list, where its tuner has no entry for this call",
         format(*others.untuned).c_str());
  }
  for (int i = 0; i < p.launch_count; ++i) launch(out, p.launches[static_cast<std::size_t>(i)], m);
  if (p.launch_count > 0) {
    line(out, "  together");
    total_lines(out, p, m);
    power_lines(out, p, m);
  }
  if (p.band_rows > 0 && p.band != nullptr) {
    line(out, "  band: residuals of %ld measured rows of %s", p.band_rows,
         p.band->pooled.empty() ? "this class" : p.band->pooled.c_str());
  } else if (p.launch_count > 0)
    line(out, "  band: a factor of 1.65 either way; no measurement of this class is on file");
  return out;
}

}  // namespace plumbline

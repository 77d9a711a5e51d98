#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <string>

#include "arch/format.hpp"
#include "model/engine/machine.hpp"
#include "model/predict.hpp"
#include "ops/op/text.hpp"
#include "ops/op/work.hpp"

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

std::string us(Seconds t) { return format(t); }

void grid(std::string& out, const KernelPlan& plan, const LaunchTime& time, const Machine& m) {
  line(out, "    grid     %lld CTAs, %lld at a time on each of %.0f SMs -> %.2f waves; %s steps a CTA%s",
       static_cast<long long>(plan.ctas), static_cast<long long>(plan.ctas_per_sm), m.sm_count, time.waves,
       format(plan.steps).c_str(), plan.longest > plan.steps ? (", longest " + format(plan.longest)).c_str() : "");
}

/// "name  own time  = how it comes about".
void sm_term(std::string& out, const char* label, double clk_per_step, Resource r, const LaunchTime& t, Hertz clock,
             double rate_share) {
  const Seconds own = t.by_resource[r];
  if (own <= Seconds{} || clk_per_step <= 0) return;
  const double steps = own * clock * rate_share / clk_per_step;
  if (rate_share < 1) {
    line(out, "    %-8s %-9s = %s steps on the busiest SM x %s clk / (%s x %.3f sustained)", label, us(own).c_str(),
         format(steps).c_str(), format(clk_per_step).c_str(), format(clock).c_str(), rate_share);
  } else {
    line(out, "    %-8s %-9s = %s steps on the busiest SM x %s clk / %s", label, us(own).c_str(), format(steps).c_str(),
         format(clk_per_step).c_str(), format(clock).c_str());
  }
}

void memory_terms(std::string& out, const Demand& d, const LaunchTime& t, const Machine& m) {
  if (const Seconds l2 = t.by_resource[Resource::l2]; l2 > Seconds{} && d.l2 > Bytes{}) {
    const double ctas = static_cast<double>(d.plan.ctas);
    const double steps = d.plan.longest > d.plan.steps ? std::max(d.plan.steps, d.plan.longest / ctas) : d.plan.steps;
    line(out, "    %-8s %-9s = %lld CTAs x %s steps x %s / (%s L2, %s an SM)", "l2", us(l2).c_str(),
         static_cast<long long>(d.plan.ctas), format(steps).c_str(), format_binary(d.l2).c_str(),
         format(t.l2_share * m.l2).c_str(), format(t.l2_share * m.l2_per_sm).c_str());
  }
  if (const Seconds dram = t.by_resource[Resource::dram]; dram > Seconds{}) {
    line(out, "    %-8s %-9s = %s read / %s + %s written / %s, mix loss %.0f %%, %.0f %% by access pattern", "dram",
         us(dram).c_str(), format(d.dram_read).c_str(), format(m.dram_read).c_str(), format(d.dram_write).c_str(),
         format(m.dram_write).c_str(), 100 * m.dram_mix_loss, 100 * t.dram_share);
  }
  if (const Seconds link = t.by_resource[Resource::link]; link > Seconds{}) {
    line(out, "    %-8s %-9s = %s / %s", "link", us(link).c_str(), format(d.link).c_str(), format(m.pcie).c_str());
  }
}

void launch(std::string& out, const LaunchPrediction& l, const Machine& m) {
  const Demand& d = l.demand;
  const LaunchTime& t = l.time;
  line(out, "  %s: %s, bound by %s", l.kernel, us(t.total).c_str(), std::string(name(t.limiter)).c_str());
  grid(out, d.plan, t, m);
  sm_term(out, "tensor", d.tensor_clk, Resource::tensor, t, l.clock, t.tensor_share);
  sm_term(out, "fp32", d.fp32_clk, Resource::fp32, t, l.clock, 1);
  sm_term(out, "sfu", d.sfu_clk, Resource::sfu, t, l.clock, 1);
  sm_term(out, "issue", d.issue_clk, Resource::issue, t, l.clock, 1);
  sm_term(out, "smem", d.smem_clk, Resource::smem, t, l.clock, 1);
  memory_terms(out, d, t, m);
  line(out, "    %-8s %-9s = %s fixed%s + %s step chain x %s + prologues, epilogues and what no overlap hides",
       "latency", us(t.by_resource[Resource::latency]).c_str(), us(t.fixed - d.chain).c_str(),
       d.chain > Seconds{} ? (" + " + us(d.chain) + " barriers").c_str() : "", us(d.step_latency).c_str(),
       format(d.plan.steps).c_str());
  line(out, "    time     %-9s = %s fixed + waves of (sum of terms^%.3g)^(1/%.3g) + exposed", us(t.total).c_str(),
       us(t.fixed).c_str(), t.overlap, t.overlap);
}

/// Where the watts go.
void power_line(std::string& out, const OpPrediction& p, const Machine& m) {
  if (!p.power || !m.power) return;
  const Watts memory = p.memory_energy / p.time;
  const Watts standing = settled_power(*m.power, 1, Watts{});
  const Watts chip = std::max(Watts{}, *p.power - memory - standing);
  line(out, "  power: %s = about %s standing + %s chip (%s at the boost clock's voltage) + %s memory; energy %s",
       format(*p.power).c_str(), format(standing).c_str(), format(chip).c_str(), format(p.chip_energy / p.time).c_str(),
       format(memory).c_str(), format(*p.energy).c_str());
}

void plan_line(std::string& out, const OpPrediction& p) {
  if (const GemmPlan& g = p.gemm_plan; g.tile_m > 0) {
    const std::string cut = g.splits == 0   ? "stream-K over the SMs"
                            : g.splits == 1 ? "no K split"
                                            : std::to_string(g.splits) + " K splits and a reduction";
    line(out, "  plan: tiles of %lld x %lld, K in steps of %lld, %lld stages, %s%s", static_cast<long long>(g.tile_m),
         static_cast<long long>(g.tile_n), static_cast<long long>(g.tile_k), static_cast<long long>(g.stages),
         cut.c_str(), g.swapped ? ", weights on the row side" : "");
  }
  if (const AttentionPlan& a = p.attention_plan; a.kv_tile > 0) {
    line(out, "  plan: %lld keys a step, %s, %lld split(s) of the keys", static_cast<long long>(a.kv_tile),
         a.q_tile > 0 ? (std::to_string(a.q_tile) + " query rows a tile").c_str()
                      : (std::to_string(a.packed_heads) + " query heads packed").c_str(),
         static_cast<long long>(a.splits));
  }
}

}  // namespace

std::string explain(const Op& op, const OpPrediction& p, const Machine& m) {
  std::string out;
  const Work w = work(op);
  const Seconds floor = roofline(op, m.gpu);
  line(out, "%s %s %s on %s, SM clock %s: %s (%s to %s, %s)", std::string(op_name(op)).c_str(),
       std::string(dtype_text(op)).c_str(), shape_text(op).c_str(), m.gpu.name.c_str(), format(p.clock).c_str(),
       us(p.time).c_str(), us(p.low).c_str(), us(p.high).c_str(), std::string(name(p.provenance)).c_str());
  line(out, "  work: %s tensor + %s other, %s read + %s written at least; %s", format(w.tensor).c_str(),
       format(w.fp32).c_str(), format(w.read).c_str(), format(w.write).c_str(), format(p.flops / w.bytes()).c_str());
  line(out, "  datasheet roofline %s: the prediction is %.2f x that", us(floor).c_str(), p.time / floor);
  plan_line(out, p);
  for (int i = 0; i < p.launch_count; ++i) launch(out, p.launches[static_cast<std::size_t>(i)], m);
  if (p.launch_count > 0) {
    line(out, "  total: %d launch(es) + %s graph gap each = %s; %s-bound (%s, %.0f %% of the time)", p.launch_count,
         us(m.gap_graph).c_str(), us(p.time).c_str(), std::string(name(p.bound)).c_str(),
         std::string(name(p.limiter)).c_str(), 100 * p.limiter_share);
  }
  power_line(out, p, m);
  if (p.band_rows > 0 && p.band != nullptr) {
    line(out, "  band: residuals of %ld measured rows of %s", p.band_rows,
         p.band->pooled.empty() ? "this class" : p.band->pooled.c_str());
  } else if (p.launch_count > 0)
    line(out, "  band: a factor of 1.65 either way; no measurement of this class is on file");
  return out;
}

}  // namespace plumbline

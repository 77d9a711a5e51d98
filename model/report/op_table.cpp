// One operator as a table for people: the answer, the roofline beside it, its launches, and why.
#include <cmath>
#include <string>

#include "arch/format.hpp"
#include "model/report/op_tables.hpp"
#include "model/report/report.hpp"
#include "model/stacks/stack.hpp"
#include "model/words.hpp"
#include "ops/table/text.hpp"

namespace plumbline {
namespace {

std::string summary(const OpReport& r, const TextStyle& style) {
  const OpPrediction& p = r.prediction;
  const Gpu& card = r.machine.gpu();
  std::string out = labelled("time", style.bold(format(p.time)) + "  (5-95 % band " + format(p.low) + " to " +
                                         format(p.high) + ", " + std::string(name(p.provenance)) + ")");
  out += labelled("bound", std::string(name(p.bound)) + ": " + std::string(name(p.limiter)) + " alone takes " +
                               percent(p.limiter_share) + " of the time");
  if (p.power_limited) {
    out += labelled(
        "limit", "power: " + format(p.clock) + " of " + format(card.boost_clock) + "; uncapped " + format(p.uncapped));
  }
  const Seconds floor = roofline(r.op, card);
  out += labelled("roofline", format(floor) + " with peaks at the boost clock, " + format(card.boost_clock) + ": " +
                                  percent(floor / p.time) + " of it is reached");
  std::string work = format(p.flops) + ", DRAM " + format(p.dram_read) + " read + " + format(p.dram_write) + " written";
  if (p.dram_bytes() > 0.0 * units::B) work += ", " + format(p.intensity());
  out += labelled("work", work);
  out += labelled("rate", format(p.flops / p.time) + ", DRAM " + format(p.dram_bytes() / p.time));
  if (p.power && p.energy) {
    out += labelled("power", format(*p.power) + "  (5-95 % band " + format(*p.power_low) + " to " +
                                 format(*p.power_high) + "), " + format(*p.energy) + " per execution");
  }
  return out + "\n";
}

/// How far the next limiter is.
std::string resources(const OpReport& r, const TextStyle& style) {
  using enum Columns::Align;
  Columns table({{"resource"}, {"alone", right}, {"of time", right}, {""}});
  for (const ResourceTime& one : resource_times(r.prediction)) {
    const double share = one.time / r.prediction.time;
    const auto bar = static_cast<std::size_t>(std::lround(std::min(1.0, share) * 50));
    table.add({std::string(name(one.resource)), format(one.time), percent(share), std::string(bar, '#')});
  }
  return table.text(2, style) + "\n";
}

}  // namespace

Columns launch_columns(const OpPrediction& prediction) {
  using enum Columns::Align;
  Columns table({{"launch"},
                 {"CTAs", right},
                 {"/SM", right},
                 {"threads", right},
                 {"regs", right},
                 {"smem", right},
                 {"steps", right},
                 {"waves", right},
                 {"time", right},
                 {"fixed", right},
                 {"body", right},
                 {"tail", right},
                 {"limiter"}});
  for (int i = 0; i < prediction.launch_count; ++i) {
    const LaunchPrediction& launch = prediction.launches[static_cast<std::size_t>(i)];
    const KernelPlan& plan = launch.demand.plan;
    const LaunchTime& t = launch.time;
    table.add({launch.kernel, std::to_string(plan.ctas), std::to_string(plan.ctas_per_sm), std::to_string(plan.threads),
               plan.registers_per_thread > 0 ? std::to_string(plan.registers_per_thread) : "-",
               format_binary(plan.shared_memory), format(plan.steps), format(t.waves), format(t.total), format(t.fixed),
               format(t.body), format(t.tail), std::string(name(t.limiter))});
  }
  return table;
}

std::vector<ResourceTime> resource_times(const OpPrediction& prediction) {
  PerResource<Seconds> sum;
  for (int i = 0; i < prediction.launch_count; ++i) {
    const LaunchTime& t = prediction.launches[static_cast<std::size_t>(i)].time;
    for (std::size_t k = 0; k < kResourceCount; ++k) {
      sum[static_cast<Resource>(k)] += t.by_resource[static_cast<Resource>(k)];
    }
  }
  std::vector<ResourceTime> out;
  for (std::size_t k = 0; k < kResourceCount; ++k) {
    const auto resource = static_cast<Resource>(k);
    if (sum[resource] > Seconds{}) out.push_back({resource, sum[resource]});
  }
  return out;
}

std::string op_table(const OpReport& report, const TextStyle& style) {
  const Gpu& card = report.machine.gpu();
  std::string out = style.bold(std::string(op_name(report.op)) + " " + std::string(dtype_text(report.op)) + " " +
                               shape_text(report.op) + " on " + card.title) +
                    "\n";
  out +=
      labelled("run as", "stack " + report.machine.stack().name + ", clock " +
                             std::string(word_of(kClockWords, report.clock)) + " (" + format(report.prediction.clock) +
                             ")" + (report.warm ? ", operands in L2 where they fit" : ""));
  out += summary(report, style) + launch_columns(report.prediction).text(2, style) + "\n" + resources(report, style);
  out += style.bold("why") + "\n" + fitted(explain(report.op, report.prediction, report.machine));
  out += "\n" + advice_lines(report.advice, style);
  const auto sentences = all_assumptions(report.machine, {}, report.remarks);
  return out + bullets("assumptions", sentences, style);
}

}  // namespace plumbline

// One operator as a page: the answer, its place under the roof, its launches, how far the next limit is, and why.
#include <string>
#include <vector>

#include "arch/format.hpp"
#include "model/report/html/markup.hpp"
#include "model/report/html/roofline_plot.hpp"
#include "model/report/html/stacked_bar.hpp"
#include "model/report/op_tables.hpp"
#include "model/report/report.hpp"
#include "model/stacks/stack.hpp"
#include "model/words.hpp"
#include "ops/table/text.hpp"

namespace plumbline {
namespace {

std::string op_headline(const OpReport& r) {
  const OpPrediction& p = r.prediction;
  const Gpu& card = r.machine.gpu();
  const Seconds floor = roofline(r.op, card);
  std::string work = format(p.flops) + ", DRAM " + format(p.dram_read) + " read + " + format(p.dram_write) + " written";
  if (p.dram_bytes() > Bytes{}) work += ", " + format(p.intensity());
  std::vector<html::Tile> all{
      {"time", format(p.time), "5-95 % band " + format(p.low) + " to " + format(p.high)},
      {"bound by", std::string(name(p.bound)),
       std::string(name(p.limiter)) + " alone takes " + percent(p.limiter_share) + " of the time"},
      {"of the roofline", percent(floor / p.time),
       format(floor) + " with the rates of " + format(card.boost_clock) + " and the datasheet's bandwidth"},
      {"rate", format(p.flops / p.time), "DRAM " + format(p.dram_bytes() / p.time) + "; " + work}};
  if (p.power && p.energy) {
    all.push_back({"power, mean", format(*p.power),
                   "5-95 % band " + format(*p.power_low) + " to " + format(*p.power_high) + "; " + format(*p.energy) +
                       " per execution"});
  }
  const std::string limit = p.power_limited ? "; power-limited: " + format(p.clock) + " of " +
                                                  format(card.boost_clock) + ", uncapped " + format(p.uncapped)
                                            : ", boost " + format(card.boost_clock);
  all.push_back({"SM clock, mean", format(p.clock), std::string(word_of(kClockWords, r.clock)) + limit});
  all.push_back({"provenance", html::words(name(p.provenance)),
                 p.band_rows > 0 ? std::to_string(p.band_rows) + " measured rows behind the band" : ""});
  return html::tiles(all);
}

std::string op_roofline(const OpReport& r) {
  const OpPrediction& p = r.prediction;
  std::vector<html::Roof> roofs;
  const html::Roof roof = html::tensor_roof(r.machine.gpu(), p.math, p.clock);
  if (p.tensor > Flops{} && roof.actual > FlopRate{}) roofs.push_back(roof);
  const std::string label(op_name(r.op));
  const Intensity intensity = p.dram_bytes() > Bytes{} ? p.intensity() : Intensity{};
  constexpr double kShare = 0.1;  // a lone dot has no share to show: one of a middling size
  const FlopRate rate = p.flops / p.time;
  return html::section("Roofline",
                       html::roofline_plot(r.machine.gpu(), p.clock, roofs,
                                           {{label, intensity, rate, kShare, "c0", label + ": " + format(rate)}}));
}

std::string op_resources(const OpReport& r) {
  std::vector<html::Part> parts;
  for (const ResourceTime& one : resource_times(r.prediction)) {
    const bool longest = one.resource == r.prediction.limiter;
    parts.push_back(
        {std::string(name(one.resource)), format(one.time), one.time / r.prediction.time, longest ? "c1" : "c0"});
  }
  return html::section("Resources", html::bars(parts) + html::note("Each resource's own time, had it been alone: the "
                                                                   "limiter is the longest, the next one shows how far "
                                                                   "it is."));
}

}  // namespace

std::string op_html(const OpReport& r) {
  const std::string title = std::string(op_name(r.op)) + " " + std::string(dtype_text(r.op)) + " " + shape_text(r.op) +
                            " on " + r.machine.gpu().title;
  const std::string assumed = "stack " + r.machine.stack().name + ", kernels of " + std::string(r.prediction.provider) +
                              ", clock " + std::string(word_of(kClockWords, r.clock));
  std::string body = "<h1>" + html::escaped(title) + "</h1>\n<p class=\"soft\">" + html::escaped(assumed) + "</p>\n";
  body += op_headline(r) + op_roofline(r) + op_resources(r);
  if (!r.advice.empty()) body += html::section("Advice", html::bullets(sentences_of(r.advice)), true);
  body += html::section("Launches", html::table(launch_columns(r.prediction)));
  body += html::section("Why", html::preformatted(explain(r.op, r.prediction, r.machine)), true);
  const auto sentences = all_assumptions(r.machine, {}, r.remarks);
  if (!sentences.empty()) body += html::section("Assumptions", html::bullets(sentences), true);
  return html::document(title, body);
}

}  // namespace plumbline

// A card as a page: peaks, memory levels, ridge points as a roofline, occupancy, where the numbers come from.
#include <algorithm>
#include <string>
#include <vector>

#include "arch/format.hpp"
#include "arch/gpu/peaks.hpp"
#include "model/report/gpu_page.hpp"
#include "model/report/html/markup.hpp"
#include "model/report/html/roofline_plot.hpp"

namespace plumbline {
namespace {

std::string gpu_headline(const Gpu& g) {
  std::vector<html::Tile> all;
  const DType usual = DType::bf16;
  const DType type = g.sm.tensor_flop_per_clk[usual] > 0 ? usual : DType::fp16;
  if (g.sm.tensor_flop_per_clk[type] > 0) {
    all.push_back({"dense " + std::string(name(type)), format(tensor_peak(g, type, g.boost_clock)),
                   "at boost, " + format(g.boost_clock) + "; ridge at " + format(ridge_point(g, type, g.boost_clock))});
  }
  all.push_back({g.memory_type, format(g.memory.bandwidth), format_binary(g.memory.capacity)});
  all.push_back({"L2", format(l2_peak(g, g.boost_clock)), format_binary(g.l2.size)});
  all.push_back({"SMs", std::to_string(g.sm_count), format_binary(g.sm.smem) + " shared memory each"});
  all.push_back({"board power", format(g.tdp), g.idle_power > Watts{} ? format(g.idle_power) + " idle" : ""});
  return html::tiles(all);
}

std::string gpu_roofline(const GpuPage& page) {
  const Gpu& g = page.gpu;
  std::vector<html::Roof> roofs;
  const auto add = [&](const html::Roof& roof) {  // formats of one rate share a line and its words
    const auto same = std::find_if(roofs.begin(), roofs.end(), [&](const auto& o) { return o.actual == roof.actual; });
    if (same == roofs.end()) roofs.push_back(roof);
    else same->label += ", " + roof.label;
  };
  for (const DType type : page.tensor_types) add(html::tensor_roof(g, type, g.boost_clock));
  const FlopRate fp32 = fp32_peak(g, g.boost_clock);
  add({"fp32 lanes", fp32, fp32});
  return html::section("Roofline", html::roofline_plot(g, g.boost_clock, roofs, {}));
}

}  // namespace

std::string gpu_page_html(const GpuPage& page) {
  const Gpu& g = page.gpu;
  const std::string title = g.title + " (" + g.name + ")";
  const std::string chip = g.vendor + " " + g.architecture + " (" + g.compute_capability + "), " + g.process.node;
  std::string body = "<h1>" + html::escaped(title) + "</h1>\n<p class=\"soft\">" + html::escaped(chip) + "</p>\n";
  body += gpu_headline(g) + gpu_roofline(page);
  body += html::section("Compute", html::table(compute_columns(page)));
  body += html::section("Memory", html::table(memory_columns(page)) +
                                      html::note("In flight to fill: bandwidth times latency (Little's law)."));
  body += html::section("Blocks per SM, and what limits them", html::table(occupancy_columns(page)));
  std::vector<std::string> origin{calibration_text(page)};
  for (const std::string& source : source_lines(page)) origin.push_back(source);
  body += html::section("Sources", html::bullets(origin), true);
  if (!g.assumptions.empty()) body += html::section("Assumptions", html::bullets(g.assumptions), true);
  return html::document(title, body);
}

}  // namespace plumbline

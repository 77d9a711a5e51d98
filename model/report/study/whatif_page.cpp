// Sensitivities and differences as pages: bars about a middle line.
#include <algorithm>
#include <cmath>

#include "arch/format.hpp"
#include "model/report/html/markup.hpp"
#include "model/report/html/plot.hpp"
#include "model/report/study/sweep_report.hpp"
#include "model/report/study/whatif_report.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kMostBars = 24;
constexpr double kBarHeight = 22;

struct CentredBar {
  std::string label, text;
  double value = 0;  ///< left of the middle where it is below 0
};

/// Bars from a middle line to either side, one under the other: x in percent of the width, y in pixels.
std::string centred_bars(const std::vector<CentredBar>& bars, const std::string& what) {
  double most = 0;
  for (const CentredBar& bar : bars) most = std::max(most, std::abs(bar.value));
  if (!(most > 0)) return "";
  const double height = kBarHeight * static_cast<double>(bars.size());
  std::string svg = "<svg role=\"img\" aria-label=\"" + html::escaped(what) + "\" width=\"100%\" height=\"" +
                    html::fixed(height) + "\">";
  double y = 0;
  for (const CentredBar& bar : bars) {
    constexpr double kMiddle = 70, kReach = 28;  // percent: words stand left of the bars
    const double width = kReach * std::abs(bar.value) / most;
    const double left = bar.value < 0 ? kMiddle - width : kMiddle;
    svg += "<g>" + html::title_element(bar.label + ": " + bar.text) + "<text x=\"0%\" y=\"" + html::fixed(y + 15) +
           "\" font-size=\"12\">" + html::escaped(bar.label + "  " + bar.text) + "</text><rect class=\"" +
           (bar.value < 0 ? "c2" : "c1") + "\" x=\"" + html::fixed(left) + "%\" y=\"" + html::fixed(y + 3) +
           "\" width=\"" + html::fixed(std::max(width, 0.1)) + "%\" height=\"" + html::fixed(kBarHeight - 6) +
           "\"/></g>";
    y += kBarHeight;
  }
  return svg + "</svg>";
}

std::string percent_text(double ratio) { return (ratio >= 1 ? "+" : "-") + percent(std::abs(ratio - 1)); }

}  // namespace

std::string sensitivity_html(const SensitivityReport& r) {
  std::vector<CentredBar> bars;
  for (const ParameterEffect& e : r.result.parameters) {
    if (!e.why_not.empty() || e.latency_ratio.value == 1 || bars.size() == kMostBars) continue;
    bars.push_back({e.path, percent_text(e.latency_ratio.value), e.latency_ratio.value - 1});
  }
  std::string body = "<h1>Sensitivity</h1>\n<p class=\"soft\">" + html::escaped(study_line(r.study)) + "</p>\n";
  body += html::tiles({{"latency", format(r.result.latency_s * units::s), "bound by " + r.result.bound},
                       {"energy", format(r.result.energy_J * units::J), ""}});
  body += html::section(
      "Latency, each number 10 % more",
      centred_bars(bars, "tornado") + html::note("Left: shorter. Numbers without an effect are left out."));
  body += html::section("All numbers that matter", html::preformatted(sensitivity_table(r, {})), true);
  return html::document("Sensitivity: " + study_line(r.study), body);
}

std::string diff_html(const DiffReport& r) {
  std::vector<CentredBar> bars;
  for (const OperatorDifference& d : r.result.operators) {
    const double change = d.after.time_s - d.before.time_s;
    if (change == 0 || bars.size() == kMostBars) continue;
    const std::string& name = d.before.name.empty() ? d.after.name : d.before.name;
    bars.push_back({name, (change < 0 ? "-" : "+") + format(std::abs(change) * units::s), change});
  }
  std::string body = "<h1>Difference</h1>\n<p class=\"soft\">" + html::escaped(study_line(r.before)) +
                     "</p>\n<p class=\"soft\">against " + html::escaped(study_line(r.after)) + "</p>\n";
  body += html::tiles({{"first", format(r.result.before.latency_s * units::s), "bound by " + r.result.before.bound},
                       {"second", format(r.result.after.latency_s * units::s), "bound by " + r.result.after.bound},
                       {"latency", percent_text(r.result.latency_ratio.value), ""}});
  body += html::section("Time won and lost, by operator",
                        centred_bars(bars, "time by operator") + html::note("Left: the second side is shorter."));
  body += html::section("Operators", html::preformatted(diff_table(r, {})), true);
  return html::document("Difference", body);
}

}  // namespace plumbline

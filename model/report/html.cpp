// A step as a page of its own: the figures, power over time as a plot, the operators. No script, nothing fetched.
#include <algorithm>
#include <cstdio>
#include <string>

#include "arch/format.hpp"
#include "model/report/power_trace.hpp"
#include "model/report/report.hpp"
#include "model/words.hpp"
#include "ops/table/text.hpp"

namespace plumbline {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '&') out += "&amp;";
    else if (c == '"') out += "&quot;";
    else out += c;
  }
  return out;
}

std::string row(std::string_view label, const std::string& value) {
  return "<tr><th>" + std::string(label) + "</th><td>" + escaped(value) + "</td></tr>\n";
}

/// Power as steps: one repetition of each segment, wide enough to see; the title of a step says what runs.
std::string plot(const StepReport& r) {
  constexpr double kWidth = 960, kHeight = 240, kLeft = 48, kBottom = 24;
  const auto trace = power_trace(r.step);
  if (trace.empty()) return "<p>No energies of this card are on file: no power.</p>\n";
  Seconds all;
  Watts most = r.step.power.value_or(Watts{});
  for (const PowerSegment& segment : trace) {
    all += segment.period;
    for (const PowerSlice& slice : segment.slices) most = std::max(most, slice.power);
  }
  const double wide = (kWidth - kLeft) / all.in(units::s), tall = (kHeight - kBottom) / (1.05 * most.in(units::W));
  std::string out;
  char text[400];
  std::snprintf(text, sizeof text, "<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"power over time\">\n",
                kWidth, kHeight + 16);
  out += text;
  double x = kLeft;
  for (const PowerSegment& segment : trace) {
    const double begin = x;
    for (const PowerSlice& slice : segment.slices) {
      const double w = slice.duration.in(units::s)*wide, h = slice.power.in(units::W)*tall;
      std::snprintf(text, sizeof text,
                    "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" class=\"%s\"><title>", x,
                    kHeight - kBottom - h, w, h, slice.gap ? "gap" : std::string(name(slice.node->op.bound)).c_str());
      out += text + escaped(slice.gap ? "launch gap" : slice.node->node->name) + ": " + format(slice.power) + " for " +
             format(slice.duration) + "</title></rect>\n";
      x += w;
    }
    std::snprintf(text, sizeof text, "<text x=\"%.2f\" y=\"%.0f\">%s x %lld</text>\n", begin, kHeight - 6,
                  escaped(segment.segment->name).c_str(), static_cast<long long>(segment.repeat));
    if (x - begin > 40) out += text;
  }
  const double mean = kHeight - kBottom - r.step.power->in(units::W)*tall;
  std::snprintf(text, sizeof text,
                "<line x1=\"%.0f\" x2=\"%.0f\" y1=\"%.2f\" y2=\"%.2f\"/><text x=\"0\" y=\"%.2f\">%s</text>\n</svg>\n",
                kLeft, kWidth, mean, mean, mean + 4, format(*r.step.power).c_str());
  return out + text + "<p>One repetition of each part of the step; the line is the mean of the whole step.</p>\n";
}

std::string operators(const StepReport& r) {
  std::string out =
      "<table><tr><th>operator</th><th>kind</th><th>shape</th><th>count</th><th>each</th><th>of step</th>"
      "<th>bound</th><th>power</th><th>energy, all</th></tr>\n";
  for (const NodePrediction& n : r.step.nodes) {
    const double count = static_cast<double>(n.node->count);
    out += "<tr><td>" + escaped(n.node->name) + "</td><td>" + std::string(op_name(n.node->op)) + "</td><td>" +
           escaped(shape_text(n.node->op)) + "</td><td>" + std::to_string(n.node->count) + "</td><td>" +
           format(n.op.time) + "</td><td>" + percent(count * n.op.time / r.step.latency) + "</td><td>" +
           std::string(name(n.op.bound)) + "</td><td>" + (n.op.power ? format(*n.op.power) : "-") + "</td><td>" +
           (n.op.energy ? format(count * *n.op.energy) : "-") + "</td></tr>\n";
  }
  return out + "</table>\n";
}

constexpr const char* kStyle =
    "<style>body{font:15px system-ui,sans-serif;max-width:1150px;margin:2em auto;padding:0 1em}"
    "th{text-align:left;padding-right:1em}td{padding-right:1em;white-space:nowrap}svg{width:100%}svg "
    "text{font-size:11px}"
    "rect{stroke:#fff;stroke-width:.3}.compute{fill:#b5523b}.memory{fill:#3b6ea5}.latency,.launch{fill:#999}"
    ".network{fill:#5a8f4e}.gap{fill:#ccc}line{stroke:#000;stroke-dasharray:4 3}</style>\n";

}  // namespace

std::string step_html(const StepReport& r) {
  const StepPrediction& s = r.step;
  const std::string title =
      r.llm.name + ", " + std::string(word_of(kPhaseWords, r.workload.phase)) + ", on " + r.machine.gpu().title;
  std::string out = "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>" + escaped(title) +
                    "</title>\n" + kStyle + "<h1>" + escaped(title) + "</h1>\n<table>\n";
  out += row("batch, length", std::to_string(r.workload.batch) + ", " + std::to_string(length(r.workload)));
  out += row("weights, KV cache", weight_format(r.llm, r.workload) + ", " + std::string(kv_format(r.llm, r.workload)));
  out += row("latency", format(s.latency) + " (5-95 % band " + format(s.low) + " to " + format(s.high) + ")");
  out += row("tokens/s", format(s.tokens_per_s));
  if (s.power && s.energy) {
    out += row("power",
               format(*s.power) + " mean (5-95 % band " + format(*s.power_low) + " to " + format(*s.power_high) + ")");
    out += row("energy", format(*s.energy) + " a step" +
                             (s.graph.tokens > 0 ? ", " + format(*s.energy / s.graph.tokens) + " a token" : ""));
  }
  out += row("clock", std::string(word_of(kClockWords, r.clock)) + ", " + format(s.clock));
  out += "</table>\n<h2>Power over time</h2>\n" + plot(r) + "<h2>Operators</h2>\n" + operators(r);
  const auto sentences = all_assumptions(r.machine, r.llm.assumptions, r.remarks);
  if (!sentences.empty()) out += "<h2>Assumptions</h2>\n<ul>\n";
  for (const std::string& sentence : sentences) out += "<li>" + escaped(sentence) + "</li>\n";
  return out + (sentences.empty() ? "" : "</ul>\n") + "</html>\n";
}

}  // namespace plumbline

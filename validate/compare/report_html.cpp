// The report as one self-contained HTML page.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <set>

#include "arch/format.hpp"
#include "validate/compare/report.hpp"
#include "validate/compare/report_html_parts.hpp"
#include "validate/printed.hpp"
#include "validate/statistics.hpp"

namespace plumbline {

namespace {

/// Cells and rows of a table; numbers carry the value that they are sorted by.
class HtmlTable {
 public:
  HtmlTable(std::string attributes, const std::vector<std::string>& heads, std::size_t left_aligned) {
    text_ = "<table " + std::move(attributes) + "><thead><tr>";
    for (std::size_t i = 0; i < heads.size(); ++i) {
      const bool words = i < left_aligned || heads[i] == "verdict" || heads[i] == "at" || heads[i] == "limiter" ||
                         heads[i] == "kernel, plan" || heads[i] == "not representative";
      text_ += (words ? "<th class='l'>" : "<th>") + heads[i] + "</th>";
    }
    text_ += "</tr></thead><tbody>\n";
  }
  void row(const char* style = nullptr) {
    if (open_) text_ += "</tr>\n";
    text_ += style == nullptr ? "<tr>" : "<tr class='" + std::string(style) + "'>";
    open_ = true;
  }
  void words(const std::string& text, const char* style = "l") {
    text_ += "<td class='" + std::string(style) + "'>" + html_escaped(text) + "</td>";
  }
  void number(const std::string& text, double value, const char* style = nullptr) {
    text_ += "<td data-v='" + format_exact(value) + "'";
    if (style != nullptr) text_ += " class='" + std::string(style) + "'";
    text_ += ">" + html_escaped(text) + "</td>";
  }
  void time(Seconds t) { number(format(t), t.in(units::s)); }
  void nothing() { text_ += "<td data-v=''></td>"; }
  std::string finish() { return std::move(text_) + (open_ ? "</tr>\n" : "") + "</tbody></table>\n"; }

 private:
  std::string text_;
  bool open_ = false;
};

std::string tile(const std::string& figure, const std::string& caption) {
  return "<div class='tile'><b>" + html_escaped(figure) + "</b><span>" + html_escaped(caption) + "</span></div>\n";
}

std::string tiles(const Report& report) {
  std::vector<double> errors, roofline, library;
  for (const ReportRow& row : report.rows) {
    if (!row.compared.modelled()) continue;
    errors.push_back(std::abs(row.compared.log_ratio()));
    roofline.push_back(std::abs(std::log(row.compared.roofline / row.compared.measured)));
    if (row.compared.library) library.push_back(std::log(*row.compared.library / row.compared.measured));
  }
  std::string text = "<div class='tiles'>" + tile(std::to_string(report.summary.compared), "cases compared");
  if (!errors.empty()) {
    text += tile(percent_number(median(errors)) + " %", "median error of the prediction");
    text += tile(percent_number(quantile(errors, 0.9)) + " %", "its 90th percentile");
    text += tile(percent_number(median(roofline)) + " %", "median error of the roofline");
  }
  if (!library.empty()) {
    text += tile(percent_number(std::exp(mean(library))) + " %", "of the library's speed, geometric mean");
  }
  const auto met = std::count_if(report.results.begin(), report.results.end(), [](const auto& r) { return r.met(); });
  if (!report.results.empty()) {
    text += tile(std::to_string(met) + " of " + std::to_string(report.results.size()), "demands on kernels met");
  }
  if (!report.faults.empty()) text += tile(std::to_string(report.faults.size()), "cases without a measurement");
  if (report.summary.bad > 0) text += tile(std::to_string(report.summary.bad), "rows that could not be read");
  if (report.summary.not_modelled > 0) text += tile(std::to_string(report.summary.not_modelled), "rows not modelled");
  text += "</div>\n";
  for (const NotCompared& missing : report.summary.not_compared) {
    text += "<p class='note'>not compared, " + std::to_string(missing.rows) + ": " + html_escaped(missing.reason) +
            " (first: " + html_escaped(missing.first) + ")</p>\n";
  }
  return text;
}

std::string plot(const Report& report) {
  std::vector<const Comparison*> rows;
  std::set<std::size_t> families;
  for (const ReportRow& row : report.rows) {
    rows.push_back(&row.compared);
    families.insert(plot_family(row.compared.op, row.compared.dtype));
  }
  std::string text =
      "<div class='panel plot'><div>" + scatter_svg(rows) + ratio_svg(rows) + "</div><div class='legend'>\n";
  for (const std::size_t family : families) {
    const PlotFamily& f = plot_families()[family];
    text += "<button type='button' aria-pressed='true' data-family='" + std::string(f.key) + "'><i class='" +
            std::string(f.key) + "'></i>" + std::string(f.title) + "</button>\n";
  }
  return text +
         "<label><input type='checkbox' id='roof'> show the roofline's points</label>\n"
         "<p class='note'>Dashed: predicted = measured. Stripes: within 10 and 25 %. Hollow: the kernel is below what "
         "is demanded of it. Point at a dot for its case; click a name to hide its dots.</p></div></div>\n";
}

void class_row(const ClassSummary& c, HtmlTable& table) {
  table.row(c.size == SizeClass::all ? "all" : nullptr);
  for (const std::string& text : {c.op, c.dtype, c.mode, std::string(name(c.size))}) table.words(text);
  table.number(std::to_string(c.count), static_cast<double>(c.count));
  table.number(percent_number(c.median_error), c.median_error);
  table.number(percent_number(c.p90_error), c.p90_error);
  table.number(percent_number(c.mape), c.mape, c.mape < c.roofline_mape ? "good" : "bad");
  table.number(printed("%+.1f", 100 * c.median_bias), c.median_bias);
  table.number(percent_number(c.within_band), c.within_band);
  table.number(percent_number(c.roofline_median_error), c.roofline_median_error);
  table.number(percent_number(c.roofline_mape), c.roofline_mape);
  if (c.library_count > 0) table.number(percent_number(c.library_ratio), c.library_ratio);
  else table.nothing();
  table.number(printed("x%.2f", c.worst.predicted / c.worst.measured), std::abs(c.worst.log_ratio()));
  table.words(c.worst.shape);
}

std::string classes(const Report& report) {
  HtmlTable table("class='sort'",
                  {"op", "dtype", "mode", "measured", "cases", "median %", "p90 %", "MAPE %", "bias %", "in band %",
                   "roofline median %", "roofline MAPE %", "of library %", "worst", "at"},
                  4);
  for (const ClassSummary& c : report.summary.classes) class_row(c, table);
  return "<div class='panel'><div class='scroll'>" + table.finish() +
         "</div><p class='note'>Errors are 100 |ln(predicted / measured)|; bias above 0 is predicted too slow; in "
         "band: "
         "inside "
         "the 5-95 % band that stands with the prediction; of library: library time / own time, geometric mean, above "
         "100 our kernel is faster. Green MAPE: better than the roofline.</p></div>\n";
}

std::string demands(const Report& report) {
  if (report.results.empty()) return "";
  HtmlTable table("class='sort'", {"kernel", "demanded", "achieved", "cases", "below", "verdict"}, 1);
  for (const DemandResult& r : report.results) {
    table.row();
    table.words(r.demand->title);
    table.number(r.demand->demanded(), r.demanded);
    table.number(r.achieved(), r.median, r.met() ? "good" : "bad");
    table.number(std::to_string(r.cases.size()), static_cast<double>(r.cases.size()));
    table.number(std::to_string(r.below.size()), static_cast<double>(r.below.size()));
    table.words(r.met() ? "met" : "not representative: " + r.reason, "l w");
  }
  return "<h2>What is demanded of our kernels</h2><div class='panel'>" + table.finish() + "</div>\n";
}

void case_row(const ReportRow& row, bool with_library, HtmlTable& table) {
  const Comparison& c = row.compared;
  table.row();
  const std::string& study = row.measured.what.study;  // anyone's rows have a stack instead
  for (const std::string& text : {c.op, c.dtype, c.shape, c.mode, study.empty() ? row.measured.origin.stack : study}) {
    table.words(text);
  }
  table.time(c.measured);
  if (with_library) {
    if (c.library) {
      table.time(*c.library);
      table.number(percent_number(*c.library / c.measured), *c.library / c.measured);
    } else {
      table.nothing();
      table.nothing();
    }
  }
  if (c.modelled()) {
    const double error = std::abs(c.log_ratio());
    table.time(c.predicted);
    table.number(printed("%+.1f", 100 * c.log_ratio()), c.log_ratio(), error > 0.25 ? "bad" : nullptr);
    table.time(c.roofline);
    table.number(printed("%+.0f", 100 * std::log(c.roofline / c.measured)), std::log(c.roofline / c.measured));
    table.words(c.limiter);
  } else {
    for (int i = 0; i < 4; ++i) table.nothing();
    table.words(c.error, "l w");
  }
  if (row.achieved.flop_rate > FlopRate{}) {
    table.number(printed("%.0f", row.achieved.flop_rate.in(units::TFLOP_per_s)),
                 row.achieved.flop_rate.in(units::TFLOP_per_s));
  } else {
    table.nothing();
  }
  table.number(printed("%.0f", row.achieved.bandwidth.in(units::GB_per_s)), row.achieved.bandwidth.in(units::GB_per_s));
  const auto& clock = row.measured.conditions.sm_clock;
  if (clock) table.number(printed("%.0f", clock->in(units::MHz)), clock->in(units::MHz));
  else table.nothing();
  table.words(row.measured.kernel + (row.measured.plan.empty() ? "" : " " + row.measured.plan));
  table.words(row.reason, "l w");
}

std::string cases(const Report& report) {
  std::set<std::string> ops;
  bool with_library = false;
  for (const ReportRow& row : report.rows) {
    ops.insert(row.compared.op);
    with_library = with_library || row.compared.library;
  }
  std::vector<std::string> heads{"op", "dtype", "shape", "mode", "study", "measured"};
  if (with_library) heads.insert(heads.end(), {"library", "of library %"});
  heads.insert(heads.end(), {"predicted", "error %", "roofline", "its error %", "limiter", "TFLOP/s", "GB/s", "SM MHz",
                             "kernel, plan", "not representative"});
  HtmlTable table("class='sort' id='cases'", heads, 5);
  for (const ReportRow& row : report.rows) case_row(row, with_library, table);
  std::string text =
      "<h2>Cases</h2><div class='panel'><div class='tools'><input type='search' id='find' placeholder='words of a "
      "case: gemm fp8 M=64' aria-label='find'> <select id='ops' aria-label='operator'><option value=''>all "
      "operators</option>";
  for (const std::string& op : ops) text += "<option>" + html_escaped(op) + "</option>";
  return text + "</select> <span class='note' id='shown'></span></div><div class='scroll'>" + table.finish() +
         "</div></div>\n";
}

std::string listed(const std::string& title, const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  std::string text = "<h2>" + title + "</h2><div class='panel'><ul>\n";
  for (const std::string& line : lines) text += "<li>" + html_escaped(line) + "</li>\n";
  return text + "</ul></div>\n";
}

std::string conditions(const Report& report) {
  if (!report.session) return "";
  const MeasuringSession& s = *report.session;
  std::vector<ConditionRange> all{{"card", s.card + " (" + std::to_string(s.sms) + " SMs)"},
                                  {"driver", s.driver},
                                  {"toolkit", s.toolkit},
                                  {"profiler", s.profiler},
                                  {"date", s.date},
                                  {"power limit", printed("%.0f W", s.power_limit_W)},
                                  {"profiler records dropped", std::to_string(s.dropped_records)}};
  for (ConditionRange& range : condition_ranges(report)) all.push_back(std::move(range));
  std::string text = "<h2>Conditions while kernels ran</h2><div class='panel'><dl>\n";
  for (const ConditionRange& c : all) {
    text += "<dt>" + html_escaped(c.name) + "</dt><dd>" + html_escaped(c.text) + "</dd>\n";
  }
  return text + "</dl></div>\n";
}

std::string subtitle(const Report& report) {
  std::string text = "stack " + report.summary.stack + ", " + report.summary.kernels + " kernels";
  if (report.session) text += ", " + report.session->card + ", " + report.session->date;
  if (report.session && report.session->other_processes > 0) text += ", " + shared_card_text(*report.session);
  for (const std::string& file : report.summary.files) text += ", " + file;
  return text;
}

}  // namespace

std::string html_report(const Report& report) {
  std::string page =
      "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>\n"
      "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
      "<title>Plumbline: predicted against measured</title>\n<style>";
  page += page_style();
  page += "</style></head><body><main>\n<h1>Predicted against measured</h1>\n<p class='sub'>" +
          html_escaped(subtitle(report)) + "</p>\n";
  page += tiles(report);
  page += "<h2>Predicted over measured time</h2>\n" + plot(report);
  page += demands(report);
  page += "<h2>Classes</h2>\n" + classes(report);
  page += cases(report);
  page += conditions(report);
  std::vector<std::string> faults;
  for (const CaseFault& fault : report.faults) faults.push_back(fault.text());
  page += listed("Cases without a measurement", faults);
  page += listed("Assumptions", report.summary.assumptions);
  page += "</main>\n<script>";
  page += page_script();
  page += "</script></body></html>\n";
  return page;
}

}  // namespace plumbline

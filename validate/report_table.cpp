#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>

#include "arch/format.hpp"
#include "validate/report.hpp"

namespace plumbline {

namespace {

constexpr std::size_t kColumns = 14;
using Line = std::array<std::string, kColumns>;
constexpr std::size_t kNames = 4;  // left-aligned columns: the class

/// `pattern` takes one double.
std::string printed(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

std::string percent(double part) { return printed("%.1f", 100 * part); }

Line heading() {
  return {"gpu",   "op",    "dtype",    "measured", "rows",  "median%", "p90%",
          "MAPE%", "bias%", "in band%", "rank",     "roof%", "worst",   "at"};
}

Line line_of(const ClassSummary& c) {
  return {c.gpu,
          c.op,
          c.dtype,
          std::string(name(c.size)),
          std::to_string(c.count),
          percent(c.median_error),
          percent(c.p90_error),
          percent(c.mape),
          printed("%+.1f", 100 * c.median_bias),
          percent(c.within_band),
          c.spearman ? printed("%.3f", *c.spearman) : "-",
          percent(c.roofline_median_error),
          printed("x%.2f", c.worst.predicted / c.worst.measured),
          c.worst.shape + " (" + format(c.worst.measured) + ")"};
}

std::string aligned(const std::vector<Line>& lines) {
  std::array<std::size_t, kColumns> width{};
  for (const Line& line : lines) {
    for (std::size_t i = 0; i < kColumns; ++i) width[i] = std::max(width[i], line[i].size());
  }
  std::string text;
  for (const Line& line : lines) {
    for (std::size_t i = 0; i < kColumns; ++i) {
      const std::string pad(width[i] - line[i].size(), ' ');
      const bool last = i + 1 == kColumns;
      if (i < kNames || last) {
        text += line[i] + (last ? "\n" : pad + "  ");
      } else {
        text += pad + line[i] + "  ";
      }
    }
  }
  return text;
}

std::string power_lines(const ValidationReport& report) {
  std::string text;
  for (const ClassSummary& c : report.classes) {
    if (c.power_count == 0) continue;
    text += "power, " + c.gpu + " " + c.op + " " + c.dtype + " " + std::string(name(c.size)) + ": " +
            std::to_string(c.power_count) + " rows, median error " + percent(c.power_median_error) + " %\n";
  }
  return text;
}

}  // namespace

std::string table_report(const ValidationReport& report) {
  std::string text = "kernels " + report.kernels + ", clock " + report.clock + ": " + std::to_string(report.compared) +
                     " rows compared";
  if (report.bad > 0) text += ", " + std::to_string(report.bad) + " could not be read";
  if (report.not_modelled > 0) text += ", " + std::to_string(report.not_modelled) + " not modelled";
  if (report.filtered > 0) text += ", " + std::to_string(report.filtered) + " left out by --where or --min-us";
  if (report.other_gpu > 0) text += ", " + std::to_string(report.other_gpu) + " of other GPUs left out";
  text += "\n";
  if (report.classes.empty()) return text;
  std::vector<Line> lines{heading()};
  for (const ClassSummary& c : report.classes) lines.push_back(line_of(c));
  text += "\n";
  text += aligned(lines);
  text += "\n";
  text += power_lines(report);
  text +=
      "median, p90: 100 |ln(predicted/measured)|; bias: median of ln(predicted/measured), + is predicted too slow;\n"
      "rank: Spearman; roof: median error of the datasheet roofline; worst: predicted/measured, and at which shape\n";
  for (const std::string& assumption : report.assumptions) text += "assumed: " + assumption + "\n";
  return text;
}

}  // namespace plumbline

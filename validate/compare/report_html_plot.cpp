// The scatter plot, as inline SVG whose colours come from the page's style sheet.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

#include "arch/format.hpp"
#include "validate/compare/report_html_parts.hpp"

namespace plumbline {

namespace {

constexpr double kLeft = 82, kTop = 14, kWidth = 660, kHeight = 500, kRight = 30, kBottom = 46;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

/// Decades that hold every point, measured and predicted on one scale so that the diagonal is one.
struct Scale {
  double low = 0, high = 0;  // log10 of seconds

  explicit Scale(const std::vector<const Comparison*>& rows) {
    double least = 1e9, most = 0;
    for (const Comparison* row : rows) {
      for (const Seconds t : {row->measured, row->predicted}) {
        least = std::min(least, t.in(units::s));
        most = std::max(most, t.in(units::s));
      }
    }
    low = std::floor(std::log10(least) * 2) / 2;
    high = std::max(std::ceil(std::log10(most) * 2) / 2, low + 1);
  }
  double part(Seconds t) const { return (std::log10(t.in(units::s)) - low) / (high - low); }
  double x(Seconds t) const { return kLeft + part(t) * kWidth; }
  double y(Seconds t) const { return kTop + (1 - part(t)) * kHeight; }
};

std::string line(double x1, double y1, double x2, double y2, const char* style) {
  return "<line x1='" + number(x1) + "' y1='" + number(y1) + "' x2='" + number(x2) + "' y2='" + number(y2) +
         "' class='" + style + "'/>\n";
}

std::string label(double x, double y, const char* anchor, const std::string& text) {
  return "<text x='" + number(x) + "' y='" + number(y) + "' text-anchor='" + anchor + "'>" + text + "</text>\n";
}

std::string axes(const Scale& scale) {
  std::string svg;
  const int first = static_cast<int>(std::ceil(scale.low)), last = static_cast<int>(std::floor(scale.high));
  for (int decade = first; decade <= last; ++decade) {
    const Seconds t = std::pow(10.0, decade) * units::s;
    svg += line(scale.x(t), kTop, scale.x(t), kTop + kHeight, "grid");
    svg += line(kLeft, scale.y(t), kLeft + kWidth, scale.y(t), "grid");
    svg += label(scale.x(t), kTop + kHeight + 18, "middle", format(t));
    svg += label(kLeft - 8, scale.y(t) + 4, "end", format(t));
  }
  svg += "<rect x='" + number(kLeft) + "' y='" + number(kTop) + "' width='" + number(kWidth) + "' height='" +
         number(kHeight) + "' class='frame'/>\n";
  svg += label(kLeft + kWidth / 2, kTop + kHeight + 38, "middle", "measured");
  svg += "<text transform='translate(14 " + number(kTop + kHeight / 2) +
         ") rotate(-90)' text-anchor='middle'>predicted</text>\n";
  return svg;
}

/// The stripe of predictions within `part` of the measurement.
std::string band(const Scale& scale, double part, const char* style) {
  const double shift = std::log10(1 + part) / (scale.high - scale.low) * kHeight;
  const double bottom = kTop + kHeight, right = kLeft + kWidth;
  std::string points;
  for (const auto& [x, y] : std::array<std::pair<double, double>, 4>{
           {{kLeft, bottom - shift}, {right, kTop - shift}, {right, kTop + shift}, {kLeft, bottom + shift}}}) {
    points += number(x) + "," + number(y) + " ";
  }
  return "<polygon points='" + points + "' class='" + style + "' clip-path='url(#plot)'/>\n";
}

// --- the plot of ratios: the same x axis, predicted / measured from a half to two ------------------------------------

constexpr double kRatioHeight = 260, kMostRatio = 2;

/// Ratios outside the plot lie on its edge.
double ratio_y(double ratio) {
  const double part = std::log(ratio) / (2 * std::log(kMostRatio)) + 0.5;
  return kTop + (1 - std::clamp(part, 0.0, 1.0)) * kRatioHeight;
}

std::string ratio_axes(const Scale& scale) {
  std::string svg;
  for (const auto& [part, style] : {std::pair{0.25, "band25"}, std::pair{0.10, "band10"}}) {
    const double top = ratio_y(1 + part), bottom = ratio_y(1 / (1 + part));
    svg += "<rect x='" + number(kLeft) + "' y='" + number(top) + "' width='" + number(kWidth) + "' height='" +
           number(bottom - top) + "' class='" + style + "'/>\n";
  }
  const int first = static_cast<int>(std::ceil(scale.low)), last = static_cast<int>(std::floor(scale.high));
  for (int decade = first; decade <= last; ++decade) {
    const Seconds t = std::pow(10.0, decade) * units::s;
    svg += line(scale.x(t), kTop, scale.x(t), kTop + kRatioHeight, "grid");
    svg += label(scale.x(t), kTop + kRatioHeight + 18, "middle", format(t));
  }
  for (const auto& [ratio, text] : {std::pair{0.5, "x0.5"}, std::pair{0.8, "x0.8"}, std::pair{1.0, "x1"},
                                    std::pair{1.25, "x1.25"}, std::pair{2.0, "x2"}}) {
    svg += line(kLeft, ratio_y(ratio), kLeft + kWidth, ratio_y(ratio), "grid");
    svg += label(kLeft - 8, ratio_y(ratio) + 4, "end", text);
  }
  svg += line(kLeft, ratio_y(1), kLeft + kWidth, ratio_y(1), "diagonal");
  return svg + label(kLeft + kWidth / 2, kTop + kRatioHeight + 38, "middle", "measured") +
         "<text transform='translate(14 " + number(kTop + kRatioHeight / 2) +
         ") rotate(-90)' text-anchor='middle'>predicted / measured</text>\n";
}

std::string title_of(const Comparison& row) {
  char ratio[32];
  std::snprintf(ratio, sizeof ratio, "x%.3f", row.predicted / row.measured);
  return row.op + " " + row.dtype + " " + row.shape + (row.mode.empty() ? "" : ", " + row.mode) + ": measured " +
         format(row.measured) + ", predicted " + format(row.predicted) + " (" + ratio + "), roofline " +
         format(row.roofline) + ", " + row.limiter;
}

/// The prediction's dot and, below it, the roofline's.
std::string point(const Comparison& row, double x, double y, std::optional<double> roofline_y) {
  const std::string family(plot_families()[plot_family(row.op, row.dtype)].key);
  std::string svg;
  if (roofline_y) {
    svg += "<circle cx='" + number(x) + "' cy='" + number(*roofline_y) + "' r='2.2' class='roof " + family + "'/>";
  }
  return svg + "<circle cx='" + number(x) + "' cy='" + number(y) + "' r='3.2' class='dot " + family +
         (row.representative ? "" : " hollow") + "'><title>" + html_escaped(title_of(row)) + "</title></circle>\n";
}

std::string svg_head(double height, const char* what) {
  return "<svg viewBox='0 0 " + number(kLeft + kWidth + kRight) + " " + number(kTop + height + kBottom) +
         "' role='img' aria-label='" + what + "'>\n";
}

std::vector<const Comparison*> drawable(const std::vector<const Comparison*>& rows) {
  std::vector<const Comparison*> shown;
  for (const Comparison* row : rows) {
    if (row->modelled() && row->predicted > Seconds{} && row->measured > Seconds{}) shown.push_back(row);
  }
  return shown;
}

}  // namespace

std::string html_escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

const std::vector<PlotFamily>& plot_families() {
  static const std::vector<PlotFamily> families{{"f0", "GEMM"},
                                                {"f1", "GEMM fp8"},
                                                {"f2", "attention, prefill"},
                                                {"f3", "attention, decode"},
                                                {"f4", "norms, softmax"},
                                                {"f5", "element-wise, rope"},
                                                {"f6", "movement"},
                                                {"f7", "reductions, scans, selection"},
                                                {"f8", "training attention"},
                                                {"f9", "others"}};
  return families;
}

std::size_t plot_family(std::string_view op, std::string_view dtype) {
  const auto is_one_of = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), op) != names.end();
  };
  const auto holds = [&](std::string_view part) { return op.find(part) != std::string_view::npos; };
  if (holds("gemm")) return dtype == "bf16" || dtype == "fp16" ? 0 : 1;
  if (op == "attention_prefill") return 2;
  if (holds("_decode")) return 3;
  if (holds("dropout") || holds("backward") || is_one_of({"scale", "mask"})) return 8;
  if (is_one_of({"layernorm", "rmsnorm", "softmax"})) return 4;
  if (is_one_of({"silu", "gelu", "relu", "swiglu", "add", "rope", "quantize", "adamw"})) return 5;
  if (is_one_of({"copy", "transpose_copy", "embedding", "d2d", "moe_permute"})) return 6;
  if (is_one_of({"sum_rows", "sum_all", "argmax", "cumsum", "topk", "softmax_topk"})) return 7;
  return 9;
}

std::string scatter_svg(const std::vector<const Comparison*>& rows) {
  const std::vector<const Comparison*> shown = drawable(rows);
  if (shown.empty()) return "<p>No case was modelled.</p>\n";
  const Scale scale(shown);
  std::string svg = svg_head(kHeight, "predicted over measured time");
  svg += "<defs><clipPath id='plot'><rect x='" + number(kLeft) + "' y='" + number(kTop) + "' width='" + number(kWidth) +
         "' height='" + number(kHeight) + "'/></clipPath></defs>\n";
  svg += band(scale, 0.25, "band25") + band(scale, 0.10, "band10") + axes(scale);
  svg += line(kLeft, kTop + kHeight, kLeft + kWidth, kTop, "diagonal");
  for (const Comparison* row : shown) {
    const bool visible = scale.part(row->roofline) > 0;
    svg += point(*row, scale.x(row->measured), scale.y(row->predicted),
                 visible ? std::optional<double>(scale.y(row->roofline)) : std::nullopt);
  }
  return svg + "</svg>\n";
}

std::string ratio_svg(const std::vector<const Comparison*>& rows) {
  const std::vector<const Comparison*> shown = drawable(rows);
  if (shown.empty()) return "";
  const Scale scale(shown);
  std::string svg = svg_head(kRatioHeight, "predicted / measured over measured time") + ratio_axes(scale);
  for (const Comparison* row : shown) {
    svg += point(*row, scale.x(row->measured), ratio_y(row->predicted / row->measured),
                 ratio_y(row->roofline / row->measured));
  }
  return svg + "</svg>\n";
}

}  // namespace plumbline

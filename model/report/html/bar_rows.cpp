#include "model/report/html/bar_rows.hpp"

#include <algorithm>

#include "model/report/html/markup.hpp"

namespace plumbline::html {
namespace {

constexpr double kLabelHeight = 17, kLabelFoot = 13, kBarRowHeight = 9, kBarGap = 2, kRowGap = 6;
constexpr std::size_t kLongestLabel = 34;  // letters that a phone's width holds beside a number

double row_height(const BarRow& row) {
  return kLabelHeight + (kBarRowHeight + kBarGap) * static_cast<double>(row.bars.size()) + kRowGap;
}

std::string share_of_width(double share) { return fixed(100 * share) + "%"; }

std::string bar_markup(const HorizontalBar& bar, const Axis& x, double top) {
  const double left = x.share(std::min(bar.from, bar.to)), right = x.share(std::max(bar.from, bar.to));
  constexpr double kThinnest = 0.001;
  return "<rect class=\"" + std::string(bar.css) + "\" x=\"" + share_of_width(left) + "\" y=\"" + fixed(top) +
         "\" width=\"" + share_of_width(std::max(right - left, kThinnest)) + "\" height=\"" + fixed(kBarRowHeight) +
         "\"/>";
}

}  // namespace

double bar_rows_height(const std::vector<BarRow>& rows) {
  double height = 0;
  for (const BarRow& row : rows) height += row_height(row);
  return height;
}

std::string bar_rows(const std::vector<BarRow>& rows, const Axis& x, double middle, std::string_view what) {
  const std::string line = share_of_width(x.share(middle));
  std::string body;
  double top = 0;
  for (const BarRow& row : rows) {
    body += "<g>" + title_element(row.label + ": " + row.hint) + "<text x=\"0\" y=\"" + fixed(top + kLabelFoot) +
            "\">" + escaped(shortened(row.label, kLongestLabel)) +
            "</text><text class=\"soft\" text-anchor=\"end\" x=\"100%\" y=\"" + fixed(top + kLabelFoot) + "\">" +
            escaped(row.text) + "</text>";
    double at = top + kLabelHeight;
    body += "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"" + fixed(top + row_height(row)) + "\" y2=\"" +
            fixed(top + row_height(row)) + "\"/><line class=\"axis\" x1=\"" + line + "\" x2=\"" + line + "\" y1=\"" +
            fixed(at) + "\" y2=\"" + fixed(top + row_height(row)) + "\"/>";
    for (const HorizontalBar& bar : row.bars) {
      body += bar_markup(bar, x, at);
      at += kBarRowHeight + kBarGap;
    }
    body += "</g>\n";
    top += row_height(row);
  }
  return "<figure style=\"margin:0\">\n<svg class=\"rows\" style=\"height:" + fixed(top) +
         "px;width:100%\" role=\"img\" aria-label=\"" + escaped(what) + "\">\n" + body + "</svg>\n</figure>\n";
}

}  // namespace plumbline::html

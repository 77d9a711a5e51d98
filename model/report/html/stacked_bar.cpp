#include "model/report/html/stacked_bar.hpp"

#include <algorithm>

#include "model/report/columns.hpp"
#include "model/report/html/markup.hpp"
#include "model/report/html/plot.hpp"

namespace plumbline::html {
namespace {

constexpr double kTall = 36, kFoot = 23;    // of a bar, and from its top to the foot of its letters, in pixels
constexpr double kLimitFoot = 18;           // from a bar down to the foot of the limit's words
constexpr double kRowTall = 18, kRowY = 4;  // of a bar in a list

std::string part_rect(const Part& part, double left, double width) {
  const std::string at = fixed(100 * left), wide = fixed(100 * width);
  std::string out = "<rect class=\"" + part.css + "\" x=\"" + at + "%\" y=\"0\" width=\"" + wide + "%\" height=\"" +
                    fixed(kTall) + "\">" + title_element(part.label + ": " + part.amount + ", " + percent(part.share)) +
                    "</rect>";
  if (const LabelFit fit = label_fit(part.label, width); fit.fits) {
    out += "<text class=\"" + std::string(fit.css) + "\" x=\"" + fixed(100 * (left + width / 2)) + "%\" y=\"" +
           fixed(kFoot) + "\" text-anchor=\"middle\">" + escaped(part.label) + "</text>";
  }
  return out + "\n";
}

/// A line where the whole ends, its words on the side that has more room.
std::string limit_mark(double at, std::string_view words) {
  const std::string x = fixed(100 * at) + "%";
  return "<line class=\"limit\" x1=\"" + x + "\" x2=\"" + x + "\" y1=\"-4\" y2=\"" + fixed(kTall + kLimitFoot) +
         "\" style=\"stroke-width:3\"></line><text class=\"out\" x=\"" + x + "\" y=\"" + fixed(kTall + kLimitFoot) +
         "\" dx=\"" + (at < 0.5 ? "6" : "-6") + "\" text-anchor=\"" + (at < 0.5 ? "start" : "end") + "\">" +
         escaped(words) + "</text>\n";
}

}  // namespace

std::string stacked_bar(const std::vector<Part>& parts, std::string_view what, std::string_view limit) {
  double sum = 0;
  for (const Part& part : parts) sum += part.share;
  const double scale = 1 / std::max(1.0, sum);
  const bool over = sum > 1 && !limit.empty();
  std::string out = "<svg class=\"bar";
  out += over ? " open" : "";
  out += "\" role=\"img\" aria-label=\"" + escaped(what) + "\">\n";
  double left = 0;
  for (const Part& part : parts) {
    out += part_rect(part, left, part.share * scale);
    left += part.share * scale;
  }
  if (over) out += limit_mark(scale, limit);
  return out + "</svg>\n";
}

std::string legend(const std::vector<Part>& parts) {
  std::string out = "<ul class=\"legend\">\n";
  for (const Part& part : parts) {
    out += "<li><svg><rect class=\"" + part.css + "\" width=\"11\" height=\"11\"></rect></svg><span>" +
           escaped(part.label) + "</span><b>" + escaped(percent(part.share)) + "</b><em>" + escaped(part.amount) +
           "</em></li>\n";
  }
  return out + "</ul>\n";
}

std::string bars(const std::vector<Part>& parts) {
  std::string rows;
  for (const Part& part : parts) {
    rows += "<tr><td>" + escaped(part.label) + "</td><td class=\"right\">" + escaped(part.amount) +
            "</td><td class=\"right\">" + escaped(percent(part.share)) +
            "</td><td style=\"width:60%\"><svg style=\"width:100%;height:" + fixed(kRowTall) + "px\"><rect class=\"" +
            part.css + "\" x=\"0\" y=\"" + fixed(kRowY) + "\" width=\"" + fixed(100 * std::min(1.0, part.share)) +
            "%\" height=\"" + fixed(kRowTall - 2 * kRowY) + "\"></rect></svg></td></tr>\n";
  }
  return table_of(
      table_head({{"resource"}, {"alone", Columns::Align::right}, {"of time", Columns::Align::right}, {""}}), rows);
}

}  // namespace plumbline::html

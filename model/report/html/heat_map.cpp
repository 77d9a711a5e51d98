#include "model/report/html/heat_map.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/report/html/markup.hpp"
#include "model/report/html/plot.hpp"

namespace plumbline::html {
namespace {

constexpr double kCellHeight = 26, kLightest = 0.08;
constexpr std::size_t kLongestName = 20;  // letters left of the map, whole in the hints: a phone has room for no more

/// Least and largest value.
std::pair<double, double> ends(const HeatMap& map) {
  double least = std::numeric_limits<double>::max(), most = 0;
  for (const auto& row : map.values) {
    for (const auto& value : row) {
      if (value) least = std::min(least, *value), most = std::max(most, *value);
    }
  }
  return {least, most};
}

std::string share_text(double share) { return fixed(100 * share) + "%"; }

std::string cell(const HeatMap& map, std::size_t row, std::size_t column, double shade) {
  const auto columns = static_cast<double>(map.x.size());
  const double left = static_cast<double>(column) / columns, top = kCellHeight * static_cast<double>(row);
  const std::string box = "x=\"" + share_text(left) + "\" y=\"" + fixed(top) + "\" width=\"" + share_text(1 / columns) +
                          "\" height=\"" + fixed(kCellHeight) + "\"";
  const std::string& text = map.texts[row][column];
  std::string out = "<g>" + title_element(map.y_name + " " + map.y[row] + ", " + map.x_name + " " + map.x[column] +
                                          ": " + map.what + " " + text);
  out += "<rect class=\"heatbase\" " + box + "/><rect class=\"heat\" " + box + " style=\"fill-opacity:" + fixed(shade) +
         "\"/>";
  if (const LabelFit fit = label_fit(text, 1 / columns); fit.fits) {
    out += "<text class=\"in " + std::string(fit.css) + "\" text-anchor=\"middle\" x=\"" +
           share_text(left + 0.5 / columns) + "\" y=\"" + fixed(top + kCellHeight / 2 + kHalfLetter) + "\">" +
           escaped(text) + "</text>";
  }
  return out + "</g>\n";
}

std::string labels(const HeatMap& map) {
  constexpr double kLeft = 8, kBelow = 17, kTitleBelow = 36, kTitleAbove = 10;
  const double height = heat_map_height(map);
  const auto columns = static_cast<double>(map.x.size());
  std::string out;
  for (std::size_t row = 0; row < map.y.size(); ++row) {
    out += "<text class=\"soft\" text-anchor=\"end\" x=\"0\" dx=\"-" + fixed(kLeft) + "\" y=\"" +
           fixed(kCellHeight * (static_cast<double>(row) + 0.5) + kHalfLetter) + "\">" +
           escaped(shortened(map.y[row], kLongestName)) + "</text>\n";
  }
  for (std::size_t column = 0; column < map.x.size(); ++column) {
    const LabelFit fit = label_fit(map.x[column], 1 / columns);
    if (!fit.fits) continue;
    out += "<text class=\"soft " + std::string(fit.css) + "\" text-anchor=\"middle\" x=\"" +
           share_text((static_cast<double>(column) + 0.5) / columns) + "\" y=\"" + fixed(height + kBelow) + "\">" +
           escaped(map.x[column]) + "</text>\n";
  }
  out += "<text class=\"soft\" text-anchor=\"end\" x=\"100%\" y=\"" + fixed(height + kTitleBelow) + "\">" +
         escaped(map.x_name) + "</text>\n<text class=\"soft\" x=\"0\" y=\"-" + fixed(kTitleAbove) + "\">" +
         escaped(map.y_name) + "</text>\n";
  return out;
}

}  // namespace

double heat_map_height(const HeatMap& map) { return kCellHeight * static_cast<double>(map.y.size()); }

double heat_map_left(const HeatMap& map) {
  constexpr double kLeast = 56, kPadding = 12;
  std::size_t longest = 0;
  for (const std::string& text : map.y) longest = std::max(longest, std::min(text.size(), kLongestName + 3));
  return std::max(kLeast, kLetter * static_cast<double>(longest) + kPadding);
}

std::string heat_map(const HeatMap& map) {
  const auto [least, most] = ends(map);
  std::string out;
  for (std::size_t row = 0; row < map.y.size(); ++row) {
    for (std::size_t column = 0; column < map.x.size(); ++column) {
      const auto& value = map.values[row][column];
      if (!value) continue;
      const double place = most > least ? std::log(*value / least) / std::log(most / least) : 0.5;
      out += cell(map, row, column, kLightest + (1 - kLightest) * place);
    }
  }
  const double left = heat_map_left(map);
  return "<figure style=\"margin:0\">\n<svg class=\"plot\" style=\"height:" + fixed(heat_map_height(map)) +
         "px;margin-left:" + fixed(left) + "px;width:calc(100% - " + fixed(left + 12) +
         "px)\" role=\"img\" aria-label=\"" + escaped(map.what) + "\">\n" + out + labels(map) + "</svg>\n</figure>\n";
}

}  // namespace plumbline::html

// Bars that lie one under the other, each below its label: tornados and waterfalls. Labels have lines of their own, so that
// nothing overlaps however narrow the page is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/report/html/plot.hpp"

namespace plumbline::html {

struct HorizontalBar {
  double from = 0, to = 0;
  std::string_view css;
};

struct BarRow {
  std::string label, text;  ///< left and right above the bars; a long label is cut, and whole in the hint
  std::string hint;
  std::vector<HorizontalBar> bars;
};

/// `x`: a linear axis that all bars lie on; `middle`: where a line goes from top to bottom.
std::string bar_rows(const std::vector<BarRow>& rows, const Axis& x, double middle, std::string_view what);
/// In pixels.
double bar_rows_height(const std::vector<BarRow>& rows);

}  // namespace plumbline::html

// Plots as inline SVG: axes, grid, lines, rectangles, dots. x is in percent of the plot's width and y in pixels, so that
// a plot takes the width that there is while letters keep their size.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plumbline::html {

/// From a value to its place along an axis, 0 to 1.
struct Axis {
  double from = 0, to = 1;
  bool logarithmic = false;

  double share(double value) const;
  /// The other way round.
  double value(double share) const;
  /// Powers of ten inside, below a ratio of 100 ones, twos and fives; or about five round numbers from `from` on.
  std::vector<double> ticks() const;
};

/// [least, most], both above 0, and a little room around.
Axis log_axis(double least, double most);
/// The same with little room, for values that lie near each other: ticks between powers of ten.
Axis close_log_axis(double least, double most);
/// 0 to `most`.
Axis linear_axis(double most);

/// Widths, in pixels, that labels are fitted for: a plot on a desktop's page and on a phone of 420 px.
inline constexpr double kWidePlot = 780, kNarrowPlot = 296;
/// What a letter takes, in pixels: an average of system fonts at 12 px, on the large side.
inline constexpr double kLetter = 6.8;
inline constexpr double kHalfLetter = 4;  ///< from the middle of a line of text to its foot

/// Class that hides a label on narrow pages where `share` of a plot holds it on wide ones alone; `fits` is false where
/// it is too long for both.
struct LabelFit {
  bool fits = false;
  std::string_view css;
};
LabelFit label_fit(std::string_view text, double share);

class Plot {
 public:
  enum class Anchor { start, middle, end };

  /// `margin`: room on the right for words of five letters beside the plot.
  Plot(Axis x, Axis y, double height, std::string_view what, bool margin = false);

  /// Grid, ticks and titles of both axes; call first, so that all else lies on it.
  void axes(std::string_view x_title, std::string_view y_title);
  void line(double x1, double y1, double x2, double y2, std::string_view css, std::string_view title = "");
  /// From the x axis up to `y`.
  void column(double x1, double x2, double y, std::string_view css, std::string_view title);
  void dot(double x, double y, double radius, std::string_view css, std::string_view title);
  /// `dx`, `dy`: pixels right of and below the point.
  void label(double x, double y, std::string_view text, Anchor anchor, double dx, double dy, std::string_view css);
  /// Markup of the caller's own, in a box of 10,000 units by `height` pixels over the whole plot.
  void stretched(const std::string& markup);
  std::string svg() const;

  const Axis& x() const { return x_; }
  const Axis& y() const { return y_; }
  double height() const { return height_; }
  /// Pixels from the top.
  double down(double y) const { return height_ * (1 - y_.share(y)); }

 private:
  Axis x_, y_;
  double height_;
  std::string body_;
};

/// A figure of a page as a file of its own (SVG 1.1 with CSS), kWidePlot wide beside its labels, light and dark; `left`:
/// pixels that these take.
std::string standalone_svg(std::string_view figure, double height, double left, std::string_view title);

inline constexpr double kStretched = 10'000;  ///< width of what Plot::stretched draws in

/// <title>...</title>, the hint that browsers show; nothing for an empty text.
std::string title_element(std::string_view text);

}  // namespace plumbline::html

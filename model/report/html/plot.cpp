#include "model/report/html/plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "model/report/html/markup.hpp"
#include "model/report/html/style.hpp"

namespace plumbline::html {
namespace {

constexpr double kTickBelow = 17;   // from the x axis down to the foot of its numbers
constexpr double kTitleBelow = 36;  // ... and of its title
constexpr double kTitleAbove = 10;  // from the top of the plot up to the y axis' title
constexpr double kTickLeft = 8;     // from the y axis left to the end of its numbers

std::string percent_of(double share) { return fixed(100 * share) + "%"; }

/// "5T", "20m" below `plain_from` and from a million on: what has many digits else, and an axis on a phone has room for six.
std::string tick_text(double value, double plain_from) {
  constexpr std::array<std::pair<double, const char*>, 7> kPrefixes{
      {{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e-3, "m"}, {1e-6, "u"}, {1e-9, "n"}}};
  constexpr double kPlainTo = 1e6, kRounding = 1 - 1e-12;
  const double size = std::abs(value);
  char text[32];
  if (size > 0 && (size < plain_from * kRounding || size >= kPlainTo * kRounding)) {
    for (const auto& [unit, prefix] : kPrefixes) {
      if (size < unit * kRounding) continue;
      std::snprintf(text, sizeof text, "%.4g%s", value / unit, prefix);
      return text;
    }
  }
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

/// Numbers of an axis: where one of them has a prefix below 1, all below 1 have, so that "5m" stands beside "10m".
std::vector<std::string> tick_texts(const std::vector<double>& ticks) {
  constexpr double kPlainFrom = 0.01;
  const bool small =
      std::any_of(ticks.begin(), ticks.end(), [](double t) { return t != 0 && std::abs(t) < kPlainFrom; });
  std::vector<std::string> texts;
  for (const double tick : ticks) texts.push_back(tick_text(tick, small ? 1 : kPlainFrom));
  return texts;
}

std::string_view word(Plot::Anchor anchor) {
  constexpr std::array<std::string_view, 3> kWords{"start", "middle", "end"};
  return kWords[static_cast<std::size_t>(anchor)];
}

}  // namespace

double Axis::share(double value) const {
  if (logarithmic) return (std::log10(value) - std::log10(from)) / (std::log10(to) - std::log10(from));
  return (value - from) / (to - from);
}

double Axis::value(double share) const {
  if (logarithmic) return from * std::pow(to / from, share);
  return from + share * (to - from);
}

namespace {

/// Multiples of one, two or five times a power of ten, of which there are about `about` from one end to the other.
double round_step(double from, double to, double about) {
  const double rough = (to - from) / about, decade = std::pow(10.0, std::floor(std::log10(rough)));
  const double lead = rough / decade;
  return decade * (lead > 5 ? 10 : lead > 2 ? 5 : lead > 1 ? 2 : 1);
}

/// Of a logarithmic axis that is shorter than two powers of ten.
std::vector<double> close_ticks(double from, double to) {
  constexpr double kFewRatio = 5, kAbout = 3;
  std::vector<double> out;
  if (to / from < kFewRatio) {
    const double step = round_step(from, to, kAbout);
    for (double n = std::ceil(from / step); n * step <= to; ++n) out.push_back(n * step);
    return out;
  }
  for (double decade = std::pow(10.0, std::floor(std::log10(from))); decade <= to; decade *= 10) {
    for (const double lead : {1, 2, 5}) {
      if (lead * decade >= from && lead * decade <= to) out.push_back(lead * decade);
    }
  }
  return out;
}

}  // namespace

std::vector<double> Axis::ticks() const {
  std::vector<double> out;
  constexpr double kClose = 100;
  if (logarithmic && to / from < kClose) return close_ticks(from, to);
  if (logarithmic) {
    const int first = static_cast<int>(std::ceil(std::log10(from)));
    const int last = static_cast<int>(std::floor(std::log10(to)));
    const int step = last - first > 8 ? 2 : 1;  // more than nine numbers do not fit side by side on a phone
    for (int decade = first; decade <= last; decade += step) out.push_back(std::pow(10.0, decade));
    return out;
  }
  constexpr double kAbout = 5;
  const double step = round_step(from, to, kAbout);
  constexpr double kRounding = 1e-9;  // of a step: the last tick may lie on the end
  for (int i = 0; from + i * step <= to + kRounding * step; ++i) out.push_back(from + i * step);
  return out;
}

Axis log_axis(double least, double most) {
  constexpr double kRoom = 1.3;         // times the ends
  constexpr double kLeastRatio = 1000;  // so that there are a few powers of ten to read it by
  const double from = least / kRoom;
  return {from, std::max(most * kRoom, from * kLeastRatio), true};
}

Axis close_log_axis(double least, double most) {
  constexpr double kRoom = 0.06, kLeastRatio = 1.1;  // of the axis' length; of its ends
  const double ratio = std::max(most / least, kLeastRatio);
  const double room = std::pow(ratio, kRoom) * std::sqrt(ratio * least / most);
  return {least / room, most * room, true};
}

Axis linear_axis(double most) { return {0, most > 0 ? most : 1, false}; }

LabelFit label_fit(std::string_view text, double share) {
  constexpr double kPadding = 8;
  const double need = kLetter * static_cast<double>(text.size()) + kPadding;
  if (need <= share * kNarrowPlot) return {true, ""};
  return {need <= share * kWidePlot, "wide"};
}

std::string title_element(std::string_view text) { return text.empty() ? "" : "<title>" + escaped(text) + "</title>"; }

Plot::Plot(Axis x, Axis y, double height, std::string_view what, bool margin) : x_(x), y_(y), height_(height) {
  body_ = std::string("<svg class=\"plot") + (margin ? " outside" : "") + "\" style=\"height:" + fixed(height) +
          "px\" role=\"img\" aria-label=\"" + escaped(what) + "\">\n";
}

void Plot::axes(std::string_view x_title, std::string_view y_title) {
  const std::vector<double> across = x_.ticks(), up = y_.ticks();
  const std::vector<std::string> across_texts = tick_texts(across), up_texts = tick_texts(up);
  for (std::size_t i = 0; i < across.size(); ++i) {
    line(across[i], y_.from, across[i], y_.to, "grid");
    label(across[i], y_.from, across_texts[i], Anchor::middle, 0, kTickBelow, "soft");
  }
  for (std::size_t i = 0; i < up.size(); ++i) {
    line(x_.from, up[i], x_.to, up[i], "grid");
    label(x_.from, up[i], up_texts[i], Anchor::end, -kTickLeft, kHalfLetter, "soft");
  }
  line(x_.from, y_.from, x_.to, y_.from, "axis");
  line(x_.from, y_.from, x_.from, y_.to, "axis");
  label(x_.to, y_.from, x_title, Anchor::end, 0, kTitleBelow, "soft");
  label(x_.from, y_.to, y_title, Anchor::start, 0, -kTitleAbove, "soft");
}

void Plot::line(double x1, double y1, double x2, double y2, std::string_view css, std::string_view title) {
  body_ += "<line class=\"" + std::string(css) + "\" x1=\"" + percent_of(x_.share(x1)) + "\" y1=\"" + fixed(down(y1)) +
           "\" x2=\"" + percent_of(x_.share(x2)) + "\" y2=\"" + fixed(down(y2)) + "\">" + title_element(title) +
           "</line>\n";
}

void Plot::column(double x1, double x2, double y, std::string_view css, std::string_view title) {
  const double left = x_.share(x1);
  body_ += "<rect class=\"" + std::string(css) + "\" x=\"" + percent_of(left) + "\" y=\"" + fixed(down(y)) +
           "\" width=\"" + percent_of(x_.share(x2) - left) + "\" height=\"" + fixed(height_ - down(y)) + "\">" +
           title_element(title) + "</rect>\n";
}

void Plot::dot(double x, double y, double radius, std::string_view css, std::string_view title) {
  body_ += "<circle class=\"" + std::string(css) + "\" cx=\"" + percent_of(x_.share(x)) + "\" cy=\"" + fixed(down(y)) +
           "\" r=\"" + fixed(radius) + "\">" + title_element(title) + "</circle>\n";
}

void Plot::label(double x, double y, std::string_view text, Anchor anchor, double dx, double dy, std::string_view css) {
  body_ += "<text class=\"" + std::string(css) + "\" x=\"" + percent_of(x_.share(x)) + "\" y=\"" + fixed(down(y)) +
           "\" dx=\"" + fixed(dx) + "\" dy=\"" + fixed(dy) + "\" text-anchor=\"" + std::string(word(anchor)) + "\">" +
           escaped(text) + "</text>\n";
}

void Plot::stretched(const std::string& markup) {
  body_ += "<svg class=\"inner\" width=\"100%\" height=\"" + fixed(height_) + "\" viewBox=\"0 0 " + fixed(kStretched) +
           " " + fixed(height_) + "\" preserveAspectRatio=\"none\">\n" + markup + "</svg>\n";
}

std::string standalone_svg(std::string_view figure, double height, double left, std::string_view title) {
  constexpr double kAbove = 34, kBelow = 52, kRight = 56;
  const std::size_t opens = figure.find("<svg"), begins = figure.find('>', opens) + 1, ends = figure.rfind("</figure>");
  const double width = left + kWidePlot + kRight, tall = kAbove + height + kBelow;
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + fixed(width) + "\" height=\"" + fixed(tall) +
         "\" viewBox=\"0 0 " + fixed(width) + " " + fixed(tall) + "\" font-family=\"system-ui,sans-serif\">\n<style>" +
         std::string(kStyle) + "</style>\n" + title_element(title) +
         "\n<rect width=\"100%\" height=\"100%\" style=\"fill:var(--page)\"/>\n<svg x=\"" + fixed(left) + "\" y=\"" +
         fixed(kAbove) + "\" width=\"" + fixed(kWidePlot) + "\" height=\"" + fixed(height) +
         "\" overflow=\"visible\">" + std::string(figure.substr(begins, ends - begins)) + "</svg>\n";
}

std::string Plot::svg() const { return "<figure style=\"margin:0\">\n" + body_ + "</svg>\n</figure>\n"; }

}  // namespace plumbline::html

#include "model/report/html/roofline_plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "arch/format.hpp"
#include "arch/gpu/peaks.hpp"
#include "model/report/html/markup.hpp"
#include "model/report/html/plot.hpp"

namespace plumbline::html {
namespace {

constexpr double kRooflineHeight = 380;
constexpr double kLargest = 26, kLeast = 4;  // radius of a dot that is all of the time, and of the smallest, in pixels
constexpr double kLine = 15;                 // of text, in pixels
constexpr double kRoofGap = 5;               // between a roof and its words
constexpr double kDotGap = 3;                // from a dot to its words
constexpr double kBeyondRidge = 2;           // times the ridge's intensity, at least, is shown of a roof
constexpr double kAboveRoof = 2;             // times the roof, at least, is shown: its words stand there

double in_TFLOP(FlopRate rate) { return rate.in(units::TFLOP_per_s); }

struct Box {
  double left, right, top, bottom;
  bool meets(const Box& o) const { return left < o.right && o.left < right && top < o.bottom && o.top < bottom; }
};

bool meets_any(const std::vector<Box>& taken, const Box& box) {
  return std::any_of(taken.begin(), taken.end(), [&](const Box& other) { return other.meets(box); });
}

bool has_place(const RooflineDot& dot) {
  const double x = dot.intensity.in(units::FLOP_per_B);
  return std::isfinite(x) && x > 0 && in_TFLOP(dot.rate) > 0;
}

double radius(const RooflineDot& dot) { return std::max(kLeast, kLargest * std::sqrt(std::min(1.0, dot.share))); }

/// All dots, all ridges and some room around: the roofs' bend is what one looks for.
Plot fitting(const Gpu& gpu, const std::vector<Roof>& roofs, const std::vector<RooflineDot>& dots) {
  double left = 1, right = 100, low = 1e300, high = 0;
  for (const Roof& roof : roofs) {
    const FlopRate most = std::max(roof.actual, roof.datasheet);
    right = std::max(right, kBeyondRidge * (most / gpu.memory.bandwidth).in(units::FLOP_per_B));
    high = std::max(high, kAboveRoof * in_TFLOP(most));
  }
  for (const RooflineDot& dot : dots) {
    left = std::min(left, dot.intensity.in(units::FLOP_per_B));
    right = std::max(right, dot.intensity.in(units::FLOP_per_B));
    low = std::min(low, in_TFLOP(dot.rate));
    high = std::max(high, in_TFLOP(dot.rate));
  }
  low = std::min(low, left * gpu.memory.bandwidth.in(units::TB_per_s));
  return {log_axis(left, right), log_axis(low, high), kRooflineHeight, "roofline", !dots.empty()};
}

/// Where words stand already, on a page of each width.
struct Taken {
  std::vector<Box> wide, narrow;
};

std::string roof_words(const Gpu& gpu, const Roof& roof) {
  const Intensity ridge = roof.actual / gpu.memory.bandwidth;
  return format(roof.actual) + ", datasheet " + format(roof.datasheet) + ", ridge at " + format(ridge);
}

/// Its name stands at its line's end: beside the plot where dots may lie on the line, else on it. What it amounts to is
/// in the list below the plot.
void draw_roof(Plot& plot, const Gpu& gpu, const Roof& roof, bool beside) {
  for (const auto& [roof_rate, css] : {std::pair{roof.datasheet, "datasheet"}, {roof.actual, "roof"}}) {
    const double rate = in_TFLOP(roof_rate), ridge = (roof_rate / gpu.memory.bandwidth).in(units::FLOP_per_B);
    plot.line(std::max(ridge, plot.x().from), rate, plot.x().to, rate, css, roof.label + ": " + roof_words(gpu, roof));
  }
  if (beside) {
    plot.label(plot.x().to, in_TFLOP(roof.actual), roof.label, Plot::Anchor::start, kRoofGap, kHalfLetter, "halo");
  } else {
    const double highest = in_TFLOP(std::max(roof.actual, roof.datasheet));
    plot.label(plot.x().to, highest, roof.label, Plot::Anchor::end, -2, -kRoofGap, "halo");
  }
}

void draw_memory_roof(Plot& plot, const Gpu& gpu, const std::vector<Roof>& roofs, Taken& taken) {
  const double bandwidth = gpu.memory.bandwidth.in(units::TB_per_s);
  double highest = 0;
  for (const Roof& roof : roofs) highest = std::max({highest, in_TFLOP(roof.actual), in_TFLOP(roof.datasheet)});
  const double from = std::max(plot.x().from, plot.y().from / bandwidth);
  const double to = std::min(plot.x().to, (highest > 0 ? highest : plot.y().to) / bandwidth);
  const std::string words = gpu.memory_type + " " + format(gpu.memory.bandwidth);
  plot.line(from, from * bandwidth, to, to * bandwidth, "roof", words + ", as the datasheet has it");
  // Left of the line's middle, where it has fallen below the words; no nearer to the axis than they are long on a phone.
  const double wide = kLetter * static_cast<double>(words.size());
  const double share = std::max((plot.x().share(from) + plot.x().share(to)) / 2, (wide + kLine) / kNarrowPlot);
  const double x = plot.x().value(share);
  plot.label(x, x * bandwidth, words, Plot::Anchor::end, -kLine / 2, -kRoofGap, "halo");
  const double foot = plot.down(x * bandwidth) - kRoofGap;
  for (const auto& [boxes, width] : {std::pair{&taken.wide, kWidePlot}, {&taken.narrow, kNarrowPlot}}) {
    boxes->push_back({width * share - wide - kLine / 2, width * share, foot - kLine, foot});
  }
}

/// Sides of a dot that its words may stand on, the better ones first.
enum class Side { right, left, above, below };
constexpr std::array kSides{Side::right, Side::left, Side::above, Side::below};

/// The box of a dot's words in a plot that many pixels wide.
Box words_box(const Plot& plot, const RooflineDot& dot, Side side, double width) {
  const double x = width * plot.x().share(dot.intensity.in(units::FLOP_per_B)), y = plot.down(in_TFLOP(dot.rate));
  const double wide = kLetter * static_cast<double>(dot.label.size()), away = radius(dot) + kDotGap;
  const double half = kLine / 2;
  switch (side) {
    case Side::right: return {x + away, x + away + wide, y - half, y + half};
    case Side::left: return {x - away - wide, x - away, y - half, y + half};
    case Side::above: return {x - wide / 2, x + wide / 2, y - away - kLine, y - away};
    case Side::below: return {x - wide / 2, x + wide / 2, y + away, y + away + kLine};
  }
  return {};
}

void draw_words(Plot& plot, const RooflineDot& dot, Side side, std::string_view css) {
  const double away = radius(dot) + kDotGap;
  const bool beside = side == Side::right || side == Side::left;
  const double dx = !beside ? 0 : side == Side::right ? away : -away;
  const double dy = beside ? kHalfLetter : side == Side::above ? -away : away + kLine - kHalfLetter;
  const Plot::Anchor anchor = !beside               ? Plot::Anchor::middle
                              : side == Side::right ? Plot::Anchor::start
                                                    : Plot::Anchor::end;
  plot.label(dot.intensity.in(units::FLOP_per_B), in_TFLOP(dot.rate), dot.label, anchor, dx, dy, css);
}

/// Dots that words must not cover: those that one looks for.
void add_large_dots(const Plot& plot, const std::vector<RooflineDot>& dots, Taken& taken) {
  constexpr double kLarge = 0.02;  // of the time
  for (const RooflineDot& dot : dots) {
    if (dot.share < kLarge) continue;
    const double y = plot.down(in_TFLOP(dot.rate)), r = radius(dot);
    for (const auto& [boxes, width] : {std::pair{&taken.wide, kWidePlot}, {&taken.narrow, kNarrowPlot}}) {
      const double x = width * plot.x().share(dot.intensity.in(units::FLOP_per_B));
      boxes->push_back({x - r, x + r, y - r, y + r});
    }
  }
}

/// Words beside dots, longest times first, on the first side where they meet nothing else, on a page of any width; else
/// on wide ones alone; else not at all.
void label_dots(Plot& plot, const std::vector<RooflineDot>& dots, Taken& taken) {
  constexpr double kNamed = 0.003;  // of the time: less has its name in the hint alone
  add_large_dots(plot, dots, taken);
  const auto free = [&](const std::vector<Box>& boxes, const Box& box, double width) {
    return box.left >= 0 && box.right <= width && box.top >= 0 && box.bottom <= plot.height() && !meets_any(boxes, box);
  };
  for (const RooflineDot& dot : dots) {
    if (dot.share < kNamed) continue;
    const auto fits_wide = [&](Side side) {
      return free(taken.wide, words_box(plot, dot, side, kWidePlot), kWidePlot);
    };
    const auto fits_all = [&](Side side) {
      return fits_wide(side) && free(taken.narrow, words_box(plot, dot, side, kNarrowPlot), kNarrowPlot);
    };
    const auto* side = std::find_if(kSides.begin(), kSides.end(), fits_all);
    const bool everywhere = side != kSides.end();
    if (!everywhere) side = std::find_if(kSides.begin(), kSides.end(), fits_wide);
    if (side == kSides.end()) continue;
    taken.wide.push_back(words_box(plot, dot, *side, kWidePlot));
    if (everywhere) taken.narrow.push_back(words_box(plot, dot, *side, kNarrowPlot));
    draw_words(plot, dot, *side, everywhere ? "halo" : "halo wide");
  }
}

/// Each once.
std::string names_without_place(const std::vector<RooflineDot>& dots) {
  std::vector<std::string_view> names;
  std::string out;
  for (const RooflineDot& dot : dots) {
    if (has_place(dot) || std::find(names.begin(), names.end(), dot.label) != names.end()) continue;
    names.push_back(dot.label);
    out += (out.empty() ? "" : ", ") + dot.label;
  }
  return out;
}

}  // namespace

Roof tensor_roof(const Gpu& gpu, DType math, Hertz clock) {
  FlopRate datasheet = gpu.datasheet_tensor_peak[math];
  if (!(datasheet > 0.0 * units::FLOP_per_s)) {
    const bool has_clock = gpu.datasheet_tensor_clock > 0.0 * units::Hz;
    datasheet = tensor_peak(gpu, math, has_clock ? gpu.datasheet_tensor_clock : gpu.boost_clock);
  }
  return {std::string(name(math)), tensor_peak(gpu, math, clock), datasheet};
}

std::string roofline_plot(const Gpu& gpu, Hertz clock, const std::vector<Roof>& roofs, std::vector<RooflineDot> dots,
                          std::string_view dots_are) {
  const std::string nowhere = names_without_place(dots);
  std::erase_if(dots, [](const RooflineDot& dot) { return !has_place(dot); });
  std::stable_sort(dots.begin(), dots.end(), [](const auto& a, const auto& b) { return a.share > b.share; });
  Plot plot = fitting(gpu, roofs, dots);
  plot.axes("FLOP a byte of DRAM traffic", "TFLOP/s");
  Taken taken;
  for (const Roof& roof : roofs) draw_roof(plot, gpu, roof, !dots.empty());
  draw_memory_roof(plot, gpu, roofs, taken);
  for (const RooflineDot& dot : dots) {
    plot.dot(dot.intensity.in(units::FLOP_per_B), in_TFLOP(dot.rate), radius(dot), dot.css, dot.title);
  }
  label_dots(plot, dots, taken);
  std::vector<std::pair<std::string, std::string>> list;
  for (const Roof& roof : roofs) list.emplace_back(roof.label, roof_words(gpu, roof));
  list.emplace_back(gpu.memory_type, format(gpu.memory.bandwidth));
  std::string words = "Solid lines: at " + format(clock) + ". Broken lines: the datasheet's rates.";
  if (dots.size() > 1) words = std::string(dots_are) + " " + words;
  if (!nowhere.empty()) words += " Without FLOPs or without DRAM traffic, so without a place here: " + nowhere + ".";
  return plot.svg() + note(words) + facts(list);
}

}  // namespace plumbline::html

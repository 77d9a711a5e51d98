// Operators under the roofs of their GPU: FLOPs a second over FLOPs a DRAM byte, both axes logarithmic.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "arch/gpu/gpu.hpp"

namespace plumbline::html {

struct RooflineDot {
  std::string label;
  Intensity intensity;
  FlopRate rate;
  double share = 0;  ///< of the time shown: the dot's area
  std::string css, title;
};

/// Two level roofs: what units of a kind can do whatever memory gives, at the clock of what is shown (a solid line) and
/// as the datasheet has it (a broken one).
struct Roof {
  std::string label;
  FlopRate actual, datasheet;
};

/// Of one tensor format; rates of 0 where the card has no path for it. Where the datasheet's rate is not on file it is
/// derived at the datasheet's clock, or at boost.
Roof tensor_roof(const Gpu& gpu, DType math, Hertz clock);

/// `clock`: the one that solid lines are drawn at. Dots without work or without DRAM traffic have no place on it: a note
/// names them.
std::string roofline_plot(const Gpu& gpu, Hertz clock, const std::vector<Roof>& roofs, std::vector<RooflineDot> dots,
                          std::string_view dots_are = "A dot is an operator, its area its share of the time.");

}  // namespace plumbline::html

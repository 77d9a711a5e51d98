// A figure over two axes: a cell for each pair of values, the darker the larger.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace plumbline::html {

struct HeatMap {
  std::string x_name, y_name, what;
  std::vector<std::string> x, y;                           ///< columns from left to right, rows from top to bottom
  std::vector<std::vector<std::optional<double>>> values;  ///< [row][column], above 0; nothing: a cell stays empty
  std::vector<std::vector<std::string>> texts;             ///< as people read them
};

inline constexpr std::size_t kMostHeatCells = 40;  ///< columns, and rows

/// Shades go by the logarithm between the least and the largest value.
std::string heat_map(const HeatMap& map);
// In pixels: of the cells; what labels of rows take left of them.
double heat_map_height(const HeatMap& map);
double heat_map_left(const HeatMap& map);

}  // namespace plumbline::html

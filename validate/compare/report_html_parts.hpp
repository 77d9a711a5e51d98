// What the HTML page is put together from: its fixed parts and the scatter plot. No resource of another place.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "validate/compare/compare.hpp"

namespace plumbline {

/// & < > " ' made harmless.
std::string html_escaped(std::string_view text);

/// Colour class of an operator, and what the legend calls it.
struct PlotFamily {
  std::string_view key, title;
};
const std::vector<PlotFamily>& plot_families();
/// Number into plot_families().
std::size_t plot_family(std::string_view op, std::string_view dtype);

/// Predicted over measured, both axes logarithmic: points coloured by family, the diagonal, bands of 10 and 25 %. The
/// roofline's points are there too, hidden until asked for. Rows that were not modelled are left out.
std::string scatter_svg(const std::vector<const Comparison*>& rows);
/// The same points as predicted / measured, from a half to two; those outside lie on the edge.
std::string ratio_svg(const std::vector<const Comparison*>& rows);

/// Style sheet (light and dark) and script (sorting, filtering, toggles) of the page.
std::string_view page_style();
std::string_view page_script();

}  // namespace plumbline

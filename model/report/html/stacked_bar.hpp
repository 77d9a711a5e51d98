// A whole and its parts: one bar, and a legend with shares.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plumbline::html {

struct Part {
  std::string label;
  std::string amount;  ///< "3.93 ms"
  double share = 0;    ///< of the whole
  std::string css;     ///< "c0", "other", ...
};

/// The parts side by side. `limit`: where they sum to more than the whole (1), the place of the whole is marked so.
std::string stacked_bar(const std::vector<Part>& parts, std::string_view what, std::string_view limit = "");
std::string legend(const std::vector<Part>& parts);

/// A bar a part, each from the same start: how much of the whole each takes on its own.
std::string bars(const std::vector<Part>& parts);

}  // namespace plumbline::html

// What a step's time is made of, by operator, and the colour that each has on the whole page.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "model/predict.hpp"
#include "model/report/html/stacked_bar.hpp"

namespace plumbline::html {

/// The node's name, with "(bwd)" in the backward pass, as the text table has it.
std::string label_of(const Node& node);

/// All executions of a node in the step, without the gaps behind them.
Seconds total_of(const NodePrediction& node);

struct StepParts {
  /// Largest first; operators of one name together, whatever layer they are in; the small ones folded into one part,
  /// and last the launch gaps. Shares sum to 1.
  std::vector<Part> parts;
  std::map<std::string, std::string, std::less<>> colour;  ///< label -> class; "other" where it is folded

  std::string_view css(const Node& node) const;
};

StepParts step_parts(const StepPrediction& step);

}  // namespace plumbline::html

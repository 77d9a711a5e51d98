// Figures of a point by the names that the reports in JSON have for them, and what is asked of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/study.hpp"
#include "model/study/answer.hpp"

namespace plumbline {

/// What of a figure is better: more, less, or neither.
enum class Better { neither, less, more };

struct FigureColumn {
  std::string_view name;
  bool of_llm, of_op;
  Better better;
  StudyFigure (*get)(const Asker& answer);
};

/// Throws BadInput for a name that the command has no figure of, with the nearest.
const FigureColumn& figure_column(bool of_op, const std::string& name, const std::string& place);
/// Those of a study that names none.
std::vector<std::string> usual_columns(bool of_op);

enum class FigureComparison { less, at_most, equal, unequal, at_least, more, holds, holds_not };

/// "latency_s<=0.05", "fits", "!fits", "bound=memory", "tp<=4": of a figure, or of an axis that holds numbers.
struct Condition {
  std::string name;
  FigureComparison comparison = FigureComparison::holds;
  std::string word;
  double number = 0;
  bool numeric = false;

  bool holds(const StudyFigure& figure) const;
};
/// Throws BadInput for what is no comparison.
Condition parse_condition(const std::string& text, const std::string& place);

/// "max tokens_per_s", "min latency_s", or the name alone where one of them is better.
struct Objective {
  std::string name;
  bool most = true;
};
Objective parse_objective(bool of_op, const std::string& text, const std::string& place);

}  // namespace plumbline

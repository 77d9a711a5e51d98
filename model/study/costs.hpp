// What answers of a study's questions have in common: costs by operator, the band of a ratio.
#pragma once

#include <string>
#include <vector>

#include "model/study.hpp"
#include "model/study/answer.hpp"

namespace plumbline {

/// All operators of the last answer, each name once, in the order of the step; of `op` the one.
std::vector<OperatorCost> costs_of(const Asker& answer);
/// The one that takes longest.
const OperatorCost& longest_of(const std::vector<OperatorCost>& costs);

/// Figures of the last answer; 0 where there is none.
double number_of_figure(const Asker& answer, const std::string& column);
std::string word_of_figure(const Asker& answer, const std::string& column);

/// The question of a study without axes. Throws BadInput for one with axes.
Inquiry single_question(const Study& study);

/// Half-widths (ln) of what the ratio of two predictions errs by, the second on the machine of the first with other
/// numbers: what errs before errs after too; what is left is by how much the bands of a card's generation are wider than
/// its own, in proportion to how far the numbers were changed.
struct RatioWidths {
  double low = 0, high = 0;
};
/// `factor`: of one number that was changed, which may be one that no band goes by.
RatioWidths ratio_widths(const Asker& after, const GpuNumbers& before, double factor = 1);

}  // namespace plumbline

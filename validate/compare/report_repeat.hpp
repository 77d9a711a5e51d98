// Two recordings of the same cases: how well measuring repeats. A model cannot be shown to be better than this.
#pragma once

#include <string>
#include <vector>

#include "validate/compare/compare.hpp"
#include "validate/record/recorded.hpp"

namespace plumbline {

/// Cases of one kernel set, operator, type, mode and size class that both recordings have with a time.
struct RepeatClass {
  KernelSet kernels = KernelSet::own;
  std::string op, dtype, mode;
  SizeClass size = SizeClass::all;  ///< by the first recording's time
  long count = 0;
  double median_ln = 0;      ///< median of ln(second / first): what of the class moved as a whole
  double median_abs_ln = 0;  ///< median of |ln(second / first)|
  double worst_ln = 0;
  std::string worst_shape;
};

std::vector<RepeatClass> compare_runs(const Recording& first, const Recording& second);

/// Aligned columns; the last line says how many classes are within `limit` in the median.
std::string repeat_table(const std::vector<RepeatClass>& classes, double limit);
/// One line or one object a class; natural logarithms of second / first.
std::string repeat_csv(const std::vector<RepeatClass>& classes);
std::string repeat_json(const std::vector<RepeatClass>& classes);

}  // namespace plumbline

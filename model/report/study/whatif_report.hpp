// Sensitivities, solutions and differences: as tables, JSON, CSV and pages.
#pragma once

#include <string>

#include "model/report/columns.hpp"
#include "model/study.hpp"

namespace plumbline {

struct SensitivityReport {
  const Study& study;
  const Sensitivity& result;
  std::int64_t top = 0;  ///< parameters of the table; 0: those with an effect
};
std::string sensitivity_table(const SensitivityReport& report, const TextStyle& style);
std::string sensitivity_csv(const SensitivityReport& report);
std::string sensitivity_json(const SensitivityReport& report);  ///< schema plumbline.sensitivity.v1
std::string sensitivity_html(const SensitivityReport& report);
std::string sensitivity_svg(const SensitivityReport& report);  ///< the tornado alone
Columns sensitivity_columns(const SensitivityReport& report);

struct SolveReport {
  const Study& study;
  const SolveQuestion& question;
  const Solution& result;
};
std::string solve_table(const SolveReport& report, const TextStyle& style);
std::string solve_json(const SolveReport& report);  ///< schema plumbline.solve.v1
std::string solve_html(const SolveReport& report);
std::string solve_svg(const SolveReport& report);  ///< the first target's figure at what was tried

struct DiffReport {
  const Study& before;
  const Study& after;
  const StudyDifference& result;
  std::int64_t top = 0;  ///< operators of the table; 0: all
};
std::string diff_table(const DiffReport& report, const TextStyle& style);
std::string diff_csv(const DiffReport& report);
std::string diff_json(const DiffReport& report);  ///< schema plumbline.diff.v1
std::string diff_html(const DiffReport& report);
std::string diff_svg(const DiffReport& report);  ///< the waterfall alone
Columns diff_columns(const DiffReport& report);

/// "4.80 TB/s" of a number of a descriptor, in the unit that it is written in; a plain number else.
std::string parameter_text(const std::string& unit, double value);
/// "+0.25"; what rounds to nothing is "+0.00" from either side.
std::string signed_text(double value, int digits);

}  // namespace plumbline

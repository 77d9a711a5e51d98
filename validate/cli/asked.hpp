// What several modes of `validate` are asked in the same words: which card, what to write where, which rows.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "arch/error.hpp"
#include "arch/gpu/gpu.hpp"
#include "validate/compare/compare.hpp"
#include "validate/record/measurement.hpp"
#include "validate/record/row_filter.hpp"

namespace plumbline {

/// `--gpu`, `--set`, `--calibration`.
struct AskedCard {
  std::string gpu;  ///< short name or file; empty: the rows' own, or the recording's
  std::vector<Override> overrides;
  std::string calibration_file;  ///< empty: the card's own
};

/// `--format`, `--report`, `--fail-over`.
struct AskedReport {
  std::string format = "table";
  std::string file;  ///< empty: stdout
  std::optional<double> fail_over_percent;
};

/// `--where`, `--min-us`, `--ops`.
struct AskedRows {
  std::vector<RowFilter> where;
  Seconds at_least;
  std::vector<std::string> ops;  ///< empty: all
};

/// "--set memory.bandwidth=6TB/s".
Override parse_override(const std::string& text);

/// Throws BadInput for a name of `--ops` that is no operator's.
void need_operators(const std::vector<std::string>& ops);

/// An hour of measuring must not end with a folder that is not there: throws BadInput unless `file` is "" or can be
/// written.
void need_writable(const std::string& file);

/// The filters as a list, `--ops` as one on the column `op`.
std::vector<RowFilter> filters_of(const AskedRows& rows);

/// A report to its file, or to `out`: names in it come from files and drivers, so that each line is made printable
/// (arch/printable.hpp); JSON escapes them itself.
void write_or_print(const AskedReport& report, const std::string& text, std::ostream& out);

/// The first messages of each reason, and how many more there are: a file full of one unknown operator must neither
/// flood the terminal nor hide the other reasons. A message is "file:line: reason".
void show_messages(const std::vector<std::string>& lines, std::ostream& messages);

/// Rows that are missing from a report, in one line: "3 of 40 rows could not be read or priced; first: a.csv:5: ...".
/// Nothing where `lines` is empty.
void show_trouble(const std::vector<std::string>& lines, std::size_t rows, const std::string& what,
                  std::ostream& messages);

/// Says that times and powers are not this program's alone, where other processes compute on the card.
void warn_of_shared_card(const MeasuringSession& session, std::ostream& messages);

/// answered_no, with a line of why, when a class is worse than `fail_over_percent` allows; else `otherwise`.
ExitCode accuracy_answer(const std::vector<ClassSummary>& classes, const std::optional<double>& fail_over_percent,
                         std::ostream& messages, ExitCode otherwise);

}  // namespace plumbline

// Measured operator times read from a CSV: the ops CSV of the contract (`op,dtype,shape`) plus `measured_us`, and
// optionally `measured_W`, `board_MHz`, `gpu`, `clock`, `stack`, `kernel`, `scope`, `id`, `data`, `cache`, `plan`,
// `held_out`.
// Other columns are ignored, but rows may be chosen by any column.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arch/units.hpp"
#include "model/predict.hpp"
#include "ops/op/shapes.hpp"
#include "validate/record/held_out.hpp"
#include "validate/record/protocol.hpp"

namespace plumbline {

struct Measurement {
  Op op;
  std::string shape;  ///< canonical text
  Seconds time;
  std::optional<Watts> power;
  std::optional<Hertz> board_clock;  ///< what the regulator had set
  std::optional<ClockMode> clock;    ///< how the row was timed, where the file says so
  bool warm = false;                 ///< L2 held the operands
  DataPattern data = DataPattern::normal;
  HeldOut held_out = HeldOut::no;  ///< by the rule, or by the column `held_out`
  Protocol protocol;               ///< how the source timed it, where that is on file
  std::string gpu, stack, kernel, scope, id;
  std::string plan;   ///< how our own kernel cut the shape (ops/plan/text.hpp), where a recording says so
  std::string place;  ///< "file.csv:17"
};

/// `COLUMN=VALUE[,VALUE...]` keeps rows whose column is one of the values, `COLUMN~TEXT` those that contain the text,
/// `COLUMN!~TEXT` those that do not; `KEY>=N`, `KEY<=N` and `KEY/KEY<=N` compare numbers of the shape ("S>=127",
/// "Hq/Hkv<=16"); a row whose shape lacks the key is left out.
struct RowFilter {
  enum class Kind { equals, contains, lacks, at_least, at_most };
  std::string text;  ///< as it was given
  std::string column;
  Kind kind = Kind::equals;
  std::vector<std::string> values;  ///< of the column; for comparisons the one or two keys
  double limit = 0;
  bool keeps(std::string_view field) const;
};
/// Throws BadInput when `text` has no column or no value.
RowFilter parse_row_filter(std::string_view text);

/// "burst" or "steady"; throws BadInput that starts with `place`.
ClockMode read_clock_mode(std::string_view text, const std::string& place);
std::string_view text_of(ClockMode clock);

struct Measurements {
  std::vector<Measurement> rows;
  std::vector<std::string> bad;  ///< one message a row that could not be read, each with its line
  long filtered = 0;             ///< rows that the filters left out
};

/// Appends the rows of a file (`place` is its name). A bad row becomes a message; a file without a column that is
/// needed, or with a filter on a column that it does not have, throws BadInput.
void read_measurements(std::string_view csv, const std::string& place, const std::vector<RowFilter>& where,
                       Measurements& into);
/// The same from disk, with how the source timed its rows (validate/record/protocol.hpp).
void read_measurement_file(const std::string& file, const std::vector<RowFilter>& where, Measurements& into);

}  // namespace plumbline

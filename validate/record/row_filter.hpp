// Filters that choose measured rows: `--where`, and the lists of data/studies.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

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

}  // namespace plumbline

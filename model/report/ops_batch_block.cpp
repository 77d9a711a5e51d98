#include "model/report/ops_batch_block.hpp"

#include <algorithm>
#include <span>

#include "arch/error.hpp"
#include "arch/printable.hpp"
#include "ops/csv.hpp"

namespace plumbline {
namespace {

/// Where field `index` (from 1) of a well-formed record starts.
std::size_t field_start(std::string_view record, std::size_t index) {
  bool quoted = false;
  for (std::size_t i = 0; i < record.size(); ++i) {
    if (record[i] == '"') quoted = !quoted;
    else if (record[i] == ',' && !quoted && --index == 0) return i + 1;
  }
  return record.size();
}

/// The record as it came, padded or closed so that exactly `count` fields stand before the figures. Surplus fields (a
/// shape joined by bare commas, say) become one quoted last field: the table stays rectangular.
void append_input(std::string_view record, std::span<const std::string_view> fields, std::size_t count,
                  std::string& out) {
  const bool surplus = fields.size() > count;
  const std::size_t own = surplus ? count - 1 : fields.size();  // fields that stay what they are
  const std::size_t kept = own == 0 ? 0 : surplus ? field_start(record, own) : record.size();
  if (record.find('\r') == record.npos) {
    out += record.substr(0, kept);
  } else {  // a carriage return that came without quotes would end the row for other readers
    for (std::size_t i = 0; i < own; ++i) {
      append_csv_field(out, fields[i]);
      if (i + 1 < own || surplus) out += ',';
    }
  }
  if (surplus) append_csv_field(out, record.substr(kept));
  else out.append(count - fields.size(), ',');
}

std::string wrong_count(std::size_t found, std::size_t expected) {
  std::string reason = "row has " + std::to_string(found) + " fields, the header " + std::to_string(expected);
  if (found > expected) reason += " (join a shape with ';' or quote it)";
  return reason;
}

/// A line that is no CSV record, as one quoted field, and why.
void append_malformed(std::string_view line, std::string_view reason, std::size_t count, std::string& out) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  append_csv_field(out, line);
  out.append(count - 1, ',');
  out += ',';
  append_refusal(out, reason);
  out += '\n';
}

class BlockRows {
 public:
  BlockRows(const BatchColumns& columns, RowPredictor& rows, std::string& out)
      : columns_(columns), rows_(rows), out_(out) {}

  const BatchOutcome& outcome() const { return outcome_; }

  void refuse_overlong(const InputBlock& block) {
    const std::string shown = printable(block.text) + "...";
    const std::string reason = "line " + std::to_string(block.overlong_line) + ": longer than a row may be";
    append_malformed(shown, reason, columns_.count, out_);
    ++outcome_.rows;
    ++outcome_.refused;
  }

  /// Predicts records until the end of `text` or a line that is no record; returns what follows that line.
  std::string_view run(std::string_view text) {
    constexpr std::size_t kNotTheFirst = 2;  // so that no byte order mark is looked for
    CsvReader reader(text, "", kNotTheFirst);
    std::string_view rest = text;
    try {
      while (reader.next()) {
        row(reader);
        rest = text.substr(static_cast<std::size_t>(reader.record().data() - text.data()) + reader.record().size());
      }
      return {};
    } catch (const BadInput& malformed) {
      rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of("\r\n")));
      const std::size_t end = std::min(rest.size(), rest.find('\n'));
      const std::string_view reason = malformed.what();  // "place: what"; the row itself says where
      append_malformed(rest.substr(0, end), reason.substr(reason.find(": ") + 2), columns_.count, out_);
      ++outcome_.rows;
      ++outcome_.refused;
      return rest.substr(end);
    }
  }

 private:
  void row(const CsvReader& reader) {
    const auto fields = reader.fields();
    append_input(reader.record(), fields, columns_.count, out_);
    out_ += ',';
    ++outcome_.rows;
    if (fields.size() != columns_.count) {
      append_refusal(out_, wrong_count(fields.size(), columns_.count));
      ++outcome_.refused;
    } else {
      const std::string_view dtype = columns_.dtype ? fields[*columns_.dtype] : std::string_view();
      const auto result = rows_.append(fields[columns_.op], dtype, fields[columns_.shape], out_);
      if (result == RowPredictor::Outcome::refused) ++outcome_.refused;
      if (result == RowPredictor::Outcome::bug) ++outcome_.bugs;
      outcome_.over_cap += rows_.over_cap() ? 1 : 0;
      outcome_.by_attention += rows_.by_attention() ? 1 : 0;
    }
    out_ += '\n';
  }

  const BatchColumns& columns_;
  RowPredictor& rows_;
  std::string& out_;
  BatchOutcome outcome_;
};

}  // namespace

BatchHeader read_header(std::string_view block, const std::string& place) {
  CsvReader reader(block, place);
  const CsvHeader names(reader);
  for (std::string_view added = kFigureColumns; !added.empty();) {
    const std::size_t end = std::min(added.size(), added.find(','));
    if (names.find(added.substr(0, end))) {
      throw BadInput(place + ": column '" + std::string(added.substr(0, end)) +
                     "' is one that is added here: rename it, or leave it out");
    }
    added.remove_prefix(std::min(added.size(), end + 1));
  }
  names.refuse_slips({"dtype"});
  BatchHeader header;
  header.columns = {names.require("op"), names.require("shape"), names.find("dtype"), names.size()};
  header.output = names.record() + "," + std::string(kFigureColumns) + "\n";
  header.consumed = static_cast<std::size_t>(reader.record().data() - block.data()) + reader.record().size();
  return header;
}

BatchOutcome predict_block(const InputBlock& block, const BatchColumns& columns, RowPredictor& rows, std::string& out) {
  out.clear();
  BlockRows block_rows(columns, rows, out);
  if (block.overlong_line > 0) block_rows.refuse_overlong(block);
  std::string_view rest = block.overlong_line > 0 ? std::string_view() : std::string_view(block.text);
  while (!rest.empty()) rest = block_rows.run(rest);
  return block_rows.outcome();
}

}  // namespace plumbline

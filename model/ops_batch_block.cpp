#include "model/ops_batch_block.hpp"

#include <vector>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "ops/csv.hpp"

namespace plumbline {
namespace {

std::size_t column(const std::vector<std::string_view>& names, std::string_view wanted, const std::string& place) {
  std::size_t found = BatchColumns::kAbsent;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] != wanted) continue;
    if (found != BatchColumns::kAbsent) throw BadInput(place + ": header: column '" + std::string(wanted) + "' twice");
    found = i;
  }
  return found;
}

[[noreturn]] void missing(const std::vector<std::string_view>& names, const std::string& wanted,
                          const std::string& place) {
  std::string nearest;
  for (const std::string_view name : names) {
    if (nearest_name(name.substr(0, 40), {wanted}) == wanted) nearest = " ('" + std::string(name) + "' is there)";
  }
  throw BadInput(place + ": header: expected a column '" + wanted + "'" + nearest +
                 ", as in op,dtype,shape");
}

/// The record as it came, padded or closed so that exactly `count` fields stand before the figures.
void append_input(const CsvRecord& record, std::size_t count, std::string& out) {
  const std::size_t found = record.fields.size();
  if (found <= count) {
    out += record.raw;
    out.append(count - found, ',');
    return;
  }
  // Surplus fields (a shape joined by bare commas, say) become one quoted last field: the table stays rectangular.
  const std::size_t kept = record.starts[count - 1];
  out += record.raw.substr(0, kept);
  append_csv_field(out, record.raw.substr(kept));
}

std::string wrong_count(std::size_t found, std::size_t expected) {
  std::string reason = "row has " + std::to_string(found) + " fields, the header " + std::to_string(expected);
  if (found > expected) reason += " (join a shape with ';' or quote it)";
  return reason;
}

}  // namespace

BatchHeader read_header(std::string_view block, const std::string& place) {
  std::string_view rest = block;
  if (rest.starts_with("\xEF\xBB\xBF")) rest.remove_prefix(3);
  CsvRecord record;
  if (!next_record(rest, record)) throw BadInput(place + ": empty; expected a header such as op,dtype,shape");
  BatchHeader header;
  header.columns.count = record.fields.size();
  header.columns.op = column(record.fields, "op", place);
  header.columns.dtype = column(record.fields, "dtype", place);
  header.columns.shape = column(record.fields, "shape", place);
  if (header.columns.op == BatchColumns::kAbsent) missing(record.fields, "op", place);
  if (header.columns.shape == BatchColumns::kAbsent) missing(record.fields, "shape", place);
  header.output = std::string(record.raw) + "," + std::string(kFigureColumns) + "\n";
  header.consumed = block.size() - rest.size();
  return header;
}

BatchOutcome predict_block(std::string_view block, const BatchColumns& columns, RowPredictor& rows, std::string& out) {
  BatchOutcome outcome;
  CsvRecord record;
  out.clear();
  while (next_record(block, record)) {
    ++outcome.rows;
    append_input(record, columns.count, out);
    out += ',';
    if (record.fields.size() != columns.count) {
      append_refusal(out, wrong_count(record.fields.size(), columns.count));
      ++outcome.refused;
    } else {
      const std::string_view dtype =
          columns.dtype == BatchColumns::kAbsent ? std::string_view() : record.fields[columns.dtype];
      const auto result = rows.append(record.fields[columns.op], dtype, record.fields[columns.shape], out);
      if (result == RowPredictor::Outcome::refused) ++outcome.refused;
      if (result == RowPredictor::Outcome::bug) ++outcome.bugs;
    }
    out += '\n';
  }
  return outcome;
}

}  // namespace plumbline

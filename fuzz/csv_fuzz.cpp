// Arbitrary bytes as an ops CSV: the reader and parse_op answer with records and operators or with one line of
// BadInput; blocks of any size give what the whole gives; what parse_op accepts can be written and read back.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "arch/error.hpp"
#include "ops/csv.hpp"
#include "ops/facts/work.hpp"
#include "ops/table/text.hpp"

namespace {

using plumbline::BadInput;

void expect(bool holds) {
  if (!holds) std::abort();
}

/// All fields, with a mark behind each record; "!" when the text is refused.
std::string flatten(plumbline::CsvReader& reader, std::string flat) {
  try {
    while (reader.next()) {
      for (std::string_view field : reader.fields()) plumbline::append_csv_field(flat, field), flat += ',';
      flat += '\n';
    }
  } catch (const BadInput& e) {
    expect(std::string_view(e.what()).find('\n') == std::string_view::npos);
    return "!";
  }
  return flat;
}

void check_blocks(const std::string& text, std::size_t block_bytes) {
  plumbline::CsvReader whole(text, "fuzz");
  const std::string expected = flatten(whole, "");
  std::istringstream in(text);
  plumbline::CsvBlocks blocks(in, "fuzz", block_bytes);
  std::string flat;
  for (plumbline::CsvBlock block; flat != "!" && blocks.next(block);) {
    plumbline::CsvReader reader(block.text, "fuzz", block.first_line == 1 ? 2 : block.first_line);
    flat = flatten(reader, std::move(flat));
  }
  expect(flat == expected);
}

void check_row(std::string_view op, std::string_view dtype, std::string_view shape) {
  plumbline::Op parsed;
  try {
    parsed = plumbline::parse_op(op, dtype, shape);
  } catch (const BadInput& e) {
    expect(std::string_view(e.what()).find('\n') == std::string_view::npos);
    return;
  }
  const std::string text = plumbline::shape_text(parsed);
  expect(plumbline::parse_op(plumbline::op_name(parsed), plumbline::dtype_text(parsed), text) == parsed);
  expect(plumbline::work(parsed).bytes() > plumbline::Bytes());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(data + 1, data + size);
  check_blocks(text, std::size_t{1} + data[0]);
  plumbline::CsvReader reader(text, "fuzz");
  try {
    while (reader.next()) {
      const auto fields = reader.fields();
      if (fields.size() >= 3) check_row(fields[0], fields[1], fields[2]);
      else if (fields.size() == 2) check_row(fields[0], "bf16", fields[1]);
    }
  } catch (const BadInput&) {
    return 0;
  }
  return 0;
}

// Reading CSV (RFC 4180) in constant memory, by one thread or several: files are cut into blocks of whole records, a
// block is read record by record, a record is views of its fields.
//
// Understood: quoted fields with commas, line breaks and doubled quotes; LF and CRLF; a byte order mark; a last line
// without its end. Empty lines are skipped. A quote inside an unquoted field is refused, as the RFC does: with it,
// where a record ends would depend on what was read before.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

/// Bytes of `text` up to and including the end of its last whole record; 0 when no record ends in it. `text` starts
/// where a record starts.
std::size_t csv_whole_records(std::string_view text);

/// Whole records of a file, and the number of the line they start at.
struct CsvBlock {
  std::string text;
  std::size_t first_line = 1;
};

/// Cuts a stream into blocks. Not thread-safe: take blocks under a lock, read each with its own CsvReader.
class CsvBlocks {
 public:
  /// `place` (the file's name) stands in front of messages.
  CsvBlocks(std::istream& in, std::string place, std::size_t block_bytes = std::size_t{1} << 20);
  /// Fills `block` (its storage is reused); false at the end. Throws BadInput: read error, a record above 64 MiB.
  bool next(CsvBlock& block);

 private:
  void read_more(std::string& text, std::size_t bytes);
  std::istream& in_;
  std::string place_, rest_;
  std::size_t block_bytes_, line_ = 1;
  bool at_end_ = false, started_ = false;
};

/// One record after another. The views of a record hold until the next call of `next`.
class CsvReader {
 public:
  CsvReader(std::string_view text, std::string place, std::size_t first_line = 1);
  CsvReader(std::istream& in, std::string place);
  CsvReader(const CsvReader&) = delete;
  CsvReader& operator=(const CsvReader&) = delete;

  /// Moves to the next record; false at the end. Throws BadInput with place and line.
  bool next();

  std::span<const std::string_view> fields() const { return fields_; }
  /// The record as it stands in the file, without its line end: for passing through byte for byte.
  std::string_view record() const { return record_; }
  /// Where the record starts.
  std::size_t line() const { return record_line_; }
  const std::string& place() const { return place_; }

 private:
  bool refill();
  bool skip_empty_lines();
  void read_record();
  const char* read_quoted(const char* at);
  void unescape();
  [[noreturn]] void fail(std::size_t line, const char* what) const;

  std::string place_;
  std::unique_ptr<CsvBlocks> blocks_;  // null when reading memory
  CsvBlock block_;
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  std::size_t line_ = 1, record_line_ = 1;
  std::string_view record_;
  std::vector<std::string_view> fields_;
  std::vector<std::size_t> escaped_;  // fields of this record that hold doubled quotes
  std::string scratch_;
};

/// The first record of a file: columns by name, in any order.
class CsvHeader {
 public:
  /// Takes the next record of `reader`. Throws BadInput when there is none, and for one with a carriage return that is no
  /// part of a line end.
  explicit CsvHeader(CsvReader& reader);

  std::size_t size() const { return names_.size(); }
  const std::vector<std::string>& names() const { return names_; }
  /// The header line as it stands in the file.
  const std::string& record() const { return record_; }
  /// Throws BadInput when two columns have this name.
  std::optional<std::size_t> find(std::string_view name) const;
  /// Throws BadInput with the nearest name when there is no such column.
  std::size_t require(std::string_view name) const;
  /// Throws BadInput for a column that is spelled as one of `names`, which is not there itself, but for a letter: a slip that
  /// would leave every row at the default.
  void refuse_slips(const std::vector<std::string>& names) const;

 private:
  std::string place_, record_;
  std::vector<std::string> names_;
};

/// Appends a field, quoted when it holds a comma, a quote or a line break.
void append_csv_field(std::string& out, std::string_view field);

}  // namespace plumbline

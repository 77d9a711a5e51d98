#include "ops/csv.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <istream>

#include "arch/error.hpp"
#include "arch/files.hpp"

namespace plumbline {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::size_t kLongestRecord = std::size_t{64} << 20;

/// Bytes that may end or spoil an unquoted field.
constexpr std::array<bool, 256> kSpecial = [] {
  std::array<bool, 256> special{};
  for (char c : {',', '\n', '\r', '"'}) special[static_cast<unsigned char>(c)] = true;
  return special;
}();

const char* find(const char* at, const char* end, char c) {
  const void* found = at == end ? nullptr : std::memchr(at, c, static_cast<std::size_t>(end - at));
  return found == nullptr ? end : static_cast<const char*>(found);
}

std::size_t lines_in(std::string_view text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

std::string_view view(const char* from, const char* to) { return {from, static_cast<std::size_t>(to - from)}; }

std::string_view without_mark(std::string_view text) {
  return text.substr(0, kByteOrderMark.size()) == kByteOrderMark ? text.substr(kByteOrderMark.size()) : text;
}

}  // namespace

std::size_t csv_whole_records(std::string_view text) {
  const char* begin = text.data();
  const char* end = begin + text.size();
  const char* plain = begin;  // outside quotes from here on
  std::size_t whole = 0;
  // Quotes come in pairs (a doubled one is two), so the stretches between pairs are the ones outside.
  while (plain != end) {
    const char* quote = find(plain, end, '"');
    const std::size_t last = view(plain, quote).rfind('\n');
    if (last != std::string_view::npos) whole = static_cast<std::size_t>(plain - begin) + last + 1;
    if (quote == end) break;
    const char* closing = find(quote + 1, end, '"');
    plain = closing == end ? end : closing + 1;
  }
  return whole;
}

// --- blocks --------------------------------------------------------------------------------------------------------

CsvBlocks::CsvBlocks(std::istream& in, std::string place, std::size_t block_bytes)
    : in_(in), place_(std::move(place)), block_bytes_(std::max<std::size_t>(block_bytes, 1)) {}

void CsvBlocks::read_more(std::string& text, std::size_t bytes) {
  const std::size_t before = text.size();
  text.resize(before + bytes);
  in_.read(text.data() + before, static_cast<std::streamsize>(bytes));
  text.resize(before + static_cast<std::size_t>(in_.gcount()));
  if (in_.bad()) throw BadInput(place_ + ": read failed");
  at_end_ = in_.eof();
}

bool CsvBlocks::next(CsvBlock& block) {
  block.text.assign(rest_);
  rest_.clear();
  block.first_line = line_;
  std::size_t whole = 0;
  for (std::size_t more = block_bytes_; whole == 0 && !at_end_; more *= 2) {
    if (block.text.size() > kLongestRecord) {
      throw BadInput(place_ + ":" + std::to_string(line_) + ": a record of more than 64 MiB (is a quote missing?)");
    }
    read_more(block.text, std::min(more, kLongestRecord + 1 - block.text.size()));
    if (!started_ && (block.text.size() >= kByteOrderMark.size() || at_end_)) {
      started_ = true;
      block.text.erase(0, block.text.size() - without_mark(block.text).size());
    }
    if (started_) whole = csv_whole_records(block.text);
  }
  if (at_end_ && in_.eof()) whole = block.text.size();  // the last record may lack its line end
  rest_.assign(block.text, whole, std::string::npos);
  block.text.resize(whole);
  line_ += lines_in(block.text);
  return whole > 0;
}

// --- records -------------------------------------------------------------------------------------------------------

CsvReader::CsvReader(std::string_view text, std::string place, std::size_t first_line)
    : place_(std::move(place)), line_(first_line) {
  if (first_line == 1) text = without_mark(text);
  at_ = text.data();
  end_ = at_ + text.size();
}

CsvReader::CsvReader(std::istream& in, std::string place)
    : place_(std::move(place)), blocks_(std::make_unique<CsvBlocks>(in, place_)) {}

void CsvReader::fail(std::size_t line, const char* what) const {
  throw BadInput(place_ + ":" + std::to_string(line) + ": " + what);
}

bool CsvReader::refill() {
  if (blocks_ == nullptr || !blocks_->next(block_)) return false;
  at_ = block_.text.data();
  end_ = at_ + block_.text.size();
  line_ = block_.first_line;
  return true;
}

bool CsvReader::skip_empty_lines() {
  while (at_ != end_) {
    const bool carriage = *at_ == '\r' && (at_ + 1 == end_ || at_[1] == '\n');
    if (!carriage && *at_ != '\n') return true;
    at_ += carriage && at_ + 1 != end_ ? 2 : 1;
    ++line_;
  }
  return false;
}

bool CsvReader::next() {
  fields_.clear();
  record_ = {};
  while (!skip_empty_lines()) {
    if (!refill()) return false;
  }
  record_line_ = line_;
  escaped_.clear();
  read_record();
  if (!escaped_.empty()) unescape();
  return true;
}

/// Leaves at_ behind the record's line end.
void CsvReader::read_record() {
  const char* const start = at_;
  const char* at = at_;
  while (true) {
    if (at != end_ && *at == '"') {
      at = read_quoted(at);
    } else {
      const char* from = at;
      while (true) {
        while (at != end_ && !kSpecial[static_cast<unsigned char>(*at)]) ++at;
        if (at == end_ || *at != '\r' || at + 1 == end_ || at[1] == '\n') break;
        ++at;  // a lone carriage return is data
      }
      if (at != end_ && *at == '"') fail(line_, "expected quotes around a field that contains a quote");
      fields_.push_back(view(from, at));
    }
    if (at == end_ || *at != ',') break;
    ++at;
  }
  record_ = view(start, at);
  if (at != end_ && *at == '\r') ++at;
  if (at != end_) {
    ++at;
    ++line_;
  }
  at_ = at;
}

/// Takes the field whose opening quote is at `at`; returns the comma, line end or end behind it.
const char* CsvReader::read_quoted(const char* at) {
  const char* const from = at + 1;
  const std::size_t opened = line_;
  at = from;
  bool doubled = false;
  while (true) {
    const char* quote = find(at, end_, '"');
    line_ += lines_in(view(at, quote));
    if (quote == end_) fail(opened, "expected a closing quote for the field that starts here, found the end");
    at = quote + 1;
    if (at == end_ || *at != '"') break;
    doubled = true;
    ++at;
  }
  const bool carriage = at != end_ && *at == '\r' && (at + 1 == end_ || at[1] == '\n');
  if (at != end_ && *at != ',' && *at != '\n' && !carriage) {
    fail(line_, "expected a comma or the end of the line after a closing quote");
  }
  if (doubled) escaped_.push_back(fields_.size());
  fields_.push_back(view(from, at - 1));
  return at;
}

/// Doubled quotes to single ones, in `scratch_`, whose storage must not move while views point into it.
void CsvReader::unescape() {
  std::size_t most = 0;
  for (std::size_t i : escaped_) most += fields_[i].size();
  scratch_.clear();
  scratch_.reserve(most);
  for (std::size_t i : escaped_) {
    const std::size_t start = scratch_.size();
    for (std::size_t j = 0; j < fields_[i].size(); ++j) {
      scratch_ += fields_[i][j];
      if (fields_[i][j] == '"') ++j;
    }
    fields_[i] = std::string_view(scratch_).substr(start);
  }
}

// --- header and writing --------------------------------------------------------------------------------------------

CsvHeader::CsvHeader(CsvReader& reader) : place_(reader.place()) {
  if (!reader.next()) throw BadInput(place_ + ": expected a header line with column names, found nothing");
  record_ = reader.record();
  // A file whose lines end in carriage returns alone is one long header to us, and all its rows would be lost.
  for (std::size_t at = record_.find('\r'); at != record_.npos; at = record_.find('\r', at + 1)) {
    if (std::count(record_.begin(), record_.begin() + static_cast<std::ptrdiff_t>(at), '"') % 2 != 0) continue;
    throw BadInput(place_ +
                   ":1: expected lines that end in LF or CRLF, found a carriage return alone (a \"Macintosh\" " +
                   "CSV: save it as UTF-8 or MS-DOS CSV)");
  }
  for (std::string_view name : reader.fields()) {
    while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
    while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
    names_.emplace_back(name);
  }
}

std::optional<std::size_t> CsvHeader::find(std::string_view name) const {
  const auto first = std::find(names_.begin(), names_.end(), name);
  if (first == names_.end()) return std::nullopt;
  if (std::find(first + 1, names_.end(), name) != names_.end()) {
    throw BadInput(place_ + ": expected one column '" + std::string(name) + "', found two");
  }
  return static_cast<std::size_t>(first - names_.begin());
}

std::size_t CsvHeader::require(std::string_view name) const {
  if (const auto column = find(name)) return *column;
  throw BadInput(place_ + ": expected a column '" + std::string(name) + "'" + did_you_mean(name, names_));
}

void CsvHeader::refuse_slips(const std::vector<std::string>& names) const {
  constexpr std::size_t kShortWord = 3;  // "tp" and "id" are a letter away from many a column of somebody's own
  std::vector<std::string> absent;
  for (const std::string& name : names) {
    if (!find(name)) absent.push_back(name);
  }
  for (const std::string& column : names_) {
    if (column.size() <= kShortWord || std::find(names.begin(), names.end(), column) != names.end()) continue;
    const std::string near = nearest_name(column, absent);
    const bool one_letter = near.size() <= column.size() + 1 && column.size() <= near.size() + 1;
    if (near.empty() || !one_letter) continue;
    throw BadInput(place_ + ": column '" + column + "': expected '" + near + "', or a name less like it");
  }
}

void append_csv_field(std::string& out, std::string_view field) {
  if (field.find_first_of(",\"\r\n") == std::string_view::npos) {
    out += field;
    return;
  }
  out += '"';
  for (char c : field) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
}

}  // namespace plumbline

#include "arch/printable.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace plumbline {
namespace {

unsigned byte_at(std::string_view text, std::size_t i) { return static_cast<unsigned char>(text[i]); }

bool plain(unsigned char c) { return c >= 0x20 && c < 0x7F; }

/// Bytes of the character at the start of `text`, its code in `code`; 0 when it is no UTF-8 (RFC 3629: the shortest form
/// only, no surrogates, nothing above U+10FFFF).
std::size_t decode(std::string_view text, std::uint32_t& code) {
  const unsigned first = byte_at(text, 0);
  if (first < 0x80) {
    code = first;
    return 1;
  }
  const std::size_t length = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  if (length == 0 || length > text.size()) return 0;
  code = first & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    const unsigned next = byte_at(text, i);
    if ((next & 0xC0U) != 0x80U) return 0;
    code = code << 6U | (next & 0x3FU);
  }
  constexpr std::array<std::uint32_t, 5> kLeast{0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  return code < kLeast[length] || surrogate || code > 0x10FFFF ? 0 : length;
}

/// C0, DEL, C1, the line separators, and what turns the direction of text.
bool is_control(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || (code >= 0x2028 && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x2069);
}

void append_escaped(std::string& out, unsigned byte) {
  constexpr std::string_view kHex = "0123456789abcdef";
  if (byte == '\n') out += "\\n";
  else if (byte == '\r') out += "\\r";
  else if (byte == '\t') out += "\\t";
  else (out += "\\x").append({kHex[byte >> 4U], kHex[byte & 0xFU]});
}

/// Not in the middle of a character: at most `at`.
std::size_t cut_before(std::string_view text, std::size_t at) {
  while (at > 0 && (byte_at(text, at) & 0xC0U) == 0x80U) --at;
  return at;
}

}  // namespace

std::string printable(std::string_view text) {
  if (std::all_of(text.begin(), text.end(), [](char c) { return plain(static_cast<unsigned char>(c)); })) {
    return std::string(text);
  }
  std::string out;
  while (!text.empty()) {
    std::uint32_t code = 0;
    const std::size_t length = decode(text, code);
    const std::size_t taken = std::max<std::size_t>(length, 1);
    if (length > 0 && !is_control(code)) out += text.substr(0, taken);
    else
      for (std::size_t i = 0; i < taken; ++i) append_escaped(out, byte_at(text, i));
    text.remove_prefix(taken);
  }
  return out;
}

std::string message_line(std::string_view text) {
  constexpr std::string_view kGap = " ... ";
  constexpr std::size_t kMost = kLongestMessage - 1, kEnd = 180, kStart = kMost - kEnd - kGap.size();
  // What is left out of a text of megabytes need not be made printable first.
  std::string line = text.size() <= 4 * kLongestMessage
                         ? printable(text)
                         : printable(text.substr(0, cut_before(text, 2 * kLongestMessage))) +
                               printable(text.substr(cut_before(text, text.size() - 2 * kLongestMessage)));
  if (line.size() > kMost) {
    const std::size_t end = cut_before(line, line.size() - kEnd + 3), start = cut_before(line, kStart);
    line = line.substr(0, start).append(kGap).append(line, end);
  }
  return line + "\n";
}

}  // namespace plumbline

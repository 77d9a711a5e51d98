// Text from outside (names, flags, paths, bytes of files) made fit to be shown: to a terminal, in a message, in a report.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plumbline {

/// `text` as valid UTF-8 without control characters. A byte that is no UTF-8 and a control character are written as they
/// are in C ("\xff", "\n", "\x1b"), so that nothing is lost and nothing moves a cursor; so are the invisible characters
/// that turn the direction of text (U+202A..E, U+2066..9), with which a line can claim another order than it has.
std::string printable(std::string_view text);

/// The most bytes that a message on stderr has, its line feed included (contract: exit codes).
inline constexpr std::size_t kLongestMessage = 500;

/// What stderr is given for one message: `text` printable, with the line feed, at most kLongestMessage bytes. A longer
/// one loses its middle: its beginning names the place, its end what was expected.
std::string message_line(std::string_view text);

}  // namespace plumbline

#include "validate/cli/message_stream.hpp"

#include <algorithm>

#include "arch/printable.hpp"

namespace plumbline {

MessageStream::Lines::int_type MessageStream::Lines::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  if (c != '\n') {
    line_ += traits_type::to_char_type(c);
    return c;
  }
  to_ << message_line(line_);
  line_.clear();
  return to_ ? c : traits_type::eof();
}

int MessageStream::Lines::sync() {
  const std::size_t first = std::min(line_.find_first_not_of('\r'), line_.size());
  const std::size_t last = line_.find_last_not_of('\r') + 1;  // 0 where there is nothing else
  if (first < last) {
    std::string shown = message_line(std::string_view(line_).substr(first, last - first));
    shown.pop_back();
    to_ << line_.substr(0, first) << shown << line_.substr(last);
  } else {
    to_ << line_;
  }
  line_.clear();
  to_.flush();
  return to_ ? 0 : -1;
}

}  // namespace plumbline

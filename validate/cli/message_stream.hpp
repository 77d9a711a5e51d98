// What goes to stderr: every line printable and short, whatever it quotes.
#pragma once

#include <ostream>
#include <streambuf>
#include <string>

namespace plumbline {

/// Passes text on a line at a time through message_line() (arch/printable.hpp), or what there is when flushed. Carriage
/// returns around a flushed piece pass as they are: the progress line is rewritten by them. Within a line they are
/// escaped like any control character.
class MessageStream : public std::ostream {
 public:
  explicit MessageStream(std::ostream& to) : std::ostream(nullptr), lines_(to) { rdbuf(&lines_); }

 private:
  class Lines : public std::streambuf {
   public:
    explicit Lines(std::ostream& to) : to_(to) {}
    ~Lines() override { sync(); }
    Lines(const Lines&) = delete;
    Lines& operator=(const Lines&) = delete;

   protected:
    int_type overflow(int_type c) override;
    int sync() override;

   private:
    std::ostream& to_;
    std::string line_;
  };
  Lines lines_;
};

}  // namespace plumbline

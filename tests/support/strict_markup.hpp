// Reads a page as strictly as XML is read: every tag closed, in order, every attribute quoted, no bare '&' or '<'.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plumbline::test {

struct Markup {
  std::vector<std::string> tags;        ///< of elements, as they open
  std::vector<std::string> texts;       ///< between tags, unescaped, without those of <style>; blank ones left out
  std::vector<std::string> attributes;  ///< values, unescaped
  bool has_text(std::string_view wanted) const {
    for (const std::string& text : texts) {
      if (text == wanted) return true;
    }
    return false;
  }
};

class MarkupReader {
 public:
  explicit MarkupReader(std::string_view page) : page_(page) {}

  /// Throws std::runtime_error that says what is wrong and where.
  Markup read() {
    constexpr std::string_view kDoctype = "<!doctype html>";
    if (!page_.starts_with(kDoctype)) fail("no doctype");
    at_ = kDoctype.size();
    while (at_ < page_.size()) {
      if (page_[at_] == '<') tag();
      else text();
    }
    if (!open_.empty()) fail("<" + open_.back() + "> is not closed");
    return found_;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(what + " at byte " + std::to_string(at_) + ": " + std::string(page_.substr(at_, 60)));
  }

  static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
  }

  std::string name() {
    const std::size_t from = at_;
    while (at_ < page_.size() && is_name(page_[at_])) ++at_;
    if (at_ == from) fail("no name");
    return std::string(page_.substr(from, at_ - from));
  }

  void expect(char c) {
    if (at_ >= page_.size() || page_[at_] != c) fail(std::string("expected ") + c);
    ++at_;
  }

  void tag() {
    expect('<');
    if (page_[at_] == '/') {
      ++at_;
      const std::string closed = name();
      if (open_.empty() || open_.back() != closed) fail("</" + closed + "> closes nothing");
      open_.pop_back();
      expect('>');
      return;
    }
    const std::string opened = name();
    found_.tags.push_back(opened);
    while (page_[at_] == ' ') attribute();
    if (page_[at_] == '/') {
      ++at_;
    } else {
      open_.push_back(opened);
    }
    expect('>');
  }

  void attribute() {
    expect(' ');
    name();
    expect('=');
    expect('"');
    const std::size_t end = page_.find('"', at_);
    if (end == page_.npos) fail("an attribute does not end");
    found_.attributes.push_back(unescaped(page_.substr(at_, end - at_)));
    at_ = end + 1;
  }

  void text() {
    const std::size_t end = std::min(page_.find('<', at_), page_.size());
    const std::string plain = unescaped(page_.substr(at_, end - at_));
    if (plain.find_first_not_of(" \n") != plain.npos) {
      if (open_.empty()) fail("text outside of all elements");
      if (open_.back() != "style") found_.texts.push_back(plain);
    }
    at_ = end;
  }

  std::string unescaped(std::string_view raw) const {
    static constexpr std::pair<std::string_view, char> kEntities[] = {
        {"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}, {"&#39;", '\''}};
    std::string out;
    while (!raw.empty()) {
      if (raw[0] == '<') fail("a bare <");
      if (static_cast<unsigned char>(raw[0]) < 0x20 && raw[0] != '\n') fail("a control character");
      char plain = raw[0];
      std::size_t length = 1;
      if (raw[0] == '&') {
        length = 0;
        for (const auto& [entity, c] : kEntities) {
          if (raw.starts_with(entity)) plain = c, length = entity.size();
        }
        if (length == 0) fail("a bare &");
      }
      out += plain;
      raw.remove_prefix(length);
    }
    return out;
  }

  std::string_view page_;
  std::size_t at_ = 0;
  std::vector<std::string> open_;
  Markup found_;
};

inline Markup read_markup(std::string_view page) { return MarkupReader(page).read(); }

}  // namespace plumbline::test

// What is looked at in JSON's text itself, before and after the parser reads it.
#include "arch/json_text.hpp"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "arch/error.hpp"

namespace plumbline {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 200;

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

/// The length of a bare NaN, Infinity or -Infinity at `i`, or 0.
std::size_t python_number(const std::string& text, std::size_t i) {
  for (const char* word : {"NaN", "-Infinity", "Infinity"}) {
    const std::size_t n = std::strlen(word);
    if (text.compare(i, n, word) == 0 && (i + n >= text.size() || !is_word(text[i + n]))) return n;
  }
  return 0;
}

/// Looks through sound JSON for an object that has a key twice: the parser keeps the last one and says nothing.
class DuplicateKeys {
 public:
  DuplicateKeys(std::string_view text, const std::string& place) : text_(text), place_(place) {}

  void refuse() {
    for (std::size_t i = 0; i < text_.size(); ++i) {
      switch (text_[i]) {
        case '"': i = string(i); break;
        case '{':
        case '[': open(text_[i] == '{'); break;
        case '}':
        case ']': close(); break;
        case ',': next(); break;
        default: break;
      }
    }
  }

 private:
  struct Level {
    bool object = false;
    std::size_t first_key = 0;  // in keys_
    std::size_t index = 0;      // of a list
  };

  /// The last byte of the string that starts at `i`.
  std::size_t string(std::size_t i) {
    std::size_t end = i + 1;
    for (; text_[end] != '"'; ++end) {
      if (text_[end] == '\\') ++end;
    }
    if (expects_key_) keys_.push_back(text_.substr(i + 1, end - i - 1));
    expects_key_ = false;
    return end;
  }

  void open(bool object) {
    levels_.push_back({object, keys_.size(), 0});
    expects_key_ = object;
  }

  void next() {
    if (levels_.back().object) expects_key_ = true;
    else ++levels_.back().index;
  }

  void close() {
    const auto first = keys_.begin() + static_cast<std::ptrdiff_t>(levels_.back().first_key);
    const bool escaped = std::any_of(first, keys_.end(), [](auto key) { return key.find('\\') != key.npos; });
    if (escaped) {  // "\u0061" is "a"
      std::vector<std::string> read(first, keys_.end());
      for (std::string& key : read) key = decoded(key);
      refuse_twice(read);
    } else {
      refuse_twice(std::span(first, keys_.end()));  // sorts: their order is not asked for again
    }
    keys_.erase(first, keys_.end());
    levels_.pop_back();
    expects_key_ = false;
  }

  template <class Keys>
  void refuse_twice(Keys&& keys) const {
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice != keys.end()) throw BadInput(place_ + ": " + child_path(path(), *twice) + ": the key is there twice");
  }

  static std::string decoded(std::string_view key) {
    return json::parse("\"" + std::string(key) + "\"").get<std::string>();
  }

  /// Of the object that is open: the last key of each level above it is the one it stands under.
  std::string path() const {
    std::string out;
    for (std::size_t i = 0; i + 1 < levels_.size(); ++i) {
      if (!levels_[i].object) out += "/" + std::to_string(levels_[i].index);
      else out = child_path(out, decoded(keys_[levels_[i + 1].first_key - 1]));
    }
    return out;
  }

  std::string_view text_;
  const std::string& place_;
  std::vector<Level> levels_;
  std::vector<std::string_view> keys_;  // of the objects that are open, as written
  bool expects_key_ = false;
};

}  // namespace

std::string child_path(const std::string& path, std::string_view key) {
  std::string out = path + "/";
  for (const char c : key) {
    if (c == '~') out += "~0";
    else if (c == '/') out += "~1";
    else out += c;
  }
  return out;
}

std::string tame_json(const std::string& text, const std::string& place) {
  // the parser takes it for the end of the text and would say nothing of what follows
  if (const std::size_t zero = text.find('\0'); zero != std::string::npos)
    throw BadInput(place + ": not JSON: a zero byte at byte " + std::to_string(zero + 1));
  std::string out;
  out.reserve(text.size() + 16);
  int depth = 0;
  std::size_t i = text.compare(0, 3, "\xEF\xBB\xBF") == 0 ? 3 : 0;
  std::size_t copied = i;  // all before it is in `out`
  while (i < text.size()) {
    const char c = text[i];
    std::size_t n = 1;
    if (c == '"') {
      while (i + n < text.size() && text[i + n] != '"') n += text[i + n] == '\\' ? 2 : 1;
      n = std::min(n + 1, text.size() - i);
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxDepth) throw BadInput(place + ": nested deeper than " + std::to_string(kMaxDepth) + " levels");
    } else if (c == '}' || c == ']') {
      --depth;
    } else if (c == 'N' || c == 'I' || c == '-') {
      if (const std::size_t word = python_number(text, i); word > 0) {
        out.append(text, copied, i - copied).append("null");
        i += word;
        copied = i;
        continue;
      }
    }
    i += n;
  }
  return out.append(text, copied);
}

void refuse_keys_twice(std::string_view text, const std::string& place) { DuplicateKeys(text, place).refuse(); }

}  // namespace plumbline

#include "ops/rewrite/expression.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "arch/error.hpp"
#include "arch/files.hpp"

namespace plumbline {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Where the name that begins at `begin` ends; `begin` where none does.
std::size_t end_of_name(std::string_view text, std::size_t begin) {
  std::size_t end = begin;
  while (end < text.size() && (is_letter(text[end]) || (end > begin && is_digit(text[end])))) ++end;
  return end;
}

}  // namespace

/// Goes through the text once and appends steps behind their operands.
class ExpressionReader {
 public:
  using Kind = Expression::Kind;
  ExpressionReader(std::string_view text, std::span<const std::string> names, std::vector<Expression::Step>& steps)
      : text_(text), names_(names), steps_(steps) {}

  void all() {
    comparison(0);
    if (at_ < text_.size()) fail("an operator or the end");
  }

 private:
  [[noreturn]] void fail(const std::string& expected) const {
    const std::string found = at_ < text_.size() ? "'" + std::string(text_.substr(at_, 12)) + "'" : "the end";
    throw BadInput("expected " + expected + " in '" + std::string(text_) + "', found " + found);
  }

  void skip_blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  bool take(char c) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void need(char c) {
    if (!take(c)) fail(std::string("'") + c + "'");
  }

  void push(Kind kind) { steps_.push_back({kind, 0, 0}); }

  Kind comparing() {
    struct Sign {
      std::string_view text;
      Kind kind;
    };
    static constexpr auto kSigns = std::to_array<Sign>({{"<=", Kind::at_most},
                                                        {">=", Kind::at_least},
                                                        {"==", Kind::equal},
                                                        {"!=", Kind::unequal},
                                                        {"<", Kind::less},
                                                        {">", Kind::greater}});
    skip_blanks();
    for (const Sign& sign : kSigns) {
      if (text_.substr(at_, sign.text.size()) != sign.text) continue;
      at_ += sign.text.size();
      return sign.kind;
    }
    return Kind::number;
  }

  void comparison(std::size_t depth) {
    sum(depth);
    const Kind kind = comparing();
    if (kind == Kind::number) return;
    sum(depth);
    push(kind);
  }

  void sum(std::size_t depth) {
    if (depth > Expression::kDeepest) fail("less nesting");
    product(depth);
    for (;;) {
      const Kind kind = take('+') ? Kind::add : take('-') ? Kind::subtract : Kind::number;
      if (kind == Kind::number) return;
      product(depth);
      push(kind);
    }
  }

  void product(std::size_t depth) {
    factor(depth);
    for (;;) {
      const Kind kind = take('*') ? Kind::multiply : take('/') ? Kind::divide : Kind::number;
      if (kind == Kind::number) return;
      factor(depth);
      push(kind);
    }
  }

  void factor(std::size_t depth) {
    if (take('(')) {
      comparison(depth + 1);
      need(')');
      return;
    }
    skip_blanks();
    if (at_ < text_.size() && is_letter(text_[at_])) return word(depth);
    number();
  }

  void number() {
    double value = 0;
    const char* begin = text_.data() + at_;
    const auto read = std::from_chars(begin, text_.data() + text_.size(), value, std::chars_format::general);
    if (read.ec != std::errc() || !is_digit(*begin)) fail("a number, a name or '('");
    at_ += static_cast<std::size_t>(read.ptr - begin);
    steps_.push_back({Kind::number, value, 0});
  }

  void word(std::size_t depth) {
    const std::size_t begin = at_;
    at_ = end_of_name(text_, begin);
    const std::string_view name = text_.substr(begin, at_ - begin);
    struct Function {
      std::string_view name;
      Kind kind;
      bool two;
    };
    static constexpr auto kFunctions = std::to_array<Function>({{"ceil", Kind::ceil, false},
                                                                {"floor", Kind::floor, false},
                                                                {"sqrt", Kind::sqrt, false},
                                                                {"min", Kind::min, true},
                                                                {"max", Kind::max, true}});
    for (const Function& function : kFunctions) {
      if (function.name != name) continue;
      need('(');
      comparison(depth + 1);
      if (function.two) {
        need(',');
        comparison(depth + 1);
      }
      need(')');
      return push(function.kind);
    }
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found == names_.end()) {
      const std::vector<std::string> known(names_.begin(), names_.end());
      throw BadInput("'" + std::string(text_) + "': nothing is called '" + std::string(name) + "'" +
                     did_you_mean(name, known));
    }
    steps_.push_back({Kind::name, 0, static_cast<std::size_t>(found - names_.begin())});
  }

  std::string_view text_;
  std::span<const std::string> names_;
  std::vector<Expression::Step>& steps_;
  std::size_t at_ = 0;
};

Expression::Expression(std::string_view text, std::span<const std::string> names) {
  if (text.size() > kLongest) throw BadInput("expected at most " + std::to_string(kLongest) + " characters");
  ExpressionReader(text, names, steps_).all();
}

double Expression::operator()(std::span<const double> values) const {
  if (steps_.size() == 1) {  // a number or a name, as most of a file's expressions are
    const Step& only = steps_.front();
    return only.kind == Kind::number ? only.number : values[only.name];
  }
  // At each depth four wait: of a comparison, a sum, a product, a function. Each is written before it is read. The reader has
  // refused what nests deeper.
  std::array<double, 4 * kDeepest + 8> stack;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  double* top = stack.data();                  // behind the last that waits
  for (const Step& step : steps_) {
    if (step.kind == Kind::number || step.kind == Kind::name) {
      *top++ = step.kind == Kind::number ? step.number : values[step.name];
      continue;
    }
    const double right = top[-1];
    if (step.kind == Kind::ceil || step.kind == Kind::floor || step.kind == Kind::sqrt) {
      top[-1] = step.kind == Kind::ceil    ? std::ceil(right)
                : step.kind == Kind::floor ? std::floor(right)
                                           : std::sqrt(right);
      continue;
    }
    --top;
    top[-1] = combined(step.kind, top[-1], right);
  }
  return stack[0];
}

double Expression::combined(Kind kind, double left, double right) {
  switch (kind) {
    case Kind::add: return left + right;
    case Kind::subtract: return left - right;
    case Kind::multiply: return left * right;
    case Kind::divide: return left / right;
    case Kind::min: return std::min(left, right);
    case Kind::less: return left < right ? 1 : 0;
    case Kind::at_most: return left <= right ? 1 : 0;
    case Kind::greater: return left > right ? 1 : 0;
    case Kind::at_least: return left >= right ? 1 : 0;
    case Kind::equal: return left == right ? 1 : 0;
    case Kind::unequal: return left != right ? 1 : 0;
    default: return std::max(left, right);
  }
}

std::string with_names_replaced(std::string_view text, std::span<const std::string_view> names,
                                std::span<const std::string> texts) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = end_of_name(text, i);
    if (end == i) {
      out += text[i++];
      continue;
    }
    const std::string_view word = text.substr(i, end - i);
    const auto found = std::find(names.begin(), names.end(), word);
    if (found == names.end()) out += word;
    else out.append("(").append(texts[static_cast<std::size_t>(found - names.begin())]).append(")");
    i = end;
  }
  return out;
}

}  // namespace plumbline

// Arithmetic over named numbers, as files of stacks write it: "ceil(rows*cols/512)".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

/// Made once, worked out often: a list of steps on a small stack, in doubles (whole numbers are exact to 2^53).
///
///   whole   = sum [ ("<" | "<=" | ">" | ">=" | "==" | "!=") sum ]      1 where it holds, else 0
///   sum     = product { ("+" | "-") product }
///   product = factor { ("*" | "/") factor }
///   factor  = number | name | "(" whole ")" | ("ceil" | "floor" | "sqrt") "(" whole ")" | ("min" | "max") "(" whole "," whole ")"
class Expression {
 public:
  /// Deepest nesting and longest text that is read.
  static constexpr std::size_t kDeepest = 16, kLongest = 1000;

  /// Throws BadInput, without a place, for text that is none of the above, a name that is not in `names` (with the
  /// nearest one), or text that is longer or nests deeper than the limits.
  Expression(std::string_view text, std::span<const std::string> names);
  /// A number that is always the same.
  explicit Expression(double number) : steps_{{Kind::number, number, 0}} {}

  /// With the value of each name, in the order of `names`. Divisions by 0 give infinity or no number.
  double operator()(std::span<const double> values) const;

 private:
  friend class ExpressionReader;
  enum class Kind : std::uint8_t {
    number,
    name,
    add,
    subtract,
    multiply,
    divide,
    ceil,
    floor,
    sqrt,
    min,
    max,
    less,
    at_most,
    greater,
    at_least,
    equal,
    unequal
  };
  static double combined(Kind kind, double left, double right);
  struct Step {
    Kind kind = Kind::number;
    double number = 0;
    std::size_t name = 0;
  };
  std::vector<Step> steps_;
};

/// `text` with each of `names` that stands alone in it replaced by the text beside it, in brackets: what an expression
/// becomes where another one is put for its name.
std::string with_names_replaced(std::string_view text, std::span<const std::string_view> names,
                                std::span<const std::string> texts);

}  // namespace plumbline

// Reads the equations of an explanation and works them out, knowing nothing of the model: "label value = right side".
//
// A number with a decimal point stands for all that print as it does (half a unit of its last digit either way), a
// whole one for itself; so both sides are intervals, and an equation holds when they meet and are of one dimension.
// Products and quotients are read from the left; words behind a number are for people; a name stands for the value of
// the line above that has this label.
#pragma once

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>

namespace plumbline::testing_support {

/// [low, high] of second^dim[0] byte^dim[1] joule^dim[2].
struct Interval {
  double low = 0, high = 0;
  std::array<double, 3> dim{};
};

class EquationReader {
 public:
  /// What a line says of its equation: "" when it has none or it holds, else what is wrong.
  std::string check(const std::string& line) {
    const std::size_t equals = line.find(" = ");
    if (equals == std::string::npos) return "";
    const std::size_t label = line.find_first_not_of(' '), label_end = line.find(' ', label);
    try {
      const Interval left = evaluate(line.substr(label_end, equals - label_end));
      const Interval right = evaluate(line.substr(equals + 3));
      values_[line.substr(label, label_end - label)] = left;
      if (left.dim != right.dim) return "dimensions differ: " + line;
      constexpr double kSinglePrecision = 1e-5;  // the engine takes its p-norms so, and p has six digits
      const double slack = kSinglePrecision * std::max(std::abs(left.high), std::abs(right.high));
      if (left.low > right.high + slack || right.low > left.high + slack) {
        return "left " + std::to_string(left.low * 1e6) + " e-6, right " + std::to_string(right.low * 1e6) + " to " +
               std::to_string(right.high * 1e6) + " e-6: " + line;
      }
      ++equations_;
      if (line.find(" - ") == std::string::npos)
        widest_ = std::max(widest_, (right.high - right.low) / std::max(1e-300, right.high + right.low));
    } catch (const std::runtime_error& e) {
      return std::string(e.what()) + ": " + line;
    }
    return "";
  }

  int equations() const { return equations_; }
  /// The largest half width of a right side, relative: what the digits leave open. (Without differences, whose digits
  /// cancel.)
  double widest() const { return widest_; }
  const Interval& value(const std::string& label) const { return values_.at(label); }

 private:
  Interval evaluate(const std::string& text) {
    text_ = text;
    at_ = 0;
    const Interval all = sum();
    skip();
    if (at_ != text_.size()) throw std::runtime_error("left over: '" + text_.substr(at_) + "'");
    return all;
  }

  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  /// An operator stands alone between two spaces.
  bool takes(char op) {
    skip();
    if (at_ >= text_.size() || text_[at_] != op || (at_ + 1 < text_.size() && text_[at_ + 1] != ' ')) return false;
    ++at_;
    return true;
  }

  Interval sum() {
    Interval a = product();
    for (;;) {
      const bool plus = takes('+');
      if (!plus && !takes('-')) return a;
      const Interval b = product();
      if (a.dim != b.dim) throw std::runtime_error("adds what cannot be added");
      a.low += plus ? b.low : -b.high;
      a.high += plus ? b.high : -b.low;
    }
  }

  Interval product() {
    Interval a = power();
    for (;;) {
      const bool times = takes('x');
      if (!times && !takes('/')) return a;
      const Interval b = power();
      if (!times && b.low <= 0 && b.high >= 0) throw std::runtime_error("divides by nothing");
      const double low = times ? b.low : 1 / b.high, high = times ? b.high : 1 / b.low;
      const auto [least, most] = std::minmax({a.low * low, a.low * high, a.high * low, a.high * high});
      a.low = least;
      a.high = most;
      for (std::size_t i = 0; i < a.dim.size(); ++i) a.dim[i] += times ? b.dim[i] : -b.dim[i];
    }
  }

  Interval power() {
    Interval a = operand();
    if (at_ >= text_.size() || text_[at_] != '^') return a;
    ++at_;
    double exponent = 0;
    if (text_.compare(at_, 3, "(1/") == 0) {
      at_ += 3;
      exponent = 1 / plain_number();
      ++at_;  // the bracket
    } else {
      exponent = plain_number();
    }
    a.low = std::pow(a.low, exponent);
    a.high = std::pow(a.high, exponent);
    for (double& d : a.dim) d = std::round(1e6 * d * exponent) / 1e6;
    return a;
  }

  Interval operand() {
    skip();
    if (at_ >= text_.size()) throw std::runtime_error("ends too soon");
    if (text_[at_] == '(') {
      ++at_;
      const Interval inside = sum();
      skip();
      if (at_ >= text_.size() || text_[at_] != ')') throw std::runtime_error("no closing bracket");
      ++at_;
      return inside;
    }
    if (std::isalpha(static_cast<unsigned char>(text_[at_])) != 0) return named();
    return number();
  }

  Interval named() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && std::isalnum(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    const auto it = values_.find(text_.substr(begin, at_ - begin));
    if (it == values_.end()) throw std::runtime_error("no line called '" + text_.substr(begin, at_ - begin) + "'");
    return it->second;
  }

  double plain_number() {
    char* end = nullptr;
    const double value = std::strtod(text_.c_str() + at_, &end);
    const auto after = static_cast<std::size_t>(end - text_.c_str());
    if (after == at_) throw std::runtime_error("expected a number at '" + text_.substr(at_) + "'");
    at_ = after;
    return value;
  }

  Interval number() {
    const std::size_t begin = at_;
    const double value = plain_number();
    const std::string digits = text_.substr(begin, at_ - begin);
    double half = 0;
    if (const std::size_t point = digits.find('.'); point != std::string::npos) {
      const std::size_t e = std::min(digits.find('e'), digits.size());
      half = 0.5 * std::pow(10, -static_cast<double>(e - point - 1));
      if (e < digits.size()) half *= std::pow(10, std::atof(digits.c_str() + e + 1));
    }
    Interval out{value - half, value + half, {}};
    for (bool first = true; next_is_a_word(); first = false) {
      const std::size_t word = at_;
      while (at_ < text_.size() && text_[at_] != ' ' && text_[at_] != ')') ++at_;
      if (first) apply_unit(out, text_.substr(word, at_ - word));
    }
    return out;
  }

  bool next_is_a_word() {
    skip();
    if (at_ >= text_.size() || text_[at_] == ')') return false;
    const bool alone = at_ + 1 >= text_.size() || text_[at_ + 1] == ' ';
    return !(alone && std::string("+-x/").find(text_[at_]) != std::string::npos);
  }

  static void apply_unit(Interval& value, const std::string& unit) {
    struct Unit {
      double scale;
      std::array<double, 3> dim;
    };
    static const std::map<std::string, Unit> kUnits{{"s", {1, {1, 0, 0}}},           {"ms", {1e-3, {1, 0, 0}}},
                                                    {"us", {1e-6, {1, 0, 0}}},       {"ns", {1e-9, {1, 0, 0}}},
                                                    {"ps", {1e-12, {1, 0, 0}}},      {"B", {1, {0, 1, 0}}},
                                                    {"kB", {1e3, {0, 1, 0}}},        {"MB", {1e6, {0, 1, 0}}},
                                                    {"GB", {1e9, {0, 1, 0}}},        {"TB", {1e12, {0, 1, 0}}},
                                                    {"PB", {1e15, {0, 1, 0}}},       {"KiB", {1024.0, {0, 1, 0}}},
                                                    {"MiB", {1048576.0, {0, 1, 0}}}, {"GiB", {1073741824.0, {0, 1, 0}}},
                                                    {"B/s", {1, {-1, 1, 0}}},        {"MB/s", {1e6, {-1, 1, 0}}},
                                                    {"GB/s", {1e9, {-1, 1, 0}}},     {"TB/s", {1e12, {-1, 1, 0}}},
                                                    {"PB/s", {1e15, {-1, 1, 0}}},    {"Hz", {1, {-1, 0, 0}}},
                                                    {"kHz", {1e3, {-1, 0, 0}}},      {"MHz", {1e6, {-1, 0, 0}}},
                                                    {"W", {1, {-1, 0, 1}}},          {"mW", {1e-3, {-1, 0, 1}}},
                                                    {"kW", {1e3, {-1, 0, 1}}},       {"J", {1, {0, 0, 1}}},
                                                    {"kJ", {1e3, {0, 0, 1}}},        {"mJ", {1e-3, {0, 0, 1}}},
                                                    {"uJ", {1e-6, {0, 0, 1}}},       {"nJ", {1e-9, {0, 0, 1}}},
                                                    {"pJ", {1e-12, {0, 0, 1}}}};
    const auto it = kUnits.find(unit);
    if (it == kUnits.end()) return;  // a word
    value.low *= it->second.scale;
    value.high *= it->second.scale;
    value.dim = it->second.dim;
  }

  std::string text_;
  std::size_t at_ = 0;
  std::map<std::string, Interval> values_;
  int equations_ = 0;
  double widest_ = 0;
};

}  // namespace plumbline::testing_support

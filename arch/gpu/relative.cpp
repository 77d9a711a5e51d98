#include "arch/gpu/relative.hpp"

#include <charconv>
#include <cmath>

#include "arch/error.hpp"
#include "arch/format.hpp"

namespace plumbline::descriptor {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

double number_in(std::string_view text) {
  text = trimmed(text);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) {
    throw BadInput("expected a number, found '" + std::string(text) + "'");
  }
  return number;
}

/// Twelve digits, so that 700 W + 10 % is 770 W.
std::string rounded(double value) {
  constexpr double kDigits = 12;
  if (value == 0) return "0";
  const double unit = std::pow(10.0, std::floor(std::log10(std::abs(value))) + 1 - kDigits);
  return format_exact(std::abs(unit) < 1 ? std::round(value / unit) / std::round(1 / unit)
                                         : std::round(value / unit) * unit);
}

}  // namespace

std::optional<double> relative_factor(std::string_view text) {
  text = trimmed(text);
  double factor = 0;
  if (text.size() > 1 && text.front() == 'x') {
    factor = number_in(text.substr(1));
  } else if (text.size() > 2 && (text.front() == '+' || text.front() == '-') && text.back() == '%') {
    const double percent = number_in(text.substr(1, text.size() - 2));
    factor = 1 + (text.front() == '+' ? percent : -percent) / 100;
  } else {
    return std::nullopt;
  }
  if (!(factor > 0)) throw BadInput("expected a change that leaves something, found '" + std::string(text) + "'");
  return factor;
}

std::string scaled(const JsonValue& value, double factor) {
  if (value.is_number()) {
    const double old = value.as_number(), now = old * factor;
    return rounded(old == std::floor(old) && old >= 1 ? std::round(now) : now);
  }
  const std::string text = value.as_string();
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) value.fail("expected a quantity such as \"4.8 TB/s\", found " + value.dump());
  return rounded(number * factor) + std::string(end, text.data() + text.size());
}

}  // namespace plumbline::descriptor

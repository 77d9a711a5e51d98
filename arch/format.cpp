#include "arch/format.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "arch/error.hpp"

namespace plumbline {
namespace {

/// `value` with three significant digits, never in exponent form between 1e-3 and 1e6.
std::string three_digits(double value) {
  char text[40];
  const double size = std::abs(value);
  int decimals = 2;
  if (size >= 999.5 || value == 0) decimals = 0;
  else if (size >= 99.95) decimals = 0;
  else if (size >= 9.995) decimals = 1;
  else if (size >= 0.9995) decimals = 2;
  else if (size >= 1e-3) decimals = 2 - static_cast<int>(std::floor(std::log10(size)));
  else {
    std::snprintf(text, sizeof text, "%.3g", value);
    return text;
  }
  if (size >= 1e6) std::snprintf(text, sizeof text, "%.3g", value);
  else std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

std::string with_prefix(double value, const char* unit, double smallest) {
  static constexpr std::array<std::pair<double, const char*>, 10> kPrefixes{{{1e18, "E"},
                                                                             {1e15, "P"},
                                                                             {1e12, "T"},
                                                                             {1e9, "G"},
                                                                             {1e6, "M"},
                                                                             {1e3, "k"},
                                                                             {1, ""},
                                                                             {1e-3, "m"},
                                                                             {1e-6, "u"},
                                                                             {1e-9, "n"}}};
  if (value == 0 || !std::isfinite(value)) return three_digits(value) + " " + unit;
  for (const auto& [scale, prefix] : kPrefixes) {
    if (std::abs(value) >= 0.9995 * scale || scale <= smallest) {
      return three_digits(value / scale) + " " + prefix + unit;
    }
  }
  return three_digits(value / smallest) + " " + unit;
}

struct UnitName {
  std::string_view name;
  double scale;
};

/// Reads "<number> <unit>" with one of `units`; `what` names the quantity in messages.
template <std::size_t N>
double parse_with_unit(std::string_view text, const std::array<UnitName, N>& units, const char* what,
                       const char* example) {
  std::string quoted = "'";  // built by appending: g++ 12 warns falsely on `"'" + std::string` (GCC bug 105651)
  quoted.append(text.substr(0, 60)).append("'");
  double number = 0;
  const char* begin = text.data();
  const char* end = begin + text.size();
  while (begin != end && *begin == ' ') ++begin;
  const auto [after, error] = std::from_chars(begin, end, number);
  if (error != std::errc() || !std::isfinite(number)) {
    throw BadInput(std::string("expected ") + what + " such as " + example + ", found " + quoted);
  }
  std::string_view unit(after, static_cast<std::size_t>(end - after));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  while (!unit.empty() && unit.back() == ' ') unit.remove_suffix(1);
  for (const UnitName& candidate : units) {
    if (candidate.name == unit) return number * candidate.scale;
  }
  std::string message = std::string("expected ") + what + " such as " + example + ", found " + quoted;
  if (unit.empty()) message += " (no unit)";
  else if (unit.find("b/") != unit.npos || unit.find("bps") != unit.npos || unit.find("bit") != unit.npos) {
    message += " (bits? give bytes: 8 bits a byte)";
  } else if (unit.size() >= 2 && unit.substr(unit.size() - 2) == "ps") {
    message += " (write the division: GB/s)";
  }
  throw BadInput(message);
}

constexpr std::array<UnitName, 9> kBytes{{{"B", 1},
                                          {"kB", 1e3},
                                          {"MB", 1e6},
                                          {"GB", 1e9},
                                          {"TB", 1e12},
                                          {"KiB", 1024.0},
                                          {"MiB", 1048576.0},
                                          {"GiB", 1073741824.0},
                                          {"TiB", 1099511627776.0}}};
constexpr std::array<UnitName, 8> kBandwidths{{{"B/s", 1},
                                               {"kB/s", 1e3},
                                               {"MB/s", 1e6},
                                               {"GB/s", 1e9},
                                               {"TB/s", 1e12},
                                               {"MiB/s", 1048576.0},
                                               {"GiB/s", 1073741824.0},
                                               {"TiB/s", 1099511627776.0}}};
constexpr std::array<UnitName, 4> kSeconds{{{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}}};
constexpr std::array<UnitName, 4> kHertz{{{"Hz", 1}, {"kHz", 1e3}, {"MHz", 1e6}, {"GHz", 1e9}}};
constexpr std::array<UnitName, 3> kWatts{{{"W", 1}, {"kW", 1e3}, {"mW", 1e-3}}};
constexpr std::array<UnitName, 8> kFlopRates{{{"FLOP/s", 1},
                                              {"GFLOP/s", 1e9},
                                              {"TFLOP/s", 1e12},
                                              {"PFLOP/s", 1e15},
                                              {"OP/s", 1},
                                              {"GOP/s", 1e9},
                                              {"TOP/s", 1e12},
                                              {"POP/s", 1e15}}};

}  // namespace

std::string format(Seconds value) {
  const double v = value.in(units::s);
  return v >= 1 ? three_digits(v) + " s" : with_prefix(v, "s", 1e-9);
}
std::string format(Bytes value) { return with_prefix(value.in(units::B), "B", 1); }
std::string format_binary(Bytes value) {
  const double v = value.in(units::B);
  if (v >= 1073741824.0) return three_digits(value.in(units::GiB)) + " GiB";
  if (v >= 1048576.0) return three_digits(value.in(units::MiB)) + " MiB";
  if (v >= 1024.0) return three_digits(value.in(units::KiB)) + " KiB";
  return three_digits(v) + " B";
}
std::string format(Bandwidth value) { return with_prefix(value.in(units::B_per_s), "B/s", 1); }
std::string format(Flops value) { return with_prefix(value.in(units::FLOP), "FLOP", 1); }
std::string format(FlopRate value) { return with_prefix(value.in(units::FLOP_per_s), "FLOP/s", 1); }
std::string format(Hertz value) {
  const double v = value.in(units::MHz);
  return v >= 1 && v < 10000 ? three_digits(v) + " MHz" : with_prefix(value.in(units::Hz), "Hz", 1);
}
std::string format(Watts value) { return with_prefix(value.in(units::W), "W", 1e-3); }
std::string format(Joules value) { return with_prefix(value.in(units::J), "J", 1e-9); }
std::string format(Intensity value) { return three_digits(value.in(units::FLOP_per_B)) + " FLOP/B"; }
std::string format(double value) { return three_digits(value); }

std::string format_exact(double value) {
  char text[40];
  const auto [end, error] = std::to_chars(text, text + sizeof text, value);
  return error == std::errc() ? std::string(text, end) : "nan";
}

Bytes parse_bytes(std::string_view text) { return parse_with_unit(text, kBytes, "a size", "141 GiB") * units::B; }
Bandwidth parse_bandwidth(std::string_view text) {
  return parse_with_unit(text, kBandwidths, "a bandwidth", "4.8 TB/s") * units::B_per_s;
}
Seconds parse_seconds(std::string_view text) { return parse_with_unit(text, kSeconds, "a time", "330 ns") * units::s; }
Hertz parse_hertz(std::string_view text) { return parse_with_unit(text, kHertz, "a clock", "1980 MHz") * units::Hz; }
Watts parse_watts(std::string_view text) { return parse_with_unit(text, kWatts, "a power", "700 W") * units::W; }
FlopRate parse_flop_rate(std::string_view text) {
  return parse_with_unit(text, kFlopRates, "a rate", "989 TFLOP/s") * units::FLOP_per_s;
}

}  // namespace plumbline

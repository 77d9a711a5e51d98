#include "model/report/formula_text.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <span>

namespace plumbline {
namespace {

bool is_whole(double value) {
  return std::abs(value) < 1e15 && std::abs(value - std::round(value)) <= 1e-9 * std::abs(value);
}

std::string digits(double value) {
  char text[48];
  if (is_whole(value)) {
    std::snprintf(text, sizeof text, "%.0f", value);
  } else if (const double size = std::abs(value); size < 1e-3 || size >= 1e15) {
    std::snprintf(text, sizeof text, "%.3e", value);
  } else {
    std::snprintf(text, sizeof text, "%.*f", std::max(1, 3 - static_cast<int>(std::floor(std::log10(size)))), value);
  }
  return text;
}

struct Prefix {
  double scale;
  const char* name;
};
constexpr std::array<Prefix, 5> kTimes{{{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}, {1e-12, "ps"}}};
constexpr std::array<Prefix, 6> kBytes{{{1e15, "PB"}, {1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}, {1, "B"}}};
constexpr std::array<Prefix, 3> kWholeBytes{{{1073741824.0, "GiB"}, {1048576.0, "MiB"}, {1024.0, "KiB"}}};
constexpr std::array<Prefix, 3> kClocks{{{1e6, "MHz"}, {1e3, "kHz"}, {1, "Hz"}}};
constexpr std::array<Prefix, 5> kRates{{{1e15, "PB/s"}, {1e12, "TB/s"}, {1e9, "GB/s"}, {1e6, "MB/s"}, {1, "B/s"}}};
constexpr std::array<Prefix, 3> kPowers{{{1e3, "kW"}, {1, "W"}, {1e-3, "mW"}}};
constexpr std::array<Prefix, 6> kEnergies{
    {{1e3, "kJ"}, {1, "J"}, {1e-3, "mJ"}, {1e-6, "uJ"}, {1e-9, "nJ"}, {1e-12, "pJ"}}};

std::string scaled(double value, std::span<const Prefix> prefixes) {
  const Prefix* best = &prefixes.back();
  for (const Prefix& p : prefixes) {
    if (std::abs(value) < p.scale) continue;
    best = &p;
    break;
  }
  if (value == 0) best = &prefixes[0];
  return digits(value / best->scale) + " " + best->name;
}

std::string bytes_text(double value) {
  for (const Prefix& p : kWholeBytes) {
    if (value >= p.scale && value < 1024 * p.scale && is_whole(value / p.scale)) return scaled(value, {&p, 1});
  }
  return value < 1e5 && is_whole(value) ? digits(value) + " B" : scaled(value, kBytes);
}

std::string leaf(const Formula& f) {
  std::string text = number_text(f.value, f.unit);
  if (f.what[0] != '\0') text += std::string(" ") + f.what;
  return text;
}

bool is_leaf(const Formula& f) { return f.kind == Formula::Kind::number || f.kind == Formula::Kind::inverse; }
bool is_sum(const Formula& f) { return f.kind == Formula::Kind::sum || f.kind == Formula::Kind::difference; }

std::string bracketed(const Formula& f, bool brackets) {
  return brackets ? "(" + formula_text(f) + ")" : formula_text(f);
}

std::string sum_text(const Formula& f) {
  std::string out;
  for (std::size_t i = 0; i < f.parts.size(); ++i) {
    Formula part = f.parts[i];
    bool minus = f.kind == Formula::Kind::difference && i > 0;
    if (i > 0 && is_leaf(part) && part.value < 0) {
      minus = !minus;
      part.value = -part.value;
    }
    if (i > 0) out += minus ? " - " : " + ";
    out += bracketed(part, i > 0 && is_sum(part));
  }
  return out;
}

std::string product_text(const Formula& f) {
  std::string out;
  for (std::size_t i = 0; i < f.parts.size(); ++i) {
    const Formula& part = f.parts[i];
    if (part.kind == Formula::Kind::inverse) {
      out += (i == 0 ? "1 / " : " / ") + leaf(part);
      continue;
    }
    if (i > 0) out += " x ";
    out += bracketed(part, is_sum(part) || (i > 0 && part.kind == Formula::Kind::quotient));
  }
  return out;
}

std::string quotient_text(const Formula& f) {
  std::string out;
  for (std::size_t i = 0; i < f.parts.size(); ++i) {
    if (i > 0) out += " / ";
    out += bracketed(f.parts[i], i > 0 ? f.parts[i].kind != Formula::Kind::number : is_sum(f.parts[i]));
  }
  return out;
}

}  // namespace

std::string number_text(double value, Formula::Unit unit) {
  switch (unit) {
    case Formula::Unit::one: return digits(value);
    case Formula::Unit::bytes: return bytes_text(value);
    case Formula::Unit::seconds: return scaled(value, kTimes);
    case Formula::Unit::hertz: return scaled(value, kClocks);
    case Formula::Unit::bandwidth: return scaled(value, kRates);
    case Formula::Unit::watts: return scaled(value, kPowers);
    case Formula::Unit::joules: return scaled(value, kEnergies);
  }
  return "";
}

std::string number_text(Seconds value) { return number_text(value.in(units::s), Formula::Unit::seconds); }

std::string formula_text(const Formula& f) {
  switch (f.kind) {
    case Formula::Kind::number: return leaf(f);
    case Formula::Kind::inverse: return "1 / " + leaf(f);
    case Formula::Kind::sum:
    case Formula::Kind::difference: return sum_text(f);
    case Formula::Kind::product: return product_text(f);
    case Formula::Kind::quotient: return quotient_text(f);
  }
  return "";
}

}  // namespace plumbline

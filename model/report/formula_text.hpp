// Formulas of the engine as lines for people: "1 CTAs an SM x 64 steps x (2048 clk / 0.9134 of the tensor rate) / 1980
// MHz".
//
// Every number that is not whole has a decimal point and four digits that count, so that a reader (and a test) knows
// how exactly it stands there: half a unit of its last digit; whole numbers are exact. Products and quotients are read
// from the left.
#pragma once

#include <string>

#include "model/engine/formula.hpp"

namespace plumbline {

/// A number alone, in SI or without a unit, with its prefix.
std::string number_text(double value, Formula::Unit unit);
std::string number_text(Seconds value);
std::string formula_text(const Formula& formula);

/// "    label    value = right", a line.
template <class Q>
std::string equation(const char* label, Q value, const std::string& right) {
  std::string line = "    " + std::string(label);
  line.resize(std::max<std::size_t>(line.size() + 1, 13), ' ');
  return line + number_text(value / UnitSource::one<Q>(), unit_of<Q>()) + " = " + right + "\n";
}

}  // namespace plumbline

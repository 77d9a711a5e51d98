// A formula as the engine evaluates it, written down when somebody asks for it.
//
// The engine's terms are written once, as templates over where their numbers come from. `PlainNumbers` hands each
// number through: what is compiled is the bare arithmetic, and pricing pays nothing for explanations. `WrittenNumbers`
// wraps each number with its unit and a word, and the operators below build, beside the value, the tree of what was
// combined and how. So an explanation cannot say anything else than what was computed (after ninja's explanations.h and
// LLVM-MCA's listeners: the core records, reports print).
#pragma once

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "arch/units.hpp"

namespace plumbline {

/// One node of a formula: a number, or what is done with the parts.
struct Formula {
  enum class Kind { number, inverse, sum, difference, product, quotient };
  enum class Unit { one, bytes, seconds, hertz, bandwidth, watts, joules };
  Kind kind = Kind::number;
  Unit unit = Unit::one;  ///< of a number, or of the number that an `inverse` divides by
  double value = 0;       ///< ... in SI
  const char* what = "";  ///< the word behind it: "CTAs", "clk", "fixed"
  bool factor = false;    ///< a share or a correction: not worth a word where it is 1
  std::vector<Formula> parts;
};

template <class Q>
constexpr Formula::Unit unit_of() {
  using Unit = Formula::Unit;
  if constexpr (std::is_same_v<Q, Bytes>) return Unit::bytes;
  else if constexpr (std::is_same_v<Q, Seconds>) return Unit::seconds;
  else if constexpr (std::is_same_v<Q, Hertz>) return Unit::hertz;
  else if constexpr (std::is_same_v<Q, Bandwidth>) return Unit::bandwidth;
  else if constexpr (std::is_same_v<Q, Watts>) return Unit::watts;
  else if constexpr (std::is_same_v<Q, Joules>) return Unit::joules;
  else {
    static_assert(std::is_same_v<Q, double>, "a number of a formula has a unit that people know");
    return Unit::one;
  }
}

/// A value with the formula that gave it.
template <class Q>
struct Written {
  Q value{};
  Formula how;
};

/// `a` and `b` as parts of one node; nodes of the same kind are joined where the order of evaluation allows it.
Formula joined(Formula::Kind kind, Formula a, Formula b);

template <class Q>
bool is_zero(const Written<Q>& x) {
  return x.value == Q{};
}
template <class Q>
bool is_idle_factor(const Written<Q>& x) {
  if constexpr (std::is_same_v<Q, double>) return x.how.factor && x.value == 1;
  else return false;
}

/// Adding nothing, and multiplying by a factor of 1, are not written down.
template <class Q>
Written<Q> operator+(const Written<Q>& a, const Written<Q>& b) {
  if (is_zero(b)) return a;
  if (is_zero(a)) return b;
  return {a.value + b.value, joined(Formula::Kind::sum, a.how, b.how)};
}
template <class Q>
Written<Q> operator-(const Written<Q>& a, const Written<Q>& b) {
  if (is_zero(b)) return a;
  return {a.value - b.value, joined(Formula::Kind::difference, a.how, b.how)};
}
template <class A, class B>
auto operator*(const Written<A>& a, const Written<B>& b) {
  using Q = decltype(a.value * b.value);
  if (is_idle_factor(a)) return Written<Q>{a.value * b.value, b.how};
  if (is_idle_factor(b)) return Written<Q>{a.value * b.value, a.how};
  return Written<Q>{a.value * b.value, joined(Formula::Kind::product, a.how, b.how)};
}
template <class A, class B>
auto operator/(const Written<A>& a, const Written<B>& b) {
  using Q = decltype(a.value / b.value);
  if (is_idle_factor(b)) return Written<Q>{a.value / b.value, a.how};
  return Written<Q>{a.value / b.value, joined(Formula::Kind::quotient, a.how, b.how)};
}

/// Of two ways to come by a number the one that counts is written down.
template <class Q>
const Written<Q>& larger(const Written<Q>& a, const Written<Q>& b) {
  return a.value < b.value ? b : a;
}
template <class Q>
const Written<Q>& smaller(const Written<Q>& a, const Written<Q>& b) {
  return b.value < a.value ? b : a;
}
constexpr double larger(double a, double b) { return std::max(a, b); }
constexpr double smaller(double a, double b) { return std::min(a, b); }
template <int F, int B, int T, int J>
constexpr Quantity<F, B, T, J> larger(Quantity<F, B, T, J> a, Quantity<F, B, T, J> b) {
  return std::max(a, b);
}
template <int F, int B, int T, int J>
constexpr Quantity<F, B, T, J> smaller(Quantity<F, B, T, J> a, Quantity<F, B, T, J> b) {
  return std::min(a, b);
}

/// The bare arithmetic.
struct PlainNumbers {
  template <class Q>
  using Of = Q;
  template <class Q>
  static constexpr Q number(Q value, const char*) {
    return value;
  }
  static constexpr double factor(double value, const char*) { return value; }
  /// 1 / rate, given both: a product with it reads as a division.
  static constexpr Seconds per(Seconds one, Hertz, const char*) { return one; }
};

/// The arithmetic and what it was.
struct WrittenNumbers {
  template <class Q>
  using Of = Written<Q>;
  template <class Q>
  static Written<Q> number(Q value, const char* what) {
    const double si = value / UnitSource::one<Q>();
    return {value, {Formula::Kind::number, unit_of<Q>(), si, what, false, {}}};
  }
  static Written<double> factor(double value, const char* what) {
    return {value, {Formula::Kind::number, Formula::Unit::one, value, what, true, {}}};
  }
  static Written<Seconds> per(Seconds one, Hertz rate, const char* what) {
    return {one, {Formula::Kind::inverse, Formula::Unit::hertz, rate.in(units::Hz), what, false, {}}};
  }
};

constexpr double value_of(double x) { return x; }
template <int F, int B, int T, int J>
constexpr Quantity<F, B, T, J> value_of(Quantity<F, B, T, J> x) {
  return x;
}
template <class Q>
Q value_of(const Written<Q>& x) {
  return x.value;
}

}  // namespace plumbline

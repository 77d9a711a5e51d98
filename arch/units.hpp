// Physical quantities as types: work (FLOP), data (byte), time (second), energy (joule), and their products and ratios.
//
// A raw number becomes a quantity only by naming its unit (`4.8 * units::TB_per_s`) and leaves only by naming it again
// (`t.in(units::us)`). Adding seconds to bytes does not compile. Values are SI doubles inside, so a quantity costs
// what a double costs. Prefixes: k, M, G, T are powers of ten; Ki, Mi, Gi are powers of two.
#pragma once

namespace plumbline {

/// FLOP^F * byte^B * second^T * joule^J, held in SI.
template <int F, int B, int T, int J>
class Quantity {
 public:
  constexpr Quantity() = default;

  /// The number of `unit`s in this quantity; `unit` has the same dimension.
  constexpr double in(Quantity unit) const { return value_ / unit.value_; }

  constexpr bool operator==(const Quantity&) const = default;
  // Not by a defaulted <=>: GCC (12) then looks for unordered numbers first, and the larger of two is a branch instead
  // of an instruction, which cost a tenth of a prediction's time.
  friend constexpr bool operator<(Quantity a, Quantity b) { return a.value_ < b.value_; }
  friend constexpr bool operator>(Quantity a, Quantity b) { return a.value_ > b.value_; }
  friend constexpr bool operator<=(Quantity a, Quantity b) { return a.value_ <= b.value_; }
  friend constexpr bool operator>=(Quantity a, Quantity b) { return a.value_ >= b.value_; }
  constexpr Quantity operator-() const { return Quantity(-value_); }
  constexpr Quantity operator+(Quantity o) const { return Quantity(value_ + o.value_); }
  constexpr Quantity operator-(Quantity o) const { return Quantity(value_ - o.value_); }
  constexpr Quantity& operator+=(Quantity o) {
    value_ += o.value_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity o) {
    value_ -= o.value_;
    return *this;
  }
  constexpr Quantity& operator*=(double k) {
    value_ *= k;
    return *this;
  }
  constexpr Quantity& operator/=(double k) {
    value_ /= k;
    return *this;
  }

  friend constexpr Quantity operator*(double k, Quantity q) { return Quantity(k * q.value_); }
  friend constexpr Quantity operator*(Quantity q, double k) { return Quantity(q.value_ * k); }
  friend constexpr Quantity operator/(Quantity q, double k) { return Quantity(q.value_ / k); }

 private:
  template <int, int, int, int>
  friend class Quantity;
  template <int F1, int B1, int T1, int J1, int F2, int B2, int T2, int J2>
  friend constexpr auto operator*(Quantity<F1, B1, T1, J1>, Quantity<F2, B2, T2, J2>);
  template <int F1, int B1, int T1, int J1, int F2, int B2, int T2, int J2>
  friend constexpr auto operator/(Quantity<F1, B1, T1, J1>, Quantity<F2, B2, T2, J2>);
  template <int F1, int B1, int T1, int J1>
  friend constexpr auto operator/(double, Quantity<F1, B1, T1, J1>);
  friend struct UnitSource;

  explicit constexpr Quantity(double si) : value_(si) {}
  double value_ = 0.0;
};

/// The one door by which the SI base units are made; everything else is a multiple of them.
struct UnitSource {
  template <class Q>
  static constexpr Q one() {
    return Q(1.0);
  }
};

template <int F1, int B1, int T1, int J1, int F2, int B2, int T2, int J2>
constexpr auto operator*(Quantity<F1, B1, T1, J1> a, Quantity<F2, B2, T2, J2> b) {
  if constexpr (F1 + F2 == 0 && B1 + B2 == 0 && T1 + T2 == 0 && J1 + J2 == 0) {
    return a.value_ * b.value_;
  } else {
    return Quantity<F1 + F2, B1 + B2, T1 + T2, J1 + J2>(a.value_ * b.value_);
  }
}

template <int F1, int B1, int T1, int J1, int F2, int B2, int T2, int J2>
constexpr auto operator/(Quantity<F1, B1, T1, J1> a, Quantity<F2, B2, T2, J2> b) {
  if constexpr (F1 == F2 && B1 == B2 && T1 == T2 && J1 == J2) {
    return a.value_ / b.value_;
  } else {
    return Quantity<F1 - F2, B1 - B2, T1 - T2, J1 - J2>(a.value_ / b.value_);
  }
}

template <int F, int B, int T, int J>
constexpr auto operator/(double k, Quantity<F, B, T, J> q) {
  return Quantity<-F, -B, -T, -J>(k / q.value_);
}

using Flops = Quantity<1, 0, 0, 0>;
using Bytes = Quantity<0, 1, 0, 0>;
using Seconds = Quantity<0, 0, 1, 0>;
using Joules = Quantity<0, 0, 0, 1>;
using Hertz = Quantity<0, 0, -1, 0>;
using FlopRate = Quantity<1, 0, -1, 0>;
using Bandwidth = Quantity<0, 1, -1, 0>;
using Watts = Quantity<0, 0, -1, 1>;
using Intensity = Quantity<1, -1, 0, 0>;  ///< FLOP per byte

namespace units {
inline constexpr Flops FLOP = UnitSource::one<Flops>();
inline constexpr Flops GFLOP = 1e9 * FLOP, TFLOP = 1e12 * FLOP;
inline constexpr Bytes B = UnitSource::one<Bytes>();
inline constexpr Bytes kB = 1e3 * B, MB = 1e6 * B, GB = 1e9 * B;
inline constexpr Bytes KiB = 1024.0 * B, MiB = 1024.0 * KiB, GiB = 1024.0 * MiB;
inline constexpr Seconds s = UnitSource::one<Seconds>();
inline constexpr Seconds ms = 1e-3 * s, us = 1e-6 * s, ns = 1e-9 * s;
inline constexpr Joules J = UnitSource::one<Joules>();
inline constexpr Joules pJ = 1e-12 * J, mJ = 1e-3 * J;
inline constexpr Hertz Hz = 1.0 / s;
inline constexpr Hertz MHz = 1e6 * Hz, GHz = 1e9 * Hz;
inline constexpr Bandwidth B_per_s = B / s;
inline constexpr Bandwidth GB_per_s = 1e9 * B_per_s, TB_per_s = 1e12 * B_per_s;
inline constexpr FlopRate FLOP_per_s = FLOP / s;
inline constexpr FlopRate TFLOP_per_s = 1e12 * FLOP_per_s;
inline constexpr Watts W = J / s;
inline constexpr Intensity FLOP_per_B = FLOP / B;
}  // namespace units

}  // namespace plumbline

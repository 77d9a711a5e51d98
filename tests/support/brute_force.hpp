// Executes an operator's definition and counts what happens: each arithmetic operation by unit, each element read or
// written at least once. Knows no formula of ops/op: tests run the loops of the definition on these types.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "ops/facts/work.hpp"

namespace plumbline::brute {

struct Counts {
  double tensor = 0, fp32 = 0, sfu = 0;
};

/// Where operations are counted now. One machine at a time.
struct Ledger {
  Counts counts;
  bool tensor_unit = false;
};
inline Ledger& ledger() {
  static Ledger the_ledger;
  return the_ledger;
}

/// A number whose every operation is counted.
class Num {
 public:
  Num() = default;
  explicit Num(double value) : value_(value) {}
  double value() const { return value_; }

  friend Num operator+(Num a, Num b) { return count(a.value_ + b.value_); }
  friend Num operator-(Num a, Num b) { return count(a.value_ - b.value_); }
  friend Num operator*(Num a, Num b) { return count(a.value_ * b.value_); }
  friend Num max(Num a, Num b) { return count(a.value_ > b.value_ ? a.value_ : b.value_); }
  /// A comparison.
  friend bool operator>(Num a, Num b) { return count(a.value_ > b.value_ ? 1.0 : 0.0).value_ > 0; }
  friend Num operator-(Num a) { return Num(-a.value_); }     // a sign bit: free
  friend Num abs(Num a) { return Num(std::abs(a.value_)); }  // likewise
  Num& operator+=(Num b) { return *this = *this + b; }
  Num& operator*=(Num b) { return *this = *this * b; }

  friend Num exp(Num a) { return special(std::exp(a.value_)); }
  friend Num log(Num a) { return special(std::log(a.value_)); }
  friend Num reciprocal(Num a) { return special(1 / a.value_); }
  friend Num rsqrt(Num a) { return special(1 / std::sqrt(a.value_)); }
  friend Num sqrt(Num a) { return special(std::sqrt(a.value_)); }
  friend Num sin(Num a) { return special(std::sin(a.value_)); }
  friend Num cos(Num a) { return special(std::cos(a.value_)); }
  friend Num erf(Num a) { return special(std::erf(a.value_)); }

 private:
  static Num count(double result) {
    Ledger& l = ledger();
    (l.tensor_unit ? l.counts.tensor : l.counts.fp32) += 1;
    return Num(result);
  }
  static Num special(double result) {
    ledger().counts.sfu += 1;
    return Num(result);
  }
  double value_ = 0;
};

/// While alive, ordinary operations count as tensor work.
class OnTensorUnit {
 public:
  explicit OnTensorUnit(bool on = true) : before_(ledger().tensor_unit) { ledger().tensor_unit = on; }
  ~OnTensorUnit() { ledger().tensor_unit = before_; }
  OnTensorUnit(const OnTensorUnit&) = delete;
  OnTensorUnit& operator=(const OnTensorUnit&) = delete;

 private:
  bool before_;
};

/// Elements in memory that remember whether they came from memory and whether they went there. What the operator
/// wrote itself is not an input when it is read again.
class Array {
 public:
  Array(std::size_t elements, double bytes) : values_(elements), state_(elements, 0), bytes_(bytes) {}

  Num operator[](std::int64_t i) {
    unsigned char& s = state_.at(static_cast<std::size_t>(i));
    if ((s & kWritten) == 0) s |= kRead;
    return Num(values_[static_cast<std::size_t>(i)]);
  }
  std::int64_t index(std::int64_t i) { return static_cast<std::int64_t>((*this)[i].value()); }
  void set(std::int64_t i, Num value) {
    state_.at(static_cast<std::size_t>(i)) |= kWritten;
    values_[static_cast<std::size_t>(i)] = value.value();
  }
  /// Fills the memory before the operator starts, or looks at it afterwards: not counted.
  void poke(std::int64_t i, double value) { values_.at(static_cast<std::size_t>(i)) = value; }
  double peek(std::int64_t i) const { return values_.at(static_cast<std::size_t>(i)); }

  double read_bytes() const { return bytes_ * with(kRead); }
  double written_bytes() const { return bytes_ * with(kWritten); }

 private:
  static constexpr unsigned char kRead = 1, kWritten = 2;
  double with(unsigned char flag) const {
    double n = 0;
    for (unsigned char s : state_) n += (s & flag) != 0 ? 1 : 0;
    return n;
  }
  std::vector<double> values_;
  std::vector<unsigned char> state_;
  double bytes_;
};

/// The memory of one execution. Making one starts the count at zero.
class Machine {
 public:
  Machine() { ledger() = Ledger(); }
  /// An array of `bytes` an element; varied values around 0 unless they are poked.
  Array& array(std::int64_t elements, double bytes) {
    arrays_.emplace_back(static_cast<std::size_t>(elements), bytes);
    for (std::int64_t i = 0; i < elements; ++i) {
      seed_ = seed_ * 1103515245u + 12345u;
      arrays_.back().poke(i, static_cast<double>((seed_ >> 8) % 1000u) / 500.0 - 1.0);
    }
    return arrays_.back();
  }
  Counts counts() const { return ledger().counts; }
  double read_bytes() const {
    double sum = 0;
    for (const Array& a : arrays_) sum += a.read_bytes();
    return sum;
  }
  double written_bytes() const {
    double sum = 0;
    for (const Array& a : arrays_) sum += a.written_bytes();
    return sum;
  }

 private:
  std::deque<Array> arrays_;
  std::uint32_t seed_ = 1;
};

/// EXPECTs that the formula says what the machine saw, to the unit.
#define EXPECT_SAME_WORK(op_expression, machine_expression)                 \
  do {                                                                      \
    const ::plumbline::Work formula = ::plumbline::work(op_expression);     \
    const ::plumbline::brute::Machine& seen = (machine_expression);         \
    EXPECT_DOUBLE_EQ(formula.tensor.in(units::FLOP), seen.counts().tensor); \
    EXPECT_DOUBLE_EQ(formula.fp32.in(units::FLOP), seen.counts().fp32);     \
    EXPECT_DOUBLE_EQ(formula.sfu, seen.counts().sfu);                       \
    EXPECT_DOUBLE_EQ(formula.read.in(units::B), seen.read_bytes());         \
    EXPECT_DOUBLE_EQ(formula.write.in(units::B), seen.written_bytes());     \
  } while (false)

}  // namespace plumbline::brute

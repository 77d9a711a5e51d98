#include "arch/units.hpp"

#include <concepts>
#include <type_traits>

#include <gtest/gtest.h>

namespace plumbline::units_test {
namespace {

template <class A, class B>
concept Addable = requires(A a, B b) {
  a + b;
};
template <class A, class B>
concept Subtractable = requires(A a, B b) {
  a - b;
};
template <class A, class B>
concept Comparable = requires(A a, B b) {
  a < b;
};
template <class A, class B>
concept Assignable = std::is_assignable_v<A&, B>;

// What must not compile: mixing dimensions, and raw numbers that become quantities without naming a unit.
static_assert(Addable<Seconds, Seconds> && Subtractable<Bytes, Bytes> && Comparable<Watts, Watts>);
static_assert(!Addable<Seconds, Bytes>);
static_assert(!Addable<Seconds, double>);
static_assert(!Subtractable<Flops, Joules>);
static_assert(!Comparable<Bandwidth, FlopRate>);
static_assert(!Comparable<Seconds, double>);
static_assert(!Assignable<Seconds, Hertz>);
static_assert(!std::is_convertible_v<double, Seconds>);
static_assert(!std::is_constructible_v<Seconds, double>);
static_assert(!std::is_convertible_v<Seconds, double>);

// Products and quotients have the dimension that physics says, and equal dimensions cancel to a number.
static_assert(std::same_as<decltype(Flops() / Seconds()), FlopRate>);
static_assert(std::same_as<decltype(Bytes() / Bandwidth()), Seconds>);
static_assert(std::same_as<decltype(FlopRate() / Bandwidth()), Intensity>);
static_assert(std::same_as<decltype(Watts() * Seconds()), Joules>);
static_assert(std::same_as<decltype(1.0 / Seconds()), Hertz>);
static_assert(std::same_as<decltype(Bytes() * Hertz()), Bandwidth>);
static_assert(std::same_as<decltype(Bytes() / Bytes()), double>);
static_assert(std::same_as<decltype(Seconds() * Hertz()), double>);
static_assert(sizeof(Seconds) == sizeof(double));

TEST(Units, PrefixesAreDecimalOrBinaryAsNamed) {
  EXPECT_DOUBLE_EQ((141.0 * units::GiB).in(units::B), 151397597184.0);
  EXPECT_DOUBLE_EQ((141.0 * units::GB).in(units::B), 141e9);
  EXPECT_DOUBLE_EQ((1.0 * units::KiB).in(units::B), 1024.0);
  EXPECT_DOUBLE_EQ((4.8 * units::TB_per_s).in(units::GB_per_s), 4800.0);
  EXPECT_DOUBLE_EQ((330.0 * units::ns).in(units::us), 0.33);
  EXPECT_DOUBLE_EQ((1980.0 * units::MHz).in(units::GHz), 1.98);
}

TEST(Units, ArithmeticKeepsTheValue) {
  const Seconds time = 8.0 * units::GB / (4.0 * units::TB_per_s);
  EXPECT_DOUBLE_EQ(time.in(units::ms), 2.0);
  Bytes sum = 1.0 * units::KiB;
  sum += 2.0 * units::KiB;
  sum -= 1.0 * units::KiB;
  sum *= 3.0;
  sum /= 2.0;
  EXPECT_DOUBLE_EQ(sum.in(units::KiB), 3.0);
  EXPECT_DOUBLE_EQ((-sum).in(units::KiB), -3.0);
  EXPECT_LT(1.0 * units::us, 1.0 * units::ms);
  EXPECT_DOUBLE_EQ((700.0 * units::W * (2.0 * units::s)).in(units::J), 1400.0);
}

}  // namespace
}  // namespace plumbline::units_test

// Formulas: what is written down beside a value, and how it is printed.
#include "model/engine/formula.hpp"

#include <gtest/gtest.h>

#include <string>

#include "model/report/formula_text.hpp"

namespace plumbline::formula_test {
namespace {

using N = WrittenNumbers;
using Unit = Formula::Unit;

const Written<double> kTwo = N::number(2.0, "CTAs"), kThree = N::number(3.0, "steps"), kFour = N::number(4.0, "clk"),
                      kNothing = N::number(0.0, "nothing");
const Written<Seconds> kClk = N::per(1.0 * units::ns, 1.0 * units::GHz, "");

template <class Q>
std::string text(const Written<Q>& x) {
  return formula_text(x.how);
}

// --- what is written -------------------------------------------------------------------------------------------------

TEST(Formula, HoldsTheValueThatTheBareArithmeticGives) {
  EXPECT_EQ((kTwo * kThree + kFour).value, 10);
  EXPECT_EQ((kFour - kTwo / kThree).value, 4 - 2.0 / 3);
  EXPECT_DOUBLE_EQ((kTwo * kThree * kClk).value.in(units::ns), 6);
  EXPECT_EQ(value_of(kTwo * kThree), PlainNumbers::number(2.0, "") * PlainNumbers::number(3.0, ""));
  EXPECT_EQ(PlainNumbers::per(1.0 * units::ns, 1.0 * units::GHz, ""), kClk.value);
}

TEST(Formula, SaysUnitAndSiValueOfEachNumber) {
  EXPECT_EQ(N::number(3.0 * units::us, "").how.unit, Unit::seconds);
  EXPECT_DOUBLE_EQ(N::number(3.0 * units::us, "").how.value, 3e-6);
  EXPECT_EQ(N::number(2.0 * units::KiB, "").how.unit, Unit::bytes);
  EXPECT_DOUBLE_EQ(N::number(2.0 * units::KiB, "").how.value, 2048);
  EXPECT_EQ(N::number(2.0 * units::TB_per_s, "").how.unit, Unit::bandwidth);
  EXPECT_EQ(N::number(2.0 * units::W, "").how.unit, Unit::watts);
  EXPECT_EQ(N::number(2.0 * units::J, "").how.unit, Unit::joules);
  EXPECT_EQ(kClk.how.kind, Formula::Kind::inverse);
  EXPECT_EQ(kClk.how.unit, Unit::hertz);
}

/// Adding nothing is not written; taking something from nothing is.
TEST(Formula, LeavesOutWhatAddsNothing) {
  EXPECT_EQ(text(kTwo + kNothing), "2 CTAs");
  EXPECT_EQ(text(kNothing + kTwo), "2 CTAs");
  EXPECT_EQ(text(kTwo - kNothing), "2 CTAs");
  EXPECT_EQ(text(kNothing - kTwo), "0 nothing - 2 CTAs");
  EXPECT_EQ(text(kNothing * kTwo), "0 nothing x 2 CTAs");
}

/// A share of 1 is not worth a word; a count of 1 is.
TEST(Formula, LeavesOutFactorsOfOne) {
  const auto whole = N::factor(1, "of the clock"), half = N::factor(0.5, "of the clock");
  EXPECT_EQ(text(kTwo * whole), "2 CTAs");
  EXPECT_EQ(text(whole * kTwo), "2 CTAs");
  EXPECT_EQ(text(kTwo / whole), "2 CTAs");
  EXPECT_EQ(text(kTwo * half), "2 CTAs x 0.5000 of the clock");
  EXPECT_EQ(text(N::number(1.0, "CTAs") * kThree), "1 CTAs x 3 steps");
  EXPECT_EQ(text(whole / kTwo), "1 of the clock / 2 CTAs");
}

TEST(Formula, OfTwoWaysTheOneThatCountsIsWritten) {
  EXPECT_EQ(text(larger(kTwo, kThree)), "3 steps");
  EXPECT_EQ(text(larger(kThree, kTwo)), "3 steps");
  EXPECT_EQ(text(smaller(kTwo, kThree)), "2 CTAs");
  EXPECT_EQ(text(smaller(kThree, kTwo)), "2 CTAs");
  EXPECT_EQ(larger(2.0 * units::s, 3.0 * units::s), 3.0 * units::s);
  EXPECT_EQ(smaller(2.0, 3.0), 2.0);
}

// --- how it is printed -----------------------------------------------------------------------------------------------

/// Read from the left, each line gives the value of its formula.
TEST(FormulaText, BracketsWhatTheOrderWouldChange) {
  EXPECT_EQ(text(kTwo + kThree + kFour), "2 CTAs + 3 steps + 4 clk");
  EXPECT_EQ(text(kTwo + (kThree + kFour)), "2 CTAs + 3 steps + 4 clk");
  EXPECT_EQ(text(kTwo - kThree - kFour), "2 CTAs - 3 steps - 4 clk");
  EXPECT_EQ(text(kTwo - (kThree - kFour)), "2 CTAs - (3 steps - 4 clk)");
  EXPECT_EQ(text(kTwo - (kThree + kFour)), "2 CTAs - (3 steps + 4 clk)");
  EXPECT_EQ(text(kTwo + (kThree - kFour)), "2 CTAs + (3 steps - 4 clk)");
  EXPECT_EQ(text((kTwo + kThree) * kFour), "(2 CTAs + 3 steps) x 4 clk");
  EXPECT_EQ(text(kTwo + kThree * kFour), "2 CTAs + 3 steps x 4 clk");
  EXPECT_EQ(text(kTwo * (kThree * kFour)), "2 CTAs x 3 steps x 4 clk");
  EXPECT_EQ(text(kTwo / kThree / kFour), "2 CTAs / 3 steps / 4 clk");
  EXPECT_EQ(text(kTwo / (kThree / kFour)), "2 CTAs / (3 steps / 4 clk)");
  EXPECT_EQ(text(kTwo / (kThree * kFour)), "2 CTAs / (3 steps x 4 clk)");
  EXPECT_EQ(text((kTwo + kThree) / kFour), "(2 CTAs + 3 steps) / 4 clk");
  EXPECT_EQ(text(kTwo / kThree * kFour), "2 CTAs / 3 steps x 4 clk");
  EXPECT_EQ(text(kTwo * (kThree / kFour)), "2 CTAs x (3 steps / 4 clk)");
}

TEST(FormulaText, RatesAreDividedBy) {
  EXPECT_EQ(text(kTwo * kThree * kClk), "2 CTAs x 3 steps / 1000 MHz");
  EXPECT_EQ(text(kClk), "1 / 1000 MHz");
  EXPECT_EQ(text(kClk * kTwo), "1 / 1000 MHz x 2 CTAs");
}

TEST(FormulaText, ANegativeNumberIsTakenAway) {
  const auto minus = N::number(-3.0, "K");
  EXPECT_EQ(text(kTwo + minus), "2 CTAs - 3 K");
  EXPECT_EQ(text(kTwo - minus), "2 CTAs + 3 K");
}

/// Four digits that count, and a point where the number is not whole.
TEST(NumberText, SaysHowExactlyItStands) {
  EXPECT_EQ(number_text(7, Unit::one), "7");
  EXPECT_EQ(number_text(0, Unit::one), "0");
  EXPECT_EQ(number_text(1.5, Unit::one), "1.500");
  EXPECT_EQ(number_text(123.456, Unit::one), "123.5");
  EXPECT_EQ(number_text(12345.67, Unit::one), "12345.7");
  EXPECT_EQ(number_text(0.0123456, Unit::one), "0.01235");
  EXPECT_EQ(number_text(1.2345e-5, Unit::one), "1.234e-05");
  EXPECT_EQ(number_text(-1.5, Unit::one), "-1.500");
}

TEST(NumberText, TakesThePrefixOfItsUnit) {
  EXPECT_EQ(number_text(1.5e-6, Unit::seconds), "1.500 us");
  EXPECT_EQ(number_text(2.0 * units::ms), "2 ms");
  EXPECT_EQ(number_text(0, Unit::seconds), "0 s");
  EXPECT_EQ(number_text(1e-15, Unit::seconds), "0.001000 ps");
  EXPECT_EQ(number_text(1.98e9, Unit::hertz), "1980 MHz");
  EXPECT_EQ(number_text(9.17e12, Unit::bandwidth), "9.170 TB/s");
  EXPECT_EQ(number_text(0.5, Unit::watts), "500 mW");
  EXPECT_EQ(number_text(2.5e-12, Unit::joules), "2.500 pJ");
}

/// Whole KiB, MiB and GiB are said so; other whole bytes stay bytes up to 100 kB.
TEST(NumberText, BytesAreWholeWhereTheyCanBe) {
  EXPECT_EQ(number_text(49152, Unit::bytes), "48 KiB");
  EXPECT_EQ(number_text(3 * 1048576.0, Unit::bytes), "3 MiB");
  EXPECT_EQ(number_text(2 * 1073741824.0, Unit::bytes), "2 GiB");
  EXPECT_EQ(number_text(1000, Unit::bytes), "1000 B");
  EXPECT_EQ(number_text(150000, Unit::bytes), "150 kB");
  EXPECT_EQ(number_text(1234567, Unit::bytes), "1.235 MB");
}

TEST(Equations, StandInColumns) {
  EXPECT_EQ(equation("l2", 1.5 * units::us, "x"), "    l2       1.500 us = x\n");
  EXPECT_EQ(equation("a long label", 2.0 * units::W, "x"), "    a long label 2 W = x\n");
}

}  // namespace
}  // namespace plumbline::formula_test

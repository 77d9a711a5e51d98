#include "arch/format.hpp"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "arch/dtype.hpp"
#include "arch/error.hpp"

namespace plumbline::format_test {
namespace {

using ::testing::HasSubstr;

std::string refusal(void (*call)()) {
  try {
    call();
  } catch (const BadInput& e) {
    return e.what();
  }
  return "";
}

TEST(Format, ThreeDigitsAndThePrefixThatFits) {
  EXPECT_EQ(format(3.35 * units::TB_per_s), "3.35 TB/s");
  EXPECT_EQ(format(77.3 * units::us), "77.3 us");
  EXPECT_EQ(format_binary(131.0 * units::KiB), "131 KiB");
  EXPECT_EQ(format(989.4 * units::TFLOP_per_s), "989 TFLOP/s");
  EXPECT_EQ(format(1980.0 * units::MHz), "1980 MHz");
  EXPECT_EQ(format(700.0 * units::W), "700 W");
  EXPECT_EQ(format(0.0 * units::W), "0 W");
  EXPECT_EQ(format(999.6 * units::us), "1.00 ms");
}

TEST(Format, ReadsQuantitiesWithAndWithoutSpace) {
  EXPECT_EQ(parse_bandwidth("4.8 TB/s"), 4.8 * units::TB_per_s);
  EXPECT_EQ(parse_bandwidth("6TB/s"), 6.0 * units::TB_per_s);
  EXPECT_EQ(parse_bytes("141 GiB"), 141.0 * units::GiB);
  EXPECT_EQ(parse_bytes(" 32kB "), 32.0 * units::kB);
  EXPECT_EQ(parse_seconds("330ns"), 330.0 * units::ns);
  EXPECT_EQ(parse_hertz("1.98 GHz"), 1.98 * units::GHz);
  EXPECT_EQ(parse_watts("0.7 kW"), 0.7 * 1e3 * units::W);
  EXPECT_EQ(parse_flop_rate("1979 TOP/s"), 1979.0 * units::TFLOP_per_s);
}

TEST(Format, SaysWhatIsWrongWithAQuantity) {
  EXPECT_THAT(refusal([] { parse_bandwidth("4.8"); }), HasSubstr("no unit"));
  EXPECT_THAT(refusal([] { parse_bandwidth("400 Gb/s"); }), HasSubstr("bits"));
  EXPECT_THAT(refusal([] { parse_bandwidth("4800 GBps"); }), HasSubstr("GB/s"));
  EXPECT_THAT(refusal([] { parse_bytes("fast"); }), HasSubstr("expected a size such as 141 GiB"));
  EXPECT_THAT(refusal([] { parse_hertz("nan MHz"); }), HasSubstr("expected a clock"));
  EXPECT_THAT(refusal([] { parse_watts("700 V"); }), HasSubstr("expected a power"));
  EXPECT_THAT(refusal([] { parse_seconds(""); }), HasSubstr("expected a time"));
}

RC_GTEST_PROP(Format, WhatIsPrintedReadsBackWithinThreeDigits, ()) {
  // Three digits: half a unit in the third place is at most 0.5 %.
  const double number = *rc::gen::inRange(1, 1'000'000'000) * std::pow(10.0, *rc::gen::inRange(-6, 6));
  const auto close = [](double a, double b) { return std::abs(a / b - 1.0) <= 0.00502; };
  const Bandwidth bandwidth = number * units::B_per_s;
  if (number >= 1) RC_ASSERT(close(parse_bandwidth(format(bandwidth)).in(units::B_per_s), number) || number >= 1e15);
  const Seconds time = number * 1e-6 * units::s;
  if (number > 1e-3) RC_ASSERT(close(parse_seconds(format(time)).in(units::s), number * 1e-6));
}

RC_GTEST_PROP(Format, ExactTextReadsBackToTheSameDouble, (double value)) {
  RC_PRE(std::isfinite(value));
  RC_ASSERT(std::stod(format_exact(value)) == value);
}

RC_GTEST_PROP(Format, AnyTextIsReadOrRefusedAsBadInput, (const std::string& text)) {
  try {
    RC_ASSERT(std::isfinite(parse_bandwidth(text).in(units::B_per_s)));
  } catch (const BadInput& e) {
    RC_ASSERT(std::string(e.what()).find("expected a bandwidth") == 0U);
  }
}

TEST(DTypes, BitsCountTheirScales) {
  EXPECT_EQ(bits(DType::bf16), 16);
  EXPECT_EQ(bits(DType::tf32), 32);
  EXPECT_EQ(bits(DType::int4), 4.125);  // fp16 scale a group of 128
  EXPECT_EQ(bits(DType::mxfp4), 4.25);  // e8m0 scale a block of 32
  EXPECT_EQ(bits(DType::nvfp4), 4.5);   // e4m3 scale a block of 16
  EXPECT_DOUBLE_EQ(storage(DType::mxfp4, 32).in(units::B), 17.0);
}

TEST(DTypes, NamesReadBack) {
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    const auto type = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(name(type)), type) << name(type);
  }
  EXPECT_EQ(parse_dtype("bfloat16"), DType::bf16);
  EXPECT_FALSE(parse_dtype("bf61"));
  for (const char* text : {"bf16", "fp16", "fp8", "int8", "w4a16", "w8a16", "mxfp4", "nvfp4"}) {
    const auto precision = parse_precision(text);
    ASSERT_TRUE(precision) << text;
    EXPECT_EQ(name(*precision), text);
  }
}

}  // namespace
}  // namespace plumbline::format_test

// Names, sizes and precisions of data types.
#include "arch/dtype.hpp"

#include <gtest/gtest.h>

namespace plumbline::dtype_test {
namespace {

TEST(DType, TakesItsBitsInMemory) {
  for (const auto& [type, expected] : {std::pair(DType::fp64, 64.0),
                                       {DType::fp32, 32.0},
                                       {DType::tf32, 32.0},
                                       {DType::bf16, 16.0},
                                       {DType::fp16, 16.0},
                                       {DType::fp8, 8.0},
                                       {DType::int8, 8.0},
                                       {DType::fp4, 4.0},
                                       {DType::int4, 4.125},
                                       {DType::mxfp4, 4.25},
                                       {DType::nvfp4, 4.5}}) {
    EXPECT_EQ(bits(type), expected) << name(type);
    EXPECT_DOUBLE_EQ(storage(type, 1024).in(units::B), 128 * expected) << name(type);
  }
}

TEST(DType, GoesByTheNamesOfTheFrameworksToo) {
  for (const auto& [text, type] : {std::pair("bfloat16", DType::bf16),
                                   {"torch.bfloat16", DType::bf16},
                                   {"float16", DType::fp16},
                                   {"half", DType::fp16},
                                   {"float32", DType::fp32},
                                   {"float", DType::fp32},
                                   {"float64", DType::fp64},
                                   {"double", DType::fp64},
                                   {"e4m3", DType::fp8},
                                   {"fp8_e4m3", DType::fp8},
                                   {"fp8_e5m2", DType::fp8},
                                   {"float8_e4m3fn", DType::fp8},
                                   {"e2m1", DType::fp4},
                                   {"w4", DType::int4}}) {
    EXPECT_EQ(parse_dtype(text), type) << text;
  }
  for (const char* text : {"", "BF16", "fp", "bf16 ", "float128"}) EXPECT_FALSE(parse_dtype(text)) << text;
}

TEST(Precision, SaysWhatEachOperandIs) {
  const auto is = [](const char* text, DType activation, DType weight, DType output, DType math) {
    const auto precision = parse_precision(text);
    EXPECT_TRUE(precision && *precision == (Precision{activation, weight, output, math})) << text;
  };
  is("bf16", DType::bf16, DType::bf16, DType::bf16, DType::bf16);
  is("bfloat16", DType::bf16, DType::bf16, DType::bf16, DType::bf16);
  is("half", DType::fp16, DType::fp16, DType::fp16, DType::fp16);
  is("tf32", DType::tf32, DType::tf32, DType::tf32, DType::tf32);
  is("fp8", DType::fp8, DType::fp8, DType::bf16, DType::fp8);
  is("int8", DType::int8, DType::int8, DType::bf16, DType::int8);
  is("w4a16", DType::bf16, DType::int4, DType::bf16, DType::bf16);
  is("w8a16", DType::bf16, DType::int8, DType::bf16, DType::bf16);
  is("mxfp4", DType::bf16, DType::mxfp4, DType::bf16, DType::bf16);
  is("nvfp4", DType::nvfp4, DType::nvfp4, DType::bf16, DType::fp4);
  EXPECT_FALSE(parse_precision("fp4"));
  EXPECT_EQ(name(Precision{DType::bf16, DType::fp8, DType::bf16, DType::bf16}), "mixed");
}

TEST(DataPattern, NamesReadBack) {
  for (std::size_t i = 0; i < kDataPatternCount; ++i) {
    const auto pattern = static_cast<DataPattern>(i);
    EXPECT_EQ(parse_data_pattern(name(pattern)), pattern);
  }
  EXPECT_EQ(parse_data_pattern("zeros"), DataPattern::zeros);
  EXPECT_FALSE(parse_data_pattern("zero"));
}

}  // namespace
}  // namespace plumbline::dtype_test

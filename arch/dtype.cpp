#include "arch/dtype.hpp"

#include <utility>

namespace plumbline {
namespace {

struct Entry {
  DType type;
  std::string_view name;
  double bits;
};
constexpr std::array<Entry, kDTypeCount> kTypes{{{DType::fp64, "fp64", 64},
                                                 {DType::fp32, "fp32", 32},
                                                 {DType::tf32, "tf32", 32},
                                                 {DType::bf16, "bf16", 16},
                                                 {DType::fp16, "fp16", 16},
                                                 {DType::fp8, "fp8", 8},
                                                 {DType::int8, "int8", 8},
                                                 {DType::fp4, "fp4", 4},
                                                 {DType::int4, "int4", 4.125},
                                                 {DType::mxfp4, "mxfp4", 4.25},
                                                 {DType::nvfp4, "nvfp4", 4.5}}};

constexpr std::array<std::pair<std::string_view, DType>, 14> kAliases{{{"bfloat16", DType::bf16},
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
                                                                       {"w4", DType::int4},
                                                                       {"torch.bfloat16", DType::bf16}}};

struct PrecisionEntry {
  std::string_view name;
  Precision precision;
};
constexpr PrecisionEntry same(std::string_view name, DType t) { return {name, {t, t, t, t}}; }
constexpr std::array<PrecisionEntry, 11> kPrecisions{{
    same("bf16", DType::bf16),
    same("fp16", DType::fp16),
    same("fp32", DType::fp32),
    same("tf32", DType::tf32),
    same("fp64", DType::fp64),
    {"fp8", {DType::fp8, DType::fp8, DType::bf16, DType::fp8}},
    {"int8", {DType::int8, DType::int8, DType::bf16, DType::int8}},
    {"w4a16", {DType::bf16, DType::int4, DType::bf16, DType::bf16}},
    {"w8a16", {DType::bf16, DType::int8, DType::bf16, DType::bf16}},
    {"mxfp4", {DType::bf16, DType::mxfp4, DType::bf16, DType::bf16}},
    {"nvfp4", {DType::nvfp4, DType::nvfp4, DType::bf16, DType::fp4}},
}};

constexpr std::array<std::string_view, kDataPatternCount> kPatterns{"normal", "zeros", "ternary", "uniform"};

}  // namespace

std::string_view name(DataPattern pattern) { return kPatterns[static_cast<std::size_t>(pattern)]; }

std::optional<DataPattern> parse_data_pattern(std::string_view text) {
  for (std::size_t i = 0; i < kPatterns.size(); ++i) {
    if (kPatterns[i] == text) return static_cast<DataPattern>(i);
  }
  return std::nullopt;
}

double bits(DType type) { return kTypes[static_cast<std::size_t>(type)].bits; }

Bytes storage(DType type, double elements) { return elements * (bits(type) / 8.0) * units::B; }

std::string_view name(DType type) { return kTypes[static_cast<std::size_t>(type)].name; }

std::optional<DType> parse_dtype(std::string_view text) {
  for (const Entry& e : kTypes) {
    if (e.name == text) return e.type;
  }
  for (const auto& [alias, type] : kAliases) {
    if (alias == text) return type;
  }
  return std::nullopt;
}

std::optional<Precision> parse_precision(std::string_view text) {
  for (const PrecisionEntry& e : kPrecisions) {
    if (e.name == text) return e.precision;
  }
  if (text == "bfloat16") return kPrecisions[0].precision;
  if (text == "float16" || text == "half") return kPrecisions[1].precision;
  return std::nullopt;
}

std::string_view name(const Precision& precision) {
  for (const PrecisionEntry& e : kPrecisions) {
    if (e.precision == precision) return e.name;
  }
  return "mixed";
}

}  // namespace plumbline

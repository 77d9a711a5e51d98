// Data types: their names and how many bits one element takes in memory, block scales included; and what operands hold.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "arch/units.hpp"

namespace plumbline {

enum class DType { fp64, fp32, tf32, bf16, fp16, fp8, int8, fp4, int4, mxfp4, nvfp4, count_ };
inline constexpr std::size_t kDTypeCount = static_cast<std::size_t>(DType::count_);

/// Bits one element takes in memory. `int4`: 4 bits + one fp16 scale a group of 128 (4.125). `mxfp4`: e2m1 + an e8m0
/// scale a block of 32 (4.25). `nvfp4`: e2m1 + an e4m3 scale a block of 16 (4.5). tf32 is stored as fp32.
/// Sources: OCP Microscaling Formats v1.0 (mxfp4); NVIDIA TensorRT Model Optimizer docs (nvfp4); GPTQ/AWQ group size
/// 128.
double bits(DType type);
inline double bytes_of(DType type) { return bits(type) / 8.0; }

/// Memory that `elements` elements of `type` take (scales spread evenly).
Bytes storage(DType type, double elements);

std::string_view name(DType type);
/// The type of that name ("bf16", "bfloat16", "e4m3", ...) or nothing.
std::optional<DType> parse_dtype(std::string_view text);

/// One value per data type, zero where not set.
template <class T>
class PerDType {
 public:
  constexpr T& operator[](DType type) { return values_[static_cast<std::size_t>(type)]; }
  constexpr const T& operator[](DType type) const { return values_[static_cast<std::size_t>(type)]; }
  bool operator==(const PerDType&) const = default;

 private:
  std::array<T, kDTypeCount> values_{};
};

/// How an operator stores and multiplies: activations, weights (or the KV cache), result, and the tensor-core format.
struct Precision {
  DType input = DType::bf16;
  DType weight = DType::bf16;
  DType output = DType::bf16;
  DType math = DType::bf16;
  bool operator==(const Precision&) const = default;
};

/// `bf16`, `fp16`, `fp32`, `tf32`, `fp64`: all the same. `fp8`: fp8 in, bf16 out. `int8`: int8 in, bf16 out.
/// `w4a16`: int4 weights (group 128), bf16 maths. `mxfp4`: mxfp4 weights, bf16 maths. `nvfp4`: nvfp4 in, fp4 maths.
std::optional<Precision> parse_precision(std::string_view text);
/// The short name that `parse_precision` reads back, or "mixed".
std::string_view name(const Precision& precision);

/// What operands hold. It matters to power alone: wires and multipliers spend energy on bits that change. `normal`:
/// standard normal; `uniform`: even over [-1, 1); `ternary`: -1, 0 or 1; `zeros`.
enum class DataPattern { normal, zeros, ternary, uniform, count_ };
inline constexpr std::size_t kDataPatternCount = static_cast<std::size_t>(DataPattern::count_);
std::string_view name(DataPattern pattern);
/// The pattern of that name or nothing.
std::optional<DataPattern> parse_data_pattern(std::string_view text);

}  // namespace plumbline

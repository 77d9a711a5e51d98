// The table behind ops/op_text: for each operator its keys and how a row of key values becomes a shape and back.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "ops/op/shapes.hpp"

namespace plumbline {

enum class KeyType : std::uint8_t {
  size,     ///< whole number in [1, 2^40]
  count,    ///< whole number in [0, 2^40]
  flag,     ///< 0 or 1
  percent,  ///< number in [0, 100]
  dtype,    ///< name of a data type
  recurrence
};

struct Key {
  std::string_view name;
  KeyType type = KeyType::size;
  bool required = true;
  std::int64_t fallback = 0;  ///< value when absent; text leaves a key out when it has this value
};

inline constexpr std::size_t kMostKeys = 11;

/// One value a key, in the order of the operator's keys; types and kinds as their enum's number, -1 = not given.
struct KeyValues {
  std::array<std::int64_t, kMostKeys> number{};
  double percent = 0;
  std::int64_t operator[](std::size_t i) const { return number[i]; }
};

struct OpSpec {
  std::string_view name;
  std::span<const Key> keys;
  Op (*make)(const KeyValues& values, const Precision& precision, int kind);
  void (*take)(const Op& op, KeyValues& values);
  int kind = 0;             ///< the enum's number where several operators share a shape
  bool precisions = false;  ///< dtype names a precision (`w4a16`), not a type
  bool ours = false;        ///< not in the contract's table
};

std::span<const OpSpec> op_specs();

/// What `parse_precision` reads, without aliases.
std::span<const std::string_view> precision_names();
/// The named precision that differs from `precision` in the fewest parts.
std::string_view base_precision(const Precision& precision);

/// The operator's type where it has a single one; nothing to say (bf16) for the others.
DType single_dtype(const Op& op);

}  // namespace plumbline

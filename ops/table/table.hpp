// One table of all operators, as text, studies, fuzzers, random tests and `list ops` go through them. It is made from
// the variant `Op` and the facts of each shape, so nothing is listed twice.
#pragma once

#include <span>
#include <string_view>

#include "ops/facts/facts.hpp"

namespace plumbline {

struct Operator {
  std::string_view name;
  int kind = 0;       ///< the enum's number where several operators share a shape
  bool ours = false;  ///< not in the contract's table
  Pattern pattern = Pattern::none;
  std::span<const Key> keys;
  bool precisions = false;                                 ///< dtype names a precision (`w4a16`), not a type
  Op (*make)(int kind, const Precision& given) = nullptr;  ///< that operator with its types and no sizes yet
};

/// The contract's operators first, then ours.
std::span<const Operator> operators();
/// Null where there is none of that name.
const Operator* find_operator(std::string_view name);
const OperatorName& operator_name(const Op& op);
std::span<const Key> keys_of(const Op& op);

/// The shape inside, as keys take it.
const void* shape_address(const Op& op);
void* shape_address(Op& op);

/// What does not hold between its keys, or nothing.
const char* broken_relation(const Op& op);
/// Changes a shape until all relations hold. For shapes drawn at random; sizes must be at least 1.
void mend(Op& op);
Volume volume_of(const Op& op);

/// The operator's type where it has a single one; nothing to say (bf16) for the others.
DType single_dtype(const Op& op);

}  // namespace plumbline

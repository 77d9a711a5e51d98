// What is known of an operator beside its shape. Each ops/op/<operator>.cpp fills in one Facts; all that reads, writes,
// counts, checks or draws operators goes by it.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "ops/facts/gradient.hpp"
#include "ops/facts/key.hpp"
#include "ops/facts/work.hpp"

namespace plumbline {

/// A name in text and reports. A shape with several names has a `kind`, and the names are in the order of that enum.
struct OperatorName {
  std::string_view name;
  int kind = 0;
  bool ours = false;  ///< not in the contract's table
  Pattern pattern = Pattern::none;
};

/// Name i is that of kind i.
constexpr bool in_order(std::span<const OperatorName> names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].kind != static_cast<int>(i)) return false;
  }
  return true;
}

/// Elements of the largest tensor; multiply-adds or pairs. Both are bounded so that int64 products cannot overflow.
struct Volume {
  double elements = 0, products = 0;
};

/// What must hold between keys. `complaint` continues "op 'topk': ". `mend` turns a shape for which it does not hold
/// into a near one for which it does: fuzzers and property tests draw shapes with it.
template <class Shape>
struct Relation {
  const char* complaint;
  bool (*holds)(const Shape&);
  void (*mend)(Shape&);
};

/// The operator's dtype gives the types that no key gives.
template <class Shape>
void set_types(Shape& shape, const Precision& given) {
  if constexpr (requires { shape.precision; }) shape.precision = given;
  if constexpr (requires { shape.dtype; }) shape.dtype = given.input;
  if constexpr (requires { shape.kv_dtype; }) shape.kv_dtype = given.input;
}

template <class Shape>
void no_gradient(const Shape&, NodeRole, Gradient&) {}

template <class Shape>
struct Facts {
  std::span<const OperatorName> names;
  std::span<const Key> keys;
  std::span<const Relation<Shape>> relations = {};
  Work (*work)(const Shape&) = nullptr;
  Volume (*volume)(const Shape&) = nullptr;
  void (*gradient)(const Shape&, NodeRole, Gradient&) = no_gradient<Shape>;
  void (*set_types)(Shape&, const Precision& given) = plumbline::set_types<Shape>;
};

}  // namespace plumbline

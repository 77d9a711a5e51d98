// Keys of an operator's text: a name and the member of its shape that the key stands for.
//
//   constexpr auto kKeys = std::to_array<Key>({key<&Gemm::m>("M"), optional_key<&Gemm::batch>("batch"), ...});
//
// A key's type follows from the member's. A Key itself does not know the shape's type, so that text is read and written
// by one function for all operators; `get`, `set` and `usual` take the address of the shape.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include "ops/facts/precision.hpp"
#include "ops/shape/gemm.hpp"
#include "ops/shape/recurrence.hpp"

namespace plumbline {

enum class KeyType : std::uint8_t {
  size,        ///< whole number in [1, 2^40]
  count,       ///< whole number in [0, 2^40]
  amount,      ///< whole number in [0, 2^53]: FLOPs, bytes
  flag,        ///< 0 or 1
  percent,     ///< number in [0, 100]
  dtype,       ///< name of a data type
  recurrence,  ///< name of a RecurrentKind
  layout,      ///< nk or kn
  scaling,     ///< tensor, token or block
};

/// Values pass as doubles (whole numbers up to 2^53 exactly); types and kinds as their enum's number.
struct Key {
  std::string_view name;
  KeyType type = KeyType::size;
  bool required = true;
  double (*get)(const void* shape) = nullptr;
  void (*set)(void* shape, double value) = nullptr;
  /// What an absent key stands for, given the others; text leaves the key out when it has this value. Types are absent
  /// where the operator's dtype says them, so a reader sets those from the dtype and not from here.
  double (*usual)(const void* shape) = nullptr;
};

namespace key_detail {

template <class Member>
struct Parts;
template <class Shape, class Value>
struct Parts<Value Shape::*> {
  using Owner = Shape;
};

/// A member, of a member where two are given.
template <auto kFirst, auto... kRest>
auto& follow(auto& whole) {
  if constexpr (sizeof...(kRest) == 0) return whole.*kFirst;
  else return follow<kRest...>(whole.*kFirst);
}

template <auto kFirst, auto... kRest>
struct Path {
  using Shape = typename Parts<decltype(kFirst)>::Owner;
  using Value = std::remove_reference_t<decltype(follow<kFirst, kRest...>(std::declval<Shape&>()))>;
  static Value& in(Shape& shape) { return follow<kFirst, kRest...>(shape); }
  static const Value& in(const Shape& shape) { return follow<kFirst, kRest...>(shape); }
  static double get(const void* shape) { return static_cast<double>(in(*static_cast<const Shape*>(shape))); }
  static void set(void* shape, double value) { in(*static_cast<Shape*>(shape)) = static_cast<Value>(value); }
  /// The value that the struct itself begins with.
  static double initial(const void*) {
    const Shape shape{};
    return get(&shape);
  }
};

template <class Value>
constexpr KeyType type_of() {
  if constexpr (std::is_same_v<Value, DType>) return KeyType::dtype;
  else if constexpr (std::is_same_v<Value, RecurrentKind>) return KeyType::recurrence;
  else if constexpr (std::is_same_v<Value, WeightLayout>) return KeyType::layout;
  else if constexpr (std::is_same_v<Value, double>) return KeyType::percent;
  else if constexpr (std::is_same_v<Value, std::int64_t>) return KeyType::size;
  else return KeyType::flag;
}

/// That part of the named precision nearest to the shape's.
template <auto kPrecision, auto kPart>
double usual_part(const void* shape) {
  const Precision& whole = Path<kPrecision>::in(*static_cast<const typename Path<kPrecision>::Shape*>(shape));
  return static_cast<double>(named_precision_near(whole).*kPart);
}

}  // namespace key_detail

/// A key that must be given.
template <auto... kMembers>
constexpr Key key(std::string_view name) {
  using Path = key_detail::Path<kMembers...>;
  return {name, key_detail::type_of<typename Path::Value>(), true, Path::get, Path::set, Path::initial};
}

/// A key that may be left out: it then has the value that the struct begins with, or `usual`. (Two functions, as GCC 12
/// under UBSan does not take a comparison with a function's address for constant.)
template <auto... kMembers>
constexpr Key optional_key(std::string_view name) {
  Key k = key<kMembers...>(name);
  k.required = false;
  return k;
}
template <auto... kMembers>
constexpr Key optional_key(std::string_view name, double (*usual)(const void*)) {
  Key k = optional_key<kMembers...>(name);
  k.usual = usual;
  return k;
}

/// The same of a number that may be 0.
template <auto... kMembers>
constexpr Key optional_count(std::string_view name) {
  Key k = optional_key<kMembers...>(name);
  k.type = KeyType::count;
  return k;
}

/// `usual` of a key that stands for what another member says.
template <auto... kMembers>
constexpr auto same_as = key_detail::Path<kMembers...>::get;

/// `in`, `weight`, `out` or `math` of a shape with a Precision.
template <auto kPrecision, auto kPart>
constexpr Key precision_key(std::string_view name) {
  return optional_key<kPrecision, kPart>(name, key_detail::usual_part<kPrecision, kPart>);
}

}  // namespace plumbline

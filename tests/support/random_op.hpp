// Random operators for property tests: every operator of the table, small and large dims, all within what parse_op
// accepts. Keys, types and what must hold between keys come from the table too, so a new operator is drawn at once.
#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/table/table.hpp"
#include "ops/table/text.hpp"

namespace plumbline::testing_support {

/// 1 .. 2^most_bits, small numbers as likely as large ones.
inline std::int64_t random_dim(int most_bits) {
  const int width = *rc::gen::inRange(0, most_bits);
  return *rc::gen::inRange<std::int64_t>(std::int64_t{1} << width, (std::int64_t{2} << width) + 1);
}

inline DType random_dtype() { return static_cast<DType>(*rc::gen::inRange(0, static_cast<int>(kDTypeCount))); }
inline bool coin() { return *rc::gen::inRange(0, 2) == 1; }

/// How large a dimension grows, in bits; keys that are not named here are of middle size.
inline int bits_of_key(std::string_view key) {
  constexpr std::pair<std::string_view, int> kBits[] = {{"M", 13},         {"N", 13},       {"K", 13},
                                                        {"rows", 13},      {"cols", 13},    {"bytes", 34},
                                                        {"n", 30},         {"nnz", 20},     {"S", 11},
                                                        {"Skv", 12},       {"window", 12},  {"D", 8},
                                                        {"Dv", 8},         {"Dc", 9},       {"Dr", 6},
                                                        {"B", 4},          {"Hq", 6},       {"Hkv", 4},
                                                        {"H", 5},          {"batch", 5},    {"page", 6},
                                                        {"E", 8},          {"topk", 3},     {"T", 10},
                                                        {"k", 6},          {"gpus", 6},     {"width", 2},
                                                        {"state", 6},      {"groups", 3},   {"tensor", 40},
                                                        {"fp32", 36},      {"sfu", 32},     {"instructions", 30},
                                                        {"smem", 34},      {"l2", 34},      {"read", 33},
                                                        {"write", 33},     {"chain", 3},    {"ctas", 12},
                                                        {"in_flight", 15}, {"registers", 7}};
  for (const auto& [name, bits] : kBits) {
    if (name == key) return bits;
  }
  return 8;
}

inline double random_value(const Key& key) {
  switch (key.type) {
    case KeyType::flag: return coin() ? 1 : 0;
    case KeyType::percent: return *rc::gen::inRange(0, 1001) / 10.0;
    case KeyType::dtype: return static_cast<double>(random_dtype());
    case KeyType::recurrence: return *rc::gen::inRange(0, 3);
    case KeyType::scaling: return *rc::gen::inRange(0, 3);
    case KeyType::layout: return *rc::gen::inRange(0, 2);
    default: return static_cast<double>(random_dim(bits_of_key(key.name)));
  }
}

/// Optional keys are left as usual half of the time.
inline Op random_op_of(const Operator& which) {
  Precision types{random_dtype(), DType::bf16, DType::bf16, DType::bf16};
  if (which.precisions)
    types = *parse_precision(
        precision_names()[static_cast<std::size_t>(*rc::gen::inRange(0, static_cast<int>(precision_names().size())))]);
  Op op = which.make(which.kind, types);
  void* shape = shape_address(op);
  for (const Key& key : which.keys) {
    if (key.required) key.set(shape, random_value(key));
  }
  for (const Key& key : which.keys) {
    if (key.required) continue;
    if (coin()) key.set(shape, random_value(key));
    else if (key.type != KeyType::dtype) key.set(shape, key.usual(shape));
  }
  mend(op);
  return op;
}

/// The next size that models have: heads of 64, 128 or 256, pages of 16 to 128, rows that are whole 64ths; others as they
/// are.
inline double served_value(const Key& key, double value) {
  const auto up_to = [value](double step, double most) {
    return std::min(most, std::exp2(std::ceil(std::log2(std::max(value, step)))));
  };
  constexpr std::string_view kHeads[] = {"D", "Dv", "Dc", "Dr"}, kRows[] = {"K", "N", "cols", "width"};
  const auto is_one_of = [&key](const auto& names) {
    return std::find(std::begin(names), std::end(names), key.name) != std::end(names);
  };
  if (is_one_of(kHeads)) return up_to(64, 256);
  if (key.name == "page" && value > 0) return up_to(16, 128);
  return is_one_of(kRows) ? 64 * std::ceil(value / 64) : value;
}

/// A random operator as models have it: sizes as served_value() has them, mostly bf16.
inline Op random_served_op_of(const Operator& which) {
  const Op drawn = random_op_of(which);
  const Precision bf16{DType::bf16, DType::bf16, DType::bf16, DType::bf16};
  Precision types = bf16;
  if (*rc::gen::inRange(0, 4) == 0) {
    types.input = random_dtype();
    if (which.precisions)
      types = *parse_precision(precision_names()[static_cast<std::size_t>(
          *rc::gen::inRange(0, static_cast<int>(precision_names().size())))]);
  }
  Op op = which.make(which.kind, types);
  for (const Key& key : which.keys) {
    if (key.type == KeyType::dtype) key.set(shape_address(op), key.usual(shape_address(op)));
    else key.set(shape_address(op), served_value(key, key.get(shape_address(drawn))));
  }
  mend(op);
  return op;
}

/// A random operator of one shape; of its first name where it has several.
template <class Shape>
Shape random_shape() {
  return std::get<Shape>(random_op_of(*find_operator(Shape::facts().names.front().name)));
}

/// A matrix product of any kind.
inline Op random_matrix_op() {
  const int which = *rc::gen::inRange(0, 3);
  if (which == 0) return random_shape<Gemm>();
  if (which == 1) return random_shape<GroupedGemm>();
  return random_shape<GemmSparse24>();
}

/// A shape first, then one of its operators, so that the many row-wise kinds are not most of what is drawn.
inline Operator random_operator() {
  const auto shape = static_cast<std::size_t>(*rc::gen::inRange(0, static_cast<int>(std::variant_size_v<Op>)));
  std::vector<Operator> of_shape;
  for (const Operator& each : operators()) {
    if (each.make(each.kind, {}).index() == shape) of_shape.push_back(each);
  }
  return of_shape[static_cast<std::size_t>(*rc::gen::inRange(0, static_cast<int>(of_shape.size())))];
}
inline Op random_op() { return random_op_of(random_operator()); }
inline Op random_served_op() { return random_served_op_of(random_operator()); }

}  // namespace plumbline::testing_support

#include "ops/table/table.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

namespace plumbline {
namespace {

template <class Shape>
Op make_op(int kind, const Precision& given) {
  Shape shape{};
  if (Shape::facts().names.size() > 1) {
    if constexpr (requires { shape.kind; }) shape.kind = static_cast<decltype(shape.kind)>(kind);
  }
  Shape::facts().set_types(shape, given);
  return shape;
}

template <class Shape>
void add_rows(std::vector<Operator>& table) {
  constexpr bool kPrecisions = requires(Shape s) { s.precision; };
  for (const OperatorName& n : Shape::facts().names) {
    table.push_back({n.name, n.kind, n.ours, n.pattern, Shape::facts().keys, kPrecisions, make_op<Shape>});
  }
}

template <class... Shapes>
std::vector<Operator> rows_of(const std::variant<Shapes...>*) {
  std::vector<Operator> table;
  (add_rows<Shapes>(table), ...);
  std::stable_partition(table.begin(), table.end(), [](const Operator& o) { return !o.ours; });
  return table;
}

}  // namespace

std::span<const Operator> operators() {
  static const std::vector<Operator> table = rows_of(static_cast<const Op*>(nullptr));
  return table;
}

const Operator* find_operator(std::string_view name) {
  for (const Operator& each : operators()) {
    if (each.name == name) return &each;
  }
  return nullptr;
}

const OperatorName& operator_name(const Op& op) {
  return std::visit(
      [](const auto& s) -> const OperatorName& {
        const auto names = s.facts().names;
        if constexpr (requires { s.kind; }) {
          if (names.size() > 1) return names[static_cast<std::size_t>(s.kind)];
        }
        return names.front();
      },
      op);
}

std::span<const Key> keys_of(const Op& op) {
  return std::visit([](const auto& s) { return s.facts().keys; }, op);
}

std::string_view op_name(const Op& op) { return operator_name(op).name; }

Work work(const Op& op) {
  return std::visit([](const auto& s) { return s.facts().work(s); }, op);
}

Volume volume_of(const Op& op) {
  return std::visit([](const auto& s) { return s.facts().volume(s); }, op);
}

Gradient gradient_of(const Op& op, NodeRole role) {
  Gradient gradient;
  std::visit([&](const auto& s) { s.facts().gradient(s, role, gradient); }, op);
  return gradient;
}

const void* shape_address(const Op& op) {
  return std::visit([](const auto& s) { return static_cast<const void*>(&s); }, op);
}
void* shape_address(Op& op) {
  return std::visit([](auto& s) { return static_cast<void*>(&s); }, op);
}

const char* broken_relation(const Op& op) {
  return std::visit(
      [](const auto& s) -> const char* {
        for (const auto& relation : s.facts().relations) {
          if (!relation.holds(s)) return relation.complaint;
        }
        return nullptr;
      },
      op);
}

void mend(Op& op) {
  std::visit(
      [](auto& s) {
        for (const auto& relation : s.facts().relations) {
          if (!relation.holds(s)) relation.mend(s);
        }
      },
      op);
}

DType single_dtype(const Op& op) {
  return std::visit(
      [](const auto& s) {
        if constexpr (requires { s.dtype; }) return s.dtype;
        else if constexpr (requires { s.input; }) return s.input;
        else if constexpr (requires { s.precision.output; }) return s.precision.output;
        else return DType::bf16;
      },
      op);
}

}  // namespace plumbline

#include "ops/block/evaluate.hpp"

#include <cmath>

#include "ops/table/text.hpp"

namespace plumbline::block {
namespace {

constexpr double kLargestSize = 1099511627776.0;      // 2^40, as operators have it
constexpr double kLargestBytes = 9007199254740992.0;  // 2^53

DType type_of(int word, const Formats& formats) {
  if (word == kBaseType) return formats.types.base;
  return word == kCacheType ? formats.kept : static_cast<DType>(word);
}

Precision precision_of(const BlockLine& line, const Formats& formats) {
  if (line.precision || line.op->precisions) return product_precision(line, formats.types);
  const DType type = type_of(line.type, formats);
  return {type, type, type, type};
}

/// Whether a number may stand for a key, in bounds within which nothing overflows.
const char* expected_of(KeyType type, double value) {
  const bool whole = value == std::floor(value);
  switch (type) {
    case KeyType::percent: return value >= 0 && value <= 100 ? nullptr : "a number from 0 to 100";
    case KeyType::flag: return value == 0 || value == 1 ? nullptr : "0 or 1";
    case KeyType::amount:
      return whole && value >= 0 && value <= kLargestBytes ? nullptr : "a whole number from 0 to 2^53";
    case KeyType::count:
      return whole && value >= 0 && value <= kLargestSize ? nullptr : "a whole number from 0 to 2^40";
    default: return whole && value >= 1 && value <= kLargestSize ? nullptr : "a whole number from 1 to 2^40";
  }
}

}  // namespace

Precision product_precision(const BlockLine& line, const lowering::Types& types) {
  if (line.precision) return *line.precision;
  switch (line.weights_in) {
    case WeightsIn::linear: return types.linear;
    case WeightsIn::experts: return types.experts;
    default: return types.plain;
  }
}

Values::Values(const BlockText& text, const StepNumbers& numbers, Part part) : text_(text) {
  named_.reserve(kStepNumbers + text.scope.values().size());
  named_.insert(named_.end(), numbers.begin(), numbers.end());
  named_.insert(named_.end(), text.scope.values().begin(), text.scope.values().end());
  if (part != Part::operators) return;
  results_.reserve(text.expressions.size());
  for (const Expression& each : text.expressions) results_.push_back(each(named_));
}

double Values::operator[](int expression) const {
  const auto at = static_cast<std::size_t>(expression);
  return results_.empty() ? text_.expressions[at](named_) : results_[at];
}

std::optional<Op> made(const BlockLine& line, const Values& values, const Formats& formats, BadKey& bad) {
  Op op = line.op->make(line.op->kind, precision_of(line, formats));
  void* shape = shape_address(op);
  const auto give = [&] {
    for (const BlockLine::KeyValue& each : line.keys) {
      double value = each.value >= 0 ? values[each.value] : static_cast<double>(each.type);
      if (each.value < 0 && each.key->type == KeyType::dtype) value = static_cast<double>(type_of(each.type, formats));
      each.key->set(shape, value);
    }
  };
  for (const BlockLine::KeyValue& each : line.keys) {
    if (each.value < 0) continue;
    const double value = values[each.value];
    if (const char* expected = expected_of(each.key->type, value)) {
      bad = {each.key->name, expected, value};
      return std::nullopt;
    }
  }
  give();
  for (const Key* key : line.absent) key->set(shape, key->usual(shape));
  give();  // an absent key may stand for the same member as one that is given
  return op;
}

double written_elements(const BlockLine& line, const Values& values) {
  BadKey bad;
  const std::optional<Op> op = made(line, values, Formats{}, bad);
  if (!op || broken_relation(*op) != nullptr || volume_of(*op).elements > kLargestBytes) return 0;
  return work(*op).write.in(units::B) / 2;  // bf16, as types begin
}

}  // namespace plumbline::block

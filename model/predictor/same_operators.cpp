#include "model/predictor/same_operators.hpp"

#include <bit>

#include "ops/table/table.hpp"

namespace plumbline {
namespace {

/// Equal for equal operators: of the values of their keys (FNV-1a, 64 bits at a time).
std::uint64_t hash_of(const Op& op, double held) {
  constexpr std::uint64_t kPrime = 1099511628211ULL;
  std::uint64_t hash = 14695981039346656037ULL ^ op.index() ^ std::bit_cast<std::uint64_t>(held);
  const void* shape = shape_address(op);
  for (const Key& key : keys_of(op)) {
    hash = (hash ^ std::bit_cast<std::uint64_t>(key.get(shape))) * kPrime;
    hash ^= hash >> 29U;  // whole numbers differ in their high bits alone
  }
  return hash;
}

}  // namespace

SameOperators::SameOperators(const StepPrediction& step) : step_(step) {
  const std::size_t nodes = step.graph.nodes.size();
  if (nodes > kFew) places_.resize(std::bit_ceil(2 * nodes));
}

bool SameOperators::same(std::size_t i, std::size_t other) const {
  const Op& a = step_.graph.nodes[i].op;
  const Op& b = step_.graph.nodes[other].op;
  return b.index() == a.index() && step_.nodes[other].held == step_.nodes[i].held &&
         step_.graph.nodes[other].launch == step_.graph.nodes[i].launch && b == a;
}

std::size_t SameOperators::first(std::size_t i) {
  if (places_.empty()) {
    for (std::size_t j = 0; j < i; ++j) {
      if (same(i, j)) return j;
    }
    return i;
  }
  const std::uint64_t hash = hash_of(step_.graph.nodes[i].op, step_.nodes[i].held);
  const std::size_t last = places_.size() - 1;  // a power of two less one
  std::size_t at = static_cast<std::size_t>(hash >> 32U) & last;
  for (; places_[at].node != SIZE_MAX; at = (at + 1) & last) {
    if (places_[at].hash == hash && same(i, places_[at].node)) return places_[at].node;
  }
  places_[at] = {hash, i};
  return i;
}

}  // namespace plumbline

// Which nodes of a step ask for the same operator under the same conditions: such are priced once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "model/predict.hpp"

namespace plumbline {

class SameOperators {
 public:
  explicit SameOperators(const StepPrediction& step) : step_(step), many_(step.graph.nodes.size() > kFew) {}

  /// The first node that asks for what node `i` does: `i` when there is none before it. Of the nodes up to `i` it is known
  /// what of their operands is held. To be called for each node in turn.
  std::size_t first(std::size_t i);

 private:
  static constexpr std::size_t kFew = 64;  ///< up to so many, looking at each is quicker than a table
  bool same(std::size_t i, std::size_t other) const;

  const StepPrediction& step_;
  bool many_;
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> firsts_;
};

}  // namespace plumbline

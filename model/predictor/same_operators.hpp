// Which nodes of a step ask for the same operator under the same conditions: such are priced once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/predict.hpp"

namespace plumbline {

class SameOperators {
 public:
  explicit SameOperators(const StepPrediction& step);

  /// The first node that asks for what node `i` does: `i` when there is none before it. Of the nodes up to `i` it is known
  /// what of their operands is held. To be called for each node in turn.
  std::size_t first(std::size_t i);

 private:
  static constexpr std::size_t kFew = 64;  ///< up to so many, looking at each is quicker than a table
  bool same(std::size_t i, std::size_t other) const;

  const StepPrediction& step_;
  /// A first node by its operator's hash, in the next place that was free; of few nodes none.
  struct Place {
    std::uint64_t hash = 0;
    std::size_t node = SIZE_MAX;
  };
  std::vector<Place> places_;
};

}  // namespace plumbline

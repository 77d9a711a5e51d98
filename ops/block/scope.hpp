// Numbers of a graph file: what its shapes may name, and values that are worked out when it is read.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "arch/json_reader.hpp"

namespace plumbline {

/// What a step gives to the shapes of a block, by the names that files have for it; flags are 0 or 1.
enum class StepNumber : std::uint8_t {
  tokens,            ///< T: tokens of this step, of all sequences of the rank
  sequences,         ///< B: sequences of the rank
  fresh,             ///< S: new tokens of a sequence
  context,           ///< C: tokens of a sequence that are cached or new
  source,            ///< X: tokens of the encoder that cross attention reads
  hidden,            ///< hidden: width of the residual stream
  tensor,            ///< tp: ranks that share the operators
  ranks_of_context,  ///< cp
  page,              ///< page: tokens a page of the KV cache
  decode,            ///< decode: one new token over a cache
  cache,             ///< cache: new keys and values are kept
  train,             ///< train
  eager,             ///< eager: each operator of the source is a kernel (fusion none)
  typical,           ///< typical: fused as serving stacks do
  fused,             ///< fused: all that is known to be fused (fusion max)
  scores,            ///< scores: attention's scores are written out
  dropout,           ///< dropout: the layer trains with it
  keys,              ///< keys: tokens of all sequences that keys come from, those of all context ranks
  padded,            ///< padded: eager code adds a mask though attention is not causal
  width,             ///< w: in `stored`, bytes of an activation
  input,             ///< wi: in `stored`, bytes of what products keep of an input that nothing else keeps
  count_
};
inline constexpr std::size_t kStepNumbers = static_cast<std::size_t>(StepNumber::count_);
using StepNumbers = std::array<double, kStepNumbers>;
constexpr double& number_of(StepNumbers& numbers, StepNumber which) { return numbers[static_cast<std::size_t>(which)]; }

std::string_view name(StepNumber which);

/// Names with values, of a file or of a block in it. Shapes name them beside the step's numbers.
class Scope {
 public:
  /// Most names, and the largest value, of either sign.
  static constexpr std::size_t kMost = 256;
  static constexpr double kLargest = 9007199254740992.0;  // 2^53

  const std::vector<std::string>& names() const { return names_; }
  const std::vector<double>& values() const { return values_; }
  /// Throws BadInput at `at`: a name that is one of the step's, a function's, no name at all, or one too many.
  void add(const std::string& name, double value, const JsonValue& at);
  bool has(std::string_view name) const;

  /// A number, a flag, the name of a data type (its number), or text that is worked out of these names. Throws BadInput
  /// at the value.
  double number(const JsonValue& value) const;
  /// ... that is whole and in [low, high].
  std::int64_t whole(const JsonValue& value, std::int64_t low, std::int64_t high) const;
  /// ... that is 0 or 1, or true or false.
  bool flag(const JsonValue& value) const;

  /// Adds the members of `parameters`: numbers, or text over these names, one another (in any order) and `given`, which
  /// has the last word. Null in `parameters` is a number that must be given. Throws BadInput for a circle.
  void add_all(const JsonValue& parameters, const Scope& given);

 private:
  std::vector<std::string> names_;
  std::vector<double> values_;
};

}  // namespace plumbline

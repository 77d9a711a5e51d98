// Inside of blocks: their shapes with numbers in them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/block/block.hpp"

namespace plumbline::block {

/// What of a block is worked out at once; the rest is when it is asked for.
enum class Part : std::uint8_t { operators, cache, memory };

/// The values of a block's expressions for some numbers of the step.
class Values {
 public:
  Values(const BlockText& text, const StepNumbers& numbers, Part part = Part::operators);
  double operator[](int expression) const;
  bool runs(const BlockLine& line) const { return line.when < 0 || (*this)[line.when] > 0; }
  /// Of a linear's sizes; `usual` where the file does not say it.
  double size(const BlockLine& line, std::size_t which, double usual) const {
    return line.sizes.at(which) < 0 ? usual : (*this)[line.sizes.at(which)];
  }

 private:
  const BlockText& text_;
  std::vector<double> named_, results_;
};

/// Formats of the step that an operator's words stand for.
struct Formats {
  lowering::Types types;
  DType kept = DType::bf16;
};

/// Of a product with weights: the line's own, else that of the weights that it names.
Precision product_precision(const BlockLine& line, const lowering::Types& types);

struct BadKey {
  std::string_view key, expected;
  double value = 0;
};

/// The operator of a line. Nothing where a key has a value that it does not take, which `bad` then says; what must hold
/// between keys is not looked at.
std::optional<Op> made(const BlockLine& line, const Values& values, const Formats& formats, BadKey& bad);

/// Elements that the operator of a line writes; 0 where its shape is none.
double written_elements(const BlockLine& line, const Values& values);

}  // namespace plumbline::block

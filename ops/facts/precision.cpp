#include "ops/facts/precision.hpp"

#include <array>

namespace plumbline {

std::span<const std::string_view> precision_names() {
  static constexpr std::array<std::string_view, 10> kNames{"bf16", "fp16", "fp32",  "tf32",  "fp64",
                                                           "fp8",  "int8", "w4a16", "mxfp4", "nvfp4"};
  return kNames;
}

std::string_view base_precision(const Precision& precision) {
  std::string_view best;
  int fewest = 5;
  for (std::string_view candidate : precision_names()) {
    const Precision p = *parse_precision(candidate);
    const int differing = (p.input != precision.input) + (p.weight != precision.weight) +
                          (p.output != precision.output) + (p.math != precision.math);
    if (differing < fewest) {
      fewest = differing;
      best = candidate;
    }
  }
  return best;
}

Precision named_precision_near(const Precision& precision) { return *parse_precision(base_precision(precision)); }

}  // namespace plumbline

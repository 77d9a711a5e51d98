#include "ops/facts/precision.hpp"

#include <array>

namespace plumbline {

std::span<const std::string_view> precision_names() {
  static constexpr std::array<std::string_view, 11> kNames{"bf16", "fp16",  "fp32",  "tf32",  "fp64", "fp8",
                                                           "int8", "w4a16", "w8a16", "mxfp4", "nvfp4"};
  return kNames;
}

namespace {

/// Weights alone are narrow, and unpacked for products of 16 bits: other kernels than those of 16-bit weights.
bool unpacks_weights(const Precision& p) { return bits(p.math) == 16 && bits(p.weight) < 16; }

}  // namespace

std::string_view base_precision(const Precision& precision) {
  constexpr int kOtherKernels = 4;
  std::string_view best;
  int fewest = 5 + kOtherKernels;
  for (std::string_view candidate : precision_names()) {
    const Precision p = *parse_precision(candidate);
    const bool other = unpacks_weights(p) != unpacks_weights(precision);
    const int differing = (p.input != precision.input) + (p.weight != precision.weight) +
                          (p.output != precision.output) + (p.math != precision.math) + (other ? kOtherKernels : 0);
    if (differing < fewest) {
      fewest = differing;
      best = candidate;
    }
    if (fewest == 0) break;
  }
  return best;
}

Precision named_precision_near(const Precision& precision) { return *parse_precision(base_precision(precision)); }

}  // namespace plumbline

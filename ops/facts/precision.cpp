#include "ops/facts/precision.hpp"

#include <algorithm>
#include <array>

#include "arch/files.hpp"

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

namespace {

/// What a precision is called elsewhere, and here: names, and keys of an operator that go with them.
struct OtherName {
  std::string_view other, ours, keys;
};
constexpr auto kOtherNames = std::to_array<OtherName>({{"fp4", "nvfp4' or 'mxfp4", ""},
                                                       {"float4", "nvfp4' or 'mxfp4", ""},
                                                       {"e2m1", "nvfp4' or 'mxfp4", ""},
                                                       {"w4a4", "nvfp4", ""},
                                                       {"mxfp8", "fp8", "block=32"},
                                                       {"fp8_block", "fp8", "block=128"},
                                                       {"fp8_blockwise", "fp8", "block=128"},
                                                       {"fp8_row", "fp8", "block=1"},
                                                       {"fp8_per_token", "fp8", "block=1"},
                                                       {"fp8_tensor", "fp8", ""},
                                                       {"fp8_static", "fp8", ""},
                                                       {"float8", "fp8", ""},
                                                       {"float8_e4m3fn", "fp8", ""},
                                                       {"fp8_e4m3", "fp8", ""},
                                                       {"e4m3", "fp8", ""},
                                                       {"bf8", "fp8", ""},
                                                       {"w8a8", "fp8' or 'int8", ""},
                                                       {"w4a8", "fp8", "weight=int4"},
                                                       {"w4afp8", "fp8", "weight=int4"},
                                                       {"int4", "w4a16", ""},
                                                       {"int4_wo", "w4a16", ""},
                                                       {"w4", "w4a16", ""},
                                                       {"awq", "w4a16", ""},
                                                       {"gptq", "w4a16", ""},
                                                       {"int8_wo", "w8a16", ""},
                                                       {"w8", "w8a16", ""},
                                                       {"float32", "fp32", ""},
                                                       {"float", "fp32", ""},
                                                       {"float64", "fp64", ""},
                                                       {"double", "fp64", ""}});

std::string lower_case(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

}  // namespace

std::string meant_precision(std::string_view text, const std::vector<std::string>& names, bool by_operator) {
  const std::string lower = lower_case(text);
  if (std::find(names.begin(), names.end(), lower) != names.end()) return " (did you mean '" + lower + "'?)";
  for (const OtherName& each : kOtherNames) {
    if (each.other != lower || (!each.keys.empty() && !by_operator)) continue;
    std::string meant = " (did you mean '" + std::string(each.ours) + "'";
    if (!each.keys.empty()) meant.append(" with ").append(each.keys);
    return meant + "?)";
  }
  return did_you_mean(text, names);
}

Precision named_precision_near(const Precision& precision) { return *parse_precision(base_precision(precision)); }

}  // namespace plumbline

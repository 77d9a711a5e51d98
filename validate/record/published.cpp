#include "validate/record/published.hpp"

#include <array>

namespace plumbline {
namespace {

constexpr std::string_view kBlock = ";block=128", kRow = ";block=1", kMicroscaled = ";block=32";

/// TensorRT-LLM's plugin of weights in 8 bits times its tactics with activations in fp16 (weightOnlyQuantMatmulPlugin.cpp, runTactic();
/// the rows do not say theirs).
constexpr std::string_view kHalf = ";in=fp16;out=fp16;math=fp16";

/// Masked groups of InferSim's decode tables have 0.7 to 1.3 of the stated rows, drawn evenly (DeepGEMM, tests/generators.py:
/// generate_m_grouped_masked()).
constexpr std::string_view kMasked = "grouped_gemm_decode", kDrawn = ";skew=30";

/// Types that this project has another word for.
constexpr std::array<std::array<std::string_view, 2>, 5> kTypes{
    {{"fp8_block", "fp8"}, {"mxfp8", "fp8"}, {"int4_wo", "w4a16"}, {"int8_wo", "w8a16"}, {"w4a16_mxfp4", "mxfp4"}}};

}  // namespace

PublishedOperator published_operator(std::string_view op, std::string_view dtype, std::string_view shape,
                                     std::string_view scope, std::string_view kernel) {
  PublishedOperator out{std::string(op), std::string(dtype), std::string(shape)};
  const bool matrix = op == "gemm" || op == "moe";
  if (matrix) {
    for (const auto& [theirs, ours] : kTypes) {
      if (dtype == theirs) out.dtype = ours;
    }
    if (dtype == "int8_wo") out.shape += kHalf;
    if (dtype == "mxfp8") out.shape += kMicroscaled;
    if (op == "gemm" && scope == "quantize+gemm") out.op = "gemm_dynamic";
    if (dtype == "fp8_block" || (op == "gemm" && (kernel == "fp8_block" || (scope == kRoundedHeads && dtype == "fp8"))))
      out.shape += kBlock;
    if (op == "gemm" && kernel == "fp8_row") out.shape += kRow;
  }
  if (op == "grouped_gemm" && kernel.rfind(kMasked, 0) == 0) out.shape += kDrawn;
  if (op == "quantize" && scope == "static_scale" && dtype == "fp8") {
    out.dtype = "bf16";
    out.shape += ";out=fp8";
  }
  return out;
}

}  // namespace plumbline

// Published rows that say what they ran in words of their own: which operator of ours that is.
#pragma once

#include <string>
#include <string_view>

namespace plumbline {

/// Scope of products of heads whose rows are rounded in the timed region.
inline constexpr std::string_view kRoundedHeads = "quantize+bmm";

struct PublishedOperator {
  std::string op, dtype, shape;
};

/// Types that name a scaling (`fp8_block`: a scale for each 128 columns; `int4_wo`, `int8_wo`, `w4a16_mxfp4`: weights
/// alone), and products whose timed region holds the rounding of their activations (scope `quantize+gemm`), as this
/// project's text has them; those of heads in fp8 (`quantize+bmm`) have scales of 128; products of fp8 by a kernel
/// `fp8_row` or `fp8_block` have their scales a row or a block; `quantize` with a given scale (scope `static_scale`)
/// names the type of its result. All else as it is.
PublishedOperator published_operator(std::string_view op, std::string_view dtype, std::string_view shape,
                                     std::string_view scope, std::string_view kernel = {});

}  // namespace plumbline

// Rows of others, in this project's words.
#include "validate/record/published.hpp"

#include <gtest/gtest.h>

namespace plumbline::published_test {
namespace {

void expect_said(const PublishedOperator& said, const char* op, const char* dtype, const char* shape) {
  EXPECT_EQ(said.op, op);
  EXPECT_EQ(said.dtype, dtype);
  EXPECT_EQ(said.shape, shape);
}

TEST(Published, TypesThatNameAScaling) {
  expect_said(published_operator("moe", "fp8_block", "T=1", "rank0"), "moe", "fp8", "T=1;block=128");
  expect_said(published_operator("moe", "w4a16_mxfp4", "T=1", "rank0"), "moe", "mxfp4", "T=1");
  expect_said(published_operator("moe", "int4_wo", "T=1", ""), "moe", "w4a16", "T=1");
  expect_said(published_operator("gemm", "mxfp8", "M=1", ""), "gemm", "fp8", "M=1;block=32");
  expect_said(published_operator("gemm", "int8_wo", "M=1", ""), "gemm", "w8a16", "M=1;in=fp16;out=fp16;math=fp16");
  expect_said(published_operator("gemm", "fp8_block", "M=1", "quantize+gemm"), "gemm_dynamic", "fp8", "M=1;block=128");
  expect_said(published_operator("gemm", "fp8", "M=1", "quantize+gemm"), "gemm_dynamic", "fp8", "M=1");
  expect_said(published_operator("gemm", "fp8", "M=1;batch=8", "quantize+bmm"), "gemm", "fp8", "M=1;batch=8;block=128");
  expect_said(published_operator("gemm", "bf16", "M=1;batch=8", "quantize+bmm"), "gemm", "bf16", "M=1;batch=8");
  expect_said(published_operator("quantize", "fp8", "rows=1", "static_scale"), "quantize", "bf16", "rows=1;out=fp8");
}

TEST(Published, KernelsThatNameTheirScales) {
  expect_said(published_operator("gemm", "fp8", "M=1", "kernels", "fp8_row"), "gemm", "fp8", "M=1;block=1");
  expect_said(published_operator("gemm", "fp8", "M=1", "kernels", "fp8_block"), "gemm", "fp8", "M=1;block=128");
  expect_said(published_operator("gemm", "fp8", "M=1", "kernels", "fp8_tensor"), "gemm", "fp8", "M=1");
}

TEST(Published, MaskedGroupsWereDrawn) {
  expect_said(published_operator("grouped_gemm", "fp8", "E=8", "gemm", "grouped_gemm_decode_up_proj"), "grouped_gemm",
              "fp8", "E=8;skew=30");
  expect_said(published_operator("grouped_gemm", "fp8", "E=8", "gemm", "grouped_gemm_prefill_up_proj"), "grouped_gemm",
              "fp8", "E=8");
}

TEST(Published, AllElseIsAsItIs) {
  expect_said(published_operator("gemm", "bf16", "M=1", "gemm"), "gemm", "bf16", "M=1");
  expect_said(published_operator("gemm", "fp8", "M=1", ""), "gemm", "fp8", "M=1");
  expect_said(published_operator("quantize", "bf16", "rows=1", ""), "quantize", "bf16", "rows=1");
  expect_said(published_operator("add", "fp8_block", "rows=1", ""), "add", "fp8_block", "rows=1");
}

}  // namespace
}  // namespace plumbline::published_test

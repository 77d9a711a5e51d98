// Formats: what the file says, what --dtype changes, where quantize kernels stand.
#include <gtest/gtest.h>

#include "arch/error.hpp"
#include "tests/ops/lower/lower_models.hpp"

namespace plumbline::testing_support::lower_types_test {
namespace {

Workload with(Workload w, const char* dtype) {
  w.precision_given = true;
  w.precision = *parse_precision(dtype);
  return w;
}

const Precision kBf16 = *parse_precision("bf16");

TEST(LowerTypes, FileQuantizationTypesExpertsAndLinearsApart) {
  const Graph g = lower(gpt_oss(), decode(4, 100));
  EXPECT_EQ(shape_of<Gemm>(g, "qkv_proj").precision, kBf16);
  EXPECT_EQ(shape_of<GroupedGemm>(g, "experts_gate_up").precision, *parse_precision("mxfp4"));
  EXPECT_EQ(find(g, "expert_quantize"), nullptr);  // activations stay bf16
}

TEST(LowerTypes, Fp8FileQuantizesActivationsBetweenKernels) {
  const Graph g = lower(deepseek_v3(), decode(4, 100));
  EXPECT_EQ(shape_of<Gemm>(g, "qkv_a_proj").precision, *parse_precision("fp8"));
  EXPECT_EQ(shape_of<Gemm>(g, "lm_head").precision, kBf16);
  EXPECT_EQ(shape_of<Gemm>(g, "router").precision, kBf16);
  EXPECT_EQ(shape_of<Rowwise>(g, "o_quantize").output, DType::fp8);
  EXPECT_EQ(shape_of<Rowwise>(g, "o_quantize").cols, 128 * 128);
  EXPECT_EQ(shape_of<MoePermute>(g, "moe_permute").dtype, DType::fp8);
  const Graph max = lower(deepseek_v3(), decode(4, 100, Fusion::max));
  for (const Node& n : max.nodes) {
    const auto* r = std::get_if<Rowwise>(&n.op);
    EXPECT_FALSE(r != nullptr && r->kind == RowwiseKind::quantize) << n.name;
  }
  EXPECT_EQ(shape_of<Rowwise>(max, "attn_norm").output, DType::fp8);  // the norm writes what the GEMM reads
}

Llm deepseek_v3_in_blocks() {
  Llm m = deepseek_v3();
  m.quantization.block = 128;
  return m;
}

TEST(LowerTypes, ProductsOfAFileWithScalesOfBlocksAreRoundedByThem) {
  const Graph one = lower(deepseek_v3(), decode(4, 100)), blocks = lower(deepseek_v3_in_blocks(), decode(4, 100));
  ASSERT_EQ(one.nodes.size(), blocks.nodes.size()) << "no launch more, and none twice";
  EXPECT_EQ(shape_of<Gemm>(one, "o_proj").block, 0);
  for (const char* product : {"qkv_a_proj", "q_b_proj", "o_proj", "gate_up_proj", "shared_down_proj"}) {
    EXPECT_EQ(shape_of<Gemm>(blocks, product).block, 128) << product;
  }
  for (const char* wide : {"router", "lm_head", "q_absorb", "v_up"}) {
    EXPECT_EQ(shape_of<Gemm>(blocks, wide).block, 0) << wide;
  }
  for (const char* product : {"experts_gate_up", "experts_down"}) {
    EXPECT_EQ(shape_of<GroupedGemm>(blocks, product).block, 128) << product;
  }
  EXPECT_EQ(shape_of<QuantizeDynamic>(blocks, "o_quantize"), (QuantizeDynamic{4, 128 * 128, 128, DType::bf16}));
  EXPECT_EQ(shape_of<QuantizeDynamic>(blocks, "expert_down_quantize"), (QuantizeDynamic{32, 2048, 128, DType::bf16}));
  EXPECT_EQ(shape_of<Gemm>(lower(deepseek_v3_in_blocks(), prefill(1, 64)), "kv_b_proj").block, 128);
}

TEST(LowerTypes, RoutedRowsAreRoundedWhereTheyLieIfTheStackDoesSo) {
  Workload w = decode(4, 100);
  w.rounds_routed_rows = true;
  const Graph blocks = lower(deepseek_v3_in_blocks(), w), one = lower(deepseek_v3(), w);
  EXPECT_EQ(blocks.nodes.size(), one.nodes.size());
  EXPECT_EQ(shape_of<QuantizeDynamic>(blocks, "expert_quantize"), (QuantizeDynamic{32, 7168, 128, DType::bf16}));
  EXPECT_EQ(shape_of<MoePermute>(blocks, "moe_permute").dtype, DType::bf16);
  EXPECT_EQ(shape_of<MoePermute>(one, "moe_permute").dtype, DType::fp8);
  EXPECT_EQ(shape_of<Rowwise>(one, "expert_quantize").rows, 4);
}

TEST(LowerTypes, ScalesOfBlocksAreTheFilesNotTheFlagsAndNotTrainings) {
  for (const Graph& g :
       {lower(deepseek_v3_in_blocks(), with(decode(4, 100), "fp8")), lower(deepseek_v3_in_blocks(), train(1, 64))}) {
    EXPECT_EQ(shape_of<Gemm>(g, "o_proj").block, 0);
    EXPECT_EQ(shape_of<GroupedGemm>(g, "experts_down").block, 0);
    EXPECT_EQ(shape_of<Rowwise>(g, "o_quantize").output, DType::fp8);
  }
  Llm experts_alone = deepseek_v3_in_blocks();
  experts_alone.quantization.linear = DType::bf16;
  const Graph g = lower(experts_alone, decode(4, 100));
  EXPECT_EQ(shape_of<Gemm>(g, "o_proj").block, 0);
  EXPECT_EQ(shape_of<GroupedGemm>(g, "experts_down").block, 128);
}

TEST(LowerTypes, DtypeFlagOverridesTheFile) {
  const Graph g = lower(gpt_oss(), with(decode(4, 100), "bf16"));
  EXPECT_EQ(shape_of<GroupedGemm>(g, "experts_gate_up").precision, kBf16);
  const Graph fp8 = lower(llama_8b(), with(decode(4, 100), "fp8"));
  EXPECT_EQ(shape_of<Gemm>(fp8, "qkv_proj").precision, *parse_precision("fp8"));
  EXPECT_EQ(shape_of<Gemm>(fp8, "lm_head").precision, kBf16);
  EXPECT_NE(find(fp8, "qkv_quantize"), nullptr);
  const Graph w4 = lower(llama_8b(), with(decode(4, 100), "w4a16"));
  EXPECT_EQ(shape_of<Gemm>(w4, "down_proj").precision.weight, DType::int4);
  EXPECT_EQ(shape_of<Embedding>(w4, "embedding").dtype, DType::bf16);
  EXPECT_EQ(find(w4, "qkv_quantize"), nullptr);
  const Graph fp32 = lower(llama_8b(), with(decode(4, 100), "fp32"));
  EXPECT_EQ(shape_of<Rowwise>(fp32, "attn_norm").input, DType::fp32);
  EXPECT_EQ(shape_of<Gemm>(fp32, "lm_head").precision.input, DType::fp32);
}

TEST(LowerTypes, NarrowActivationsOfWideWeightsStayWide) {
  Llm m = gpt_oss();
  m.quantization.activation = DType::fp8;  // experts quantized with activations, linears left in bf16
  const Graph g = lower(m, decode(4, 100));
  EXPECT_EQ(shape_of<Gemm>(g, "qkv_proj").precision, kBf16);
  EXPECT_EQ(shape_of<GroupedGemm>(g, "experts_down").precision.input, DType::fp8);
  EXPECT_EQ(shape_of<GroupedGemm>(g, "experts_down").precision.weight, DType::mxfp4);
  EXPECT_NE(find(g, "expert_quantize"), nullptr);
}

TEST(LowerTypes, KvFormatIsTheFlagsTheFilesOrTheActivations) {
  Workload w = decode(4, 100);
  EXPECT_EQ(shape_of<AttentionDecode>(lower(llama_8b(), w), "attention").kv_dtype, DType::bf16);
  Llm m = llama_8b();
  m.quantization.kv = DType::fp8;
  EXPECT_EQ(shape_of<AttentionDecode>(lower(m, w), "attention").kv_dtype, DType::fp8);
  w.kv_dtype_given = true;
  w.kv_dtype = DType::bf16;
  EXPECT_EQ(shape_of<AttentionDecode>(lower(m, w), "attention").kv_dtype, DType::bf16);
  w = prefill(1, 64);
  w.kv_dtype_given = true;
  w.kv_dtype = DType::fp8;
  EXPECT_EQ(shape_of<AttentionPrefill>(lower(llama_8b(), w), "attention").kv_dtype, DType::fp8);
  EXPECT_EQ(shape_of<AttentionPrefill>(lower(bert(), w), "attention").kv_dtype, DType::bf16);         // nothing cached
  EXPECT_EQ(shape_of<AttentionPrefill>(lower(deepseek_v3(), w), "attention").kv_dtype, DType::bf16);  // expanded
}

TEST(LowerTypes, TrainingRefusesWeightOnlyFormats) {
  EXPECT_THROW(lower(llama_8b(), with(train(1, 64), "w4a16")), BadInput);
  EXPECT_THROW(lower(llama_8b(), with(train(1, 64), "mxfp4")), BadInput);
  EXPECT_EQ(shape_of<GroupedGemm>(lower(gpt_oss(), train(1, 64)), "experts_down").precision, kBf16);
  EXPECT_EQ(shape_of<Gemm>(lower(deepseek_v3(), train(1, 64)), "o_proj").precision, *parse_precision("fp8"));
}

TEST(LowerTypes, Fp16FilesRunInFp16) {
  Llm m = llama_8b();
  m.dtype = DType::fp16;
  EXPECT_EQ(shape_of<Gemm>(lower(m, decode(1, 1)), "qkv_proj").precision, *parse_precision("fp16"));
  m.dtype = DType::fp32;
  EXPECT_EQ(shape_of<Gemm>(lower(m, decode(1, 1)), "qkv_proj").precision, kBf16);
}

}  // namespace
}  // namespace plumbline::testing_support::lower_types_test

#include "validate/compare/pricing.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "arch/error.hpp"
#include "ops/table/text.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::pricing_test {
namespace {

using ::testing::HasSubstr;
using testing_support::refusal;

Measurement row(const char* op, const char* shape, const std::string& gpu = "", const std::string& stack = "") {
  Measurement m;
  m.what.op = parse_op(op, "bf16", shape);
  m.what.shape = shape_text(m.what.op);
  m.what.place = "a.csv:2";
  m.time = 50.0 * units::us;
  m.origin.gpu = gpu;
  m.origin.stack = stack;
  return m;
}

TEST(AttentionOf, GoesByTheStackAndOnlyForAttention) {
  const char* decode = "B=1;Hq=32;Hkv=8;D=128;S=512";
  for (const auto& [stack, attention] : {std::pair{"torch-2.11.0+cu130", "flash_attention"},
                                         {"flash-attention-3", "flash_attention"},
                                         {"infersim", "flashinfer"}}) {
    EXPECT_EQ(stack_of(usual_stack(KernelSet::library), row("attention_decode", decode, "", stack)).attention,
              attention)
        << stack;
    EXPECT_EQ(stack_of(usual_stack(KernelSet::library), row("gemm", "M=1;N=2;K=3", "", stack)).attention, "") << stack;
  }
  for (const char* stack : {"", "trtllm-1.3.0", "my-vllm"}) {
    EXPECT_EQ(stack_of(usual_stack(KernelSet::library), row("attention_decode", decode, "", stack)).attention, "")
        << stack;
  }
}

/// vLLM's own choice of kernels, which goes by the card: latent decode by Triton where nothing else runs, decode by
/// trtllm-gen on B200-class cards.
TEST(AttentionOf, VllmsRowsTakeItsOwnStack) {
  const auto name = [](const char* op, const char* shape, const char* stack) {
    return stack_of(usual_stack(KernelSet::library), row(op, shape, "", stack)).name;
  };
  for (const auto& [op, shape] : {std::pair{"mla_decode", "B=1;H=16;S=256;Dc=512;Dr=64"},
                                  {"attention_decode", "B=1;Hq=32;Hkv=8;D=128;S=512"},
                                  {"attention_prefill", "B=1;Hq=8;Hkv=8;D=128;S=512;causal=1"}}) {
    EXPECT_EQ(name(op, shape, "vllm-0.14.0"), "vllm") << op;
    EXPECT_EQ(name(op, shape, "trtllm-1.0.0"), "trt-llm") << op;
  }
}

/// What PyTorch chooses by itself is cuDNN's attention; a kernel that a row names, and products, stay as they are.
TEST(AttentionOf, WhatPyTorchChoosesIsItsOwnStacks) {
  Measurement prompt = row("attention_prefill", "B=1;Hq=8;Hkv=8;D=128;S=512;causal=1", "", "torch-2.11.0+cu130");
  prompt.kernel = "sdpa";
  EXPECT_EQ(stack_of(usual_stack(KernelSet::library), prompt).name, "hf-sdpa");
  EXPECT_EQ(stack_of(StackChoice("vllm"), prompt).name, "vllm") << "a stack that is named goes before";
  prompt.kernel = "flash";
  EXPECT_EQ(stack_of(usual_stack(KernelSet::library), prompt).name, "trt-llm");
}

/// vLLM's experts by the kernels that their rows name; grouped products of DeepGEMM's tables are DeepGEMM's.
TEST(ExpertsOf, GoByTheKernel) {
  Measurement experts = row("moe", "T=1;H=2048;I=768;E=128;topk=8", "", "vllm-0.24.0");
  const auto stack = [&](const char* kernel) {
    experts.kernel = kernel;
    return stack_of(usual_stack(KernelSet::library), experts).name;
  };
  EXPECT_EQ(stack("vllm_fused_moe"), "vllm-triton");
  EXPECT_EQ(stack("fp8moe_triton_tritonexperts"), "vllm-triton");
  EXPECT_EQ(stack("modeloptfp8moe_flashinfer_cutlass_fl"), "vllm-untuned") << "nothing tuned them";
  EXPECT_EQ(stack("fp8moe_flashinfer_cutlass_flashinfer"), "vllm");
  EXPECT_EQ(stack_of(StackChoice("sglang"), experts).name, "sglang") << "a stack that is named goes before";
  experts.origin.stack = "trtllm-1.3.0rc20";
  EXPECT_EQ(stack("vllm_fused_moe"), "trt-llm");
  const char* groups = "E=8;topk=8;T=64;N=4096;K=7168";
  EXPECT_EQ(stack_of(usual_stack(KernelSet::library), row("grouped_gemm", groups, "", "infersim")).name, "deepgemm");
  EXPECT_EQ(stack_of(usual_stack(KernelSet::library), row("grouped_gemm", groups, "", "torch-2.11")).name, "trt-llm");
}

/// SGLang's rows are of its stack; of Triton's attention where they say so, or where the collector takes nothing else.
TEST(AttentionOf, SglangsRowsTakeItsOwnStacks) {
  const char* prompt = "B=1;Hq=8;Hkv=8;D=128;S=512;causal=1";
  const auto name = [](const char* op, const char* shape, const char* gpu, const char* kernel) {
    Measurement of = row(op, shape, gpu, "sglang-0.5.14");
    of.kernel = kernel;
    return stack_of(usual_stack(KernelSet::library), of, gpu).name;
  };
  for (const char* gpu : {"h200_sxm", "l40s", "b200_sxm", "a100_sxm"}) {
    EXPECT_EQ(name("attention_prefill", prompt, gpu, ""), "sglang") << gpu;
  }
  for (const char* gpu : {"l40s", "a100_sxm", "h200_sxm"}) {
    const StackChoice of =
        stack_of(usual_stack(KernelSet::library), row("attention_prefill", prompt, gpu, "sglang-0.5.14"), gpu);
    EXPECT_EQ(of.attention, std::string(gpu) == "h200_sxm" ? "" : "flash_attention_3_named") << gpu;
  }
  EXPECT_EQ(name("attention_prefill", prompt, "rtx_pro_6000_server", ""), "sglang-triton");
  EXPECT_EQ(name("attention_decode", "B=1;Hq=8;Hkv=8;D=128;S=512", "rtx_5090", ""), "sglang-triton");
  EXPECT_EQ(name("attention_prefill", prompt, "rtx_pro_6000_server", "flashinfer"), "sglang") << "which the row names";
  EXPECT_EQ(name("attention_prefill", prompt, "h200_sxm", "triton"), "sglang-triton");
  const char* wide = "B=1;Hq=8;Hkv=8;D=192;S=512;causal=1";
  EXPECT_EQ(name("attention_prefill", wide, "b200_sxm", ""), "sglang-triton") << "no kernel for heads of 192";
  EXPECT_EQ(name("attention_prefill", wide, "h200_sxm", ""), "sglang");
  EXPECT_EQ(name("gemm", "M=1;N=2;K=3", "rtx_pro_6000_server", ""), "trt-llm") << "products are cuBLAS's";
}

/// Norms, gated units and the like: whose kernels, the row's stack says.
TEST(RowsOf, NormsGoByWhoseTheyAre) {
  const auto name = [](const char* op, const char* shape, const char* stack, const char* kernel = "") {
    Measurement of = row(op, shape, "", stack);
    of.kernel = kernel;
    return stack_of(usual_stack(KernelSet::library), of).name;
  };
  EXPECT_EQ(name("rmsnorm", "rows=8;cols=4096", "flashinfer-0.6.13"), "sglang");
  EXPECT_EQ(name("rope", "tokens=8;heads=40;D=128", "vllm-0.11.2"), "vllm-custom-ops");
  EXPECT_EQ(name("rmsnorm", "rows=8;cols=4096", "vidur"), "vllm-2023");
  EXPECT_EQ(name("argmax", "rows=8;cols=4096", "pytorch-2.11", "argmax"), "trt-llm");
  EXPECT_EQ(name("rmsnorm", "rows=8;cols=4096", "pytorch-2.11"), "hf-sdpa");
  EXPECT_EQ(name("rmsnorm", "rows=8;cols=4096", "trtllm-1.3"), "trt-llm");
}

/// SGLang's products find a scale for each token.
TEST(RowsOfProducts, SglangsRoundByTheToken) {
  const auto block = [](const char* shape, const char* stack) {
    return std::get<GemmDynamic>(as_called(row("gemm_dynamic", shape, "", stack))).block;
  };
  EXPECT_EQ(block("M=64;N=4096;K=4096", "sglang-0.5.14"), 1);
  EXPECT_EQ(block("M=64;N=4096;K=4096;block=128", "sglang-0.5.14"), 128);
  EXPECT_EQ(block("M=64;N=4096;K=4096", "trtllm-1.3.0rc20"), 0);
}

/// A product of heads whose rows are rounded in the call holds launches beside it; weights that were widened beforehand
/// need no rounding.
TEST(ProductsOfHeads, HoldWhatTheirCollectorsTimed) {
  const auto time = [](const char* gpu, const char* stack, const char* scope) {
    Measurement of = row("gemm", "M=2048;N=128;K=512;batch=64", gpu, stack);
    of.what.op = parse_op("gemm", "fp8", "M=2048;N=128;K=512;batch=64;block=128");
    of.origin.scope = scope;
    return price({of}, {}).rows.at(0).predicted;
  };
  const Seconds alone = time("h200_sxm", "trtllm-1.3.0", "bmm"),
                rounded = time("h200_sxm", "trtllm-1.3.0", "quantize+bmm");
  EXPECT_GT(rounded, 2 * alone);
  EXPECT_GT(time("h200_sxm", "sglang-0.5.14", "quantize+bmm"), alone);
  EXPECT_LT(time("b200_sxm", "trtllm-1.3.0", "quantize+bmm"), 0.7 * rounded);
}

/// What rounding leaves over of a power law went elsewhere in the releases that the A100's tables are of.
TEST(RowsOfExperts, AreCalledAsTheirCollectorDid) {
  const auto leftover = [](const char* shape, const char* stack) {
    return std::get<Moe>(as_called(row("moe", shape, "", stack))).leftover;
  };
  const char* skewed = "T=1;H=2048;I=768;E=128;topk=8;alpha_pct=120";
  EXPECT_EQ(leftover(skewed, "trtllm-1.0.0"), 1);
  EXPECT_EQ(leftover(skewed, "vllm-0.14.0"), 2);
  EXPECT_EQ(leftover(skewed, "vllm-0.24.0"), 0);
  EXPECT_EQ(leftover("T=1;H=2048;I=768;E=128;topk=8", "vllm-0.14.0"), 0) << "even loads have nothing left over";
  Measurement chosen = row("moe", skewed, "", "vllm-0.22.0");
  EXPECT_EQ(std::get<Moe>(as_called(chosen)).routed, 0);
  chosen.kernel = "vllm_fused_moe";
  EXPECT_EQ(std::get<Moe>(as_called(chosen)).routed, 1);
}

TEST(RowsOfGpu, AreThoseThatNameItByAnyOfItsNamesOrNone) {
  const std::vector<Measurement> rows{row("gemm", "M=1;N=2;K=3", "h200_sxm"), row("gemm", "M=1;N=2;K=3", "h200"),
                                      row("gemm", "M=1;N=2;K=3", "h100_sxm"), row("gemm", "M=1;N=2;K=3", "gpu of 2040"),
                                      row("gemm", "M=1;N=2;K=3")};
  long left_out = -1;
  EXPECT_EQ(rows_of_gpu(rows, "h200_sxm", left_out).size(), 3U);
  EXPECT_EQ(left_out, 2);
  EXPECT_EQ(rows_of_gpu(rows, "", left_out).size(), 5U);
  EXPECT_EQ(left_out, 0);
  EXPECT_THROW(rows_of_gpu(rows, "h2000", left_out), BadInput);
}

TEST(Price, ARowWithoutAGpuNeedsOne) {
  const std::vector<Measurement> rows{row("gemm", "M=1;N=2;K=3")};
  EXPECT_THAT(refusal([&] { price(rows, {}); }), HasSubstr("a.csv:2: no gpu column: expected --gpu NAME"));
}

TEST(Price, GivesWhatTheEnginePredictsInTheOrderOfTheRows) {
  std::vector<Measurement> rows;
  for (const char* shape : {"M=4096;N=4096;K=4096", "M=16;N=4096;K=4096", "M=64;N=1024;K=512"}) {
    rows.push_back(row("gemm", shape, "h200_sxm"));
    rows.back().what.clock = rows.size() == 1 ? ClockMode::steady : ClockMode::burst;
  }
  PricingOptions options;
  options.threads = 3;
  const Priced priced = price(rows, options);
  ASSERT_EQ(priced.rows.size(), 3U);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    MachineOptions machine;
    machine.stack = "trt-llm";
    machine.clock = rows[i].what.clock;
    const OpPrediction alone = predict(rows[i].what.op, make_machine(load_gpu("h200_sxm"), machine));
    const Comparison& c = priced.rows[i];
    EXPECT_EQ(c.predicted, alone.time);
    EXPECT_NEAR(c.low / alone.low, 1, 1e-12);
    EXPECT_NEAR(c.high / alone.high, 1, 1e-12);
    EXPECT_EQ(c.shape, rows[i].what.shape);
    EXPECT_EQ(c.measured, rows[i].time);
    EXPECT_EQ(c.gpu, "h200_sxm");
    EXPECT_TRUE(c.modelled());
  }
}

TEST(Price, AskedClockAndCardComeBeforeTheRowsOwn) {
  const std::vector<Measurement> rows{row("gemm", "M=8192;N=8192;K=8192", "a100_sxm")};
  PricingOptions options;
  const Seconds own = price(rows, options).rows[0].predicted;
  options.gpu = "h200_sxm";
  const Priced there = price(rows, options);
  EXPECT_EQ(there.rows[0].gpu, "h200_sxm");
  EXPECT_LT(there.rows[0].predicted, own);
  options.clock = ClockMode::steady;
  EXPECT_GT(price(rows, options).rows[0].predicted, there.rows[0].predicted);  // at the cap
}

TEST(Price, OverridesAreOfEveryRow) {
  const std::vector<Measurement> rows{row("copy", "rows=65536;cols=8192", "h200_sxm")};
  PricingOptions options;
  options.stack = usual_stack(KernelSet::own);
  const Seconds before = price(rows, options).rows[0].predicted;
  options.overrides = {{"memory.bandwidth", "9.6TB/s"}};
  EXPECT_LT(price(rows, options).rows[0].predicted, 0.6 * before);
}

/// Rows of vLLM are compared with FlashAttention's kernels, unless a stack is named.
TEST(Price, AttentionIsTheRowsStacksUnlessOneIsNamed) {
  std::vector<Measurement> rows{row("attention_decode", "B=32;Hq=32;Hkv=8;D=128;S=4096", "h200_sxm", "vllm-0.11")};
  PricingOptions options;
  const Priced by_row = price(rows, options);
  EXPECT_THAT(by_row.assumptions, testing::Contains(testing::HasSubstr("rows of vllm-0.11: priced as the stack vllm")));
  options.rows_attention = false;
  const Priced named = price(rows, options);
  EXPECT_NE(named.rows[0].predicted, by_row.rows[0].predicted);
  rows[0].origin.stack = "trtllm-1.3.0rc20";
  EXPECT_EQ(price(rows, {}).rows[0].predicted, named.rows[0].predicted);
  options.stack = "vllm";
  EXPECT_EQ(price(rows, options).rows[0].predicted, by_row.rows[0].predicted);
}

TEST(Price, AssumptionsAreSaidOnce) {
  const std::vector<Measurement> rows{row("gemm", "M=1;N=2;K=3", "h200_sxm"), row("gemm", "M=4;N=5;K=6", "h200_sxm")};
  std::vector<std::string> said = price(rows, {}).assumptions;
  EXPECT_FALSE(said.empty());
  std::sort(said.begin(), said.end());
  EXPECT_EQ(std::adjacent_find(said.begin(), said.end()), said.end());
}

TEST(PredictAsMeasured, TakesThePlanThatRanOfOurKernelsAlone) {
  Measurement m = row("gemm", "M=4096;N=4096;K=4096");
  m.plan = "tile=64x16x64 stages=10 splits=1 wgmma";  // a poor one for this shape
  MachineOptions options;
  options.stack = "own";
  const auto machine = make_machine(load_gpu("h200_sxm"), options);
  OpPrediction scratch;
  Predictor predictor;
  const Seconds planned = predict(m.what.op, machine).time;
  EXPECT_GT(predict_as_measured(m, machine, predictor, scratch), 1.5 * planned);
  m.kernels = KernelSet::library;
  EXPECT_EQ(predict_as_measured(m, machine, predictor, scratch), planned);
}

TEST(PredictAsMeasured, AWarmRowIsPricedWithOperandsInL2) {
  Measurement m = row("copy", "rows=1024;cols=4096");
  MachineOptions options;
  options.stack = "own";
  const auto machine = make_machine(load_gpu("h200_sxm"), options);
  OpPrediction scratch;
  Predictor predictor;
  const Seconds cold = predict_as_measured(m, machine, predictor, scratch);
  m.what.cache = CacheState::warm;
  EXPECT_LT(predict_as_measured(m, machine, predictor, scratch), 0.8 * cold);
}

TEST(MeasurementPower, OfABurstIsNoneUnlessPublished) {
  Measurement m = row("gemm", "M=1;N=2;K=3");
  m.conditions.power = 450.0 * units::W;
  EXPECT_FALSE(m.power());
  m.what.clock = ClockMode::steady;
  EXPECT_EQ(m.power(), 450.0 * units::W);
  m.published_power = 433.0 * units::W;
  m.what.clock = ClockMode::burst;
  EXPECT_EQ(m.power(), 433.0 * units::W);
}

}  // namespace
}  // namespace plumbline::pricing_test

// Which library's kernel runs an operator of a serving stack goes by the card, and what it costs by that kernel.
#include <gtest/gtest.h>

#include <string>

#include "arch/error.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"
#include "ops/shape/shapes.hpp"
#include "ops/table/text.hpp"

namespace plumbline::kernels_by_card_test {
namespace {

OpPrediction on(const std::string& gpu, const Op& op, const std::string& stack) {
  MachineOptions machine{stack};
  machine.clock = ClockMode::burst;
  Predictor predictor;
  OpPrediction out;
  predictor.predict(op, machines().get({gpu, machine}), out, {});
  return out;
}

AttentionPrefill prompt(std::int64_t width, bool causal, DType cache = DType::bf16) {
  AttentionPrefill s;
  s.batch = 4;
  s.q_heads = 32;
  s.kv_heads = 8;
  s.qk_dim = s.v_dim = width;
  s.q_len = s.kv_len = 4096;
  s.causal = causal;
  s.kv_dtype = cache;
  return s;
}

AttentionDecode decode(std::int64_t context, DType cache) {
  AttentionDecode s{16, 32, 8, 128, 128, context};
  s.kv_dtype = cache;
  return s;
}

Gemm product(std::int64_t m, const char* precision) {
  Gemm s;
  s.m = m;
  s.n = s.k = 4096;
  s.precision = *parse_precision(precision);
  return s;
}

/// vLLM and SGLang hand causal prompts to TensorRT-LLM's kernels where tensor units have memory of their own; others, and
/// widths that those have no kernel for, stay where they are.
TEST(KernelsByCard, ServersShareCausalPromptsOnTensorMemory) {
  for (const char* card : {"b200_sxm", "gb200", "b300_sxm"}) {
    for (const std::int64_t width : {64, 128, 256}) {
      const OpPrediction vllm = on(card, prompt(width, true), "vllm");
      EXPECT_EQ(vllm.provider, "trtllm_gen") << card << " " << width;
      EXPECT_EQ(vllm.time, on(card, prompt(width, true), "sglang").time) << card << " " << width;
      EXPECT_LT(vllm.time, on(card, prompt(width, true), "trt-llm").time) << "which rotates queries and keys too";
    }
    EXPECT_EQ(on(card, prompt(128, false), "vllm").provider, "flash_attention") << card;
    EXPECT_EQ(on(card, prompt(192, true), "vllm").provider, "flash_attention") << card;
  }
  for (const char* card : {"h200_sxm", "l40s", "rtx_pro_6000_server", "a100_sxm"}) {
    EXPECT_EQ(on(card, prompt(128, true), "vllm").provider, "flash_attention") << card;
  }
}

/// FlashAttention has kernels for caches of 8 bits on Hopper alone; vLLM's next choice has them everywhere.
TEST(KernelsByCard, NarrowCachesGoToFlashInferWhereFlashAttentionHasNoKernel) {
  for (const char* card : {"l40s", "l4", "rtx_pro_6000_server", "rtx_5090", "a100_sxm"}) {
    const OpPrediction narrow = on(card, decode(8192, DType::fp8), "vllm");
    EXPECT_EQ(narrow.provider, "flashinfer_8bit") << card;
    EXPECT_EQ(narrow.provenance, Provenance::never_measured) << card;
    EXPECT_LT(narrow.time, 0.6 * on(card, decode(8192, DType::bf16), "vllm").time) << card << ": half the bytes";
    EXPECT_EQ(on(card, prompt(128, true, DType::fp8), "vllm").provider, "flashinfer_8bit") << card;
    EXPECT_EQ(on(card, decode(8192, DType::bf16), "vllm").provider, "flash_attention") << card;
  }
  EXPECT_EQ(on("h200_sxm", decode(8192, DType::fp8), "vllm").provider, "flash_attention");
  EXPECT_EQ(on("b200_sxm", decode(8192, DType::fp8), "vllm").provider, "trtllm_gen");
}

/// Servers write new tokens to the cache by a launch of their own, whichever library's kernel reads it; TensorRT-LLM's
/// kernels write them themselves, but for those on tensor memory, before which it has a launch too.
TEST(KernelsByCard, ServersWriteTheCacheBeforeADecodeStep) {
  const auto launches = [](const char* card, const char* stack, int append) {
    AttentionDecode s = decode(8192, DType::bf16);
    s.append = append;
    return on(card, s, stack).launch_count;
  };
  for (const char* card : {"h200_sxm", "b200_sxm", "l40s", "rtx_pro_6000_server", "a100_sxm"}) {
    for (const char* stack : {"vllm", "sglang"}) {
      EXPECT_EQ(launches(card, stack, 1), launches(card, stack, 0) + 1) << card << " " << stack;
    }
    const int before = std::string(card) == "b200_sxm" ? 1 : 0;
    EXPECT_EQ(launches(card, "trt-llm", 1), launches(card, "trt-llm", 0) + before) << card;
  }
}

/// Both libraries' prompts on mma.sync have the same tiles; scalars of wgmma's kernel are not theirs.
TEST(KernelsByCard, FlashInfersPromptsOnMmaSyncAreAsFlashAttentions) {
  for (const char* card : {"l40s", "rtx_pro_6000_server"}) {
    const double ratio = on(card, prompt(128, true), "sglang").time / on(card, prompt(128, true), "vllm").time;
    EXPECT_NEAR(ratio, 1, 0.05) << card;
  }
}

/// SGLang takes FlashAttention-3 on Hopper, TensorRT-LLM's kernels on tensor memory and FlashInfer elsewhere, where no
/// flag says otherwise; an attention that is asked for by name runs on every card.
TEST(KernelsByCard, SglangsAttentionGoesByTheGeneration) {
  for (const Op& op : {Op(prompt(128, true)), Op(decode(8192, DType::bf16))}) {
    EXPECT_EQ(on("h200_sxm", op, "sglang").provider, "flash_attention_3");
    EXPECT_EQ(on("h200_sxm", op, "sglang").time, on("h200_sxm", op, "vllm").time);
    EXPECT_EQ(on("b200_sxm", op, "sglang").provider, "trtllm_gen");
    for (const char* card : {"a100_sxm", "l40s", "rtx_pro_6000_server"}) {
      EXPECT_EQ(on(card, op, "sglang").provider, "flashinfer") << card;
    }
    StackChoice asked("sglang");
    asked.attention = "flashinfer";
    OpPrediction out;
    Predictor().predict(op, machines().get({"h200_sxm", MachineOptions{asked}}), out, {});
    EXPECT_EQ(out.provider, "flashinfer");
  }
}

/// A step of 128 rows of weights by 256 tokens, 128 bytes of K each: either SM of a pair fetches half of the tokens.
TEST(KernelsByCard, TwoSmsShareTokensOfExpertsOnTensorMemory) {
  Moe s;
  s.tokens = 8192;
  s.hidden = 7168;
  s.width = 2048;
  s.experts = 64;
  s.topk = 4;
  s.precision = *parse_precision("bf16");
  const auto fetched = [&](const char* card) {
    const OpPrediction p = on(card, s, "trt-llm");
    for (int i = 0; i < p.launch_count; ++i) {
      const auto& launch = p.launches[static_cast<std::size_t>(i)];
      if (std::string(launch.kernel) == "grouped gemm, down") return launch.demand.l2.in(units::B);
    }
    return 0.0;
  };
  EXPECT_DOUBLE_EQ(fetched("b200_sxm"), 128.0 * (128 + 256 / 2));
  EXPECT_DOUBLE_EQ(fetched("h200_sxm"), 128.0 * (128 + 256));
}

/// Kernels that unpack weights are Ampere's on tcgen05: they save bytes, but their products are far below those of its own
/// instructions.
TEST(KernelsByCard, UnpackedWeightsAreMultipliedByMmaSyncOnTensorMemory) {
  for (const char* card : {"b200_sxm", "b300_sxm"}) {
    EXPECT_LT(on(card, product(1, "w4a16"), "trt-llm").time, on(card, product(1, "bf16"), "trt-llm").time) << card;
    EXPECT_GT(on(card, product(8192, "w4a16"), "trt-llm").time, 2 * on(card, product(8192, "bf16"), "trt-llm").time)
        << card;
  }
  EXPECT_LT(on("b200_sxm", product(8192, "mxfp4"), "trt-llm").time,
            on("b200_sxm", product(8192, "w4a16"), "trt-llm").time)
      << "formats of tcgen05 itself stay with it";
  EXPECT_LT(on("h200_sxm", product(8192, "w4a16"), "trt-llm").time,
            1.1 * on("h200_sxm", product(8192, "bf16"), "trt-llm").time);
}

/// tcgen05 takes scales of blocks with its operands: such products cost what those of one scale do, and one that rounds its
/// rows first that much and the rounding.
TEST(KernelsByCard, ScalesOfBlocksCostNothingOnTensorMemory) {
  for (const std::int64_t m : {256, 4096}) {
    Gemm blocks = product(m, "fp8");
    blocks.block = 128;
    const Seconds one = on("b200_sxm", product(m, "fp8"), "trt-llm").time;
    const Seconds scaled = on("b200_sxm", blocks, "trt-llm").time;
    EXPECT_NEAR(scaled / one, 1, 0.1) << m;
    GemmDynamic rounded;
    rounded.m = m;
    rounded.n = rounded.k = 4096;
    rounded.block = 128;
    rounded.precision = blocks.precision;
    const OpPrediction both = on("b200_sxm", rounded, "trt-llm");
    ASSERT_EQ(both.launch_count, 2) << m;
    EXPECT_EQ(std::string(both.launches[1].kernel), "gemm") << m;
    EXPECT_NEAR((both.time - both.launches[0].time.total) / one, 1, 0.15) << m;
  }
}

/// A scale for each 32 values goes with the operands where 4-bit products do, as cuBLASLt has it there and nowhere else.
TEST(KernelsByCard, MicroscaledProductsAreOfUnitsThatTakeSuchScales) {
  Gemm micro = product(4096, "fp8");
  micro.block = 32;
  for (const char* card : {"b200_sxm", "rtx_5090"}) {
    const OpPrediction p = on(card, micro, "trt-llm");
    EXPECT_NEAR(p.time / on(card, product(4096, "fp8"), "trt-llm").time, 1, 0.1) << card;
    EXPECT_EQ(p.provenance, Provenance::never_measured) << card;
  }
  for (const char* card : {"h200_sxm", "l40s"}) EXPECT_THROW((void)on(card, micro, "trt-llm"), NotModelled) << card;
}

/// wgmma has 64 rows however few heads there are: an H20, whose tensor units are a quarter as fast, is held up by rows without a
/// head, an H200 waits for its keys meanwhile.
TEST(KernelsByCard, LatentDecodeOfFewHeadsFillsTheInstructionsRows) {
  MlaDecode s;
  s.batch = 16;
  s.latent = 512;
  s.rope = 64;
  s.context = 32768;
  const auto ratio = [&](const char* card) {
    s.heads = 64;
    const Seconds whole = on(card, s, "sglang").time;
    s.heads = 16;
    return on(card, s, "sglang").time / whole;
  };
  EXPECT_GT(ratio("h20"), 0.98);
  EXPECT_LT(ratio("h200_sxm"), 0.96);
}

/// Kernels that an A100 runs by the same source are no streams there: it has fewer SMs at a lower clock than an H100.
TEST(KernelsByCard, LinearAttentionOfAnA100IsNotFasterThanOfAnH100) {
  for (const char* text :
       {"kind=gated_delta_net;B=1;S=2048;H=32;D=128;state=128", "kind=mamba2;B=1;S=2048;H=64;D=64;state=128",
        "kind=gated_delta_net;B=16;S=1;H=32;D=128;state=128"}) {
    const Op op = parse_op("recurrence", "bf16", text);
    EXPECT_GT(on("a100_sxm", op, "trt-llm").time, 1.2 * on("h100_sxm", op, "trt-llm").time) << text;
  }
}

/// Activations of 4 bits are rounded by one launch, as the model file has the scale of all: 2 bytes of a value are read, half a
/// byte and a scale for each 16 are written.
TEST(KernelsByCard, RowsOfFourBitsAreRoundedAtOnce) {
  GemmDynamic s;
  s.m = s.n = s.k = 8192;
  s.precision = *parse_precision("nvfp4");
  for (const char* card : {"b200_sxm", "rtx_pro_6000_server"}) {
    const OpPrediction p = on(card, s, "trt-llm");
    ASSERT_EQ(p.launch_count, 2) << card;
    const Demand& round = p.launches[0].demand;
    EXPECT_DOUBLE_EQ(round.dram_read.in(units::B), 2.0 * 8192 * 8192) << card;
    EXPECT_DOUBLE_EQ(round.dram_write.in(units::B), (0.5 + 1.0 / 16) * 8192 * 8192) << card;
    GemmDynamic bytes = s;
    bytes.precision = *parse_precision("fp8");
    EXPECT_LT(p.time, on(card, bytes, "trt-llm").time) << card;
  }
}

GemmDynamic rounded_product(std::int64_t m, std::int64_t n = 4096, std::int64_t k = 4096) {
  GemmDynamic s;
  s.m = m;
  s.n = n;
  s.k = k;
  s.precision = *parse_precision("fp8");
  return s;
}

std::string tile_of(const GemmPlan& p) {
  const auto size = [](std::int64_t n) { return std::to_string(n); };
  return size(p.tile_m) + "x" + size(p.tile_n) + "x" + size(p.tile_k) + (p.swapped ? " swapped" : "");
}

/// vLLM's tiles of fp8 go by rows, as its dispatch of each generation has them; K is never cut.
TEST(KernelsByCard, VllmsTilesOfEightBitFloatsGoByRows) {
  const auto tile = [](const char* card, std::int64_t m, std::int64_t n = 4096, std::int64_t k = 4096) {
    Gemm s = product(m, "fp8");
    s.n = n;
    s.k = k;
    const OpPrediction p = on(card, s, "vllm");
    EXPECT_EQ(p.provider, "vllm_scaled") << card;
    EXPECT_EQ(p.gemm_plan.splits, 1) << card;
    return tile_of(p.gemm_plan);
  };
  EXPECT_EQ(tile("h200_sxm", 16), "16x64x256 swapped");
  EXPECT_EQ(tile("h200_sxm", 64), "64x64x256 swapped");
  EXPECT_EQ(tile("h200_sxm", 64, 1280), "16x64x256 swapped");
  EXPECT_EQ(tile("h200_sxm", 128), "64x128x128");
  EXPECT_EQ(tile("h200_sxm", 129), "128x128x128");
  EXPECT_EQ(tile("h200_sxm", 8192, 4096, 6144), "256x128x128");
  EXPECT_EQ(tile("b200_sxm", 16), "32x64x128 swapped") << "of one of two SMs";
  EXPECT_EQ(tile("b200_sxm", 256), "64x128x128") << "of one of two SMs";
  EXPECT_EQ(tile("rtx_pro_6000_server", 16), "16x64x128");
  EXPECT_EQ(tile("rtx_pro_6000_server", 257), "128x128x128");
  EXPECT_EQ(tile("l40s", 8), "16x64x128");
  EXPECT_EQ(tile("l40s", 4096, 8192), "256x128x64");
}

/// Its rows are rounded by a scale that is given: one launch before the product, where TensorRT-LLM finds a scale
/// first. What CUTLASS's kernels do not take stays with the stack's next library.
TEST(KernelsByCard, VllmRoundsByAGivenScale) {
  EXPECT_EQ(on("h100_sxm", rounded_product(4096), "vllm").launch_count, 2);
  EXPECT_EQ(on("h100_sxm", rounded_product(4096), "trt-llm").launch_count, 4);
  EXPECT_EQ(on("h100_sxm", rounded_product(64, 4096, 4104), "vllm").provider, "cublas") << "no whole sixteens";
  EXPECT_EQ(on("h100_sxm", product(64, "bf16"), "vllm").provider, "cublas");
}

/// TensorRT-LLM multiplies up to eight rows on ordinary lanes where warps feed the tensor cores: two columns a CTA.
TEST(KernelsByCard, FewRowsOfEightBitFloatsAreMultipliedOnLanes) {
  for (const char* card : {"l40s", "rtx_pro_6000_server"}) {
    const OpPrediction few = on(card, rounded_product(8), "trt-llm");
    EXPECT_EQ(few.provider, "trtllm_products") << card;
    EXPECT_EQ(few.launches[static_cast<std::size_t>(few.launch_count - 1)].demand.plan.ctas, 4096 / 2) << card;
    EXPECT_EQ(on(card, rounded_product(9), "trt-llm").provider, "cublas") << card;
    EXPECT_LE(on(card, product(8, "fp8"), "trt-llm").time, 1.3 * on(card, product(16, "fp8"), "trt-llm").time) << card;
  }
  EXPECT_EQ(on("h200_sxm", rounded_product(8), "trt-llm").provider, "cublas");
}

}  // namespace
}  // namespace plumbline::kernels_by_card_test

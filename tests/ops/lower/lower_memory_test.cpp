// Memory, against totals by hand.
#include <gtest/gtest.h>

#include "ops/memory/memory.hpp"
#include "ops/memory/parts.hpp"
#include "tests/ops/lower/lower_models.hpp"

namespace plumbline::testing_support::lower_memory_test {
namespace {

double bytes(Bytes b) { return b.in(units::B); }

TEST(LowerMemory, Llama8bWeightsAndCache) {
  const MemoryNeed m = lower(llama_8b(), decode(10, 999)).memory;
  EXPECT_DOUBLE_EQ(bytes(m.weights), 2 * 8030261248.0);  // 16.06 GB
  EXPECT_DOUBLE_EQ(bytes(m.kv_cache), 10 * 1000 * 131072.0);
  EXPECT_EQ(bytes(m.optimizer), 0);
  EXPECT_DOUBLE_EQ(bytes(lower(llama_8b(), prefill(10, 1000)).memory.kv_cache), 10 * 1000 * 131072.0);
}

TEST(LowerMemory, ScalesOfBlocksAreFourBytesForEach16384Weights) {
  Llm m = llama_8b();
  m.quantization.linear = m.quantization.activation = DType::fp8;
  const double one = bytes(lower(m, decode(1, 1)).memory.weights);
  m.quantization.block = 128;
  // 32 layers of 4096 x (4096 + 2 x 1024 + 4096 + 3 x 14336)
  const double elements = 32 * 4096.0 * (4096 + 2 * 1024 + 4096 + 3 * 14336);
  EXPECT_NEAR(bytes(lower(m, decode(1, 1)).memory.weights) - one, 4 * elements / (128 * 128), 1);
}

TEST(LowerMemory, CacheATokenOfPublishedModels) {
  const auto per_token = [](const Llm& m) { return bytes(lower(m, decode(1, 1000000)).memory.kv_cache) / 1000001; };
  EXPECT_DOUBLE_EQ(per_token(llama_70b()), 327680);
  EXPECT_DOUBLE_EQ(per_token(deepseek_v3()), 70272);
  EXPECT_DOUBLE_EQ(per_token(deepseek_v32()), 70272 + 61 * 128 * 2);
}

TEST(LowerMemory, WindowsCapTheCache) {
  // gpt-oss-120b: half of 73,728 bytes a token is in layers that keep 128 tokens.
  const MemoryNeed m = lower(gpt_oss(), decode(3, 9999)).memory;
  EXPECT_DOUBLE_EQ(bytes(m.kv_cache), 3 * 36864.0 * (10000 + 128));
}

TEST(LowerMemory, RecurrentStateDoesNotGrow) {
  const double state = 64 * (5120.0 * 128 * 4 + (5120 + 2 * 128) * 3 * 2);
  EXPECT_DOUBLE_EQ(bytes(lower(mamba2(), decode(2, 10)).memory.kv_cache), 2 * state);
  EXPECT_DOUBLE_EQ(bytes(lower(mamba2(), decode(2, 100000)).memory.kv_cache), 2 * state);
}

TEST(LowerMemory, CrossAttentionKeepsTheEncodersTokens) {
  const double layer = 2 * 16 * 64 * 2;
  EXPECT_DOUBLE_EQ(bytes(lower(t5(1500), decode(2, 9)).memory.kv_cache), 2 * 24 * layer * (10 + 1500));
}

TEST(LowerMemory, WeightsByStorage) {
  Workload w = decode(1, 1);
  w.precision_given = true;
  w.precision = *parse_precision("fp8");
  const double tables = 2 * 128256.0 * 4096, norms = 65 * 4096.0, linear = 8030261248.0 - tables - norms;
  EXPECT_DOUBLE_EQ(bytes(lower(llama_8b(), w).memory.weights), 2 * (tables + norms) + linear);
  w.precision = *parse_precision("w4a16");
  EXPECT_DOUBLE_EQ(bytes(lower(llama_8b(), w).memory.weights), 2 * (tables + norms) + linear * 4.125 / 8);
  // gpt-oss-120b: experts at 4.25 bits, the rest in bf16.
  const Llm m = gpt_oss();
  const double experts = 36 * 128 * 3.0 * 2880 * 2880;
  EXPECT_DOUBLE_EQ(bytes(lower(m, decode(1, 1)).memory.weights), experts * 4.25 / 8 + 2 * (m.params - experts));
}

/// ZeRO, arXiv 1910.02054, section 3.1; with gradients in fp32 two more (Megatron-LM, docs/source/api-guide/dist_optimizer:
/// 16 bytes a parameter with gradients of 16 bits, 18 in fp32, 6 + 12/d where the optimizer is shared by d replicas).
TEST(LowerMemory, AdamTakesSixteenBytesAParameter) {
  const double params = 8030261248.0;
  const auto of = [](DType gradient, int zero, Optimizer optimizer = Optimizer::adamw) {
    Workload w = train(4, 128);
    w.training.gradient = gradient;
    w.training.optimizer = optimizer;
    w.parallel.data = 4;
    w.parallel.zero = zero;
    const MemoryNeed m = memory_need(llama_8b(), w);
    EXPECT_EQ(bytes(m.kv_cache), 0);
    return bytes(m.weights + m.gradients + m.optimizer);
  };
  EXPECT_DOUBLE_EQ(of(DType::bf16, 0), 16 * params);
  EXPECT_DOUBLE_EQ(of(DType::fp32, 0), 18 * params);
  EXPECT_DOUBLE_EQ(of(DType::fp32, 1), (6 + 12 / 4.0) * params);
  EXPECT_DOUBLE_EQ(of(DType::bf16, 0, Optimizer::sgd), 12 * params);
}

/// Korthikanti et al., arXiv 2205.05198, equation 1, for their layer: s b h (34 + 5 a s / h).
TEST(LowerMemory, EagerTrainingKeepsWhatThePublishedFormulaSays) {
  const double s = 512, b = 4, h = 768, a = 12, layers = 12, vocab = 50257;
  const double head = s * b * (2 * h * 2 + vocab * 6);
  const MemoryNeed none = lower(gpt2(), train(4, 512, Fusion::none)).memory;
  EXPECT_DOUBLE_EQ(bytes(none.activations), layers * (34 * s * b * h + 5 * a * s * s * b) + head);
  const MemoryNeed flash = lower(gpt2(), train(4, 512)).memory;
  EXPECT_DOUBLE_EQ(bytes(flash.activations),
                   layers * (34 * s * b * h + 4 * a * s * b) + s * b * (2 * h * 2 + vocab * 2));
}

/// A layer of theirs: table 2 of the paper, with tensor ranks, sequence parallelism, selective and full recomputation.
TEST(LowerMemory, ParallelTrainingKeepsWhatThePublishedFormulasSay) {
  const double s = 512, b = 4, h = 768, a = 12, t = 4, layers = 12, sbh = s * b * h;
  const auto layer_bytes = [&](bool sequence, Recompute recompute, bool written_out = true) {
    Workload w = train(4, 512);
    w.parallel.tensor = 4;
    w.parallel.sequence = sequence;
    w.training.written_out = written_out;
    w.training.recompute = recompute;
    const double width = sequence ? h / t : h;
    const double logit = written_out ? 6 : 2;
    return (bytes(memory_need(gpt2(), w).activations) - s * b * (2 * width * 2 + 50257 / t * logit)) / layers;
  };
  const double scores = 5 * a * s / h;
  EXPECT_NEAR(layer_bytes(false, Recompute::none), sbh * (10 + 24 / t + scores / t), 1e-9 * sbh);
  EXPECT_NEAR(layer_bytes(true, Recompute::none), sbh / t * (34 + scores), 1e-9 * sbh);
  EXPECT_NEAR(layer_bytes(false, Recompute::selective), sbh * (10 + 24 / t), 0.03 * sbh * (10 + 24 / t));
  EXPECT_NEAR(layer_bytes(true, Recompute::selective), sbh * 34 / t, 0.03 * sbh * 34 / t);
  // and one layer at a time whole, which the table leaves out
  EXPECT_NEAR(layer_bytes(false, Recompute::full), sbh * 2 + sbh * (10 + 24 / t + scores / t) / layers, 1e-9 * sbh);
}

/// Stages keep as many micro-batches as are under way in them: arXiv 2104.04473, sections 2.2.1 and 2.2.2.
TEST(LowerMemory, StagesKeepTheMicroBatchesThatAreUnderWay) {
  const auto first_stage = [&](PipelineSchedule schedule, std::int64_t chunks, std::int64_t batch) {
    Workload w = train(batch, 512);
    w.parallel.pipeline = 4;
    w.training.schedule = schedule;
    w.training.chunks = chunks;
    w.training.micro_batch = 1;
    return bytes(memory_need(gpt2(), w).activations);
  };
  const double one = 3 * 512 * (34 * 768.0 + 4 * 12);  // three layers of flash attention
  EXPECT_NEAR(first_stage(PipelineSchedule::one_f_one_b, 1, 16), 4 * one, 1);
  EXPECT_NEAR(first_stage(PipelineSchedule::one_f_one_b, 1, 2), 2 * one, 1 + one) << "or the last one's logits";
  const double head = 512 * (2 * 768 * 2 + 50257 * 2.0);  // all stages keep as much, and the last one its logits
  EXPECT_NEAR(first_stage(PipelineSchedule::gpipe, 1, 16), 16 * one + head, 1);
  // 2 (p - 1) + (v - 1) p + 1 chunks of one layer
  EXPECT_NEAR(first_stage(PipelineSchedule::interleaved, 3, 16), 15 * one / 3, 1);
}

TEST(LowerMemory, PrefillHoldsItsWidestSet) {
  // Residual, norm output, gate, up and their product, for 2048 tokens.
  const MemoryNeed m = lower(llama_8b(), prefill(1, 2048)).memory;
  EXPECT_DOUBLE_EQ(bytes(m.activations), 2048 * 2 * (4096 + 4096 + 3 * 14336.0));
  // Without flash attention two score matrices outweigh it.
  const MemoryNeed none = lower(llama_8b(), prefill(1, 2048, Fusion::none)).memory;
  EXPECT_DOUBLE_EQ(bytes(none.activations), 2048 * 2 * (4096 + 4096 + 6144 + 4096 + 2 * 32 * 2048.0));
}

TEST(LowerMemory, MoreIsNeverLess) {
  for (const Llm& m : all_models()) {
    const MemoryNeed small = lower(m, prefill(1, 300)).memory, large = lower(m, prefill(2, 600)).memory;
    EXPECT_GE(large.total(), small.total()) << m.name;
    EXPECT_GT(bytes(small.weights), 0) << m.name;
    EXPECT_GT(bytes(small.activations), 0) << m.name;
    for (const Fusion f : {Fusion::none, Fusion::typical, Fusion::max}) {
      EXPECT_GT(lower(m, train(1, 300, f)).memory.total(), lower(m, prefill(1, 300, f)).memory.total()) << m.name;
    }
    EXPECT_GE(lower(m, train(1, 300, Fusion::none)).memory.activations, lower(m, train(1, 300)).memory.activations);
    EXPECT_GE(lower(m, train(1, 300)).memory.activations, lower(m, train(1, 300, Fusion::max)).memory.activations);
  }
}

/// Where queries, keys and values are views of one result, values hold it alive beside turned queries and keys (Phi-3,
/// GPT-NeoX, Persimmon; Falcon's are copies); queries that are joined of a turned part and the rest lie by heads, as does the
/// result, which is copied by tokens. Autocast casts the input of a joined matrix once, of others once each.
TEST(LowerMemory, WhatAnEagerLayerKeepsOfJoinedProjections) {
  Workload w = train(1, 64);
  w.training.eager = true;
  const auto kept = [&w](const char* type, double rotary) {
    AttentionSpec attention = gqa(32, 8, 128);
    attention.rope = true;
    Llm m = model("m", 4096, 128256, {{layer(attention, gated(14336)), 32}});
    m.model_type = type;
    m.stacks.front().kinds.front().rotary = rotary;
    return lowering::kept_bytes_of(m, w, lowering::types_of(m, w), m.main(), 0);
  };
  constexpr double kQueries = 64 * 4096 * 2, kKeys = 64 * 1024 * 2, kInput = 64 * 4096 * 2;
  const double plain = kept("llama", 1);
  EXPECT_EQ(kept("falcon", 1) - plain, -2 * kInput);
  EXPECT_EQ(kept("persimmon", 0.5) - plain, 2 * kQueries + kKeys - 2 * kInput);
  EXPECT_EQ(kept("phi3", 1) - plain, 2 * kQueries + kKeys - 3 * kInput) << "gate and up are joined too";
  EXPECT_EQ(kept("gpt_neox", 0.25) - plain, 2 * kQueries + kKeys - 2 * kInput);
}

/// DistilBERT and ALBERT add what one of a layer's two parts makes as it is: a mask less, of a byte an element.
TEST(LowerMemory, AnEagerLayerOfWhichOnePartDropsNothing) {
  Workload w = train(1, 64);
  w.training.eager = true;
  const auto kept = [&w](const char* type) {
    FfnSpec fed;
    fed.gated = false;
    fed.width = 3072;
    LayerSpec l = layer(gqa(12, 12, 64), fed);
    l.norm = NormKind::layer;
    Llm m = model("m", 768, 30000, {{l, 12}});
    m.model_type = type;
    return lowering::kept_bytes_of(m, w, lowering::types_of(m, w), m.main(), 0);
  };
  EXPECT_EQ(kept("distilbert") - kept("bert"), -64 * 768.0);
  EXPECT_EQ(kept("albert") - kept("bert"), -64 * 768.0);
}

/// A wide layer of few tokens holds most at the end of its backward pass, in the norm that it begins with: 26 bytes an element of
/// the residual stream (two H200 recorded 26.0, data/measurements/h200/pytorch_training/two.twentieth.steps.jsonl).
TEST(LowerMemory, AnEagerNormHoldsMostWhereGradientsOutweighActivations) {
  Workload w = train(4, 1024);
  w.training.eager = true;
  w.training.optimizer = Optimizer::adamw_fused;
  w.training.gradient_given = true;
  w.training.gradient = DType::bf16;
  AttentionSpec attention = gqa(96, 8, 128);
  attention.rope = true;
  const Llm m = model("m", 12288, 32768, {{layer(attention, gated(28672)), 1}});
  const double params = 2 * 32768 * 12288.0 + 12288 * (2 * 96 + 2 * 8) * 128.0 + 3 * 12288 * 28672.0;
  const MemoryNeed need = memory_need(m, w);
  EXPECT_EQ(bytes(need.activations), 26 * 4096 * 12288.0);
  EXPECT_NEAR(bytes(need.gradients), 2 * (params - 32768 * 12288.0), 2 * 3 * 12288.0) << "all but the embedding's";
}

}  // namespace
}  // namespace plumbline::testing_support::lower_memory_test

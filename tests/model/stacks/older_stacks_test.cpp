// Stacks of 2021 to 2023 as their files say them: which launches a layer becomes, prompts that layers read in parts, and
// what the host takes between steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "arch/error.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"
#include "model/predictor/host_time.hpp"
#include "model/stacks/stack.hpp"
#include "ops/facts/work.hpp"

namespace plumbline::older_stacks_test {
namespace {

using ::testing::HasSubstr;

Machine machine_of(const char* gpu, const char* stack) { return machines().get({gpu, MachineOptions{stack}}); }

StepPrediction step_of(const char* model, const Workload& workload, const Machine& machine) {
  Workload asked = workload;
  asked.fusion = machine.stack().fusion;
  Predictor predictor;
  return predictor.predict(load_llm(model), asked, machine, RunOptions{machine.stack().runtime});
}

Workload prompts(std::int64_t batch, std::int64_t prompt) {
  Workload w;
  w.phase = Phase::prefill;
  w.batch = batch;
  w.prompt = prompt;
  return w;
}

Workload tokens(std::int64_t batch, std::int64_t context) {
  Workload w = prompts(batch, 1);
  w.phase = Phase::decode;
  w.context = context;
  return w;
}

const Node& node_of(const StepPrediction& step, std::string_view name) {
  for (const Node& node : step.graph.nodes) {
    if (name == node.name) return node;
  }
  throw BadInput("no node " + std::string(name));
}

std::int64_t launches_of(const StepPrediction& step, std::string_view segment) {
  std::int64_t launches = 0;
  for (const Node& node : step.graph.nodes) {
    if (segment == step.graph.segments[static_cast<std::size_t>(node.segment)].name) ++launches;
  }
  return launches;
}

Seconds product(const char* gpu, const char* stack, std::int64_t m, std::int64_t n, std::int64_t k) {
  return predict(Gemm{m, n, k, 1, {}, false}, machine_of(gpu, stack)).time;
}

/// 132 SMs, tiles of powers of two: 1024 x 4096 are 128 of 128 x 256 and run in one turn, 1536 x 4096 are 1.5 turns of those and
/// three of 128 x 128. Recorded (fp16, K 5504, PyTorch 2.1 on an H100; data/measurements/vidur): 58 and 120 us. Kernels of any tile
/// share out what is left.
TEST(OlderStacks, TilesOfPowersOfTwoTakeWholeTurns) {
  const auto by = [](const char* stack, std::int64_t m) { return product("h100_sxm", stack, m, 4096, 5504); };
  EXPECT_NEAR(by("vllm-2023", 1024) / by("vllm", 1024), 1, 0.05);
  EXPECT_GT(by("vllm-2023", 1536), 1.06 * by("vllm", 1536));
  EXPECT_GT(by("vllm-2023", 1536), 1.55 * by("vllm-2023", 1024));
  // where kernels fetch by cp.async nothing is different
  for (const std::int64_t m : {8, 1024, 1536}) {
    EXPECT_EQ(product("a100_sxm", "vllm-2023", m, 4096, 5504), product("a100_sxm", "vllm", m, 4096, 5504));
  }
}

TEST(OlderStacks, ALayerOfFasterTransformerIsTheLaunchesOfItsSources) {
  const Machine machine = machine_of("a100_sxm", "faster-transformer");
  // decode: add, norm, QKV, attention, projection, add + norm, up, bias + gelu, down
  EXPECT_EQ(launches_of(step_of("gpt2-xl", tokens(4, 100), machine), "layer"), 9);
  // prefill: bias and transpose, two copies to the cache, scores, softmax, context and a transpose in attention's place
  EXPECT_EQ(launches_of(step_of("gpt2-xl", prompts(4, 100), machine), "layer"), 15);
  // an encoder: attention is a bias kernel and one more, both norms add, and nothing stands around the layers
  const StepPrediction bert = step_of("bert-base-uncased", prompts(4, 100), machine);
  EXPECT_EQ(launches_of(bert, "encoder_layer"), 9);
  EXPECT_EQ(bert.graph.nodes.size(), 9U);
}

TEST(OlderStacks, FasterTransformerReadsPromptsInPartsOf2048Tokens) {
  const Machine machine = machine_of("a100_sxm", "faster-transformer");
  const StepPrediction whole = step_of("gpt2-xl", prompts(16, 128), machine);
  EXPECT_EQ(std::get<Gemm>(node_of(whole, "qkv_proj.product").op).m, 2048);
  EXPECT_EQ(node_of(whole, "qkv_proj.product").count, 48);
  const StepPrediction parts = step_of("gpt2-xl", prompts(64, 128), machine);
  EXPECT_EQ(std::get<Gemm>(node_of(parts, "qkv_proj.product").op).m, 2048);
  EXPECT_EQ(node_of(parts, "qkv_proj.product").count, 4 * 48);
  EXPECT_EQ(node_of(parts, "lm_head").count, 1);
  EXPECT_EQ(std::get<Gemm>(node_of(parts, "lm_head").op).m, 64);
  // an odd batch cannot be halved; encoders read all at once
  EXPECT_EQ(std::get<Gemm>(node_of(step_of("gpt2-xl", prompts(3, 1000), machine), "qkv_proj.product").op).m, 3000);
  const StepPrediction bert = step_of("bert-base-uncased", prompts(32, 384), machine);
  EXPECT_EQ(std::get<Gemm>(node_of(bert, "qkv_proj.product").op).m, 32 * 384);
}

/// By way of L2: keys are read once from memory, and each head has a CTA, where today's kernel has one for each KV head's part.
TEST(OlderStacks, HeadsThatShareKeysReadThemEachInTensorRtLlmOf2023) {
  const Machine machine = machine_of("h100_sxm", "trt-llm-2023");
  const StepPrediction step = step_of("llama-3.1-8b", tokens(16, 1000), machine);
  const Op attention = node_of(step, "attention").op;
  EXPECT_EQ(std::get<AttentionDecode>(attention).kv_heads, 8);
  const OpPrediction plain = predict(attention, machine);
  EXPECT_EQ(plain.launches[0].demand.plan.ctas, 16 * 32);
  EXPECT_LT(plain.dram_read, 1.01 * work(attention).read);
  const StepPrediction today = step_of("llama-3.1-8b", tokens(16, 1000), machine_of("h100_sxm", "trt-llm"));
  EXPECT_EQ(std::get<AttentionDecode>(node_of(today, "attention").op).kv_heads, 8);
}

TEST(OlderStacks, TheHostBetweenStepsIsAddedOnce) {
  HostTime host;
  host.each_step = 1.0 * units::ms;
  host.each_prompt = 2.0 * units::ms;
  host.each_sequence = 0.1 * units::ms;
  EXPECT_DOUBLE_EQ(between_steps(host, prompts(10, 100)).in(units::ms), 4);
  EXPECT_DOUBLE_EQ(between_steps(host, tokens(10, 100)).in(units::ms), 2);
  const Machine machine = machine_of("a100_sxm", "vllm-2023");
  const StepPrediction step = step_of("llama-2-7b", tokens(64, 100), machine);
  const Seconds between = between_steps(machine.stack().host, tokens(64, 100));
  EXPECT_GT(between, Seconds{});
  EXPECT_EQ(step.between_steps, between);
  Seconds rest;
  for (const NodePrediction& n : step.nodes) rest += static_cast<double>(n.node->count) * n.on_path();
  EXPECT_NEAR(step.latency / rest, 1, 1e-12);
  EXPECT_GT(step.latency, between);
}

std::string refusal(const std::string& more) {
  try {
    (void)parse_stack(R"x({"schema": 1, "name": "mine", "title": "t", "providers": [{"provider": "generic"}],
                        "prefill_appends": true, "fusion": "none", "runtime": "eager", )x" +
                          more + "}",
                      "mine.json");
  } catch (const BadInput& error) {
    return error.what();
  }
  return "";
}

TEST(OlderStacks, HostTimesAndPartsOfPromptsAreRefusedByName) {
  EXPECT_THAT(refusal(R"("host": {"each_step": "0 us", "source": "x"})"), HasSubstr("/host/each_step"));
  EXPECT_THAT(refusal(R"("host": {"source": "x"})"), HasSubstr("expected one of each_launch"));
  EXPECT_THAT(refusal(R"("host": {"each_launch": "9 us", "calls_each_hand_over": 0, "source": "x"})"),
              HasSubstr("calls_each_hand_over: expected a number up to 1000"));
  EXPECT_THAT(refusal(R"("host": {"each_step": "9 us", "calls_each_hand_over": 5, "source": "x"})"),
              HasSubstr("expected each_launch or borrowed_from beside it"));
  EXPECT_THAT(refusal(R"("host": {"borrowed_from": "vllm-2022", "within": 2, "source": "x"})"),
              HasSubstr("did you mean 'vllm-2023'"));
  EXPECT_THAT(refusal(R"("host": {"borrowed_from": "vllm", "within": 2, "source": "x"})"),
              HasSubstr("stack vllm has no each_launch of its own"));
  EXPECT_THAT(refusal(R"("host": {"borrowed_from": "vllm-2023", "within": 0.5, "source": "x"})"),
              HasSubstr("expected a factor from 1 to 100"));
  EXPECT_THAT(refusal(R"("host": {"borrowed_from": "vllm-2023", "source": "x"})"), HasSubstr("within"));
  EXPECT_THAT(refusal(R"("host": {"borrowed_from": "vllm-2023", "within": 2, "each_launch": "1 us", "source": "x"})"),
              HasSubstr("/host/each_launch"));
  EXPECT_THAT(refusal(R"("host": {"each_launch": "1 us", "within": 2, "source": "x"})"), HasSubstr("/host/within"));
  EXPECT_THAT(refusal(R"("host": {"training": {"narrow_launch": "9 us", "source": "x"}, "source": "x"})"),
              HasSubstr("forward_call"));
  EXPECT_THAT(refusal(R"("host": {"training": {"narrow_launch": "0 us"}, "source": "x"})"),
              HasSubstr("expected a time above 0"));
  EXPECT_THAT(refusal(R"("prefill_at_once": {"tokens": 0, "source": "x"})"), HasSubstr("/prefill_at_once/tokens"));
  EXPECT_EQ(refusal(R"("host": {"each_sequence": "1 us", "source": "x"})"), "");
}

}  // namespace
}  // namespace plumbline::older_stacks_test

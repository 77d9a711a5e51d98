// What stacks of sharded training run beside a model's own operators: the copies around what replicas exchange, and cuBLAS as
// it was when they ran.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "arch/error.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"
#include "model/stacks/stack.hpp"
#include "ops/facts/work.hpp"

namespace plumbline::sharded_training_test {
namespace {

Machine machine_of(const char* gpu, const char* stack) {
  MachineOptions options{stack};
  options.clock = ClockMode::burst;
  return machines().get({gpu, options});
}

Workload sharded(DType gradient) {
  Workload w;
  w.phase = Phase::train;
  w.batch = 64;
  w.prompt = 1024;
  w.training.micro_batch = 8;
  w.training.gradient = gradient;
  w.parallel.data = 8;
  w.parallel.zero = 3;
  return w;
}

StepPrediction iteration(const char* model, const char* stack, Workload w) {
  const Machine machine = machine_of("h100_sxm", stack);
  w.fusion = machine.stack().fusion;
  Predictor predictor;
  return predictor.predict(load_llm(model), w, machine, RunOptions{machine.stack().runtime});
}

StepPrediction iteration(const char* model, const char* stack, DType gradient) {
  return iteration(model, stack, sharded(gradient));
}

bool has(const StepPrediction& step, std::string_view name) {
  for (const Node& node : step.graph.nodes) {
    if (name == node.name) return true;
  }
  return false;
}

struct Moved {
  double read = 0, written = 0;
};

/// Of the first node of that name: a layer's.
Moved moved(const StepPrediction& step, std::string_view name) {
  for (const Node& node : step.graph.nodes) {
    if (name != node.name) continue;
    const auto& op = std::get<CustomOp>(node.op);
    return {op.read.in(units::B), op.write.in(units::B)};
  }
  throw BadInput("no node " + std::string(name));
}

void expect_moved(const StepPrediction& step, std::string_view name, double read, double written) {
  const Moved found = moved(step, name);
  EXPECT_NEAR(found.read, read, 1e-6 * read) << name;
  EXPECT_NEAR(found.written, written, 1e-6 * written) << name;
}

/// A layer of MPT-1B: 12 x 2048^2 of matrices and 13 x 2048 of biases and norms' weights and biases.
TEST(ShardedTraining, FlatParametersAreJoinedCastAndDivided) {
  const double layer = 12.0 * 2048 * 2048 + 13 * 2048;
  const StepPrediction wide = iteration("mpt-1b-foundry", "llm-foundry", DType::fp32);
  const double params = moved(wide, "grad_reduce_scatter.d_join").read / 2;
  EXPECT_NEAR(params / layer, 1, 0.005);  // positions and the last norm are shared out among the layers
  expect_moved(wide, "forward_all_gather.d_cast", 4 * params / 8, 2 * params / 8);
  expect_moved(wide, "grad_reduce_scatter.d_join", 2 * params, 2 * params);
  expect_moved(wide, "grad_reduce_scatter.d_cast", 2 * params, 4 * params);
  expect_moved(wide, "grad_reduce_scatter.d_divide", 4 * params, 4 * params);
  expect_moved(wide, "grad_reduce_scatter.d_divide_share", 4 * params / 8, 4 * params / 8);
  expect_moved(wide, "grad_reduce_scatter.d_add_share", 8 * params / 8, 4 * params / 8);
  // summed in bf16 nothing is cast on the way
  const StepPrediction narrow = iteration("mpt-1b-foundry", "llm-foundry", DType::bf16);
  expect_moved(narrow, "grad_reduce_scatter.d_divide", 2 * params, 2 * params);
  EXPECT_THROW(moved(narrow, "grad_reduce_scatter.d_cast"), BadInput);
  EXPECT_LT(narrow.latency, wide.latency);
}

TEST(ShardedTraining, ParametersOfTheirOwnAreCopiedInAndOut) {
  const StepPrediction step = iteration("llama-3.2-1b", "torchtitan", DType::fp32);
  const double params = moved(step, "forward_all_gather.d_copy_out").read / 2;
  EXPECT_NEAR(params / 60.8e6, 1, 0.01);
  expect_moved(step, "forward_all_gather.d_cast", 4 * params / 8, 2 * params / 8);
  expect_moved(step, "backward_all_gather.d_copy_in", 2 * params / 8, 2 * params / 8);
  expect_moved(step, "grad_reduce_scatter.d_chunk_cat", 2 * params, 4 * params);
}

/// 8192 tokens of Llama-3.2-1B (32 heads, 8 of keys and values, 64 wide; 128,256 tokens of vocabulary), by torchtitan's source.
TEST(ShardedTraining, TorchTitansModelIsWrittenOut) {
  const StepPrediction step = iteration("llama-3.2-1b", "torchtitan", DType::fp32);
  const double rotated = 8192.0 * 40 * 64, kept = 2.0 * 8192 * 8 * 64, logits = 8192.0 * 128256;
  for (const char* name : {"rope.", "rope.d_"}) {
    expect_moved(step, std::string(name) + "to_fp32", 2 * rotated, 4 * rotated);
    expect_moved(step, std::string(name) + "times_angles", 4 * rotated, 4 * rotated);
    expect_moved(step, std::string(name) + "from_fp32", 4 * rotated, 2 * rotated);
  }
  expect_moved(step, "attention.repeat", 2 * kept, 4 * 2 * kept);
  expect_moved(step, "attention.d_sum_heads", 4 * 2 * kept, 2 * kept);
  expect_moved(step, "loss.to_fp32", 2 * logits, 4 * logits);
  expect_moved(step, "loss.log_softmax", 12 * logits, 4 * logits);
  expect_moved(step, "loss.gradient_from_fp32", 4 * logits, 2 * logits);
  EXPECT_FALSE(has(step, "loss.shift"));  // of tensor ranks alone
}

/// A pass over all of a micro-batch's tokens wherever sequences are gathered or scattered, none where that goes in parts.
TEST(ShardedTraining, TensorRanksCopyWhatTheyGatherAlongSequences) {
  Workload w = sharded(DType::fp32);
  w.parallel.tensor = 4;
  w.parallel.sequence = true;
  const StepPrediction apart = iteration("llama-3.2-1b", "torchtitan", w);
  const double tokens = 2.0 * 8192 * 2048;
  for (const char* name : {"embedding_reduce_scatter.cat", "attn_all_gather.cat", "attn_reduce_scatter.cat",
                           "ffn_all_gather.d_cat", "ffn_reduce_scatter.d_cat", "head_all_gather.d_cat"}) {
    expect_moved(apart, name, tokens, tokens);
  }
  EXPECT_TRUE(has(apart, "loss.shift"));
  w.overlap = Overlap::iteration;
  const StepPrediction beside = iteration("llama-3.2-1b", "torchtitan", w);
  EXPECT_FALSE(has(beside, "attn_all_gather.cat"));
  EXPECT_TRUE(has(beside, "attn_all_gather"));
  EXPECT_TRUE(has(beside, "grad_reduce_scatter.d_chunk_cat"));  // of replicas, as ever
  EXPECT_LT(beside.latency, apart.latency);
}

/// On Hopper in tiles of six sizes, none of which is a better plan than today's; elsewhere the same kernels.
TEST(ShardedTraining, EarlierCublasHasFewTiles) {
  Gemm large;
  large.m = large.k = 4096;
  large.n = 14336;
  const OpPrediction now = predict(large, machine_of("h100_sxm", "megatron")),
                     then = predict(large, machine_of("h100_sxm", "llm-foundry"));
  EXPECT_GT(then.time, 1.02 * now.time);
  EXPECT_LT(then.time, 1.3 * now.time);
  EXPECT_EQ(then.gemm_plan.tile_m % 64, 0);
  EXPECT_LE(then.gemm_plan.tile_m * then.gemm_plan.tile_n, 256 * 128);
  EXPECT_EQ(predict(large, machine_of("a100_sxm", "megatron")).time,
            predict(large, machine_of("a100_sxm", "llm-foundry")).time);
}

}  // namespace
}  // namespace plumbline::sharded_training_test

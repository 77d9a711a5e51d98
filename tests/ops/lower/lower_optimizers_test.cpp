// Optimizers beside Adam, and gradients and weights that replicas share: bytes and products by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "ops/memory/memory.hpp"
#include "tests/ops/lower/lower_models.hpp"

namespace plumbline::testing_support::lower_optimizers_test {
namespace {

constexpr double kParams = 8030261248.0;                             // of Llama-3.1-8B
constexpr double kEnds = 2 * 128256.0 * 4096 + (2 * 32 + 1) * 4096;  // embedding, head, norms

Workload updated_by(Optimizer optimizer, std::int64_t batch = 1) {
  Workload w = train(batch, 64);
  w.training.optimizer = optimizer;
  return w;
}

CustomOp pass_of(const Graph& g, const char* name) { return shape_of<CustomOp>(g, name, Pass::update); }

/// 4 bytes of gradient and 4 of master weight, two moments of 1 + 4 / 256; written: those but the gradient, and 2 of weight.
TEST(LowerOptimizers, MomentsOf8BitsHaveAScaleFor256OfThem) {
  const Graph g = lower(llama_8b(), updated_by(Optimizer::adam8bit));
  const CustomOp update = pass_of(g, "adam8bit");
  EXPECT_NEAR(update.read.in(units::B), kParams * (4 + 4 + 2.03125), 1);
  EXPECT_NEAR(update.write.in(units::B), kParams * (4 + 2 + 2.03125), 1);
  EXPECT_NEAR(g.memory.optimizer.in(units::B), kParams * (4 + 2.03125), 1);
}

/// Sums of rows and columns: one side of each of the 4 x 32 matrices and of embedding and head is the width of 4096.
TEST(LowerOptimizers, AdafactorKeepsSumsOfRowsAndColumns) {
  const Graph g = lower(llama_8b(), updated_by(Optimizer::adafactor));
  const double sums = 4 * (kParams / 4096 + (4 * 32 + 1) * 4096.0);
  EXPECT_NEAR(g.memory.optimizer.in(units::B), 4 * kParams + sums, 1);
  EXPECT_NEAR(pass_of(g, "adafactor_sums").read.in(units::B), 4 * kParams, 1);
  EXPECT_NEAR(pass_of(g, "adafactor_sums").write.in(units::B), sums, 1);
  EXPECT_NEAR(pass_of(g, "adafactor_size").read.in(units::B), 4 * kParams + sums, 1);
  EXPECT_NEAR(pass_of(g, "adafactor").read.in(units::B), 8 * kParams + sums, 1);
  EXPECT_NEAR(pass_of(g, "adafactor").write.in(units::B), 6 * kParams, 1);
}

/// Five steps of 2 R R C + 2 R R R + 2 R R C for each matrix: QKV 6144 x 4096, output 4096 x 4096, gate with up
/// 28672 x 4096, down 4096 x 14336, 32 layers.
TEST(LowerOptimizers, MuonMultipliesEachMatrixFifteenTimes) {
  const Graph g = lower(llama_8b(), updated_by(Optimizer::muon));
  double flops = 0;
  for (const Node& n : g.nodes) {
    if (n.pass != Pass::update || !is_gemm(n)) continue;
    const auto& p = std::get<Gemm>(n.op);
    flops += 2 * d(p.batch) * d(p.m) * d(p.n) * d(p.k) * d(n.count);
  }
  double want = 0;
  const double r = 4096;
  for (const double c : {6144.0, 4096.0, 28672.0, 14336.0}) want += 32 * 5 * (4 * r * r * c + 2 * r * r * r);
  EXPECT_NEAR(flops / want, 1, 1e-12);
  const double matrices = kParams - kEnds;
  EXPECT_NEAR(g.memory.optimizer.in(units::B) / (8 * matrices + 12 * kEnds), 1, 1e-9);
  const auto& rest = shape_of<Rowwise>(g, "adamw", Pass::update);
  EXPECT_NEAR(d(rest.rows) * d(rest.cols) / kEnds, 1, 1e-4);
}

/// What replicas divide they update a part of, whatever the optimizer.
TEST(LowerOptimizers, ReplicasDivideTheUpdate) {
  for (const Optimizer each : {Optimizer::sgd, Optimizer::adam8bit, Optimizer::adafactor, Optimizer::muon}) {
    Workload w = updated_by(each, 4);
    w.parallel.data = 4;
    const Bytes whole = lower(llama_8b(), w).memory.optimizer;
    w.parallel.zero = 1;
    EXPECT_NEAR(whole / lower(llama_8b(), w).memory.optimizer, 4, 1e-9);
  }
}

/// Two micro-batches: gradients of each are reduce-scattered (2, 3); weights gathered before each pass (3), or once (1, 2).
/// From 2 on layer by layer, of which there are 32.
TEST(LowerOptimizers, ReplicasShareGradientsAndWeights) {
  Workload w = updated_by(Optimizer::adamw, 8);
  w.parallel.data = 4;
  w.training.micro_batch = 1;
  const auto count = [&](const Graph& g, const char* name, Pass pass) {
    const Node* node = find(g, name, pass);
    return node == nullptr ? 0 : node->count;
  };
  Bytes before;
  for (const int zero : {1, 2, 3}) {
    w.parallel.zero = zero;
    const Graph g = lower(llama_8b(), w);
    EXPECT_EQ(count(g, "grad_reduce_scatter", Pass::update), zero == 1 ? 1 : 0);
    EXPECT_EQ(count(g, "grad_reduce_scatter", Pass::backward), zero == 1 ? 0 : 2 * 32);
    EXPECT_EQ(count(g, "weight_all_gather", Pass::update), zero == 3 ? 0 : zero == 2 ? 32 : 1);
    EXPECT_EQ(count(g, "forward_all_gather", Pass::backward), zero == 3 ? 2 * 32 : 0);
    EXPECT_EQ(count(g, "backward_all_gather", Pass::backward), zero == 3 ? 2 * 32 : 0);
    if (zero > 1) {
      EXPECT_LT(g.memory.total(), before);
      const double unit = kEnds;  // embedding, head and norms are more than a layer
      EXPECT_NEAR(g.memory.gradients.in(units::B), kParams + 4 * unit, 1);
      EXPECT_NEAR(g.memory.weights.in(units::B), zero == 3 ? 2 * kParams / 4 + 2 * 2 * unit : 2 * kParams, 1);
    }
    before = g.memory.total();
  }
}

/// A micro-batch's activations are kept until its weights' gradients are made, on every stage.
TEST(LowerOptimizers, ZeroBubbleHoldsAsManyMicroBatchesAsItsFirstStage) {
  Workload w = updated_by(Optimizer::adamw, 16);
  w.parallel.pipeline = 4;
  w.training.micro_batch = 1;
  const Bytes turns = memory_need(llama_8b(), w).activations;
  w.training.schedule = PipelineSchedule::zero_bubble;
  EXPECT_GE(memory_need(llama_8b(), w).activations, turns);
}

/// By 1F1B each stage keeps one micro-batch more than the one behind it, and the step's need is the fullest one's.
TEST(LowerOptimizers, EachStageHoldsWhatItsPlaceAsksFor) {
  Workload w = updated_by(Optimizer::adamw, 16);
  w.parallel.pipeline = 4;
  w.training.micro_batch = 1;
  const std::vector<MemoryNeed> stages = memory_of_stages(llama_8b(), w);
  ASSERT_EQ(stages.size(), 4U);
  EXPECT_NEAR(stages[1].activations / stages[2].activations, 1.5, 1e-9) << "three micro-batches and two";
  EXPECT_GT(stages[3].weights, stages[2].weights) << "the head";
  Bytes most;
  for (const MemoryNeed& stage : stages) most = std::max(most, stage.total());
  EXPECT_EQ(most, memory_need(llama_8b(), w).total());
}

/// Trained, then generated from.
void expect_the_fullest(Workload w) {
  for (const std::int64_t context : {0, 1000}) {
    if (context > 0) w.phase = Phase::decode;
    w.context = context;
    Bytes most;
    for (const MemoryNeed& stage : memory_of_stages(llama_8b(), w)) most = std::max(most, stage.total());
    EXPECT_EQ(memory_need(llama_8b(), w).total(), most) << w.parallel.pipeline << " stages, zero " << w.parallel.zero;
  }
}

/// The need is the fullest stage's by every schedule, whichever that is, of stages of unlike length too.
TEST(LowerOptimizers, TheNeedIsTheFullestStages) {
  using enum PipelineSchedule;
  for (const PipelineSchedule schedule : {gpipe, one_f_one_b, interleaved, zero_bubble, dual_pipe, dual_pipe_v}) {
    for (const std::int64_t stages : {4, 6, 8}) {
      Workload w = updated_by(Optimizer::adamw, 32);
      w.parallel.pipeline = stages;
      w.parallel.data = 2;
      w.training.micro_batch = 1;
      w.training.schedule = schedule;
      w.training.chunks = schedule == interleaved ? 2 : 1;
      for (const int zero : {0, 1, 3}) {
        w.parallel.zero = zero;
        for (const Offload offload : {Offload::none, Offload::activations, Offload::optimizer}) {
          w.training.offload = offload;
          expect_the_fullest(w);
        }
      }
    }
  }
}

}  // namespace
}  // namespace plumbline::testing_support::lower_optimizers_test

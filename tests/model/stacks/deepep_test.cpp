// Exchanges of tokens among the ranks of their experts: DeepEP's kernels, by hand and as laws, and where a step runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "arch/error.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"
#include "ops/table/text.hpp"
#include "tests/support/planners.hpp"
#include "tests/support/workloads.hpp"

namespace plumbline::deepep_test {
namespace {

using ::testing::HasSubstr;
using testing_support::decode;
using testing_support::prefill;
using testing_support::scalars_of;

Machine machine_of(const std::string& gpu, const char* stack,
                   CollectiveChoice collective = CollectiveChoice::automatic) {
  MachineOptions options;
  options.stack.name = stack;
  options.stack.collective = collective;
  return machines().get({.gpu = gpu, .options = options});
}

OpPrediction priced(const Machine& machine, const char* op, const std::string& shape) {
  Predictor predictor;
  return predictor.predict(parse_op(op, op == std::string("moe_dispatch") ? "fp8" : "bf16", shape), machine);
}

Seconds time_of(const char* op, const std::string& shape) {
  return priced(machine_of("h100_sxm", "sglang"), op, shape).time;
}

double norm(double a, double b, double p) { return std::pow(std::pow(a, p) + std::pow(b, p), 1 / p); }

/// 256 tokens of DeepSeek-V3 on eight H100 in fp8: 2 groups of 16 warps on each of 128 SMs, so two tokens an SM in turn;
/// 8 messages a pair of expert and rank for its 16 warps; messages of 7168 B, 56 scales and a header.
TEST(DeepEp, LowLatencyDispatchByHand) {
  const Machine machine = machine_of("h100_sxm", "sglang");
  const FamilyScalars& f = scalars_of(machine, "library.deepep_low_dispatch");
  const Rates& m = machine.rates();
  const double message = 7168 + 4 * 56 + 16, all = 256 * 8 * message;
  const double links = 7.0 / 8 * all / (f.link_share * 450e9);
  const double chain = 2 * (f.step.in(units::s) + message / f.channel.in(units::B_per_s));
  const double held = m.l2_held().in(units::B), far = std::max(0.0, 2 * all - held) / (2 * all);
  const double rates = 1 / m.dram_read.in(units::B_per_s) + 1 / m.dram_write.in(units::B_per_s);
  const double copied = 2 * all / m.l2.in(units::B_per_s) + far * all * rates;
  const double by_hand =
      (f.fixed + 8.0 * f.counter + m.gap_graph).in(units::s) + norm(links, chain, f.overlap) + copied;
  const OpPrediction p = priced(machine, "moe_dispatch", "tokens=256;cols=7168;topk=8;experts=256;gpus=8");
  EXPECT_NEAR(p.time.in(units::s) / by_hand, 1, 1e-9);
  EXPECT_EQ(p.provider, "deepep");
  EXPECT_EQ(p.launches[0].demand.plan.ctas, 128);
}

/// 4096 tokens on 20 SMs, ten channels: one expert a token, so one copy of each, a row of 5120 bf16.
TEST(DeepEp, HighThroughputCombineByHand) {
  const Machine machine = machine_of("h100_sxm", "sglang");
  const FamilyScalars& f = scalars_of(machine, "library.deepep_combine");
  const double row = 2 * 5120, warp = row / f.channel.in(units::B_per_s), message = f.step.in(units::s) + warp;
  const double links = 7.0 / 8 * 4096 * row / (f.link_share * 450e9);
  const double chain = 409.6 * (20 * f.counter.in(units::s) + message / 24);
  const double by_hand =
      (f.fixed + machine.rates().gap_graph).in(units::s) + norm(links, chain, f.overlap) + message + f.exposed * warp;
  const OpPrediction p = priced(machine, "moe_combine", "tokens=4096;cols=5120;topk=1;experts=16;gpus=8;sms=20");
  EXPECT_NEAR(p.time.in(units::s) / by_hand, 1, 1e-9);
}

/// Of 32 GPUs eight are in the node: three quarters of the messages go by a port of 50 GB/s, none saved; the kernels of
/// high throughput send a token to each other node once.
TEST(DeepEp, BetweenNodesTheNetworkCarriesEachMessageOrEachTokenOnce) {
  const Machine machine = machine_of("h100_sxm", "sglang");
  const FamilyScalars& f = scalars_of(machine, "library.deepep_low_combine_network");
  const Demand low =
      priced(machine, "moe_combine", "tokens=256;cols=7168;topk=8;experts=256;gpus=32").launches[0].demand;
  EXPECT_NEAR(low.link.in(units::B), 0.75 * 256 * 8 * 14336, 1);
  EXPECT_NEAR(low.link_rate.in(units::B_per_s), f.link_share * 50e9, 1);
  const Demand high =
      priced(machine, "moe_combine", "tokens=4096;cols=7168;topk=8;experts=256;gpus=32;sms=20").launches[0].demand;
  const double nodes =
      4 * (1 - (192.0 * 191 * 190 * 189 * 188 * 187 * 186 * 185) / (256.0 * 255 * 254 * 253 * 252 * 251 * 250 * 249));
  EXPECT_NEAR(high.link.in(units::B) / (0.75 * nodes * 4096 * 14336), 1, 1e-12);
}

TEST(DeepEp, LessIsNeverSlower) {
  for (const char* op : {"moe_dispatch", "moe_combine"}) {
    for (const char* kernel : {"", ";sms=8", ";sms=24"}) {
      for (const char* ranks : {";gpus=8", ";gpus=64"}) {
        Seconds before;
        for (const int tokens : {1, 2, 5, 64, 100, 128, 129, 1000, 4096}) {
          const Seconds now = time_of(
              op, "tokens=" + std::to_string(tokens) + ";cols=4096;topk=8;experts=256" + std::string(kernel) + ranks);
          EXPECT_GE(now, before) << op << kernel << ranks << ' ' << tokens;
          before = now;
        }
        const std::string rest = ";topk=8;experts=256" + std::string(kernel) + ranks;
        EXPECT_LT(time_of(op, "tokens=512;cols=2048" + rest), time_of(op, "tokens=512;cols=7168" + rest));
        EXPECT_LT(time_of(op, "tokens=512;cols=4096;topk=2;experts=256" + std::string(kernel) + ranks),
                  time_of(op, "tokens=512;cols=4096" + rest));
        EXPECT_LT(time_of(op, "tokens=512;cols=4096" + rest), time_of(op, "tokens=512;cols=4096;skew=50" + rest));
      }
    }
  }
}

TEST(DeepEp, WithoutNvlinkOrWithoutItNcclExchangesRows) {
  const char* shape = "tokens=128;cols=4096;topk=8;experts=64;gpus=8";
  EXPECT_EQ(priced(machine_of("l40s", "sglang"), "moe_dispatch", shape).provider, "nccl");
  EXPECT_EQ(priced(machine_of("h100_sxm", "trt-llm"), "moe_dispatch", shape).provider, "nccl");
  const Seconds rows = priced(machine_of("h100_sxm", "trt-llm"), "moe_combine", shape).time;
  const Op same = parse_op("all_to_all", "bf16", "gpus=8;bytes=" + std::to_string(128 * 8 * 4096 * 2));
  EXPECT_EQ(rows, predict(same, machine_of("h100_sxm", "trt-llm")).time);
}

std::vector<std::string> moves_of(const Machine& machine, Workload w, const char* model = "deepseek-v3",
                                  std::int64_t ranks = 16) {
  w.parallel = {.tensor = 1, .data = ranks, .expert = ranks};
  std::vector<std::string> names;
  const StepPrediction step = predict(load_llm(model), w, machine, {});
  for (const NodePrediction& n : step.nodes) {
    if (std::string_view(n.node->name).substr(0, 4) != "moe_") continue;
    names.push_back(std::string(n.node->name) + " " + std::string(op_name(n.node->op)));
    if (const auto* e = std::get_if<ExpertExchange>(&n.node->op)) names.back() += " " + std::to_string(e->sms);
  }
  return names;
}

TEST(DeepEp, StepsOfStacksThatHaveItSendTokens) {
  using ::testing::ElementsAre;
  const Machine sglang = machine_of("h100_sxm", "sglang");
  EXPECT_THAT(moves_of(sglang, decode(256, 4096)),
              ElementsAre("moe_dispatch moe_dispatch 0", "moe_collect moe_combine 0"));
  EXPECT_THAT(moves_of(sglang, prefill(16, 2048)),
              ElementsAre("moe_dispatch moe_dispatch 20", "moe_permute moe_permute", "moe_combine moe_permute",
                          "moe_collect moe_combine 20"));
  const auto rows = ElementsAre("moe_permute moe_permute", "moe_dispatch all_to_all", "moe_collect all_to_all",
                                "moe_combine moe_permute");
  EXPECT_THAT(moves_of(machine_of("h100_sxm", "trt-llm"), decode(256, 4096)), rows);
  EXPECT_THAT(moves_of(machine_of("h100_sxm", "sglang", CollectiveChoice::ring), decode(256, 4096)), rows)
      << "a user has said how NCCL's collectives go";
  EXPECT_THAT(moves_of(machine_of("a100_sxm", "sglang"), decode(256, 4096), "mixtral-8x7b", 8), rows)
      << "nobody timed it there";
}

}  // namespace
}  // namespace plumbline::deepep_test

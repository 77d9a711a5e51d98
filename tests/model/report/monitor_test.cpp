// What a monitor and PyTorch's profiler would show of a predicted step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "model/report/monitor/dcgm.hpp"
#include "model/report/monitor/profiler_table.hpp"
#include "ops/llm/llm.hpp"

namespace plumbline::monitor_test {
namespace {

using ::testing::HasSubstr;

struct Asked {
  Llm llm;
  Workload workload;
  Machine machine;
  StepPrediction step;
};

Asked asked(Phase phase, std::int64_t ranks, const char* stack = "trt-llm") {
  Asked out{load_llm("llama-3.1-8b"), {}, machines().get({"h200", MachineOptions{stack}}), {}};
  out.workload.phase = phase;
  out.workload.batch = 4;
  out.workload.prompt = out.workload.context = 2048;
  out.workload.parallel.tensor = ranks;
  out.step = predict(out.llm, out.workload, out.machine, RunOptions{});
  return out;
}

StepReport report_of(const Asked& a) { return {a.llm, a.workload, a.machine, ClockMode::steady, {}, a.step, {}, {}}; }

TEST(Monitor, FieldsAreFractionsInTheOrderThatPhysicsAsks) {
  const Asked prefill = asked(Phase::prefill, 1), decode = asked(Phase::decode, 1);
  const MonitorFields p = monitor_fields(report_of(prefill)), d = monitor_fields(report_of(decode));
  for (const MonitorFields& m : {p, d}) {
    EXPECT_LE(m.sm_active, m.engine_active);
    EXPECT_LE(m.engine_active, 1);
    EXPECT_GE(m.tensor_active, 0);
    EXPECT_LE(m.tensor_active, 1);
    EXPECT_EQ(m.nvlink_bytes, 0.0);
  }
  // A prefill is bound by tensor units, and never does more useful work than their pipes are busy; a decode step by memory.
  EXPECT_GT(p.tensor_active, 0.6);
  EXPECT_GE(p.tensor_active, 0.97 * prefill.step.flops.in(units::FLOP) / prefill.step.latency.in(units::s) /
                                 (4096.0 * 132 * prefill.step.clock.in(units::Hz)));
  EXPECT_LT(d.tensor_active, p.tensor_active);
  EXPECT_GT(d.dram_active, 0.6);
  EXPECT_DOUBLE_EQ(d.dram_active, decode.step.mbu);
  EXPECT_DOUBLE_EQ(*p.power, prefill.step.power->in(units::W));
}

/// Two ranks exchange two sums a layer of batch x width x 2 bytes: a ring or the peers' copies send each rank's bytes once.
TEST(Monitor, LinksCarryWhatTheCollectivesSend) {
  const Asked two = asked(Phase::prefill, 2);
  const MonitorFields m = monitor_fields(report_of(two));
  const double sums = 2.0 * 32 * 4 * 2048 * 4096 * 2;
  ASSERT_TRUE(m.nvlink_bytes.has_value());
  EXPECT_NEAR(*m.nvlink_bytes * two.step.latency.in(units::s) / sums, 1, 0.1);
}

TEST(Monitor, TheProfilersColumnsAddUp) {
  const Asked decode = asked(Phase::decode, 1, "hf-sdpa");
  const std::string text = step_profiler(report_of(decode));
  for (const char* column : {"Name", "CUDA total", "CUDA %", "CUDA time avg", "# of Calls", "CUDA time total: "}) {
    EXPECT_THAT(text, HasSubstr(column));
  }
  double shares = 0;
  for (std::size_t from = 0; (from = text.find('%', from)) != std::string::npos; ++from) {
    const std::size_t begin = text.find_last_of(' ', from);
    if (text[from - 1] >= '0' && text[from - 1] <= '9') shares += std::stod(text.substr(begin + 1, from - begin - 1));
  }
  EXPECT_NEAR(shares, 100, 1);
}

}  // namespace
}  // namespace plumbline::monitor_test

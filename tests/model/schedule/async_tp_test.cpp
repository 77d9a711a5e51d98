// Products beside copies of shares (--overlap async-tp) in whole steps: times add up, what must hold of them, and what they
// are worth.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "arch/error.hpp"
#include "model/report/report.hpp"
#include "model/schedule/side_by_side.hpp"
#include "tests/support/workloads.hpp"

namespace plumbline::async_tp_test {
namespace {

using testing_support::decode;
using testing_support::prefill;

Machine h200(ClockMode clock) {
  MachineOptions options{"vllm"};
  options.clock = clock;
  return make_machine(load_gpu("h200_sxm"), options);
}

Workload shared(Workload w, std::int64_t tensor, Overlap overlap = Overlap::async_tp) {
  w.parallel.tensor = tensor;
  w.parallel.sequence = true;
  w.overlap = overlap;
  return w;
}

double count_of(const NodePrediction& n) { return static_cast<double>(n.node->count); }

template <class Check>
void of_all(const Machine& machine, const Check& check) {
  Predictor predictor;
  for (const char* model : {"llama-3.1-8b", "gemma-2-9b", "mixtral-8x7b", "deepseek-v3"}) {
    const Llm llm = load_llm(model);
    for (const Workload& w : {shared(prefill(1, 4096), 8), shared(prefill(3, 777), 4), shared(decode(512, 2000), 8),
                              shared(prefill(2, 2048), 2)}) {
      SCOPED_TRACE(testing::Message() << model << " batch " << w.batch << " tp " << w.parallel.tensor);
      check(predictor.predict(llm, w, machine, {}));
    }
  }
}

/// The law of overlap: what it gains is at most what it hides, what it loses at most what compute pays for it.
TEST(AsyncTp, IsNeverSlowerThanItsNodesOneByOneByMoreThanItsTax) {
  of_all(h200(ClockMode::burst), [](const StepPrediction& step) {
    Seconds one_by_one, on_path;
    for (const NodePrediction& n : step.nodes) {
      one_by_one += count_of(n) * (n.op.time + n.gap);
      on_path += count_of(n) * n.on_path();
      EXPECT_GE(n.tax, -1e-9 * n.op.time);
      EXPECT_GE(n.on_path(), -1e-9 * n.op.time);
    }
    EXPECT_LE(step.latency, one_by_one + step.overlap_tax);
    EXPECT_GE(step.latency, (1 - 1e-9) * (one_by_one - step.network_hidden));
    EXPECT_NEAR(on_path / step.latency, 1, 1e-9);
    EXPECT_GT(step.network_hidden, Seconds{});
  });
}

/// Copies are of copy engines: no product has fewer SMs for them, and barriers hold one.
TEST(AsyncTp, CopiesTakeNoSms) {
  const Machine machine = h200(ClockMode::burst);
  const StepPrediction step = predict(load_llm("llama-3.1-70b"), shared(prefill(1, 16384), 8), machine, {});
  Seconds compute;
  for (const NodePrediction& n : step.nodes) {
    if (std::string_view(n.node->name) == "shard_copy") {
      EXPECT_EQ(sms_held(n.op, machine.rates()), 0);
      EXPECT_GT(n.hidden / n.op.time, 0.5) << "of a prefill of 16k tokens";
    }
    if (n.node->stream == 0) compute += count_of(n) * n.op.time;
  }
  EXPECT_LT(step.overlap_tax / compute, 0.02);
}

/// 16k tokens of a 70B model on eight: a fifth of the step was gathers and scatters. A decode step is cut into products of a
/// few rows, each of which reads all of its weights.
TEST(AsyncTp, PaysWhereProductsAreLongAndNotInDecode) {
  const Machine machine = h200(ClockMode::steady);
  const Llm llm = load_llm("llama-3.1-70b");
  const auto gain = [&](const Workload& w) {
    Workload none = w;
    none.overlap = Overlap::none;
    return predict(llm, none, machine, {}).latency / predict(llm, w, machine, {}).latency;
  };
  EXPECT_GT(gain(shared(prefill(1, 16384), 8)), 1.05);
  EXPECT_LT(gain(shared(decode(64, 1024), 8)), 1);
}

TEST(AsyncTp, ReportsFoldSharesAndNameWhatRunsBeside) {
  const Machine machine = h200(ClockMode::steady);
  const Llm llm = load_llm("llama-3.1-8b");
  const Workload w = shared(prefill(2, 4096), 4);
  const RunOptions run{};
  const StepPrediction step = predict(llm, w, machine, run);
  const StepReport report{llm, w, machine, ClockMode::steady, run, step, {}, ""};
  const auto json = nlohmann::json::parse(step_json(report));
  EXPECT_EQ(json["parallel"]["overlap"], "async-tp");
  EXPECT_GT(json["network_s"]["hidden"].get<double>(), 0);
  const std::string table = step_table(report, {});
  EXPECT_NE(table.find("overlap async-tp"), std::string::npos);
  EXPECT_NE(table.find("\n  qkv_proj "), std::string::npos);
  EXPECT_EQ(table.find("\n  qkv_proj ", table.find("\n  qkv_proj ") + 1), std::string::npos)
      << "one row of four shares";
  const auto trace = nlohmann::json::parse(step_trace(report));
  bool beside = false;
  for (const auto& event : trace["traceEvents"]) {
    beside = beside || (event["ph"] == "X" && event["name"] == "shard_copy" && event["tid"] == 1);
  }
  EXPECT_TRUE(beside) << "a track a stream";
}

/// Of a plan whose tensor ranks stand on two nodes copy engines do not reach the others.
TEST(AsyncTp, EndsAtTheNode) {
  const Machine machine = h200(ClockMode::burst);
  EXPECT_NO_THROW(predict(load_llm("llama-3.1-70b"), shared(prefill(1, 4096), 8), machine, {}));
  EXPECT_THROW(predict(load_llm("llama-3.1-70b"), shared(prefill(1, 4096), 16), machine, {}), NotModelled);
}

}  // namespace
}  // namespace plumbline::async_tp_test

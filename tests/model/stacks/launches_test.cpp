// Files of launches: what they may say, what is refused, and that those that ship are for operators that models have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "arch/error.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"
#include "model/predictor/host_time.hpp"
#include "model/stacks/read_rewrites.hpp"
#include "model/stacks/stack.hpp"
#include "tests/support/workloads.hpp"

namespace plumbline::launches_test {
namespace {

using ::testing::HasSubstr;
using testing_support::decode;
using testing_support::prefill;

Rewrites parsed(const std::string& kernels, const std::string& launches) {
  const JsonDocument document = JsonDocument::parse(
      R"({"schema": 1, "title": "t", "kernels": [)" + kernels + R"(], "launches": [)" + launches + "]}", "mine.json");
  return parse_rewrites(document.root());
}

const std::string kKernel =
    R"k({"name": "wide", "op": "custom", "shape": "read=read;write=write;ctas=ceil(n/1024)", "source": "here"})k";

std::string refusal(const std::string& kernels, const std::string& launches) {
  try {
    (void)parsed(kernels, launches);
  } catch (const BadInput& e) {
    return e.what();
  }
  return "(accepted)";
}

/// Of others a prediction says that nothing that ran stands beside its launches, or that no cast of autocast does.
TEST(Launches, FamiliesThatWereHeldAgainstSomethingAreNamed) {
  const Machine machine = machines().get({"h200_sxm", MachineOptions{"hf-sdpa"}});
  const Rewrites& training = *machine.stack().training;
  EXPECT_TRUE(training.is_held("t5") && training.is_held("llama"));
  EXPECT_FALSE(training.is_held("splinter"));
  EXPECT_TRUE(training.casts_of("modernbert") && training.casts_of("t5"));
  for (const char* family : {"gemma2", "granite", "gpt_neox", "phi3", "falcon", "cohere"}) {
    EXPECT_TRUE(training.casts_of(family)) << family;
  }
  EXPECT_TRUE(training.casts_of("gpt_oss") && training.casts_of("phimoe"));
  EXPECT_FALSE(training.casts_of("splinter"));
  EXPECT_TRUE(parsed(kKernel, "").is_held("lfm2")) << "a file that says nothing of it";
}

TEST(Launches, AKernelTakesWhatALaunchGives) {
  const Rewrites r = parsed(kKernel, R"({"op": "rmsnorm", "launches": [
      {"name": "square", "kernel": "wide", "n": "rows*cols", "read": "4*rows*cols", "write": "w*rows"},
      {"name": "itself", "same": true}]})");
  ASSERT_EQ(r.rules.size(), 1U);
  ASSERT_EQ(r.rules[0].launches.size(), 2U);
  EXPECT_EQ(r.rules[0].launches[0].op->name, "custom");
  EXPECT_EQ(r.rules[0].launches[1].op, nullptr);
  Graph g;
  Node node;
  node.name = "norm";
  node.op = Rowwise{RowwiseKind::rmsnorm, 3, 1000};
  g.nodes = {node};
  g.segments = {{"layer", 1, 0, 1}};
  rewrite(g, r, decode(1, 1), "llama");
  const auto& made = std::get<CustomOp>(g.nodes[0].op);
  EXPECT_EQ(made.read.in(units::B), 12000);
  EXPECT_EQ(made.write.in(units::B), 6);
  EXPECT_EQ(made.ctas, 3);
  EXPECT_STREQ(g.nodes[1].name, "norm.itself");
}

std::string summing(const std::string& let) {
  return R"({"name": "wide", "op": "custom", "source": "assumed", "shape": "read=read;write=write;ctas=n*parts;threads=128",
      "let": ")" +
         let + "\"}";
}

TEST(Launches, AKernelNamesWhatItsKeysShare) {
  const Rewrites r = parsed(summing("each=ceil(read/write/64);parts=max(1,each/16)"), R"({"op": "rmsnorm", "launches": [
      {"name": "sum", "kernel": "wide", "n": "cols", "read": "2*rows*cols", "write": "2*cols"}]})");
  Graph g;
  Node node;
  node.name = "norm";
  node.op = Rowwise{RowwiseKind::rmsnorm, 4096, 10};
  g.nodes = {node};
  g.segments = {{"layer", 1, 0, 1}};
  rewrite(g, r, decode(1, 1), "llama");
  EXPECT_EQ(std::get<CustomOp>(g.nodes[0].op).ctas, 40) << "10 columns by 4096 / 64 / 16 parts";
  const auto with = [](const std::string& let) {
    return refusal(summing(let), R"({"op": "rmsnorm", "launches": [
        {"name": "a", "kernel": "wide", "n": "1", "read": "1", "write": "1"}]})");
  };
  EXPECT_THAT(with("rows=2"), HasSubstr("'rows' is a name already"));
  EXPECT_THAT(with("parts=each;each=2"), HasSubstr("let 'parts'"));
  EXPECT_THAT(with("parts"), HasSubstr("expected name=expression"));
}

TEST(Launches, RefusesWhatIsNotThere) {
  EXPECT_THAT(refusal(kKernel, R"({"op": "rmsnor", "launches": []})"), HasSubstr("did you mean 'rmsnorm'?"));
  const auto of = [](const std::string& launch) { return R"({"op": "rmsnorm", "launches": [)" + launch + "]}"; };
  EXPECT_THAT(refusal(kKernel, of(R"({"name": "a", "kernel": "wid", "n": "1", "read": "1", "write": "1"})")),
              HasSubstr("did you mean 'wide'?"));
  EXPECT_THAT(refusal(kKernel, of(R"({"name": "a", "kernel": "wide", "n": "row", "read": "1", "write": "1"})")),
              HasSubstr("did you mean 'rows'?"));
  EXPECT_THAT(refusal(kKernel, of(R"({"name": "a", "op": "copy", "shape": "rows=rows;col=cols"})")),
              HasSubstr("did you mean 'cols'?"));
  EXPECT_THAT(refusal(kKernel, of(R"({"name": "a", "op": "copy", "shape": "rows=rows"})")),
              HasSubstr("expected key 'cols'"));
  EXPECT_THAT(refusal(kKernel, of(R"({"name": "a", "op": "copy", "shape": "rows"})")),
              HasSubstr("expected key=expression"));
  EXPECT_THAT(refusal(kKernel + "," + kKernel, of("")), HasSubstr("expected each kernel once"));
  EXPECT_THAT(refusal(kKernel, R"({"op": "rmsnorm", "phase": "train", "launches": []})"),
              HasSubstr("expected prefill or decode"));
  EXPECT_THAT(refusal(kKernel, R"({"op": "rmsnorm", "pass": "backwards", "launches": []})"),
              HasSubstr("expected forward, backward or update"));
}

TEST(Launches, AStackNamesAFileOfThem) {
  try {
    (void)parse_stack(R"({"schema": 1, "name": "m", "title": "m", "providers": [{"provider": "generic"}],
        "prefill_appends": false, "fusion": "none", "runtime": "eager", "launches": "transformer"})",
                      "mine.json");
    FAIL();
  } catch (const BadInput& e) {
    EXPECT_THAT(e.what(), HasSubstr("did you mean 'transformers'?"));
  }
}

std::size_t launches_of(const StepPrediction& step, std::string_view begin) {
  std::size_t count = 0;
  for (const NodePrediction& n : step.nodes) count += std::string_view(n.node->name).starts_with(begin) ? 1 : 0;
  return count;
}

/// A file before another one: its own rules first, its own kernels before those of the same name.
TEST(Launches, AFileStandsBeforeAnother) {
  const auto read = [](const std::string& rest) {
    const JsonDocument document =
        JsonDocument::parse(R"({"schema": 1, "title": "t", "before": "cublas_calls", )" + rest + "}", "mine.json");
    return parse_rewrites(document.root());
  };
  const std::string own = R"("launches": [{"op": "gemm", "nodes": ["q_proj"], "launches": [
      {"name": "first", "kernel": "small", "n": "M", "read": "1", "write": "1"}]}])";
  const Rewrites r = read(own);
  const auto launches_of_node = [](const Rewrites& rules, const char* name) {
    Graph g;
    Node node;
    node.name = name;
    Gemm product;
    product.m = 512;
    product.n = 8;
    product.k = 4096;
    node.op = product;
    g.nodes = {node};
    g.segments = {{"layer", 1, 0, 1}};
    rewrite(g, rules, decode(1, 1), "llama");
    return g;
  };
  EXPECT_STREQ(launches_of_node(r, "q_proj").nodes[0].name, "q_proj.first");
  const Graph other = launches_of_node(r, "k_proj");
  ASSERT_EQ(other.nodes.size(), 2U);  // eight columns: the sum of parts has a launch
  EXPECT_STREQ(other.nodes[0].name, "k_proj.product");
  EXPECT_STREQ(other.nodes[1].name, "k_proj.reduce");
  const Rewrites renamed =
      read(R"("kernels": [{"name": "small", "op": "custom", "shape": "read=7*n", "source": "s"}], )" + own);
  const Graph graph = launches_of_node(renamed, "q_proj");
  EXPECT_EQ(std::get<CustomOp>(graph.nodes[0].op).read.in(units::B), 7 * 512);
  EXPECT_THROW(read(R"("kernels": [], "before": "cublas_call", "launches": [])"), BadInput);
}

/// A product whose shape a rule writes out keeps the types of its operands and the blocks that share a scale.
TEST(Launches, AProductWrittenOutKeepsItsTypes) {
  const auto written = [](const Gemm& product, const std::string& keys, const std::string& more = "") {
    const std::string launch = R"({"name": "half", "op": "gemm", "shape": "M=M;N=N/2;K=K)" + keys + "\"" + more + "}";
    const Rewrites rules = parsed(kKernel, R"({"op": "gemm", "launches": [)" + launch + "]}");
    Graph g;
    Node node;
    node.name = "up_proj";
    node.op = product;
    g.nodes = {node};
    g.segments = {{"layer", 1, 0, 1}};
    rewrite(g, rules, decode(1, 1), "llama");
    return std::get<Gemm>(g.nodes.at(0).op);
  };
  Gemm product;
  product.m = 16;
  product.n = product.k = 4096;
  for (const auto& [type, block] : {std::pair("fp8", 128), {"fp8", 0}, {"w4a16", 0}, {"bf16", 0}}) {
    product.precision = *parse_precision(type);
    product.block = block;
    Gemm half = product;
    half.n = 2048;
    EXPECT_EQ(written(product, ""), half) << type;
    half.layout = bits(product.precision.weight) > 8 ? WeightLayout::kn : WeightLayout::nk;
    EXPECT_EQ(written(product, ";layout=1"), half) << "narrow weights lie as their kernels read them: " << type;
  }
  const Gemm asked = written(product, "", R"(, "dtype": "fp32")");
  EXPECT_EQ(asked.precision.input, DType::fp32) << "where the rule names a type, that one";
}

TEST(Launches, RunAsOftenAsTheirSizeSays) {
  const Rewrites r = parsed(kKernel, R"k({"op": "rmsnorm", "launches": [
      {"name": "few", "kernel": "wide", "n": "rows", "read": "1", "write": "1", "times": "min(1,floor(4/rows))"},
      {"name": "many", "kernel": "wide", "n": "rows", "read": "1", "write": "1", "times": "3*(1-min(1,floor(4/rows)))"}]})k");
  const auto nodes_of = [&](std::int64_t rows) {
    Graph g;
    Node node;
    node.name = "norm";
    node.count = 5;
    node.op = Rowwise{RowwiseKind::rmsnorm, rows, 64};
    g.nodes = {node};
    g.segments = {{"layer", 1, 0, 1}};
    rewrite(g, r, decode(1, 1), "llama");
    return g;
  };
  const Graph few = nodes_of(4), many = nodes_of(5);
  ASSERT_EQ(few.nodes.size(), 1U);
  EXPECT_STREQ(few.nodes[0].name, "norm.few");
  EXPECT_EQ(few.nodes[0].count, 5);
  ASSERT_EQ(many.nodes.size(), 1U);
  EXPECT_STREQ(many.nodes[0].name, "norm.many");
  EXPECT_EQ(many.nodes[0].count, 15);
  EXPECT_THAT(refusal(kKernel, R"({"op": "rmsnorm", "launches": [{"name": "x", "same": true, "times": "1+"}]})"),
              HasSubstr("times"));
}

TEST(Launches, ANormOfTransformersIsEightAndARotationFive) {
  Predictor predictor;
  const Llm llm = load_llm("llama-3.1-8b");
  for (const char* stack : {"hf-eager", "hf-sdpa"}) {
    const Machine machine = machines().get({"h200_sxm", MachineOptions{stack}});
    const Workload asked = decode(4, 512, Fusion::none);
    const StepPrediction step = predictor.predict(llm, asked, machine, RunOptions{Runtime::eager});
    EXPECT_EQ(launches_of(step, "attn_norm."), 8U) << stack;
    EXPECT_EQ(launches_of(step, "q_rope."), 5U) << stack;
    EXPECT_EQ(launches_of(step, "attn_scores"), stack == std::string("hf-eager") ? 1U : 0U);
    // fused as a serving stack does it, nothing is taken apart
    const StepPrediction fused = predictor.predict(llm, decode(4, 512), machine, RunOptions{Runtime::eager});
    EXPECT_EQ(launches_of(fused, "attn_norm."), 0U);
  }
}

/// FLOPs of the products with weights, attention's two left out.
double weight_flops(const StepPrediction& step) {
  double sum = 0;
  for (const NodePrediction& n : step.nodes) {
    const std::string name = n.node->name;
    if (name.find("attn_scores") != std::string::npos || name.find("attn_context") != std::string::npos) continue;
    const bool product = std::holds_alternative<Gemm>(n.node->op) || std::holds_alternative<GroupedGemm>(n.node->op);
    if (product) sum += static_cast<double>(n.node->count) * n.op.flops.in(units::FLOP);
  }
  return sum;
}

/// Experts with a gate are one product for two under PyTorch's stacks, those without keep the one that they have.
TEST(Launches, PyTorchRunsEveryProductOfTheModel) {
  Predictor predictor;
  for (const char* model : {"nemotron-3-nano-30b-a3b", "qwen3-30b-a3b", "llama-3.1-8b"}) {
    const Llm llm = load_llm(model);
    const auto asked = prefill(1, 64, Fusion::none);
    const double all = weight_flops(predictor.predict(llm, asked, machines().get({"h200_sxm", MachineOptions{"ideal"}}),
                                                      RunOptions{Runtime::eager}));
    for (const char* stack : {"hf-eager", "hf-sdpa", "torch-compile"}) {
      const Machine machine = machines().get({"h200_sxm", MachineOptions{stack}});
      EXPECT_NEAR(weight_flops(predictor.predict(llm, asked, machine, RunOptions{Runtime::eager})) / all, 1, 1e-9)
          << model << " " << stack;
    }
  }
}

TEST(Launches, TheHostTakesItsTimeForEach) {
  Predictor predictor;
  const Llm llm = load_llm("llama-3.1-8b");
  const Machine machine = machines().get({"h200_sxm", MachineOptions{"hf-sdpa"}});
  const StepPrediction step = predictor.predict(llm, decode(1, 16, Fusion::none), machine, RunOptions{Runtime::eager});
  double launches = 0, calls = 0;
  for (const NodePrediction& n : step.nodes) {
    launches += static_cast<double>(n.node->count) * n.op.launch_count;
    calls += static_cast<double>(n.node->count) * host_calls(n);
  }
  const HostTime& host = machine.stack().host;
  const Seconds all = calls * host.each_launch + (launches - calls) * host.each_further_launch + 32 * host.each_layer;
  EXPECT_NEAR(step.latency / all, 1, 1e-9);
  EXPECT_LT(host.each_further_launch, 0.5 * host.each_launch);
  EXPECT_GE(launches, calls + 32 * 5)
      << "queries, keys, values, output and down are split, and summed in the same call";
}

}  // namespace
}  // namespace plumbline::launches_test

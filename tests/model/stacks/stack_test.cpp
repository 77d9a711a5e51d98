// Stacks: what a file may say, which provider plans an operator, and what a choice replaces.
#include "model/stacks/stack.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"
#include "model/stacks/providers.hpp"
#include "ops/table/table.hpp"
#include "ops/table/text.hpp"
#include "tests/support/planners.hpp"
#include "tests/support/toy_machine.hpp"

namespace plumbline::stack_test {
namespace {

using namespace testing_support;

std::string stack_text(const std::string& providers, const std::string& more = "") {
  return R"({"schema": 1, "name": "mine", "title": "My stack", "providers": )" + providers +
         R"(, "prefill_appends": true, "fusion": "none", "runtime": "eager")" + more + "}";
}

Stack parsed(const std::string& providers) { return parse_stack(stack_text(providers), "mine.json"); }

std::string refusal(const std::string& text) {
  try {
    (void)parse_stack(text, "mine.json");
  } catch (const BadInput& error) {
    return error.what();
  }
  return "";
}

Stack shipped(const std::string& name) { return machines().stack(name); }

std::vector<std::string> names_of(const Stack& stack) {
  std::vector<std::string> names;
  for (const Stack::Entry& entry : stack.providers) names.emplace_back(entry.provider->name());
  return names;
}

using Names = std::vector<std::string>;

/// So that a step's attention is a class that has rows, and the launch that rotates is counted once.
TEST(Stack, AStepOfTensorRtLlmAsksForTheAttentionThatWasMeasured) {
  const Machine machine = machines().get({"h200_sxm", MachineOptions{"trt-llm"}});
  ASSERT_TRUE(machine.stack().attention_rotates);
  Workload w;
  w.phase = Phase::prefill;
  w.batch = 2;
  w.prompt = 2048;
  Predictor predictor;
  const StepPrediction step = predictor.predict(load_llm("llama-3.1-8b"), w, machine, RunOptions{Runtime::graph});
  const auto at = std::ranges::find_if(
      step.nodes, [](const NodePrediction& n) { return std::string_view(n.node->name) == "attention"; });
  ASSERT_NE(at, step.nodes.end());
  EXPECT_EQ(std::get<AttentionPrefill>(at->node->op).append, 1);
  EXPECT_EQ(at->op.provenance, Provenance::measured);
  EXPECT_TRUE(std::ranges::none_of(step.nodes,
                                   [](const NodePrediction& n) { return std::string_view(n.node->name) == "rope"; }));
}

TEST(Stack, SaysWhatItsFileSays) {
  const Stack stack = parsed(R"([{"provider": "own", "ops": ["gemm"]}, {"provider": "cublas", "stands_in": true}])");
  EXPECT_EQ(stack.name, "mine");
  EXPECT_EQ(stack.title, "My stack");
  EXPECT_EQ(names_of(stack), (Names{"own", "cublas"}));
  EXPECT_EQ(stack.providers[0].ops, Names{"gemm"});
  EXPECT_FALSE(stack.providers[0].stands_in);
  EXPECT_TRUE(stack.providers[1].stands_in);
  EXPECT_TRUE(stack.prefill_appends);
  EXPECT_FALSE(stack.attention_rotates);
  EXPECT_EQ(stack.fusion, Fusion::none);
  EXPECT_EQ(stack.runtime, Runtime::eager);
  EXPECT_EQ(stack.kernels(), KernelSet::own);
}

TEST(Stack, RefusesWhatItCannotMean) {
  const auto says = [](const std::string& text, const std::string& part) {
    const std::string message = refusal(text);
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_NE(message.find("mine.json"), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  };
  says(stack_text(R"([{"provider": "cubls"}])"), "did you mean 'cublas'");
  says(stack_text(R"([])"), "/providers");
  says(stack_text(R"([{"provider": "cublas"}, {"provider": "cublas"}])"), "each provider once");
  says(stack_text(R"([{"provider": "cublas", "ops": ["gem"]}])"), "did you mean 'gemm'");
  says(stack_text(R"([{"provider": "cublas", "ops": ["rmsnorm"]}])"), "that cublas has kernels for");
  says(stack_text(R"([{"provider": "cublas", "ops": []}])"), "one operator at least");
  says(stack_text(R"([{"provider": "cublas", "ops": ["gemm", "gemm"]}])"), "each operator once");
  says(stack_text(R"([{"provider": "cublas", "standsin": true}])"), "did you mean 'stands_in'");
  says(stack_text(R"([{"provider": "cublas"}])", R"(, "run": 1)"), "/run");
  says(R"({"schema": 2, "name": "a"})", "schema");
  says(R"({"schema": 1, "name": "a", "title": "b", "providers": [{"provider": "own"}], "prefill_appends": false,
          "fusion": "typcal", "runtime": "graph"})",
       "did you mean 'typical'");
}

/// Names of files and of stacks are the same, and every operator that a machine answers at all is answered by the
/// fallbacks of each.
TEST(Stack, ThoseThatNameTheSameFileOfLaunchesShareIt) {
  const Stack eager = shipped("hf-eager"), fused = shipped("hf-sdpa");
  ASSERT_NE(eager.rewrites, nullptr);
  EXPECT_EQ(eager.rewrites, fused.rewrites);
}

TEST(Stack, TheShippedOnesAreSound) {
  const std::vector<std::string> names = stack_names();
  for (const char* wanted : {"ideal", "own", "trt-llm", "vllm"}) {
    EXPECT_NE(std::find(names.begin(), names.end(), wanted), names.end()) << wanted;
  }
  for (const std::string& name : names) {
    EXPECT_EQ(shipped(name).name, name);
    MachineOptions options;
    options.stack = name;
    const Machine machine = make_machine(load_gpu("h200_sxm"), options);
    for (const auto& [op, shape] : {std::pair{"gemm", "M=64;N=64;K=64"},
                                    {"grouped_gemm", "E=8;topk=2;T=64;N=64;K=64"},
                                    {"attention_prefill", "B=1;Hq=8;Hkv=8;D=64;S=256;causal=1"},
                                    {"attention_decode", "B=1;Hq=8;Hkv=8;D=64;S=256"},
                                    {"mla_decode", "B=1;H=16;S=256;Dc=512;Dr=64"},
                                    {"rmsnorm", "rows=8;cols=64"},
                                    {"h2d", "bytes=1000"}}) {
      const OpPrediction p = predict(parse_op(op, std::string_view(op) == "h2d" ? "" : "bf16", shape), machine);
      EXPECT_GT(p.time, Seconds{}) << name << " " << op;
      EXPECT_FALSE(p.provider.empty());
    }
  }
}

TEST(Stack, TheFirstProviderWithAKernelPlans) {
  Calibration c = toy_calibration();
  for (const char* name : kOwnFamilies) c.families[std::string("own.") + name] = c.families.at("library.gemm");
  const Machine machine = toy_machine(toy_gpu(), c, KernelSet::own);
  const auto provider = [&](const Op& op) { return std::string(predict(op, machine).provider); };
  EXPECT_EQ(provider(Gemm{64, 64, 64, 1, {}, false}), "own");
  EXPECT_EQ(provider(Gemm{64, 64, 64, 1, {}, true}), "cublas");  // no kernel of ours adds a bias
  EXPECT_EQ(provider(MlaDecode{1, 16, 256, 512, 64}), "trtllm");
  EXPECT_EQ(provider(Rowwise{RowwiseKind::copy, 8, 64}), "own");
  MachineOptions vllm;
  vllm.stack = "vllm";
  const Op latent = MlaDecode{1, 16, 256, 512, 64};  // its own kernel was never measured: another's stands in
  const OpPrediction stand_in = predict(latent, make_machine(toy_gpu(), toy_calibration(), vllm));
  EXPECT_TRUE(stand_in.stands_in);
  EXPECT_EQ(stand_in.provenance, Provenance::never_measured);
}

/// A stack that limits a provider to some operators leaves the others to the next, or to nobody.
TEST(Stack, OpsLimitAProvider) {
  const auto machine_of = [](const std::string& providers) {
    return assemble_machine(toy_gpu(), toy_calibration(), parsed(providers), {});
  };
  const Op mla = MlaDecode{1, 16, 256, 512, 64}, decode = AttentionDecode{1, 8, 8, 64, 64, 256};
  const Machine some =
      machine_of(R"([{"provider": "trtllm", "ops": ["mla_decode"]}, {"provider": "flash_attention"}])");
  EXPECT_EQ(predict(mla, some).provider, "trtllm");
  EXPECT_EQ(predict(decode, some).provider, "flash_attention");
  const Machine none = machine_of(R"([{"provider": "flash_attention"}])");
  EXPECT_THROW((void)predict(mla, none), NotModelled);
  const Machine norms = machine_of(R"([{"provider": "generic", "ops": ["rmsnorm"]}])");
  EXPECT_GT(predict(Rowwise{RowwiseKind::rmsnorm, 8, 64}, norms).time, Seconds{});
  EXPECT_THROW((void)predict(Rowwise{RowwiseKind::softmax, 8, 64}, norms), NotModelled);
}

/// A calibration without the scalars of kernels that the stack leaves to others is none the worse for it.
TEST(Stack, AFamilyOfOpsThatOthersRunIsNotAskedFor) {
  Calibration c = toy_calibration();
  c.families.erase("library.attention_decode");
  MachineOptions options;
  options.stack = "vllm";
  EXPECT_NO_THROW((void)make_machine(toy_gpu(), c, options));
  options.stack = "trt-llm";
  EXPECT_THROW((void)make_machine(toy_gpu(), c, options), BadInput);
}

TEST(Stack, AttentionIsReplacedWhereItIsNotOurs) {
  const Stack flash = with_attention(shipped("own"), "flash-attention");
  const Names with_flash{"own",  "trtllm_blocks",   "cublas",          "flash_attention", "trtllm",
                         "nccl", "flash_attention", "flashinfer_rows", "pytorch_rows",    "generic"};
  EXPECT_EQ(names_of(flash), with_flash);
  EXPECT_EQ(flash.providers[6].ops, Names{"attention_backward"});
  EXPECT_EQ(flash.providers[4].ops, Names{"mla_decode"});
  EXPECT_EQ(names_of(with_attention(shipped("trt-llm"), "trtllm")), names_of(shipped("trt-llm")));
  const Stack back = with_attention(shipped("vllm"), "tensorrt-llm");
  const Names left{"vllm_blocks",     "vllm_scaled",  "cublas",       "trtllm_gen",     "trtllm", "flash_attention",
                   "vllm_all_reduce", "deepep",       "nccl",         "flashinfer_gdn", "fla",    "mamba_ssm",
                   "causal_conv1d",   "vllm_experts", "pytorch_rows", "generic"};
  EXPECT_EQ(names_of(back), left);
  EXPECT_EQ(back.providers[3].ops, Names{"mla_decode"}) << "what hands on gives way too";
  EXPECT_EQ(back.providers[5].ops, Names{"attention_backward"});
  for (const char* bad : {"cublas", "own", "flash"}) EXPECT_THROW((void)with_attention(shipped("own"), bad), BadInput);
}

TEST(Stack, AChoiceReplacesParts) {
  const auto chosen = [](StackChoice choice) { return choose_stack(choice, shipped); };
  StackChoice choice = "own";
  choice.kernels = KernelSet::library;
  EXPECT_EQ(names_of(chosen(choice)), names_of(shipped("trt-llm")));
  EXPECT_TRUE(chosen(choice).prefill_appends);
  choice = "vllm";
  choice.kernels = KernelSet::library;
  EXPECT_EQ(names_of(chosen(choice)), names_of(shipped("vllm")));
  choice.kernels = KernelSet::own;
  EXPECT_EQ(names_of(chosen(choice)), names_of(with_attention(shipped("own"), "flash-attention")));
  EXPECT_FALSE(chosen(choice).prefill_appends);
  choice.kernels = KernelSet::ideal;
  EXPECT_EQ(names_of(chosen(choice)), Names{"ideal"});
  EXPECT_THROW((void)chosen("vlm"), BadInput);
}

/// A library that is chosen by parts prices as the stack of its name, to the bit.
TEST(Stack, KernelsAndAttentionAreTheStackOfThatName) {
  MachineOptions by_parts, by_name;
  by_parts.stack.kernels = KernelSet::library;
  by_parts.stack.attention = "flash-attention";
  by_name.stack = "vllm";
  const Gpu h200 = load_gpu("h200_sxm");
  const Machine parts = make_machine(h200, by_parts), named = make_machine(h200, by_name);
  const Op prefill = AttentionPrefill{2, 32, 8, 128, 128, 1024, 1024}, gemm = Gemm{512, 512, 512, 1, {}, false};
  for (const Op& op : {prefill, gemm}) EXPECT_EQ(predict(op, parts).time, predict(op, named).time);
}

TEST(Providers, HaveNamesOfTheirOwnAndDeclareSoundFamilies) {
  std::vector<std::string> names = provider_names();
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  for (const Provider* provider : providers()) {
    EXPECT_EQ(find_provider(provider->name()), provider);
    for (const std::string_view op : provider->ops()) EXPECT_NE(find_operator(op), nullptr) << op;
    for (const FamilyDeclaration& family : provider->families()) {
      EXPECT_TRUE(family.classes.empty() == (family.kind == nullptr)) << family.name;
      EXPECT_TRUE(family.op[0] == '\0' || find_operator(family.op) != nullptr) << family.op;
      for (const BandClass& each : family.classes) EXPECT_LT(band_class_of_name(each.name), band_class_count());
      if (family.classes.empty()) continue;
      EXPECT_EQ(family.classes.front().variant, Variant::usual) << family.name;
    }
  }
  EXPECT_EQ(find_provider("cubls"), nullptr);
}

}  // namespace
}  // namespace plumbline::stack_test

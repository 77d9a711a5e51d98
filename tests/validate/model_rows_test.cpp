// Rows of whole models: read, priced, compared; and the bands of whole steps that are found on them.
#include "validate/record/model_row.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "model/generate.hpp"
#include "tests/support/sampled.hpp"
#include "tests/support/validate_command.hpp"
#include "validate/fit/fit_bands.hpp"
#include "validate/step/fit_steps.hpp"
#include "validate/step/model_report.hpp"

namespace plumbline::model_rows_test {
namespace {

using ::testing::HasSubstr;

ModelRows read(const std::string& csv) {
  ModelRows rows;
  read_model_rows(csv, "mine.csv", {}, rows);
  return rows;
}

std::string refusal(const std::string& csv) {
  try {
    const ModelRows rows = read(csv);
    return rows.bad.empty() ? "" : rows.bad.front();
  } catch (const BadInput& error) {
    return error.what();
  }
}

/// A message names its place once, whoever noticed.
TEST(ModelRows, AFileThatCannotBeReadIsNamedOnce) {
  for (const char* csv : {"model,measured_ms\n", "model,phase\n", "model,phase,measured_ms,measured_tokens_per_s\n",
                          "model,phase,measured_ms,out\n", "model,phase,measured_ms\na,b\"c,1\n"}) {
    const std::string message = refusal(csv);
    EXPECT_EQ(message.find("mine.csv"), 0U) << message;
    EXPECT_EQ(message.rfind("mine.csv"), 0U) << message;
  }
}

TEST(ModelRows, AreFlagsOfLlmByTheirLongNames) {
  const ModelRows rows = read(
      "model,phase,batch,prompt,context,output,dtype,kv-dtype,stack,clock,measured_ms,measured_W,id\n"
      "llama-3.1-8b,generate,8,1024,,256,fp8,fp8,vllm,,2290,612,a\n"
      "llama-3.1-8b,decode,4,,2k,,,,,burst,7.5,,b\n");
  ASSERT_EQ(rows.rows.size(), 1U);
  EXPECT_THAT(rows.bad.at(0), HasSubstr("mine.csv:3: context: expected a whole number"));
  const ModelRow& row = rows.rows[0];
  EXPECT_EQ(model_row_text(row), "llama-3.1-8b generate batch=8 prompt=1024 output=256");
  EXPECT_EQ(row.workload.phase, Phase::prefill);
  EXPECT_EQ(row.stack, "vllm");
  EXPECT_DOUBLE_EQ(row.measured, 2.29);
  EXPECT_EQ(row.measured_power, 612.0 * units::W);
  EXPECT_EQ(row.place, "mine.csv:2");
  EXPECT_TRUE(is_model_rows("model,phase,measured_ms\n", "f.csv"));
  EXPECT_FALSE(is_model_rows("op,shape,measured_us\n", "f.csv"));
}

TEST(ModelRows, RefuseWhatIsNoRow) {
  const std::string head = "model,phase,batch,output,tp,measured_ms\n";
  EXPECT_THAT(refusal(head + "x,decod,1,,,5\n"), HasSubstr("did you mean 'decode'"));
  EXPECT_THAT(refusal(head + "x,decode,1,,,nan\n"), HasSubstr("measured_ms: expected a number above 0"));
  EXPECT_THAT(refusal(head + "x,decode,1,4,,5\n"), HasSubstr("output: has no meaning with phase decode"));
  EXPECT_THAT(refusal("model,phase,gpus,tp,measured_ms\nx,decode,8,3,5\n"), HasSubstr("gpus: expected tp x pp"));
  EXPECT_THAT(refusal("model,phase,micro-batch,measured_ms\nx,prefill,2,5\n"),
              HasSubstr("no meaning with phase prefill"));
  EXPECT_THAT(refusal("model,phase,recompute,measured_ms\nx,train,some,5\n"),
              HasSubstr("expected a word such as none"));
  EXPECT_THAT(refusal("model,phase\nx,decode\n"), HasSubstr("measured_ms"));
  EXPECT_THAT(refusal("model,phase,measured_ms,measured_tokens_per_s\n"), HasSubstr("one column of measured"));
  EXPECT_THAT(refusal("model,phase,measured_ms,set\n"), HasSubstr("column 'set'"));
  EXPECT_THAT(refusal("model,phase,measured_ms,expert-load\n"), HasSubstr("column 'expert-load'"));
  EXPECT_THAT(refusal("model,phase,bach,measured_ms\n"), HasSubstr("column 'bach': expected 'batch'"));
  EXPECT_THAT(refusal("model,phase,kv_dtype,measured_ms\n"), HasSubstr("column 'kv_dtype': expected 'kv-dtype'"));
  EXPECT_EQ(refusal("model,phase,mode,view,batch,measured_ms\nllama-3.1-8b,decode,a,b,1,5\n"), "")
      << "columns of one's own";
  EXPECT_THAT(refusal("model,phase,tp,sp,measured_ms\nx,decode,2,yes,5\n"), HasSubstr("sp: expected 0 or 1"));
}

TEST(ModelRows, OfSeveralGpusSettleTheirPlanAndCountAllTokens) {
  const auto row = [](const std::string& text) {
    ModelRows rows;
    read_model_rows(text, "mine.csv", {}, rows);
    EXPECT_TRUE(rows.bad.empty()) << rows.bad.front();
    return rows.rows.at(0);
  };
  const ModelRow plain = row("model,phase,gpus,pp,measured_tokens_per_s_per_gpu\nllama-3.1-8b,decode,8,2,100\n");
  EXPECT_EQ(plain.workload.parallel.tensor, 4);
  const ModelRow split = row("model,phase,tp,sp,attention-dp,measured_ms\nllama-3.1-8b,prefill,2,1,,9\n");
  EXPECT_TRUE(split.workload.parallel.sequence);
  EXPECT_FALSE(split.workload.parallel.attention_data);
  EXPECT_TRUE(
      row("model,phase,tp,attention-dp,measured_ms\nllama-3.1-8b,decode,2,1,9\n").workload.parallel.attention_data);
  EXPECT_DOUBLE_EQ(plain.measured, 800);
  EXPECT_EQ(model_row_text(plain), "llama-3.1-8b decode tp=4 pp=2 batch=1 context=1024");
  EXPECT_DOUBLE_EQ(row("model,phase,tp,measured_TFLOP_per_s_per_gpu\nx,prefill,8,100\n").measured, 1e14);
}

/// What is measured as predicted is off by nothing, as a time, a rate of tokens, or a rate of FLOPs.
TEST(ModelRows, OfWhatIsPredictedAreOffByNothing) {
  MachineKey key{"h200_sxm"};
  key.options.clock = ClockMode::steady;
  Workload decode;
  decode.batch = 8;
  const StepPrediction step = predict(load_llm("llama-3.1-8b"), decode, machines().get(key), RunOptions{});
  const auto row = [&](const std::string& column, double value) {
    const ModelRows rows =
        read("model,phase,batch," + column + "\nllama-3.1-8b,decode,8," + std::to_string(value) + "\n");
    ModelPricing pricing;
    pricing.gpu = "h200_sxm";
    return price_model_rows(rows.rows, pricing).at(0).compared;
  };
  for (const Comparison& c :
       {row("measured_ms", step.latency.in(units::ms)), row("measured_tokens_per_s", step.tokens_per_s),
        row("measured_TFLOP_per_s_per_gpu", (step.flops / step.latency).in(units::TFLOP_per_s))}) {
    EXPECT_EQ(c.error, "");
    EXPECT_NEAR(c.log_ratio(), 0, 1e-5);
    EXPECT_LE(c.low, c.measured);
    EXPECT_LT(c.roofline, c.measured);
  }
  EXPECT_THAT(row("measured_ms", 0.1).error, HasSubstr("faster than the roofline"));
}

TEST(ModelRows, ThatDoNotFitTheMemoryAreNotCompared) {
  ModelPricing pricing;
  pricing.gpu = "h200_sxm";
  const ModelRows rows = read("model,phase,batch,measured_ms\nllama-3.1-70b,decode,512,50\n");
  EXPECT_THAT(price_model_rows(rows.rows, pricing).at(0).compared.error, HasSubstr("does not fit"));
}

using CompareModels = testing_support::ValidateCommand;

TEST_F(CompareModels, ReportsByStackInThreeFormats) {
  const std::string list = "'" +
                           file("mine.csv",
                                "model,phase,batch,prompt,output,dtype,stack,measured_ms\n"
                                "llama-3.1-8b,generate,8,1024,128,bf16,trt-llm,1000\n"
                                "llama-3.1-8b,generate,8,1024,128,bf16,sglang,1100\n")
                               .string() +
                           "' --gpu h200";
  EXPECT_EQ(run("compare " + list), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("llm generate  sglang"));
  EXPECT_EQ(run("compare " + list + " --format csv"), 0);
  EXPECT_THAT(out_, HasSubstr("predicted_us"));
  EXPECT_EQ(run("compare " + list + " --format json"), 0);
  EXPECT_THAT(out_, HasSubstr("plumbline.validate.models.v1"));
  EXPECT_EQ(run("compare " + list + " --format html"), 2);
  EXPECT_EQ(run("compare " + list + " --ops gemm"), 2);
  EXPECT_EQ(run("compare " + list + " --fail-over 0.001"), 1);
  EXPECT_EQ(run("compare " + list + " --where stack=sglang"), 0);
  EXPECT_THAT(out_, testing::Not(HasSubstr("trt-llm")));
}

// --- bands ----------------------------------------------------------------------------------------------------------

std::vector<StepSource> sources() {
  const std::string list = data_folder() + "/studies/bands.json";
  return test::sampled(parse_step_sources(read_text_file(list), list));
}

std::vector<WholeStep> steps_of(const char* stack, int count, double middle, double reach) {
  std::vector<WholeStep> steps;
  for (int i = 0; i < count; ++i) {
    const double residual = middle + reach * (2.0 * i / (count - 1) - 1);
    steps.push_back({"h100_sxm", stack, std::string(kDenseSteps), "", residual, true});
  }
  return steps;
}

/// Five steps within 1 % of each other, beside stacks that reach 10 and 20 % from their medians: the middle one of the three
/// says how far the five may lie from theirs. What has 19 rows speaks for itself.
TEST(WholeSteps, AStackOfFewRowsIsNotNarrowerThanItsLike) {
  std::vector<WholeStep> steps = steps_of("few", 5, 0.3, 0.01);
  for (const auto& other : {steps_of("many", 19, 0, 0.1), steps_of("wide", 19, 0, 0.2)}) {
    steps.insert(steps.end(), other.begin(), other.end());
  }
  const StepBands bands = fit_step_bands(steps);
  const auto band = [&](const char* stack) { return *bands.find(stack, kDenseSteps, true).band; };
  EXPECT_NEAR(band("few").low, 0.2, 2e-4);
  EXPECT_NEAR(band("few").high, 0.4, 2e-4);
  EXPECT_NEAR(band("many").high, 0.1, 2e-4);
  EXPECT_NEAR(band("wide").low, -0.2, 2e-4);
}

TEST(WholeSteps, CommittedBandsAreThoseOfTheTrainingSteps) {
  std::vector<std::string> left_out;
  const std::vector<WholeStep> train = whole_steps(sources(), Half::train, left_out);
  const std::string bands = to_json(fit_step_bands(train));
  if (test::kWhole) {
    EXPECT_EQ(bands, read_text_file(data_folder() + "/steps/bands.json")) << "run tools/fit_bands.sh";
  }
  for (const std::string& row : left_out) EXPECT_THAT(row, HasSubstr("does not fit")) << row;
}

/// Nine in ten of the held-out steps lie in their bands: of a stack as far as so few can say (99 % of a binomial
/// distribution), of all together 85 to 97 %.
TEST(WholeSteps, BandsHoldHeldOutSteps) {
  std::vector<std::string> left_out;
  long steps = 0, inside = 0;
  const std::vector<StepsInside> by_stack = steps_inside(whole_steps(sources(), Half::heldout, left_out));
  if (!test::kWhole) return;
  for (const StepsInside& each : by_stack) {
    EXPECT_GE(each.inside, binomial_range(each.steps, 0.9, 0.99).least) << each.stack << " " << each.kind;
    steps += each.steps;
    inside += each.inside;
  }
  EXPECT_GT(steps, 80);
  const double share = static_cast<double>(inside) / static_cast<double>(steps);
  EXPECT_GE(share, 0.85) << inside << " of " << steps;
  EXPECT_LE(share, 0.97) << inside << " of " << steps;
}

}  // namespace
}  // namespace plumbline::model_rows_test

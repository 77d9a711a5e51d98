// Pages that predict-model writes: whole, honest, and nothing but themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "arch/error.hpp"
#include "arch/format.hpp"
#include "model/report/gpu_page.hpp"
#include "model/report/html/bar_rows.hpp"
#include "model/report/html/markup.hpp"
#include "model/report/html/plot.hpp"
#include "model/report/report.hpp"
#include "model/report/several_gpus/plan_report.hpp"
#include "ops/table/text.hpp"
#include "tests/support/sampled.hpp"
#include "tests/support/strict_markup.hpp"

namespace plumbline::html_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// A step and what it was asked with, kept alive together.
struct Asked {
  Llm llm;
  Workload workload;
  Machine machine;
  RunOptions run;
  StepPrediction step;

  Asked(const char* model, const char* gpu, Phase phase, MachineOptions options = {})
      : llm(load_llm(model)), machine(make_machine(load_gpu(gpu), options)) {
    workload.phase = phase;
    workload.batch = 4;
    step = predict(llm, workload, machine, run);
  }
  StepReport report() const {
    const Fit fit = fit_of(llm, workload, machine.gpu().memory.capacity, Bytes{});
    return {llm, workload, machine, ClockMode::steady, run, step, {}, {}, fit};
  }
};

MachineOptions with_stack(const char* name) {
  MachineOptions options;
  options.stack = name;
  options.clock = ClockMode::steady;
  return options;
}

void expect_self_contained(const std::string& page) {
  for (const char* door : {"http", "src=", "@import", "url(", "<script", "<link", "<iframe"}) {
    EXPECT_THAT(page, Not(HasSubstr(door)));
  }
}

void expect_numbers(const std::string& page) {
  static const std::regex not_a_number("[^a-zA-Z](nan|inf|infinity)[^a-zA-Z]", std::regex::icase);
  std::smatch found;
  EXPECT_FALSE(std::regex_search(page, found, not_a_number)) << found.str();
}

void expect_whole(const Asked& asked) {
  const std::string page = step_html(asked.report());
  test::Markup read;
  ASSERT_NO_THROW(read = test::read_markup(page));
  expect_self_contained(page);
  expect_numbers(page);
  EXPECT_EQ(read.has_text("DOES NOT FIT"), !asked.step.fits);
  EXPECT_EQ(read.has_text("fits"), asked.step.fits);
  EXPECT_TRUE(read.has_text(format(asked.step.latency)));
  for (const NodePrediction& n : asked.step.nodes) {
    EXPECT_TRUE(read.has_text(n.node->name)) << n.node->name;
    EXPECT_TRUE(read.has_text(format(n.op.time))) << n.node->name;
    EXPECT_TRUE(read.has_text(std::string(op_name(n.node->op)))) << n.node->name;
  }
}

TEST(StepPage, IsWholeForModelsPhasesStacksAndCards) {
  expect_whole({"llama-3.1-8b", "h200_sxm", Phase::decode, with_stack("trt-llm")});
  expect_whole({"llama-3.1-8b", "h200_sxm", Phase::decode, with_stack("ideal")});
  expect_whole({"gpt-oss-120b", "h200_sxm", Phase::decode, with_stack("trt-llm")});
  expect_whole({"deepseek-v3", "h200_sxm", Phase::prefill, with_stack("trt-llm")});
  expect_whole({"llama-3.1-8b", "mi300x", Phase::decode, with_stack("ideal")});
}

TEST(StepPage, IsNotOfAFormatThatTheCardHasNoPathFor) {
  EXPECT_THROW((void)Asked("minimax-m2.5-nvfp4", "h20", Phase::decode, with_stack("ideal")), BadInput);
}

TEST(StepPage, SaysFirstThatAModelDoesNotFit) {
  const Asked asked("deepseek-v3", "h200_sxm", Phase::prefill);
  ASSERT_FALSE(asked.step.fits);
  const std::string page = step_html(asked.report());
  EXPECT_LT(page.find("DOES NOT FIT"), page.find("tokens/s"));
  EXPECT_LT(page.find("DOES NOT FIT"), page.find("latency of a step"));
  EXPECT_THAT(page, HasSubstr("if it fitted"));
  EXPECT_THAT(page, HasSubstr("fewest GPUs of this kind: 5"));
}

TEST(StepPage, KeepsTheRuntimesReserveOfTheCapacity) {
  const Asked asked("llama-3.1-8b", "h200_sxm", Phase::decode);
  StepReport report = asked.report();
  const Bytes capacity = asked.machine.gpu().memory.capacity;
  report.fit = fit_of(asked.llm, asked.workload, capacity, 0.95 * capacity);
  ASSERT_TRUE(asked.step.fits);
  EXPECT_THAT(step_html(report), HasSubstr("DOES NOT FIT"));
}

TEST(StepPage, SaysWhatAChunkOfAPromptLiesBehind) {
  Asked asked("llama-3.1-8b", "h200_sxm", Phase::prefill);
  EXPECT_THAT(step_html(asked.report()), Not(HasSubstr("cached tokens")));
  asked.workload.cached = 512;
  EXPECT_THAT(step_html(asked.report()), HasSubstr("prompt 1024 behind 512 cached tokens"));
}

TEST(StepPage, MarksDefaults) {
  const Asked asked("llama-3.1-8b", "h200_sxm", Phase::decode);
  StepReport report = asked.report();
  EXPECT_THAT(step_html(report), HasSubstr("<dt>batch</dt><dd>4 (default)</dd>"));
  report.given.batch = true;
  EXPECT_THAT(step_html(report), HasSubstr("<dt>batch</dt><dd>4</dd>"));
}

TEST(StepPage, EscapesNamesThatHoldMarkup) {
  Asked asked("llama-3.1-8b", "h200_sxm", Phase::decode);
  asked.llm.name = "<b>\"bold\" & 'sons'</b>\x1b[31m\n\xff";
  StepReport report = asked.report();
  report.remarks = {"a < b && \"c\" > d"};
  const std::string page = step_html(report);
  EXPECT_THAT(page, Not(HasSubstr("<b>\"bold")));
  test::Markup read;
  ASSERT_NO_THROW(read = test::read_markup(page));
  EXPECT_TRUE(read.has_text("a < b && \"c\" > d"));
}

TEST(StepPage, SharesOfTheTimeSumToAll) {
  const Asked asked("gpt-oss-120b", "h200_sxm", Phase::decode);
  const std::string page = step_html(asked.report());
  const std::size_t from = page.find("aria-label=\"time of the step by operator\"");
  const std::string bar = page.substr(from, page.find("</svg>", from) - from);
  static const std::regex width("<rect[^>]* width=\"([0-9.]+)%\"");
  double sum = 0;
  for (std::sregex_iterator it(bar.begin(), bar.end(), width), end; it != end; ++it) sum += std::stod((*it)[1]);
  EXPECT_NEAR(sum, 100, 0.1);
}

TEST(StepPage, ExplainsTheOperatorThatIsAskedFor) {
  const Asked asked("llama-3.1-8b", "h200_sxm", Phase::decode);
  StepReport report = asked.report();
  EXPECT_THAT(step_html(report), Not(HasSubstr("<pre>")));
  report.explain = "attention";
  EXPECT_THAT(step_html(report), HasSubstr("<pre>attention_decode"));
}

TEST(StepPage, SaysWhyThereIsNoPower) {
  const Asked ideal("llama-3.1-8b", "h200_sxm", Phase::decode, with_stack("ideal"));
  ASSERT_FALSE(ideal.step.power);
  EXPECT_THAT(step_html(ideal.report()), HasSubstr("Ideal kernels are a floor of time"));
}

TEST(OpPage, HasTheFiguresLaunchesResourcesAndTheReason) {
  const Machine machine = make_machine(load_gpu("h200_sxm"), {});
  for (const char* text : {"gemm M=64;N=4096;K=4096", "rmsnorm rows=64;cols=4096", "copy rows=64;cols=4096"}) {
    const std::string line = text, name = line.substr(0, line.find(' '));
    const Op op = parse_op(name, "bf16", line.substr(name.size() + 1));
    const OpPrediction prediction = predict(op, machine);
    const std::string page = op_html({op, machine, ClockMode::burst, prediction});
    test::Markup read;
    ASSERT_NO_THROW(read = test::read_markup(page)) << text;
    expect_self_contained(page);
    expect_numbers(page);
    EXPECT_TRUE(read.has_text(format(prediction.time))) << text;
    EXPECT_TRUE(read.has_text(std::string(prediction.launches[0].kernel))) << text;
    EXPECT_TRUE(read.has_text(std::string(plumbline::name(prediction.limiter)))) << text;
    EXPECT_THAT(page, HasSubstr("<pre>" + name));
  }
}

TEST(GpuPageHtml, IsWholeForEveryCard) {
  for (const std::string& name : test::sampled(gpu_names())) {
    const Gpu gpu = load_gpu(name);
    const std::string page = gpu_page_html(gpu_page(gpu));
    test::Markup read;
    ASSERT_NO_THROW(read = test::read_markup(page)) << name;
    expect_self_contained(page);
    expect_numbers(page);
    EXPECT_TRUE(read.has_text(format(gpu.memory.bandwidth))) << name;
    EXPECT_TRUE(read.has_text("fp32 lanes")) << name;
  }
}

TEST(PageAxis, PutsValuesAndTicksWhereTheyBelong) {
  const html::Axis log = html::log_axis(0.5, 2000);
  EXPECT_NEAR(log.share(log.value(0.3)), 0.3, 1e-12);
  EXPECT_GT(log.share(0.5), 0);
  EXPECT_LT(log.share(2000), 1);
  EXPECT_EQ(log.ticks().size(), 4u);  // 1, 10, 100, 1000
  const html::Axis linear = html::linear_axis(10);
  EXPECT_EQ(linear.share(5), 0.5);
  EXPECT_THAT(linear.ticks(), ::testing::ElementsAre(0, 2, 4, 6, 8, 10));
}

/// "0.01" beside "5m" would have to be worked out.
TEST(PageAxis, WritesSmallNumbersAlike) {
  html::Plot small(html::close_log_axis(0.004, 0.016), html::log_axis(1, 100), 100, "what");
  small.axes("x", "y");
  EXPECT_THAT(small.svg(), ::testing::AllOf(HasSubstr(">5m<"), HasSubstr(">10m<"), HasSubstr(">100<")));
  html::Plot plain(html::close_log_axis(0.02, 0.9), html::log_axis(1, 100), 100, "what");
  plain.axes("x", "y");
  EXPECT_THAT(plain.svg(), HasSubstr(">0.05<"));
}

TEST(PageAxis, HasRoundTicksWhereValuesLieClose) {
  const html::Axis close = html::close_log_axis(4, 40);
  EXPECT_THAT(close.ticks(), ::testing::ElementsAre(5, 10, 20));
  EXPECT_THAT(html::close_log_axis(1.0, 1.9).ticks(), ::testing::ElementsAre(1.0, 1.5));
  EXPECT_GE(html::close_log_axis(3, 3).ticks().size(), 1U);
  for (const double most : {1.05, 1.5, 4.0, 7.0, 60.0, 3000.0}) {
    const html::Axis axis = html::close_log_axis(1, most);
    EXPECT_GT(axis.share(1), 0) << most;
    EXPECT_LT(axis.share(most), 1) << most;
    const std::vector<double> ticks = axis.ticks();
    EXPECT_GE(ticks.size(), 1U) << most;
    EXPECT_LE(ticks.size(), 8U) << most;
    for (const double tick : ticks) EXPECT_TRUE(axis.share(tick) >= 0 && axis.share(tick) <= 1) << tick;
  }
}

TEST(PageBars, LieOnTheirAxisAndCutLongLabels) {
  const std::string long_name(60, 'x');
  const std::vector<html::BarRow> rows{{"a<b>", "+1", "hint", {{0, 0.5, "c0"}, {0, -1, "c1"}}},
                                       {long_name, "-1", "", {{-1, 1, "c2"}}}};
  const std::string svg = html::bar_rows(rows, {-1, 1, false}, 0, "rows");
  ASSERT_NO_THROW(test::read_markup("<!doctype html>\n" + svg));
  EXPECT_THAT(svg, HasSubstr("x=\"50.00%\" y=\"17.00\" width=\"25.00%\""));
  EXPECT_THAT(svg, HasSubstr("x=\"0.00%\" y=\"28.00\" width=\"50.00%\""));
  EXPECT_THAT(svg, HasSubstr("width=\"100.00%\""));
  EXPECT_THAT(svg, HasSubstr("a&lt;b&gt;: hint"));
  EXPECT_THAT(svg, HasSubstr(">" + long_name.substr(0, 34) + "...<"));
  EXPECT_EQ(html::shortened("\xc3\xa4\xc3\xb6", 1), "\xc3\xa4...");
}

TEST(PageLabels, AreLeftOutWhereTheyDoNotFit) {
  EXPECT_TRUE(html::label_fit("attention", 0.5).fits);
  EXPECT_EQ(html::label_fit("attention", 0.5).css, "");
  EXPECT_EQ(html::label_fit("attention", 0.1).css, "wide");
  EXPECT_FALSE(html::label_fit("attention", 0.02).fits);
}

TEST(PageText, IsEscapedAsTextAndAsAttribute) {
  EXPECT_EQ(html::escaped("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
  EXPECT_EQ(html::escaped("\x1b[0m"), "\\x1b[0m");
}

/// Every plan is a dot, the best one alone in its colour; of names that are no markup nothing is left.
TEST(PlanPage, ShowsEveryPlanAndEscapesNames) {
  const Machine machine = make_machine(load_gpu("h200_sxm"), {});
  Llm llm = load_llm("llama-3.1-8b");
  llm.name = "<script>alert('x')</script>";
  Workload workload;
  workload.batch = 8;
  PlanQuestion question;
  question.gpus = 8;
  Predictor predictor;
  for (const PlanGoal goal : {PlanGoal::latency, PlanGoal::tokens_per_s, PlanGoal::tokens_per_J}) {
    question.goal = goal;
    const PlanRanking ranking = rank_plans(predictor, llm, workload, machine, {}, question);
    const PlanReport report{llm, workload, machine, question, ranking, 3, {}};
    const std::string page = plan_html(report);
    ASSERT_NO_THROW((void)test::read_markup(page));
    expect_self_contained(page);
    expect_numbers(page);
    EXPECT_THAT(page, HasSubstr("&lt;script&gt;"));
    std::size_t dots = 0;
    for (std::size_t at = page.find("<circle"); at != std::string::npos; at = page.find("<circle", at + 1)) ++dots;
    EXPECT_EQ(dots, ranking.plans.size());
    EXPECT_EQ(page.find("<circle class=\"c1\""), page.rfind("<circle class=\"c1\""));
    EXPECT_THAT(page, HasSubstr("and " + std::to_string(ranking.plans.size() - 3) + " more"));
  }
  const PlanRanking none;
  EXPECT_NO_THROW((void)test::read_markup(plan_html({llm, workload, machine, question, none, 3, {}})));
}

}  // namespace
}  // namespace plumbline::html_test

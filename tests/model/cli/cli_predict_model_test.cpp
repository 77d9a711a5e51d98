// predict-model as a user runs it: exit codes, one line on stderr, nothing half-written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "arch/files.hpp"
#include "arch/json_reader.hpp"
#include "model/report/ops_batch_row.hpp"
#include "ops/table/text.hpp"
#include "tests/support/run_program.hpp"

namespace plumbline::cli_predict_model_test {
namespace {

using test::ProgramResult;
using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

using Words = std::vector<std::string>;

ProgramResult run(const Words& args, const std::string& input = "") {
  return test::run_program("predict-model", args, input);
}

Words decode(const Words& more = {}) {
  Words words{"llm", "--model", "llama-3.1-8b", "--gpu", "h200", "--phase", "decode"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Refused: this exit code, nothing on stdout, exactly one line on stderr that holds `part`.
void expect_refusal(const Words& args, int code, const std::string& part) {
  const ProgramResult result = run(args);
  std::string line;
  for (const std::string& word : args) line += word + " ";
  EXPECT_EQ(result.code, code) << line << result.err;
  EXPECT_THAT(result.out, IsEmpty()) << line;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << line << result.err;
  EXPECT_THAT(result.err, AllOf(StartsWith("predict-model"), HasSubstr(part))) << line;
}

TEST(PredictModel, ExplainsItself) {
  EXPECT_THAT(run({"--help"}).out, AllOf(HasSubstr("llm"), HasSubstr("Exit codes")));
  EXPECT_THAT(run({"llm", "--help"}).out, AllOf(HasSubstr("--kv-dtype"), HasSubstr("Examples")));
  EXPECT_EQ(run({"--help"}).code, 0);
  EXPECT_THAT(run({"--version"}).out, StartsWith("plumbline "));
}

TEST(PredictModel, RefusesBadUsageInOneLineWithTheNearestName) {
  expect_refusal({"lm"}, 2, "unknown command 'lm' (did you mean 'llm'?)");
  expect_refusal(decode({"--batchh", "4"}), 2, "unknown option '--batchh' (did you mean '--batch'?)");
  expect_refusal({"llm", "--gpuu", "h200"}, 2, "did you mean '--gpu'?");
  expect_refusal({"llm", "--gup", "h200"}, 2, "unknown option '--gup' (did you mean '--gpu'?)");
  expect_refusal({"op", "gemm", "--shape", "M=1"}, 2, "unknown option '--shape' (see predict-model op --help)");
  expect_refusal({"--model", "x"}, 2, "unknown option '--model'; expected a command first");
  expect_refusal({"--gpu", "h200", "llm"}, 2, "--gpu: expected behind the command, 'llm'");
  expect_refusal(decode({"--batch", "4", "--batch", "8"}), 2, "--batch: expected once, found 2 times");
  expect_refusal(decode({"--top"}), 2, "--top: expected N, found nothing");
  expect_refusal(decode({"--storage", "0GB/s"}), 2, "--storage: expected a rate above 0, found '0GB/s'");
  expect_refusal({"ops", "--gpu", "h200", "--in", "/tmp"}, 2, "/tmp: expected a file, found a folder");
  expect_refusal(decode({"--out", ""}), 2, "--out: expected FILE, found nothing");
  expect_refusal({"llm", "--model", "llama-3.1-8b", "--gpu", "h200"}, 2, "--phase is required");
  expect_refusal(decode({"--batch"}), 2, "--batch");
  expect_refusal(decode({"--batch", "0"}), 2, "--batch: expected a whole number from 1 to");
  expect_refusal(decode({"--batch", "many"}), 2, "found 'many'");
  expect_refusal(decode({"--batch", "1", "--batch", "2"}), 2, "--batch");
  expect_refusal(decode({"--clock", "stedy"}), 2, "expected burst or steady; found 'stedy' (did you mean 'steady'?)");
  expect_refusal(decode({"--dtype", "bf17"}), 2, "did you mean 'bf16'?");
  expect_refusal(decode({"--kv-dtype", "fp7"}), 2, "--kv-dtype: expected bf16, fp16 or fp8");
  expect_refusal(decode({"--zero", "4"}), 2, "from 0 to 3");
  expect_refusal(decode({"--format", "yaml"}), 2, "--format: expected");
  expect_refusal(decode({"--set", "sm_count"}), 2, "--set: expected PATH=VALUE");
  expect_refusal(decode({"--set", "sm_cout=160"}), 2, "sm_count");
  expect_refusal(decode({"--power-cap", "soft"}), 2, "--power-cap: expected a power");
  expect_refusal(decode({"surplus"}), 2, "unexpected argument 'surplus'");
  expect_refusal({"llm", "--model", "llama-3.1-8b", "--gpu", "h200_sxn", "--phase", "decode"}, 2,
                 "did you mean 'h200_sxm'?");
  expect_refusal({"llm", "--model", "lama-3.1-8b", "--gpu", "h200", "--phase", "decode"}, 2, "llama-3.1-8b");
  expect_refusal({"list", "gpuz"}, 2, "did you mean 'gpus'?");
  expect_refusal({"gpu", "h100_sxn"}, 2, "did you mean 'h100_sxm'?");
  expect_refusal({"op", "gem", "M=1", "--gpu", "h200"}, 2, "did you mean 'gemm'?");
  expect_refusal({"op", "gemm", "M=64", "N=64", "--gpu", "h200"}, 2, "missing key 'K'");
  expect_refusal({"op", "gemm", "M=64", "N=64", "k=64", "--gpu", "h200"}, 2, "K");
  expect_refusal({"ops", "--gpu", "h200", "--in", "/no/such/file.csv"}, 2, "/no/such/file.csv: cannot be opened");
  expect_refusal(decode({"--explain", "attentoin"}), 2, "did you mean 'attention'?");
}

TEST(PredictModel, TakesACalibrationFileWhereverItPredicts) {
  const TemporaryFolder folder;
  const std::string file = folder / "c.json", csv = folder / "ops.csv";
  std::string text = test::whole_file(data_folder() + "/calibration/h200_sxm.json");
  const std::string key = "\"dram_read_fraction\": {\n      \"value\": ";
  const std::size_t at = text.find(key);
  ASSERT_NE(at, text.npos);
  const std::size_t end = text.find(',', at);
  const auto with = [&](const std::string& value) {
    test::put_file(file, text.substr(0, at) + key + value + text.substr(end));
    return Words{"--gpu", "h200", "--calibration", file};
  };
  const auto after = [](Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const Words half = with("0.5");
  const Words op{"op", "sum_rows", "rows=65536", "cols=8192", "--format", "csv"};
  test::put_file(csv, "op,shape\nsum_rows,rows=65536;cols=8192\n");
  for (const Words& words :
       {op, Words{"ops", "--in", csv}, Words{"llm", "--model", "llama-3.1-8b", "--phase", "decode"}}) {
    const ProgramResult own = run(after(words, {"--gpu", "h200"})), slow = run(after(words, half));
    EXPECT_EQ(slow.code, 0) << slow.err;
    EXPECT_NE(slow.out, own.out) << words.front();
  }
  EXPECT_THAT(run(after(op, {"--gpu", "h100", "--calibration", file})).out, HasSubstr("never_measured"));
  expect_refusal(after(op, with("-0.5")), 2, "/machine/dram_read_fraction/value: expected a fraction above 0");
  expect_refusal(after(op, {"--gpu", "h200", "--calibration", folder / "none.json"}), 2, "none.json");
  const auto refuse = [&](const std::string& from, const std::string& to, const std::string& part) {
    std::string broken = text;
    broken.replace(broken.find(from), from.size(), to);
    test::put_file(file, broken);
    expect_refusal(after(op, {"--gpu", "h200", "--calibration", file}), 2, part);
  };
  refuse("\"h200_sxm\"", "\"h200_sxn\"",
         "/gpu: expected h200_sxm or another GPU on file, found 'h200_sxn' (did you mean");
  refuse("dram_read_fraction", "dram_reed_fraction",
         "/machine/dram_reed_fraction: expected a scalar that is read, found 'dram_reed_fraction' (did you mean "
         "'dram_read_fraction'?)");
  refuse("\"constant_W\"", "\"konstant_W\"", "(did you mean 'constant_W'?)");
  refuse("\"fixed_s\"", "\"fixed_ms\"", "(did you mean 'fixed_s'?)");
  refuse("\"rowwise\"", "\"rowise\"", "(did you mean 'rowwise'?)");
  refuse("\"schema\": 1", "\"schema\": 2", "/schema: expected 1");
}

TEST(PredictModel, PlansOfSeveralGpusAreChecked) {
  for (const char* flag : {"--gpus", "--tp", "--pp", "--dp", "--cp"})
    EXPECT_EQ(run(decode({flag, "2"})).code, 0) << flag;
  for (const char* flag : {"--gpus", "--tp", "--pp", "--dp", "--ep", "--cp"}) {
    EXPECT_EQ(run(decode({flag, "1"})).out, run(decode({})).out) << flag;
  }
  expect_refusal(decode({"--tp", "3"}), 2, "expected a divisor of the 32 heads; nearest: 2 or 4");
  expect_refusal(decode({"--gpus", "8", "--tp", "4"}), 2,
                 "--gpus 8: expected tp x pp x cp x dp, found 4 x 1 x 1 x 1 = 4");
  expect_refusal(decode({"--ep", "2"}), 2,
                 "ep 2: expected a divisor of tp x cp x dp = 1, the ranks that experts live on; nearest: 1");
  expect_refusal(decode({"--zero", "1"}), 2, "with phase train");
  expect_refusal(decode({"--tp", "2", "--expert-load", "power:1"}), 2, "the model has no experts");
  expect_refusal(decode({"--expert-load", "power:x"}), 2, "--expert-load: expected power:A");
  expect_refusal(decode({"--expert-load", "power:11"}), 2, "from 0 to 10; found 'power:11'");
  expect_refusal(decode({"--expert-load", "unifrm"}), 2, "did you mean 'uniform'?");
}

TEST(PredictModel, PlanRanksWhatIsLegal) {
  const auto plan = [](std::vector<std::string> more) {
    std::vector<std::string> all{"plan", "--model", "llama-3.1-8b", "--gpu", "h200", "--gpus", "4", "--batch", "4"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const auto result = run(plan({"--format", "json"}));
  ASSERT_EQ(result.code, 0);
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["legal"], 10) << "ways to write 4 as a product of tp, pp, cp and dp";
  double last = 0;
  for (const auto& each : json["plans"]) {
    EXPECT_GE(each["latency_s"], last);
    last = each["latency_s"];
    const auto degree = [&](const char* word) { return each[word].get<int>(); };
    EXPECT_EQ(degree("tp") * degree("pp") * degree("cp") * degree("dp"), 4);
  }
  EXPECT_EQ(run(plan({"--max-latency", "1us"})).code, 1);
  expect_refusal(plan({"--prompt", "9"}), 2, "--prompt: has no meaning with --phase decode");
  EXPECT_EQ(run(plan({"--format", "csv"})).out.substr(0, 12), "tp,pp,cp,dp,");
  const std::string page = run(plan({"--format", "html"})).out;
  EXPECT_THAT(page, HasSubstr("<title>llama-3.1-8b, decode, on 4 x H200 SXM 141GB: parallel plans by latency</title>"));
  EXPECT_THAT(page, HasSubstr("<circle class=\"c1\""));
}

/// Training too, by the flags that llm has for it, with experts on other ranks among the plans.
TEST(PredictModel, PlanRanksIterationsOfTraining) {
  const auto plan = [](std::vector<std::string> more) {
    std::vector<std::string> all{"plan",   "--model", "deepseek-moe-16b", "--gpu", "h200",
                                 "--gpus", "8",       "--batch",          "16"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const auto result = run(plan({"--phase", "train", "--prompt", "512", "--zero", "1", "--micro-batch", "1", "--goal",
                                "tokens/s/gpu", "--format", "json"}));
  ASSERT_EQ(result.code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["phase"], "train");
  int dealt = 0;
  for (const auto& each : json["plans"]) dealt += each["ep"].get<int>() > 1 ? 1 : 0;
  EXPECT_GT(dealt, 0);
  EXPECT_LT(dealt, static_cast<int>(json["plans"].size()));
  expect_refusal(plan({"--micro-batch", "1"}), 2, "--micro-batch: has no meaning without --phase train");
  expect_refusal(plan({"--phase", "train", "--context", "9"}), 2, "--context: has no meaning with --phase train");
}

TEST(PredictModel, PowerCapAndDataAreOfCardsWithEnergies) {
  EXPECT_EQ(run(decode({"--power-cap", "600", "--data", "zeros"})).code, 0);
  expect_refusal(decode({"--data", "sevens"}), 2, "--data: expected normal, zeros, ternary or uniform");
  expect_refusal(decode({"--power-cap", "50"}), 2, "power cap: expected more than");
  expect_refusal(decode({"--power-cap", "1.2.3"}), 2, "--power-cap: expected a power such as 700 W, found '1.2.3 W'");
  expect_refusal(
      {"op", "gemm", "M=64", "N=64", "K=64", "--gpu", "a100_sxm", "--power-cap", "300", "--kernels", "ideal"}, 3,
      "ideal kernels have no power");
}

TEST(PredictModel, PrintsTheReportEvenIfTheModelDoesNotFit) {
  const ProgramResult result = run(
      {"llm", "--model", "llama-3.1-70b", "--gpu", "t4", "--phase", "decode", "--dtype", "fp16", "--kernels", "ideal"});
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("DOES NOT FIT"), HasSubstr("latency")));
}

TEST(PredictModel, JsonHasEveryKeyOfTheContract) {
  const ProgramResult result = run(decode({"--format", "json", "--explain", "attention"}));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, IsEmpty());
  const JsonDocument document = JsonDocument::parse(result.out, "stdout");
  const JsonValue root = document.root();
  const auto keys = root.keys();
  for (const char* key : {"schema",        "model",
                          "gpu",           "gpus",
                          "phase",         "batch",
                          "params",        "latency_s",
                          "latency_low_s", "latency_high_s",
                          "tokens_per_s",  "energy_J",
                          "power_W",       "sm_clock_Hz",
                          "fits",          "memory_bytes",
                          "time_share",    "flops",
                          "dram_bytes",    "mfu",
                          "mbu",           "ops",
                          "assumptions",   "reserve_bytes",
                          "max_batch",     "max_context",
                          "fewest_gpus",   "mfu_peak_FLOP_per_s"}) {
    EXPECT_THAT(keys, testing::Contains(key));
  }
  EXPECT_EQ(root.at("schema").as_string(), "plumbline.llm.v1");
  EXPECT_THAT(root.at("memory_bytes").keys(),
              ElementsAre("activations", "capacity", "kv", "optimizer", "total", "weights", "workspace"));
  EXPECT_THAT(root.at("time_share").keys(), ElementsAre("compute", "latency", "launch", "memory", "network"));
  double shares = 0;
  for (const std::string& kind : root.at("time_share").keys()) shares += root.at("time_share").at(kind).as_number();
  EXPECT_NEAR(shares, 1, 1e-9);
  const double latency = root.at("latency_s").as_number();
  EXPECT_LE(root.at("latency_low_s").as_number(), latency);
  EXPECT_GE(root.at("latency_high_s").as_number(), latency);
  bool explained = false;
  for (const JsonValue& op : root.at("ops").elements()) {
    const auto row = op.keys();
    for (const char* key : {"name", "op", "shape", "count", "latency_s", "limiter", "flops", "dram_bytes", "intensity",
                            "power_W", "energy_J"}) {
      EXPECT_THAT(row, testing::Contains(key));
    }
    EXPECT_EQ(op.has("explain"), op.at("name").as_string() == "attention");
    explained = explained || op.has("explain");
  }
  EXPECT_TRUE(explained);
}

TEST(PredictModel, OperatorsAndGapsSumToTheStep) {
  const ProgramResult result = run(decode({"--format", "json"}));
  ASSERT_EQ(result.code, 0) << result.err;
  const JsonDocument document = JsonDocument::parse(result.out, "stdout");
  double sum = 0, flops = 0;
  for (const JsonValue& op : document.root().at("ops").elements()) {
    const double count = op.at("count").as_number();
    sum += count * (op.at("latency_s").as_number() + op.at("gap_s").as_number());
    flops += count * op.at("flops").as_number();
  }
  EXPECT_NEAR(sum / document.root().at("latency_s").as_number(), 1, 1e-9);
  EXPECT_NEAR(flops / document.root().at("flops").as_number(), 1, 1e-9);
}

TEST(PredictModel, TablesArePlainInAPipe) {
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_THAT(run(decode()).out, Not(HasSubstr("\x1b")));
  ::unsetenv("NO_COLOR");
  EXPECT_THAT(run(decode()).out, Not(HasSubstr("\x1b")));
}

TEST(PredictModel, TablesFitTheScreen) {
  for (const Words& words : {decode({"--explain"}), Words{"gpu", "h200"},
                             Words{"op", "gemm", "M=4096", "N=4096", "K=4096", "--gpu", "h200"}}) {
    const std::string out = run(words).out;
    ASSERT_THAT(out, Not(IsEmpty()));
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120u) << line;
  }
}

TEST(PredictModel, ExplainTakesAnOperatorOrNone) {
  const std::string all = run(decode({"--explain"})).out;
  const std::string one = run(decode({"--explain", "attention"})).out;
  const std::string none = run(decode()).out;
  EXPECT_LT(none.size(), one.size());
  EXPECT_LT(one.size(), all.size());
}

TEST(PredictModel, SetIsRepeatableAndSaidAloud) {
  const ProgramResult slow = run(decode({"--format", "json"}));
  const ProgramResult fast =
      run(decode({"--format", "json", "--set", "memory.bandwidth=9TB/s", "--set", "sm_count=160"}));
  ASSERT_EQ(fast.code, 0) << fast.err;
  const JsonDocument before = JsonDocument::parse(slow.out, "before"), after = JsonDocument::parse(fast.out, "after");
  EXPECT_LT(after.root().at("latency_s").as_number(), before.root().at("latency_s").as_number());
  const std::string assumed = after.root().at("assumptions").dump();
  EXPECT_THAT(assumed, AllOf(HasSubstr("memory.bandwidth"), HasSubstr("sm_count")));
}

TEST(PredictModel, WritesTheFileWholeOrNotAtAll) {
  const TemporaryFolder folder;
  EXPECT_EQ(run(decode({"--out", folder / "a.txt"})).code, 0);
  EXPECT_EQ(test::whole_file(folder / "a.txt"), run(decode()).out);
  EXPECT_EQ(run(decode({"--batch", "0", "--out", folder / "b.txt"})).code, 2);
  EXPECT_EQ(run({"ops", "--gpu", "h200", "--out", folder / "c.csv"}, "op,dtype\n").code, 2);
  EXPECT_THAT(folder.names(), ElementsAre("a.txt"));
  expect_refusal(decode({"--out", "/no/such/folder/x"}), 2, "/no/such/folder/x: cannot be opened for writing");
}

TEST(PredictModel, OpAndOpsAgree) {
  const ProgramResult op = run({"op", "gemm", "M=64", "N=4096", "K=4096", "--gpu", "h200", "--format", "csv"});
  const ProgramResult ops = run({"ops", "--gpu", "h200"}, "op,dtype,shape\ngemm,bf16,M=64;N=4096;K=4096\n");
  EXPECT_EQ(op.code, 0) << op.err;
  EXPECT_EQ(op.out, ops.out);
}

TEST(PredictModel, OpsReportsRefusedRowsWithExitCodeThree) {
  const TemporaryFolder folder;
  const ProgramResult result = run({"ops", "--gpu", "h200", "--out", folder / "out.csv"},
                                   "op,shape\ngemm,M=1;N=64;K=64\nall_reduce,bytes=1024;gpus=8\ngem,M=1\n");
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err, HasSubstr("1 of 3 rows could not be modelled"));
  const std::string out = test::whole_file(folder / "out.csv");
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 4);
}

TEST(PredictModel, ALongBatchKeepsItsOrderInConstantMemory) {
  constexpr int kRows = 400000;
  std::string input = "id,op,shape\n";
  for (int i = 0; i < kRows; ++i)
    input += std::to_string(i) + ",copy,rows=" + std::to_string(i % 64 + 1) + ";cols=4096\n";
  const ProgramResult result = run({"ops", "--gpu", "h200"}, input);
  ASSERT_EQ(result.code, 0) << result.err;
  std::istringstream lines(result.out);
  std::string line;
  std::getline(lines, line);
  int next = 0;
  while (std::getline(lines, line)) {
    ASSERT_EQ(std::stoi(line), next) << line;
    ++next;
  }
  EXPECT_EQ(next, kRows);
#ifndef PLUMBLINE_SANITIZED
  // a child's peak holds what this process had when it forked: what a command that does little shows is no fault of the batch
  const auto idle = run({"list", "clusters"}).peak_kib;
  EXPECT_LT(result.peak_kib, std::max<decltype(idle)>(150 * 1024, idle + 4 * 1024));
#endif
}

TEST(PredictModel, ListsAreWholeAndNamed) {
  EXPECT_THAT(run({"list", "gpus"}).out, AllOf(HasSubstr("h200_sxm"), HasSubstr("mi300x")));
  EXPECT_THAT(run({"list", "models"}).out, HasSubstr("llama-3.1-8b"));
  const std::string operators_listed = run({"list", "ops"}).out;
  std::size_t from = 0;
  for (const std::string& op : op_names()) {  // all of the table, in its order
    from = operators_listed.find("\n" + op + " ", from);
    ASSERT_NE(from, std::string::npos) << op;
    const std::string line = operators_listed.substr(from + 1, operators_listed.find('\n', from + 1) - from - 1);
    EXPECT_THAT(line, testing::EndsWith(" " + std::string(op_usage(op))));
  }
  EXPECT_THAT(run({"list", "clusters"}).out, HasSubstr("dgx_h200"));
}

}  // namespace
}  // namespace plumbline::cli_predict_model_test

// What `predict-model llm` says of memory, lengths and defaults, and what it refuses: items of the front door's list.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <sstream>

#include "arch/files.hpp"
#include "arch/json_reader.hpp"
#include "tests/support/run_program.hpp"

namespace plumbline::cli_llm_test {
namespace {

using test::ProgramResult;
using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

using Words = std::vector<std::string>;

ProgramResult run(const Words& args, const std::string& input = "") {
  return test::run_program("predict-model", args, input);
}

Words llm(const std::string& model, const std::string& phase, const Words& more = {}) {
  Words words{"llm", "--model", model, "--gpu", "h200", "--phase", phase};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

void expect_refusal(const Words& args, int code, const std::string& part) {
  const ProgramResult result = run(args);
  EXPECT_EQ(result.code, code) << result.err;
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_THAT(result.err, AllOf(StartsWith("predict-model"), HasSubstr(part)));
}

JsonDocument json_of(const Words& args, int code = 0) {
  const ProgramResult result = run(args);
  EXPECT_EQ(result.code, code) << result.err;
  return JsonDocument::parse(result.out, "stdout");
}

double number(const JsonDocument& document, const char* key) { return document.root().at(key).as_number(); }

std::string line_of(const std::string& text, const std::string& part) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(part) != line.npos) return line;
  }
  return "";
}

TEST(DoesNotFit, IsSaidFirstAndTokensASecondNotAboveIt) {
  const std::string out = run(llm("deepseek-v3", "decode")).out;
  const std::size_t verdict = out.find("DOES NOT FIT");
  ASSERT_NE(verdict, out.npos);
  EXPECT_LT(verdict, out.find("latency  "));
  EXPECT_LT(verdict, out.find("tokens/s"));
  EXPECT_THAT(out, HasSubstr("fewest GPUs of this kind: 6"));
}

TEST(DoesNotFit, StandsInEveryRowOfTheCsv) {
  for (const auto& [model, word, code] : {std::tuple{"deepseek-v3", ",false", 1}, {"llama-3.1-8b", ",true", 0}}) {
    const ProgramResult result = run(llm(model, "decode", {"--format", "csv"}));
    EXPECT_EQ(result.code, code);
    std::istringstream lines(result.out);
    std::string line;
    std::getline(lines, line);
    EXPECT_THAT(line, testing::EndsWith(",fits"));
    while (std::getline(lines, line)) EXPECT_THAT(line, testing::EndsWith(word));
  }
}

TEST(DoesNotFit, TheLargestBatchAndContextFitAndOneMoreDoesNot) {
  const Words length{"--batch", "8", "--context", "4096", "--format", "json"};
  const JsonDocument asked = json_of(llm("llama-3.1-8b", "decode", length));
  const auto batch = static_cast<std::int64_t>(number(asked, "max_batch"));
  const auto context = static_cast<std::int64_t>(number(asked, "max_context"));
  const auto code = [&](std::int64_t b, std::int64_t c) {
    return run(llm("llama-3.1-8b", "decode", {"--batch", std::to_string(b), "--context", std::to_string(c)})).code;
  };
  EXPECT_EQ(code(batch, 4096), 0);
  EXPECT_EQ(code(batch + 1, 4096), 1);
  EXPECT_EQ(code(8, context), 0);
  EXPECT_EQ(code(8, context + 1), 1);
}

TEST(Reserve, IsATenthUnlessSaid) {
  const auto reserve = [](const Words& more) {
    Words words{"--format", "json"};
    words.insert(words.end(), more.begin(), more.end());
    return number(json_of(llm("llama-3.1-8b", "decode", words)), "reserve_bytes");
  };
  const JsonDocument asked = json_of(llm("llama-3.1-8b", "decode", {"--format", "json"}));
  const double capacity = asked.root().at("memory_bytes").at("capacity").as_number();
  EXPECT_NEAR(reserve({}), 0.1 * capacity, 1);
  EXPECT_NEAR(reserve({"--reserve", "25%"}), 0.25 * capacity, 1);
  EXPECT_NEAR(reserve({"--reserve", "25"}), 0.25 * capacity, 1);
  EXPECT_NEAR(reserve({"--reserve", "0"}), 0, 1);
  EXPECT_NEAR(reserve({"--reserve", "8GB"}), 8e9, 1);
  EXPECT_EQ(run(llm("llama-3.1-8b", "decode", {"--reserve", "95%"})).code, 1);
  for (const char* bad : {"100%", "-1", "a bit", "1000GB", "nan", "%", "1e400%"}) {
    expect_refusal(llm("llama-3.1-8b", "decode", {"--reserve", bad}), 2, "--reserve");
  }
}

TEST(IgnoredInput, ContextOfAPrefillIsAChunkBehindACache) {
  const auto latency = [](const Words& more) {
    Words words{"--prompt", "512", "--format", "json"};
    words.insert(words.end(), more.begin(), more.end());
    return number(json_of(llm("llama-3.1-8b", "prefill", words)), "latency_s");
  };
  const double alone = latency({});
  EXPECT_EQ(latency({"--context", "0"}), alone);
  EXPECT_GT(latency({"--context", "64k"}), 2 * alone);
  EXPECT_THAT(run(llm("llama-3.1-8b", "prefill", {"--prompt", "512", "--context", "65536"})).out,
              HasSubstr("prompt 512 behind 65536 cached tokens"));
  expect_refusal(llm("t5-3b", "prefill", {"--context", "9"}), 2, "one behind an encoder");
  expect_refusal(llm("bert-base-uncased", "prefill", {"--context", "9"}), 2,
                 "behind a cached context: expected a decoder");
}

TEST(IgnoredInput, FlagsWithoutAMeaningAreRefused) {
  expect_refusal(llm("llama-3.1-8b", "decode", {"--prompt", "99"}), 2, "--prompt: has no meaning with --phase decode");
  expect_refusal(llm("whisper-large-v3", "decode", {"--prompt", "99"}), 2, "--prompt");
  EXPECT_EQ(run(llm("t5-3b", "decode", {"--prompt", "99"})).code, 0) << "its encoder reads the prompt";
  expect_refusal(llm("llama-3.1-8b", "decode", {"--output", "9"}), 2, "--output: has no meaning with --phase decode");
  expect_refusal(llm("llama-3.1-8b", "prefill", {"--output", "9"}), 2, "--output");
  expect_refusal(llm("llama-3.1-8b", "train", {"--context", "9"}), 2, "--context");
  expect_refusal(llm("llama-3.1-8b", "train", {"--kv-dtype", "fp8"}), 2,
                 "--kv-dtype: has no meaning with --phase train");
  expect_refusal(llm("llama-3.1-8b", "decode", {"--format", "csv", "--explain"}), 2, "--explain: expected it with");
  expect_refusal(llm("llama-3.1-8b", "decode", {"--format", "json", "--top", "3"}), 2, "--top: expected it with");
  expect_refusal(llm("llama-3.1-8b", "generate", {"--format", "trace"}), 2, "expected table, json, csv or html");
  expect_refusal(llm("llama-3.1-8b", "generate", {"--explain"}), 2, "--explain");
}

TEST(Train, SaysNothingOfACacheThatItHasNot) {
  const Words sizes{"--prompt", "64"};
  EXPECT_THAT(run(llm("llama-3.2-1b", "train", sizes)).out, Not(HasSubstr("KV cache")));
  EXPECT_THAT(run(llm("llama-3.2-1b", "prefill", sizes)).out, HasSubstr("KV cache bf16 (as published)"));
}

TEST(Train, SaysThatOneReplicaSharesNothing) {
  const char* const kNothing = "shares nothing here: there is one replica";
  const auto of = [](const Words& more) {
    Words words{"--prompt", "64", "--gpus", "2", "--zero", "3"};
    words.insert(words.end(), more.begin(), more.end());
    return run(llm("llama-3.2-1b", "train", words)).out;
  };
  EXPECT_THAT(of({}), HasSubstr(kNothing));
  EXPECT_THAT(of({"--dp", "2", "--batch", "2"}), Not(HasSubstr(kNothing)));
}

TEST(Generate, IsOneAnswerInTableJsonAndCsv) {
  const Words sizes{"--prompt", "1k", "--output", "100", "--batch", "4"};
  const auto with = [&](const Words& more) {
    Words words = sizes;
    words.insert(words.end(), more.begin(), more.end());
    return llm("llama-3.1-8b", "generate", words);
  };
  const JsonDocument all = json_of(with({"--format", "json"}));
  EXPECT_EQ(all.root().at("phase").as_string(), "generate");
  const double latency = number(all, "latency_s");
  EXPECT_NEAR(number(all, "ttft_s") + 99 * number(all, "tpot_s"), latency, 1e-9 * latency);
  EXPECT_NEAR(number(all, "energy_J") / 400, number(all, "energy_per_token_J"), 1e-9);
  EXPECT_NEAR(number(all, "tokens_per_s"), 400 / latency, 1e-6);
  const JsonDocument prefill =
      json_of(llm("llama-3.1-8b", "prefill", {"--prompt", "1024", "--batch", "4", "--format", "json"}));
  EXPECT_DOUBLE_EQ(number(all, "ttft_s"), number(prefill, "latency_s"));
  const std::string table = run(with({})).out;
  EXPECT_THAT(table, AllOf(HasSubstr("TTFT"), HasSubstr("TPOT"), HasSubstr("per output token")));
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120u) << line;
  EXPECT_THAT(run(with({"--format", "csv"})).out, AllOf(HasSubstr("prefill,qkv_proj,gemm,32,"), HasSubstr("decode,")));
  EXPECT_THAT(run(llm("llama-3.1-8b", "generate", {"--output", "1", "--format", "json"})).out,
              HasSubstr("\"tpot_s\": null"));
}

TEST(Generate, FitsWhenItsLastStepDoes) {
  const ProgramResult many =
      run(llm("llama-3.1-8b", "generate", {"--batch", "800", "--prompt", "16", "--output", "2k"}));
  EXPECT_EQ(many.code, 1) << many.err;
  EXPECT_THAT(many.out, HasSubstr("DOES NOT FIT"));
}

TEST(SmallOnes, NothingAtAllAndHelpPrintHelp) {
  const std::string page = run({"--help"}).out;
  EXPECT_EQ(run({}).out, page);
  EXPECT_EQ(run({}).code, 0);
  EXPECT_EQ(run({"help"}).out, page);
  EXPECT_EQ(run({"help", "llm"}).out, run({"llm", "--help"}).out);
  EXPECT_EQ(run({"help", "llm"}).code, 0);
  expect_refusal({"help", "lm"}, 2, "unknown command 'lm' (did you mean 'llm'?)");
  expect_refusal({"help", "llm", "op"}, 2, "found 'op' too");
  EXPECT_EQ(run({"-v"}).out, run({"--version"}).out);
}

TEST(SmallOnes, HelpOfEveryCommandFitsTheScreen) {
  for (const char* command : {"", "llm", "op", "ops", "gpu", "list", "sweep", "sensitivity", "solve", "diff"}) {
    const std::string out = run(*command == '\0' ? Words{"help"} : Words{"help", command}).out;
    EXPECT_LE(std::count(out.begin(), out.end(), '\n'), 60) << command;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 110u) << line;
  }
}

TEST(SmallOnes, ListsTakeOneOrManyAndAreJsonToo) {
  for (const auto& [one, many] : {std::pair{"gpu", "gpus"},
                                  {"model", "models"},
                                  {"op", "ops"},
                                  {"cluster", "clusters"},
                                  {"stack", "stacks"},
                                  {"parameter", "parameters"}}) {
    EXPECT_EQ(run({"list", one}).out, run({"list", many}).out);
    const JsonDocument list = json_of({"list", many, "--format", "json"});
    EXPECT_GT(list.root().elements().size(), 4u) << many;
    for (const JsonValue& entry : list.root().elements()) EXPECT_TRUE(entry.has(one)) << entry.dump();
  }
  const JsonDocument gpus = json_of({"list", "gpus", "--format", "json"});
  const auto entries = gpus.root().elements();
  const auto h200 =
      std::ranges::find_if(entries, [](const JsonValue& g) { return g.at("gpu").as_string() == "h200_sxm"; });
  ASSERT_NE(h200, entries.end());
  EXPECT_EQ(h200->at("tdp_W").as_number(), 700);
}

TEST(SmallOnes, SizesAreTakenAsUsersWriteThem) {
  const auto same = [](const Words& a, const Words& b) {
    const ProgramResult first = run(a), second = run(b);
    EXPECT_EQ(first.code, second.code) << first.err;
    EXPECT_EQ(first.out, second.out);
    EXPECT_THAT(first.out, Not(IsEmpty()));
  };
  same(llm("llama-3.1-8b", "decode", {"--context", "8k"}), llm("llama-3.1-8b", "decode", {"--context", "8192"}));
  same(llm("llama-3.1-8b", "decode", {"--batch", "1e2"}), llm("llama-3.1-8b", "decode", {"--batch", "100"}));
  same(llm("mamba2-2.7b", "decode", {"--batch", "1e6"}), llm("mamba2-2.7b", "decode", {"--batch", "1000000"}));
  same({"op", "d2d", "bytes=1e6", "--gpu", "h200"}, {"op", "d2d", "bytes=1000000", "--gpu", "h200"});
  expect_refusal(llm("llama-3.1-8b", "decode", {"--context", "8.5"}), 2, "found '8.5'");
  expect_refusal(llm("llama-3.1-8b", "decode", {"--context", "k"}), 2, "found 'k'");
  expect_refusal(llm("llama-3.1-8b", "decode", {"--batch", "9999999999999k"}), 2, "--batch");
}

TEST(SmallOnes, AModelIsAFolderWithItsConfig) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "mine");
  test::put_file(folder / "mine/config.json", test::whole_file(data_folder() + "/models/llama-3.1-8b.json"));
  for (const char* end : {"", "/", "/config.json"}) {
    EXPECT_THAT(run(llm(folder / "mine" + end, "decode")).out, StartsWith("mine, decode")) << end;
  }
}

TEST(SmallOnes, OperatorsAndKeysByOtherNamesAreMet) {
  expect_refusal({"op", "gemm", "m=16", "N=1", "K=1", "--gpu", "h200"}, 2, "unknown key 'm' (did you mean 'M'?)");
  expect_refusal({"op", "matmul", "M=16", "N=1", "K=1", "--gpu", "h200"}, 2, "(did you mean 'gemm'?)");
  expect_refusal({"op", "m=16", "--gpu", "h200"}, 2, "op 'm=16': expected an operator before its keys, such as gemm");
}

TEST(Tables, TopKeepsTheOperatorsThatTakeLongest) {
  const std::string all = run(llm("deepseek-v3", "decode")).out,
                    few = run(llm("deepseek-v3", "decode", {"--top", "5"})).out;
  EXPECT_THAT(few, AllOf(HasSubstr("experts_gate_up"), HasSubstr(" others "), Not(HasSubstr("sample  "))));
  const auto words = [](const std::string& line) {
    std::istringstream in(line);
    return Words(std::istream_iterator<std::string>(in), {});
  };
  EXPECT_EQ(words(line_of(few, "  step  ")), words(line_of(all, "  step  "))) << "the sum stays";
  EXPECT_LT(std::count(few.begin(), few.end(), '\n'), std::count(all.begin(), all.end(), '\n') - 30);
}

TEST(Tables, RowsThatRepeatInOtherLayersAreFolded) {
  const std::string out = run(llm("deepseek-v3", "decode")).out;
  EXPECT_THAT(out, HasSubstr("layer x 3, moe_layer x 58:"));
  const std::string row = "\n  q_b_proj ";
  const std::size_t first = out.find(row);
  ASSERT_NE(first, out.npos);
  EXPECT_EQ(out.find(row, first + 1), out.npos);
  EXPECT_THAT(line_of(out, "  q_b_proj "), HasSubstr(" 61 "));
  EXPECT_LE(std::count(out.begin(), out.end(), '\n'), 80)
      << "was 84, with fewer lines of memory, of layers and of keys";
}

TEST(Words, LaunchHasOneFigure) {
  for (const char* runtime : {"graph", "stream", "eager"}) {
    const std::string out = run(llm("llama-3.1-8b", "decode", {"--runtime", runtime})).out;
    const std::string spent = line_of(out, "time goes to"), gaps = line_of(out, "launch gaps  ");
    const std::string share = spent.substr(spent.find("launch ") + 7);
    EXPECT_THAT(gaps, testing::EndsWith(" " + share)) << spent << gaps;
  }
}

TEST(Words, MfuIsOfTheDatasheetsPeakAndSaysSo) {
  const JsonDocument step = json_of(llm("llama-3.1-8b", "prefill", {"--format", "json"}));
  const double peak = number(step, "mfu_peak_FLOP_per_s");
  EXPECT_NEAR(peak, 989.4e12, 0.5e12);
  double tensor = 0;  // matrix products do nearly all of the work
  for (const JsonValue& op : step.root().at("ops").elements()) {
    const std::string kind = op.at("op").as_string();
    if (kind == "gemm" || kind == "attention_prefill") {
      tensor += op.at("count").as_number() * op.at("flops").as_number();
    }
  }
  EXPECT_NEAR(number(step, "mfu"), tensor / (number(step, "latency_s") * peak), 0.01);
  EXPECT_THAT(run(llm("llama-3.1-8b", "prefill")).out, HasSubstr("of 989 TFLOP/s (bf16 dense, datasheet)"));
}

TEST(Words, DefaultsAreMarked) {
  const std::string none = run(llm("llama-3.1-8b", "decode")).out;
  EXPECT_THAT(none, AllOf(HasSubstr("batch 1 (default), context 1024 (default)"), HasSubstr("stack trt-llm (default)"),
                          HasSubstr("clock steady (default)"), HasSubstr("weights bf16 (as published)")));
  const std::string all = run(llm("llama-3.1-8b", "decode",
                                  {"--batch", "1", "--context", "1024", "--stack", "trt-llm", "--clock", "steady",
                                   "--dtype", "bf16", "--kv-dtype", "bf16"}))
                              .out;
  EXPECT_THAT(all, AllOf(Not(HasSubstr("(default)")), Not(HasSubstr("(as published)"))));
}

TEST(Ops, KernelTimesAreWithoutGaps) {
  const std::string out = run({"ops", "--gpu", "h200"}, "op,shape\ngemm,M=64;N=4096;K=4096\n").out;
  EXPECT_THAT(out, HasSubstr(",provenance,kernel_us,error\n"));
  const JsonDocument op = json_of({"op", "gemm", "M=64", "N=4096", "K=4096", "--gpu", "h200", "--format", "json"});
  constexpr double kInside = 3e-7;  // gap_inside_s of both families, where K is cut
  double sum = 0;
  for (const JsonValue& launch : op.root().at("launches").elements()) sum += launch.at("time_s").as_number() + kInside;
  EXPECT_DOUBLE_EQ(number(op, "kernel_s"), sum);
  EXPECT_LT(number(op, "kernel_s"), number(op, "latency_s"));
}

TEST(Ops, WarmOperandsAreFoundInL2) {
  const Words warm{"ops", "--gpu", "h200", "--cache", "warm"};
  const std::string rows =
      "op,shape\ngemm,M=64;N=2048;K=2048\nrmsnorm,rows=512;cols=4096\nattention_decode,B=2;Hq=32;Hkv=8;D=128;S=2048\n"
      "attention_decode,B=64;Hq=32;Hkv=8;D=128;S=8192\nmoe,T=64;H=1024;I=512;E=8;topk=2\n";
  const ProgramResult result = run(warm, rows), cold = run({"ops", "--gpu", "h200", "--cache", "cold"}, rows);
  EXPECT_EQ(result.code, 3);
  EXPECT_EQ(cold.code, 0);
  EXPECT_THAT(line_of(result.out, "moe"), HasSubstr("cache warm: not modelled yet of moe"));
  EXPECT_NE(line_of(result.out, "gemm"), line_of(cold.out, "gemm"));
  EXPECT_NE(line_of(result.out, "rmsnorm"), line_of(cold.out, "rmsnorm"));
  EXPECT_NE(line_of(result.out, "B=2"), line_of(cold.out, "B=2"));
  EXPECT_EQ(line_of(result.out, "B=64"), line_of(cold.out, "B=64")) << "2 GB of keys and values";
  EXPECT_EQ(cold.out, run({"ops", "--gpu", "h200"}, rows).out);
  expect_refusal({"op", "all_reduce", "bytes=65536", "gpus=2", "--gpu", "h200", "--cache", "warm"}, 3, "cache warm");
}

}  // namespace
}  // namespace plumbline::cli_llm_test

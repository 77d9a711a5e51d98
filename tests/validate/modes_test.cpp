#include "validate/cli/modes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "tests/support/hand_made_recording.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/run_program.hpp"
#include "tests/support/short_lists.hpp"
#include "validate/cli/command_line.hpp"

namespace plumbline::modes_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing_support::refusal;

using Words = std::vector<std::string>;

/// What a command that is run here may reach: no card.
struct Desk {
  std::istringstream in;
  std::ostringstream out, messages;
  Surroundings around{[]() -> std::unique_ptr<Measurer> { throw DeviceError("no card"); },
                      [](std::int64_t) -> std::unique_ptr<StepMeasurer> { throw DeviceError("no card for steps"); },
                      [](bool, const ProbeProgress&) -> ProbeRun { throw DeviceError("no card to probe"); },
                      [](const LinkOptions&) -> LinkResult { throw DeviceError("no cards to link"); },
                      in,
                      out,
                      messages};
  ExitCode run(const Words& words) {
    const CommandLine line = parse_command_line(words);
    return line.mode->run(line.flags, around);
  }
};

std::string refused(const Words& words) {
  return refusal([&] { Desk().run(words); });
}

std::string measured(const std::string& file) { return data_folder() + "/measurements/h200/" + file; }

TEST(Modes, AListOfStepsIsNoListOfOperators) {
  const test::TemporaryFolder folder;
  test::put_file(folder / "steps.csv", "model,phase,batch,context\nllama-3.2-1b,decode,1,128\n");
  test::put_file(folder / "cases.csv", "op,dtype,shape\ngemm,bf16,M=16;N=16;K=16\n");
  EXPECT_THAT(refused({"run", "--study", folder / "steps.csv"}), HasSubstr("'validate step --study'"));
  EXPECT_THROW(Desk().run({"run", "--study", folder / "cases.csv"}), DeviceError);
  EXPECT_THROW(Desk().run({"step", "--study", folder / "steps.csv"}), DeviceError);
  EXPECT_THROW(Desk().run({"step", "--study", folder / "cases.csv"}), BadInput);
}

TEST(Modes, AStepIsAModelInBothClocksOrTheOneAskedFor) {
  EXPECT_THAT(refused({"step"}), HasSubstr("MODEL"));
  EXPECT_THAT(refused({"step", "llama-3.2-1b"}), HasSubstr("--phase"));
  EXPECT_THROW(Desk().run({"step", "llama-3.2-1b", "--phase", "decode"}), DeviceError);  // the question is sound
  EXPECT_THROW(Desk().run({"step", "llama-9", "--phase", "decode"}), BadInput);  // known before the card is asked
  EXPECT_THROW(Desk().run({"step", "llama-3.2-1b", "--phase", "decode", "--tp", "2", "--layers", "3"}), DeviceError);
  EXPECT_THAT(refused({"step", "llama-3.2-1b", "--phase", "decode", "--layers", "17"}), HasSubstr("1 to 16"));
  EXPECT_THAT(refused({"step", "llama-3.2-1b", "--study", "x.csv"}), StartsWith("--study: "));
}

TEST(Modes, AFlagThatHasNoMeaningForWhatWasAskedIsRefused) {
  const Words step{"step", "llama-3.2-1b", "--phase"};
  const auto with = [](Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const std::vector<Words> all{
      with(step, {"decode", "--prompt", "8"}),
      with(step, {"prefill", "--context", "8"}),
      with(step, {"prefill", "--page", "8"}),
      with(step, {"decode", "--check", "--out", "x.json"}),
      {"step", "--study", "x.csv", "--batch", "2"},
      {"calibrate", "--replay", "x.json", "--quick"},
      {"calibrate", "--replay", "x.json", "--probes", "y.json"},
      {"run", "--quick", "--kernels-table", "--format", "csv"},
      {"run", "--gpus", "2", "--ops", "gemm", "--out", "x.csv"},
      {"run", "--only", "copies", "--study", "x.csv", "--out", "y.csv"},
      {"run", "--nccl", "libnccl.so.2"},
      {"step", "--study", "x.csv", "--tp", "2"},
      {"replay", measured("repeat.json"), "--kernels-table", "--format", "json"},
      {"replay", measured("repeat.json"), "--repeat", measured("repeat.json"), "--where", "op=gemm"},
      {"replay", measured("repeat.json"), "--repeat", measured("repeat.json"), "--gpu", "h100"},
      {"replay", measured("steps.json"), "--ops", "gemm"},
      {"replay", measured("steps.json"), "--stack", "own"},
      {"replay", measured("steps.json"), "--repeat", "x.json"},
  };
  for (const Words& words : all) EXPECT_THAT(refused(words), HasSubstr(": has no meaning ")) << words.back();
}

TEST(Modes, TheCardIsAskedLast) {
  EXPECT_THROW(Desk().run({"run", "--quick"}), DeviceError);
  EXPECT_THROW(Desk().run({"run", "--quick", "--ops", "gem"}), BadInput);
  EXPECT_THAT(refused({"run", "--quick", "--study", data_folder() + "/studies/quick.csv"}),
              StartsWith("--study: --quick"));
  const test::TemporaryFolder folder;
  EXPECT_THROW(Desk().run({"run", "--gpus", "2", "--out", folder / "links.csv"}), DeviceError);
  EXPECT_THAT(refused({"run", "--gpus", "2"}), StartsWith("--out: "));
  EXPECT_THROW(Desk().run({"calibrate", "--quick"}), DeviceError);
  EXPECT_THROW(Desk().run({"run", "--quick", "--stack", "ideal"}), BadInput);
  EXPECT_THROW(Desk().run({"run", "--quick", "--stack", "trtllm"}), BadInput);
}

const char* const kLinks =
    "op,dtype,shape,measured_us,low_us,high_us,cache,clock,stack,kernel,plan,gpus,GB_per_s,watts,status\n"
    "check,,passed=500;cases=500;gpus=2,,,,warm,burst,own,random_sizes,,2,,,ok\n"
    "h2d,,bytes=1048576,24,23,25,warm,burst,own,copy_engine,host=pinned lanes=1 how=alone,1,,,ok\n";

/// The cards are measured into the file; of its rows our own collectives are compared, each as its plan was chosen.
TEST(Modes, WhatSeveralCardsMeasuredIsCompared) {
  const test::TemporaryFolder folder;
  const std::string file = folder / "links.csv";
  const auto run = [&](const std::string& rows, int faults, const Words& more, Desk& desk) {
    Surroundings around = desk.around;
    around.links = [&](const LinkOptions& options) {
      EXPECT_EQ(options.gpus, 2);
      EXPECT_EQ(options.out, file);
      EXPECT_EQ(options.again, (Words{"validate", "run", "--gpus", "2"}));
      test::put_file(file, kLinks + rows);
      return LinkResult{faults, "h200_sxm"};
    };
    Words words{"run", "--gpus", "2", "--out", file};
    words.insert(words.end(), more.begin(), more.end());
    const CommandLine line = parse_command_line(words);
    return line.mode->run(line.flags, around);
  };
  Desk none, some, broken, section;
  EXPECT_EQ(run("", 0, {}, none), ExitCode::done);
  EXPECT_EQ(none.out.str(), "");
  const std::string rows =
      "all_reduce,bf16,bytes=65536;gpus=2,6,6,6,warm,burst,own,one_shot,one_shot ctas=32,2,,,ok\n"
      "all_reduce,bf16,bytes=65536;gpus=2,5,5,5,warm,burst,own,one_shot.early,one_shot ctas=32 early,2,,,ok\n"
      "all_reduce,bf16,bytes=65536;gpus=2,9,9,9,warm,burst,nccl-2.28.9,nccl,,2,,,ok\n"
      "all_reduce,bf16,bytes=67108864;gpus=2,300,300,300,warm,steady,own,two_shot,two_shot beside gemm,2,,,ok\n";
  EXPECT_EQ(run(rows, 0, {}, some), ExitCode::done) << some.messages.str();
  EXPECT_THAT(some.out.str(), HasSubstr("1 rows compared"));
  EXPECT_EQ(run(rows, 3, {}, broken), ExitCode::not_modelled);
  EXPECT_THAT(broken.messages.str(), HasSubstr("3 cases or sections"));
  EXPECT_EQ(run(rows, 0, {"--only", "own"}, section), ExitCode::done);
  EXPECT_EQ(section.out.str(), "");
}

TEST(Modes, AReplayGoesByWhatTheFileHolds) {
  const test::TemporaryFolder folder;
  Recording recording = testing_support::hand_made_recording();
  recording.cases.resize(1);
  test::put_file(folder / "cases.json", recording_json(recording));
  Desk desk;
  EXPECT_EQ(desk.run({"replay", folder / "cases.json"}), ExitCode::done) << desk.messages.str();
  EXPECT_THAT(desk.out.str(), HasSubstr("stack own, kernels own, clock as measured: 1 rows compared"));
  EXPECT_EQ(desk.run({"replay", measured("steps.json"), "--format", "csv"}), ExitCode::done) << desk.messages.str();
  EXPECT_THAT(desk.out.str(), HasSubstr("llama-3.1-8b decode"));
}

/// Every format that a command's help names comes out as that format; the others are refused.
TEST(Modes, EveryFormatIsHonouredOrRefused) {
  const test::TemporaryFolder folder;
  test::put_file(folder / "accuracy.json", test::kShortAccuracyList);
  test::put_file(folder / "bands.json", test::kShortCoverageList);
  const std::string repeat = measured("repeat.json");
  const std::vector<std::pair<Words, std::string>> asked{
      {{"accuracy", folder / "accuracy.json"}, "table json csv"},
      {{"coverage", folder / "bands.json"}, "table json csv"},
      {{"power", measured("steady.heldout.json")}, "table json csv"},
      {{"replay", repeat}, "table json csv html"},
      {{"replay", repeat, "--repeat", repeat}, "table json csv"},
      {{"replay", measured("steps.json")}, "table csv"},
      {{"compare", repeat, "--stack", "own"}, "table json csv html"},
  };
  for (const auto& [words, honoured] : asked) {
    for (const std::string format : {"table", "json", "csv", "html", "trace"}) {
      Words with = words;
      with.insert(with.end(), {"--format", format});
      if (honoured.find(format) == std::string::npos) {
        EXPECT_THAT(refused(with), StartsWith("--format")) << words.front() << " " << format;
        continue;
      }
      Desk desk;
      EXPECT_EQ(desk.run(with), ExitCode::done) << words.front() << " " << format << "\n" << desk.messages.str();
      const std::string text = desk.out.str();
      const bool json = text.rfind("{\n", 0) == 0, html = text.rfind("<!doctype html>", 0) == 0;
      const std::string header = text.substr(0, text.find('\n'));
      const bool csv = !json && !html && header.find(',') != text.npos && header.find(' ') == text.npos;
      EXPECT_EQ(json, format == "json") << words.front() << "\n" << header;
      EXPECT_EQ(html, format == "html") << words.front() << "\n" << header;
      EXPECT_EQ(csv, format == "csv") << words.front() << "\n" << header;
    }
  }
}

TEST(Modes, ComparePricesTheServingStackUnlessAnotherIsNamed) {
  const test::TemporaryFolder folder;
  test::put_file(folder / "rows.csv", "op,dtype,shape,measured_us\ngemm,bf16,M=4096;N=4096;K=4096,210\n");
  const auto report = [&](const Words& more) {
    Words words{"compare", folder / "rows.csv", "--gpu", "h200", "--format", "json"};
    words.insert(words.end(), more.begin(), more.end());
    Desk desk;
    EXPECT_EQ(desk.run(words), ExitCode::done) << desk.messages.str();
    return desk.out.str();
  };
  EXPECT_THAT(report({}), HasSubstr("\"stack\": \"trt-llm\",\n  \"kernels\": \"library\""));
  EXPECT_EQ(report({}), report({"--stack", "trt-llm"}));
  EXPECT_THAT(report({"--stack", "own"}), HasSubstr("\"stack\": \"own\",\n  \"kernels\": \"own\""));
  EXPECT_THAT(report({"--kernels", "ideal"}), HasSubstr("\"kernels\": \"ideal\""));
  EXPECT_NE(report({}), report({"--stack", "own"}));
}

TEST(Modes, FitsNeedACardAndAFamily) {
  const std::string rows = data_folder() + "/measurements/own/h200_sxm/rowwise.train.csv";
  EXPECT_THAT(refused({"fit", rows}), StartsWith("--gpu"));
  EXPECT_THAT(refused({"fit", rows, "--gpu", "h200_sxm"}), StartsWith("--family"));
  const Words fit{"fit", rows, "--gpu", "h200_sxm", "--family", "rowwise", "--free", "fixed_s=9e-7:1e-7:4e-6"};
  Words ideal = fit;
  ideal.insert(ideal.end(), {"--kernels", "ideal"});
  EXPECT_THAT(refused(ideal), HasSubstr("has no coefficients"));
  Desk desk;
  EXPECT_EQ(desk.run(fit), ExitCode::done) << desk.messages.str();
  EXPECT_THAT(desk.out.str(), HasSubstr("trained on 328 rows"));
}

TEST(Modes, BandsAreOfACardWithACalibration) {
  EXPECT_THAT(refused({"fit-bands"}), StartsWith("--gpu"));
  EXPECT_THAT(
      refused({"fit-bands", "--gpu", "h200_sxm", "--calibration", data_folder() + "/calibration/a100_sxm.json"}),
      HasSubstr("expected one of h200_sxm"));
}

long rows_of_power(const Words& more) {
  Words words{"power", measured("steady.heldout.json")};
  words.insert(words.end(), more.begin(), more.end());
  Desk desk;
  EXPECT_EQ(desk.run(words), ExitCode::done);
  const std::string text = desk.out.str();
  return std::stol(text.substr(text.rfind("\nall") + 4));
}

TEST(Modes, PowerTablesChooseByTheCap) {
  const long all = rows_of_power({}), below = rows_of_power({"--most-cap", "50"}),
             above = rows_of_power({"--least-cap", "50"});
  EXPECT_GT(below, 0);
  EXPECT_GT(above, 0);
  EXPECT_EQ(below + above, all);
  EXPECT_THAT(refused({"power", measured("steady.heldout.json"), "--least-cap", "60", "--most-cap", "50"}),
              StartsWith("--least-cap"));
}

TEST(Modes, PowerTablesTakeTheSharedFilters) {
  const long all = rows_of_power({}), gemm = rows_of_power({"--ops", "gemm"});
  EXPECT_GT(gemm, 0);
  EXPECT_LT(gemm, all);
  EXPECT_EQ(rows_of_power({"--where", "op=gemm"}), gemm);
  EXPECT_THAT(refused({"power", measured("steady.heldout.json"), "--where", "stack=x"}),
              HasSubstr("expected one of op"));
}

/// A recording says which card it is of: an H100's runs are held against the H100.
TEST(Modes, PowerTablesAreOfTheRecordingsCard) {
  const std::string h100 = data_folder() + "/measurements/h100/own/first.json";
  const auto table = [&](const Words& more) {
    Words words{"power", h100};
    words.insert(words.end(), more.begin(), more.end());
    Desk desk;
    EXPECT_EQ(desk.run(words), ExitCode::done) << desk.messages.str();
    return desk.out.str();
  };
  EXPECT_EQ(table({}), table({"--gpu", "h100_sxm"}));
  EXPECT_NE(table({}), table({"--gpu", "h200_sxm"}));
  EXPECT_THAT(refused({"power", h100, measured("steady.heldout.json")}),
              StartsWith("recordings of h100_sxm and of h200_sxm"));
}

}  // namespace
}  // namespace plumbline::modes_test

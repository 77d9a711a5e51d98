#include "validate/cli/modes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "tests/support/hand_made_recording.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/run_program.hpp"

namespace plumbline {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using testing_support::refusal;

Flags with(const std::set<std::string>& given) {
  Flags flags;
  flags.given = given;
  return flags;
}

/// What a mode that is run here may reach: no card.
struct Desk {
  std::istringstream in;
  std::ostringstream out, messages;
  Surroundings around{[]() -> std::unique_ptr<Measurer> { throw DeviceError("no card"); },
                      []() -> std::unique_ptr<StepMeasurer> { throw DeviceError("no card for steps"); },
                      [](bool, const ProbeProgress&) -> ProbeRun { throw DeviceError("no card to probe"); },
                      in,
                      out,
                      messages};
  ExitCode run(const Flags& flags) { return mode_of(flags).run(flags, around); }
};

TEST(Modes, EachFlagOfAModeAsksForIt) {
  for (const Mode& mode : modes()) {
    EXPECT_EQ(mode_of(mode.flag.empty() ? Flags{} : with({std::string(mode.flag)})).flag, mode.flag);
  }
}

TEST(Modes, TakeTheFlagsOfTheirRow) {
  for (const Mode& mode : modes()) {
    std::set<std::string> all(mode.takes.begin(), mode.takes.end());
    if (!mode.flag.empty()) all.insert(std::string(mode.flag));
    if (mode.flag == "--calibrate") {
      EXPECT_EQ(mode_of(with(all)).flag, "--calibrate");  // with --replay too
      continue;
    }
    EXPECT_EQ(mode_of(with(all)).flag, mode.flag);
  }
}

/// A flag without a meaning is refused, never ignored; a second mode is such a flag.
TEST(Modes, RefuseEveryOtherFlag) {
  std::set<std::string> known;
  for (const Mode& mode : modes()) {
    known.insert(mode.takes.begin(), mode.takes.end());
    if (!mode.flag.empty()) known.insert(std::string(mode.flag));
  }
  int refused = 0;
  for (const Mode& mode : modes()) {
    for (const std::string& flag : known) {
      if (flag == mode.flag || std::find(mode.takes.begin(), mode.takes.end(), flag) != mode.takes.end()) continue;
      std::set<std::string> given{flag};
      if (!mode.flag.empty()) given.insert(std::string(mode.flag));
      const auto is_mode = [&](const Mode& other) { return other.flag == flag; };
      if (mode.flag.empty() && std::any_of(modes().begin(), modes().end(), is_mode)) continue;  // that mode, then
      if (given.count("--replay") > 0 && given.count("--calibrate") > 0) continue;
      EXPECT_THROW(mode_of(with(given)), BadInput) << mode.flag << " " << flag;
      ++refused;
    }
  }
  EXPECT_GT(refused, 200);
}

TEST(Modes, TheMessageNamesTheFlagTheModeAndWhatItTakes) {
  EXPECT_EQ(refusal([] {
              mode_of(with({"--coverage", "--format"}));
            }),
            "--format: --coverage does not take it; expected one of --calibration");
  EXPECT_EQ(refusal([] {
              mode_of(with({"--sides", "--gpu"}));
            }),
            "--gpu: --sides does not take it; expected no other flag");
  EXPECT_THAT(refusal([] {
                mode_of(with({"--clock", "--quick"}));
              }),
              AllOf(StartsWith("--clock: measuring the card does not take it"), HasSubstr("--where")));
}

TEST(Modes, AListOfStepsAsksForSteps) {
  const test::TemporaryFolder folder;
  test::put_file(folder / "steps.csv", "model,phase,batch,context\nllama-3.2-1b,decode,1,128\n");
  test::put_file(folder / "cases.csv", "op,dtype,shape\ngemm,bf16,M=16;N=16;K=16\n");
  Flags flags = with({"--study"});
  flags.studies = {folder / "steps.csv"};
  EXPECT_EQ(mode_of(flags).flag, "--step");
  flags.studies = {folder / "cases.csv"};
  EXPECT_EQ(mode_of(flags).flag, "");
}

TEST(Modes, StepsComeFromFlagsInBothClocksOrTheOneAskedFor) {
  Desk desk;
  Flags flags = with({"--step"});
  flags.step_model = "llama-3.2-1b";
  EXPECT_THAT(refusal([&] { desk.run(flags); }), HasSubstr("--phase"));
  flags.phase = "decode";
  EXPECT_THROW(desk.run(flags), DeviceError);  // the question is sound
  flags.step_model = "llama-9";
  EXPECT_THROW(desk.run(flags), BadInput);  // known before the card is asked
  flags.given.insert("--study");
  EXPECT_THAT(refusal([&] { desk.run(flags); }), StartsWith("--study: "));
}

TEST(Modes, TheCardIsAskedLast) {
  Desk desk;
  Flags flags = with({"--quick"});
  EXPECT_THROW(desk.run(flags), DeviceError);
  flags.ops = {"gem"};
  EXPECT_THROW(desk.run(flags), BadInput);
  flags = with({"--quick", "--study"});
  flags.studies = {data_folder() + "/studies/quick.csv"};
  EXPECT_THAT(refusal([&] { desk.run(flags); }), StartsWith("--study: --quick"));
  flags = with({"--gpus"});
  flags.gpus = 2;
  EXPECT_THROW(desk.run(flags), DeviceError);
  flags = with({"--calibrate", "--quick"});
  EXPECT_THROW(desk.run(flags), DeviceError);
}

TEST(Modes, AReplayGoesByWhatTheFileHolds) {
  const test::TemporaryFolder folder;
  Recording recording = testing_support::hand_made_recording();
  recording.cases.resize(1);
  test::put_file(folder / "cases.json", recording_json(recording));
  Desk desk;
  Flags flags = with({"--replay"});
  flags.replay = folder / "cases.json";
  EXPECT_EQ(desk.run(flags), ExitCode::done) << desk.messages.str();
  EXPECT_THAT(desk.out.str(), HasSubstr("1 rows compared"));
  flags.replay = data_folder() + "/measurements/h200/steps.json";
  flags.format = "csv";
  EXPECT_EQ(desk.run(flags), ExitCode::done) << desk.messages.str();
  EXPECT_THAT(desk.out.str(), HasSubstr("llama-3.1-8b decode"));
  flags.format = "html";
  EXPECT_THAT(refusal([&] { desk.run(flags); }), HasSubstr("table or csv"));
}

TEST(Modes, FitsNeedACardAndAFamily) {
  Desk desk;
  Flags flags = with({"--fit"});
  flags.fit = {data_folder() + "/measurements/own/h200_sxm/rowwise.train.csv"};
  EXPECT_THAT(refusal([&] { desk.run(flags); }), HasSubstr("--gpu"));
  flags.gpu = "h200_sxm";
  EXPECT_THAT(refusal([&] { desk.run(flags); }), HasSubstr("--family"));
  flags.family = "rowwise";
  flags.kernels = "ideal";
  EXPECT_THAT(refusal([&] { desk.run(flags); }), HasSubstr("has no scalars"));
  flags.kernels = "cublas";
  EXPECT_THAT(refusal([&] { desk.run(flags); }), HasSubstr("expected own, library or ideal"));
  flags.kernels = "library";
  flags.free = {"fixed_s=9e-7:1e-7:4e-6"};
  EXPECT_EQ(desk.run(flags), ExitCode::done) << desk.messages.str();
  EXPECT_THAT(desk.out.str(), HasSubstr("trained on 328 rows"));
}

TEST(Modes, BandsAreOfACardWithACalibration) {
  Desk desk;
  Flags flags = with({"--fit-bands"});
  flags.fit_bands = {data_folder() + "/studies/bands.json"};
  EXPECT_THAT(refusal([&] { desk.run(flags); }), HasSubstr("--gpu"));
  flags.gpu = "h200_sxm";
  flags.calibration = data_folder() + "/calibration/a100_sxm.json";
  EXPECT_THAT(refusal([&] { desk.run(flags); }), HasSubstr("expected a calibration of h200_sxm"));
}

TEST(Modes, PowerTablesChooseByTheCap) {
  const auto rows = [](double least, double most) {
    Desk desk;
    Flags flags = with({"--power-table", "--least-cap", "--most-cap"});
    flags.power_table = {data_folder() + "/measurements/h200/steady.heldout.json"};
    flags.least_cap_percent = least;
    flags.most_cap_percent = most;
    EXPECT_EQ(desk.run(flags), ExitCode::done);
    const std::string text = desk.out.str();
    return std::stol(text.substr(text.rfind("\nall") + 4));
  };
  const long all = rows(0, 1000), below = rows(0, 50), above = rows(50, 1000);
  EXPECT_GT(below, 0);
  EXPECT_GT(above, 0);
  EXPECT_EQ(below + above, all);
}

}  // namespace
}  // namespace plumbline

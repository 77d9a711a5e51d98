// Exit codes and streams through the built program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "arch/files.hpp"
#include "arch/json_reader.hpp"
#include "tests/support/hand_made_recording.hpp"
#include "tests/support/validate_command.hpp"

namespace plumbline::command_test {
namespace {

using ::testing::HasSubstr;
using namespace testing_support;

TEST_F(ValidateCommand, AloneItPrintsAShortHelp) {
  EXPECT_EQ(run(""), 0);
  EXPECT_THAT(out_, HasSubstr("compare FILE..."));
  const std::string alone = out_;
  EXPECT_EQ(run("--help"), 0);
  EXPECT_EQ(out_, alone);
  EXPECT_EQ(run("compare --help"), 0);
  EXPECT_THAT(out_, HasSubstr("--stack NAME"));
  EXPECT_EQ(run("--version"), 0);
  EXPECT_THAT(out_, testing::StartsWith("plumbline "));
}

/// With a card these would measure, for minutes: that is for people to start, not for a test.
bool may_have_a_card() { return fs::exists("/dev/nvidiactl") || fs::exists("/dev/dxg"); }

TEST_F(ValidateCommand, MeasuringLiveHasNoDevice) {
  if (may_have_a_card()) GTEST_SKIP() << "there may be a card";
  for (const char* arguments : {"run", "calibrate --quick", "run --ops gemm,rmsnorm --quick",
                                "run --quick --kernels library", "step llama-3.2-1b --phase decode"}) {
    EXPECT_EQ(run(arguments), 4) << arguments;
    EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1) << err_;
    EXPECT_EQ(out_, "");
  }
}

TEST_F(ValidateCommand, AQuestionThatIsWrongNeedsNoDeviceToSaySo) {
  for (const char* arguments :
       {"run --quick --ops gem", "run --study /nowhere.csv", "run --quick --study a.csv", "run --gpus 0",
        "run --quick --out /nowhere/out.json", "run --quick --kernels ideal", "run --quick --clock steady"}) {
    EXPECT_EQ(run(arguments), 2) << arguments << "\n" << err_;
    EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1) << err_;
  }
}

TEST_F(ValidateCommand, ReplaysARecordingInEveryFormat) {
  const std::string recording = file("r.json", recording_json(hand_made_recording())).string();
  EXPECT_EQ(run("replay '" + recording + "'"), 3);  // one case has a fault
  EXPECT_THAT(out_, HasSubstr("7 rows compared, 1 not measured"));
  EXPECT_THAT(out_, HasSubstr("\n  1 row: no kernel for <this> shape (first: heldout.csv:2 topk"));
  EXPECT_THAT(err_, HasSubstr("validate: 1 of 8 cases could not be measured or priced; first: heldout.csv:2: topk"));
  EXPECT_EQ(run("replay '" + recording + "' --ops gemm --format json"), 0) << err_;
  const JsonDocument document = JsonDocument::parse(out_, "stdout");
  EXPECT_EQ(document.root().at("cases").size(), 3U);
  EXPECT_EQ(run("replay '" + recording + "' --ops gemm --kernels library --format csv"), 0) << err_;
  EXPECT_EQ(std::count(out_.begin(), out_.end(), '\n'), 3);
  const std::string page = (folder_ / "page.html").string();
  EXPECT_EQ(run("replay --ops gemm --format html --report '" + page + "' '" + recording + "'"), 0) << err_;
  EXPECT_EQ(out_, "");
  EXPECT_THAT(text_of_file(page), HasSubstr("</html>"));
  EXPECT_EQ(run("replay '" + recording + "' --ops gemm --kernels-table"), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("| GEMM bf16, 8192^3 | 700 TFLOP/s | 733 TFLOP/s | 1 | 0 | met |"));
}

TEST_F(ValidateCommand, AReplayCanFailOver) {
  const std::string recording = file("r.json", recording_json(hand_made_recording())).string();
  EXPECT_EQ(run("replay '" + recording + "' --ops gemm --fail-over 0.001"), 1);
  EXPECT_THAT(err_, HasSubstr("asked for"));
}

TEST_F(ValidateCommand, TwoRunsAreHeldAgainstEachOther) {
  Recording run = hand_made_recording();
  const std::string first = file("a.json", recording_json(run)).string();
  for (Measurement& c : run.cases) c.time = 1.015 * c.time;
  const std::string second = file("b.json", recording_json(run)).string();
  EXPECT_EQ(run_both(first, second, ""), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("9 of 9 classes"));
  EXPECT_EQ(run_both(first, second, " --fail-over 1"), 1);
  EXPECT_THAT(err_, HasSubstr("9 of 9 classes moved by more than the 1 % asked for"));
}

TEST_F(ValidateCommand, RecordingsThatAreNoneAreOneLine) {
  for (const char* text : {"", "{}", "[1]", "{\"schema\": \"plumbline.measurements.v2\"}"}) {
    EXPECT_EQ(run("replay '" + file("r.json", text).string() + "'"), 2) << text;
    EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1) << err_;
  }
}

TEST_F(ValidateCommand, AnyonesRowsCanBeAPage) {
  EXPECT_EQ(run("compare --gpu h200_sxm --format html " + file("a.csv", kGood).string()), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("M=8192;N=8192;K=8192"));
  EXPECT_THAT(out_, HasSubstr("</html>"));
}

TEST_F(ValidateCommand, BadUsageIsOneLine) {
  const std::string csv = file("a.csv", kGood).string(), compare = "compare " + csv;
  for (const std::string& arguments :
       {std::string("--against x.csv"), std::string("comapre x.csv"), std::string("compare"),
        std::string("compare /nowhere/x.csv --gpu h200_sxm"), compare + " --kernels mine",
        compare + " --gpu h200_sxm --where stack", compare + " --gpu h200_sxm --where stack=x",
        compare + " --gpu h200_sxm --set memory", compare + " --gpu h20_sxn", compare + " --gpu h200 --stack trtllm",
        compare + " --gpu h200 --attention cublas", compare + " --replay x.json", "coverage --gpu h200 " + csv}) {
    EXPECT_EQ(run(arguments), 2) << arguments << "\n" << err_;
    EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1) << arguments << "\n" << err_;
    EXPECT_EQ(out_, "") << arguments;
  }
}

TEST_F(ValidateCommand, AFileWithoutMeasuredTimesIsBadInput) {
  const fs::path csv = file("a.csv", "op,dtype,shape\ngemm,bf16,M=1;N=1;K=1\n");
  EXPECT_EQ(run("compare --gpu h200_sxm " + csv.string()), 2);
  EXPECT_THAT(err_, HasSubstr("measured_us"));
}

const char* const kHeldOut =
    "op,dtype,shape,measured_us,measured_W,clock,stack\n"
    "gemm,bf16,M=1024;N=256;K=256,4,500,steady,x\n"
    "gemm,bf16,M=2;N=1280;K=8192,9,500,steady,x\n";

TEST_F(ValidateCommand, HeldOutRowsAreNotFittedWhateverTheirFileIsCalled) {
  const std::string csv = file("gemm.train.csv", kHeldOut).string();
  const std::string fit = "fit --gpu h200_sxm --kernels library --family gemm '";
  EXPECT_EQ(run(fit + csv + "'"), 2);
  EXPECT_THAT(err_,
              HasSubstr("gemm.train.csv:2: held out: CRC32 of its shape is a multiple of 5; validate fit expected"));
  EXPECT_EQ(run("fit-power --gpu h200_sxm '" + csv + "'"), 2);
  EXPECT_THAT(
      err_,
      HasSubstr("gemm.train.csv:2: held out: CRC32 of its shape is a multiple of 5; validate fit-power expected"));
  for (const char* recording : {"random", "fresh.rowwise", "steady.heldout"}) {
    EXPECT_EQ(run("fit --gpu h200_sxm --kernels own --family gemm '" + data_folder() + "/measurements/h200/" +
                  recording + ".json'"),
              2)
        << recording;
    EXPECT_THAT(err_, HasSubstr("held out: ")) << recording;
  }
}

TEST_F(ValidateCommand, TrainingRowsBesideHeldOutOnesAreFitted) {
  const std::string text = std::string("op,dtype,shape,measured_us,held_out\n") +
                           "gemm,bf16,M=4096;N=4096;K=4096,210,\ngemm,bf16,M=8192;N=8192;K=8192,1650,no\n" +
                           "gemm,bf16,M=1024;N=256;K=256,4,\ngemm,bf16,M=16;N=4096;K=4096,14,yes\n";
  EXPECT_EQ(run("fit --gpu h200_sxm --kernels library --family gemm --free fixed_s '" +
                file("rows.csv", text).string() + "'"),
            0)
      << err_;
  EXPECT_THAT(out_, HasSubstr("trained on 2 rows"));
  EXPECT_THAT(err_, HasSubstr("rows.csv:4: held out: CRC32 of its shape is a multiple of 5\n"));
  EXPECT_THAT(err_, HasSubstr("rows.csv:5: held out: its list says held_out\n"));
}

TEST_F(ValidateCommand, BandsAreNotFoundOnHeldOutRows) {
  const std::string list = file("bands.json", R"({"sources": [
      {"gpu": "h200_sxm", "kernels": "own", "recording": "h200/random.json"}]})")
                               .string();
  EXPECT_EQ(run("fit-bands --gpu h200_sxm '" + list + "'"), 2);
  EXPECT_THAT(err_, HasSubstr("no training row of h200_sxm"));
}

TEST_F(ValidateCommand, TellsTheSideOfEveryRow) {
  EXPECT_EQ(run("sides '" + file("a.csv", kHeldOut).string() + "'"), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("a.csv:2,heldout,size\n"));
  EXPECT_THAT(out_, HasSubstr("a.csv:3,heldout,model\n"));
  EXPECT_EQ(run("sides '" + data_folder() + "/measurements/h200/random.json'"), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("random.json: /cases/0,heldout,flag\n"));
  EXPECT_EQ(run("sides '" + data_folder() + "/measurements/h200/steps.json'"), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("/steps/0,"));
}

TEST_F(ValidateCommand, ComparesAndWritesJsonAlone) {
  const fs::path csv = file("a.csv", kGood);
  EXPECT_EQ(run("compare --gpu h200_sxm --kernels ideal --format json " + csv.string()), 0) << err_;
  EXPECT_EQ(err_, "");
  const JsonDocument document = JsonDocument::parse(out_, "stdout");
  const JsonValue root = document.root();
  EXPECT_EQ(root.at("rows").at("compared").as_integer(), 3);
  EXPECT_EQ(root.at("classes").size(), 3U);                        // 10-100 us, from 100 us, all
  EXPECT_FALSE(root.at("classes").elements()[1].has("spearman"));  // null: two rows
}

TEST_F(ValidateCommand, RowsFileHasALineARow) {
  const fs::path csv = file("a.csv", kGood);
  const std::string rows = (folder_ / "rows.csv").string();
  EXPECT_EQ(run("compare --gpu h200_sxm --kernels ideal --rows '" + rows + "' --min-us 100 " + csv.string()), 0);
  const std::string text = text_of_file(rows);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
  EXPECT_THAT(text, HasSubstr("M=8192;N=8192;K=8192"));
}

// Found by fuzz/programs.py: a quoted field with a line end in it made two lines of the message that quotes it.
TEST_F(ValidateCommand, AFieldOfTwoLinesIsQuotedInOne) {
  const fs::path csv = file("a.csv", std::string(kGood) + "gemm,bf16,M=16;N=4096;K=4096,\"so\non\",burst\n");
  EXPECT_EQ(run("compare --gpu h200_sxm --kernels ideal " + csv.string()), 3);
  EXPECT_THAT(err_, HasSubstr("measured_us: expected a number above 0, found 'so\\non'"));
  EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1) << err_;
  EXPECT_THAT(out_, HasSubstr("\n  1 row: measured_us: expected a number above 0, found 'so\\non' (first: "));
}

TEST_F(ValidateCommand, BadRowsAreReportedAndTheRestCompared) {
  const fs::path csv = file("a.csv", std::string(kGood) + "gemm,bf16,M=16;N=4096;K=4096,soon,burst\n");
  EXPECT_EQ(run("compare --gpu h200_sxm --kernels ideal " + csv.string()), 3);
  EXPECT_THAT(err_, HasSubstr("validate: 1 of 4 rows could not be read or priced; first: "));
  EXPECT_THAT(err_, HasSubstr("a.csv:5: measured_us"));
  EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1) << err_;
  EXPECT_THAT(out_, HasSubstr("3 rows compared, 1 could not be read"));
  EXPECT_THAT(out_, HasSubstr("\n  1 row: measured_us: expected a number above 0, found 'soon' (first: "));
}

TEST_F(ValidateCommand, ManyRowsOfOneReasonDoNotHideAnother) {
  std::string text = kGood;
  for (int i = 0; i < 50; ++i) text += "warp_drive,bf16,M=16,9,burst\n";
  const fs::path csv = file("a.csv", text + "gemm,bf16,M=16;N=4096;K=4096,soon,burst\n");
  EXPECT_EQ(run("compare --gpu h200_sxm --kernels ideal " + csv.string()), 3);
  EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1) << err_;
  EXPECT_THAT(err_, HasSubstr("51 of 54 rows"));
  EXPECT_THAT(out_, HasSubstr("\n  50 rows: "));
  EXPECT_THAT(out_, HasSubstr("a.csv:5)\n"));
  EXPECT_THAT(out_, HasSubstr("\n  1 row: measured_us"));
  EXPECT_THAT(out_, HasSubstr("a.csv:55)\n"));
}

TEST_F(ValidateCommand, NothingButUnknownOperatorsIsNotModelled) {
  const fs::path csv = file("a.csv", "op,dtype,shape,measured_us\nwarp_drive,bf16,M=16,9\n");
  EXPECT_EQ(run("compare --gpu h200_sxm --kernels ideal " + csv.string()), 3);
  EXPECT_THAT(out_, HasSubstr("0 rows compared, 1 could not be read"));
}

TEST_F(ValidateCommand, FitsAndWritesACalibrationThatCanBeUsed) {
  const fs::path csv = file("gemm.train.csv", kGood);
  const std::string fitted = (folder_ / "fitted.json").string();
  const std::string common = " --gpu h200_sxm --kernels library ";
  EXPECT_EQ(run("fit" + common + "--family gemm --free fixed_s '" + csv.string() + "' --out '" + fitted + "'"), 0)
      << err_;
  EXPECT_THAT(out_, HasSubstr("trained on 3 rows"));
  EXPECT_THAT(text_of_file(fitted), HasSubstr("gemm train, burst, n=3"));
  EXPECT_EQ(run("compare" + common + "--calibration '" + fitted + "' '" + csv.string() + "'"), 0) << err_;
}

TEST_F(ValidateCommand, CalibratesFromRecordedProbes) {
  const std::string probes = "'" + data_folder() + "/measurements/h200/probe/calibrate.json'";
  const std::string made = (folder_ / "made.json").string();
  EXPECT_EQ(run("calibrate --replay " + probes + " --out '" + made + "'"), 0) << err_;
  EXPECT_EQ(out_, "");
  EXPECT_THAT(err_, HasSubstr("dram_read_fraction"));
  const fs::path csv = file("a.csv", kGood);
  EXPECT_EQ(run("compare --gpu h200_sxm --calibration '" + made + "' " + csv.string()), 0) << err_;
  const std::string written = text_of_file(made);
  EXPECT_EQ(run("calibrate --replay " + probes), 0) << err_;
  EXPECT_EQ(out_, written);  // without a name nothing is written over
  // A card whose kernels nobody measured keeps its family's, and says so.
  EXPECT_EQ(run("calibrate --gpu gh200 --replay " + probes + " --out '" + made + "'"), 0) << err_;
  EXPECT_THAT(text_of_file(made), HasSubstr("\"families_of\": \"h100_sxm\""));
  EXPECT_EQ(run("calibrate --replay " + probes + " --gpu h20000"), 2);
  EXPECT_EQ(run("calibrate --out /nowhere/made.json --replay " + probes), 2);
  EXPECT_EQ(run("calibrate --replay " + csv.string()), 2);
  EXPECT_EQ(run("replay --probes x.json " + probes), 2);
  EXPECT_EQ(run("accuracy --calibration '" + made + "'"), 2);  // of several cards, each with its own
}

TEST_F(ValidateCommand, FailOverAnswersNo) {
  const fs::path csv = file("a.csv", kGood);
  EXPECT_EQ(run("compare --gpu h200_sxm --kernels ideal --fail-over 0.01 " + csv.string()), 1);
  EXPECT_THAT(err_, HasSubstr("asked for"));
  EXPECT_EQ(run("compare --gpu h200_sxm --kernels ideal --fail-over 900 " + csv.string()), 0);
}

TEST_F(ValidateCommand, TheRowsOwnGpuIsUsedAndOtherCardsAreLeftOut) {
  const fs::path csv = file("a.csv",
                            "op,dtype,shape,measured_us,gpu\n"
                            "gemm,bf16,M=4096;N=4096;K=4096,210,h200_sxm\n"
                            "gemm,bf16,M=4096;N=4096;K=4096,650,a100_sxm\n");
  EXPECT_EQ(run("compare --kernels ideal --format csv " + csv.string()), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("\nh200_sxm,gemm"));
  EXPECT_THAT(out_, HasSubstr("\na100_sxm,gemm"));
  EXPECT_EQ(run("compare --gpu h200_sxm --kernels ideal --format csv " + csv.string()), 0) << err_;
  EXPECT_THAT(out_, Not(HasSubstr("a100_sxm")));
}

}  // namespace
}  // namespace plumbline::command_test

// Where text of the built program goes, and in which shape: messages, lost reports, links and devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "arch/files.hpp"
#include "tests/support/hand_made_recording.hpp"
#include "tests/support/short_lists.hpp"
#include "tests/support/validate_command.hpp"

namespace plumbline::command_output_test {
namespace {

using ::testing::HasSubstr;
using namespace testing_support;

/// Whatever a name holds, a message is one line of printable text, and so is what a table says of it.
TEST_F(ValidateCommand, MessagesAreOneShortPrintableLineWhateverTheyQuote) {
  const std::string bad = "$'a\\nb\\e[31m\\xff'", longer = "$(printf 'x%.0s' $(seq 3000))";
  const std::string csv = file("a.csv", kGood).string();
  for (const std::string& name : {bad, longer}) {
    for (const std::string& arguments :
         {name, "compare " + csv + " --gpu " + name, "compare " + name, "replay " + name, "compare x --" + name,
          "compare x --where " + name, "compare x --ops " + name, "compare x --set " + name + "=3",
          "compare x --format " + name, "compare x --stack ./" + name, "compare x --fail-over " + name,
          "run --quick --out /nowhere/" + name, "fit " + csv + " --gpu h200 --family " + name, "power " + name,
          "step " + name + " --phase decode", "calibrate --replay " + name, "sides " + name}) {
      std::string quoted;
      for (const char c : "\"$0\" " + arguments) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
      EXPECT_EQ(run_shell("bash -c '" + quoted + "' '" + program_.string() + "'"), 2) << arguments << "\n" << err_;
      EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1) << arguments << "\n" << err_;
      EXPECT_LE(err_.size(), 500U);
      EXPECT_EQ(err_.find('\x1b'), std::string::npos) << arguments;
      EXPECT_EQ(err_.find('\xff'), std::string::npos) << arguments;
    }
  }
}

TEST_F(ValidateCommand, TablesOfHostileRecordingsArePrintable) {
  Recording run = hand_made_recording();
  run.session.card = "H200 \x1b[31m\x7f";
  const std::string recording = file("r.json", recording_json(run)).string();
  for (const char* format : {"table", "csv", "json", "html"}) {
    this->run("replay '" + recording + "' --ops gemm --format " + format);
    EXPECT_EQ(out_.find('\x1b'), std::string::npos) << format;
    EXPECT_EQ(out_.find('\x7f'), std::string::npos) << format;
  }
}

/// A report that stdout does not take is no success, whichever command wrote it.
TEST_F(ValidateCommand, AReportThatIsLostIsNoSuccess) {
  const std::string data = data_folder(), recordings = data + "/measurements/h200/";
  const std::string csv = file("a.csv", kGood).string();
  const std::string sets = file("sets.json", test::kShortAccuracyList).string();
  const std::string sources = file("sources.json", test::kShortCoverageList).string();
  for (const std::string& arguments :
       {"accuracy " + sets, "accuracy --format csv " + sets, "coverage " + sources, std::string("--help"),
        std::string("--version"), "replay " + recordings + "repeat.json",
        "replay " + recordings + "repeat.json --format json", "replay " + recordings + "repeat.json --format html",
        "replay " + recordings + "repeat.json --kernels-table", "replay " + recordings + "steps.json",
        "replay " + recordings + "repeat.json --repeat " + recordings + "repeat.json",
        "power " + recordings + "steady.heldout.json", "compare --gpu h200 " + csv,
        "compare --gpu h200 --format csv " + csv, "sides " + csv,
        "calibrate --replay " + recordings + "probe/calibrate.json"}) {
    for (const char* closed : {" >/dev/full", " >&-"}) {
      EXPECT_EQ(run_shell("'" + program_.string() + "' " + arguments + closed), 2) << arguments << closed;
      EXPECT_THAT(err_, HasSubstr("stdout: write failed: ")) << arguments << closed;
    }
  }
}

TEST_F(ValidateCommand, AReportGoesThroughLinksAndIntoDevicesAndReplacesNeither) {
  const std::string csv = file("a.csv", kGood).string(), link = (folder_ / "link").string();
  const fs::path target = file("target", "before");
  fs::create_symlink(target, link);
  EXPECT_EQ(run("compare --gpu h200 --report '" + link + "' " + csv), 0) << err_;
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_THAT(text_of_file(target), HasSubstr("3 rows compared"));
  EXPECT_EQ(run_shell("mkfifo '" + link + ".fifo'; timeout 60 cat '" + link + ".fifo' & '" + program_.string() +
                      "' compare --gpu h200 --report '" + link + ".fifo' " + csv + "; wait"),
            0);
  EXPECT_TRUE(fs::is_fifo(link + ".fifo"));
  EXPECT_THAT(out_, HasSubstr("3 rows compared"));
}

TEST_F(ValidateCommand, ADataFolderThatIsNotThereIsSaid) {
  for (const char* command : {"accuracy", "coverage", "run --quick", "sides x.csv"}) {
    EXPECT_EQ(run_shell("PLUMBLINE_DATA=/nowhere '" + program_.string() + "' " + command), 2) << command;
    EXPECT_THAT(err_, HasSubstr("PLUMBLINE_DATA")) << command;
    EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1) << err_;
  }
}

/// What a closed stdout leaves free must not become a file that the report is written into.
TEST_F(ValidateCommand, AClosedStdoutIsNoFileThatIsWritten) {
  const std::string rows = (folder_ / "rows.csv").string(), csv = file("a.csv", kGood).string();
  EXPECT_EQ(run_shell("'" + program_.string() + "' compare --gpu h200 --rows '" + rows + "' " + csv + " >&-"), 2);
  EXPECT_THAT(text_of_file(rows), Not(HasSubstr("rows compared")));
}

}  // namespace
}  // namespace plumbline::command_output_test

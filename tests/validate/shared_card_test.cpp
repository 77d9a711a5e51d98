// Probes of a card that other processes used at the same time: said, and marked in what calibrate writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arch/files.hpp"
#include "tests/support/validate_command.hpp"
#include "validate/record/probe_run.hpp"

namespace plumbline::shared_card_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using SharedCard = testing_support::ValidateCommand;

TEST_F(SharedCard, IsSaidAndMarkedByCalibrate) {
  const std::string recorded = data_folder() + "/measurements/h200/probe/machine.json";
  ProbeRun probes = parse_probe_run(read_text_file(recorded), recorded);
  EXPECT_THAT(probe_run_json(probes), Not(HasSubstr("other_processes")));
  probes.session.other_processes = 2;
  EXPECT_EQ(parse_probe_run(probe_run_json(probes), "again").session.other_processes, 2);
  const auto replay = [&] {
    return run("calibrate --gpu h200 --replay '" + file("probes.json", probe_run_json(probes)).string() + "'");
  };
  EXPECT_EQ(replay(), 0) << err_;
  EXPECT_THAT(err_, HasSubstr("2 other processes on the card"));
  EXPECT_THAT(out_, HasSubstr("\"other_processes\": \"2\""));
  probes.session.other_processes = 0;
  EXPECT_EQ(replay(), 0) << err_;
  EXPECT_THAT(err_, Not(HasSubstr("other process")));
}

}  // namespace
}  // namespace plumbline::shared_card_test

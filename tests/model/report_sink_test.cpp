#include "model/report/sink.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arch/error.hpp"
#include "tests/support/run_program.hpp"

namespace plumbline {
namespace {

using test::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(OutputSink, AppearsWholeWhenCommitted) {
  const TemporaryFolder folder;
  OutputSink sink(folder / "out.csv");
  sink.write("a,");
  sink.write("b\n");
  EXPECT_FALSE(std::filesystem::exists(folder / "out.csv"));
  sink.commit();
  EXPECT_EQ(test::whole_file(folder / "out.csv"), "a,b\n");
  EXPECT_THAT(folder.names(), ElementsAre("out.csv"));
}

TEST(OutputSink, LeavesNothingWhenAbandoned) {
  const TemporaryFolder folder;
  {
    OutputSink sink(folder / "out.csv");
    sink.write("half");
  }
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST(OutputSink, KeepsTheEarlierFileWhenAbandoned) {
  const TemporaryFolder folder;
  test::put_file(folder / "out.csv", "earlier");
  {
    OutputSink sink(folder / "out.csv");
    sink.write("half");
  }
  EXPECT_EQ(test::whole_file(folder / "out.csv"), "earlier");
  EXPECT_THAT(folder.names(), ElementsAre("out.csv"));
}

TEST(OutputSink, NamesTheFileThatCannotBeWritten) {
  try {
    OutputSink sink("/no/such/folder/out.csv");
    FAIL() << "opened";
  } catch (const BadInput& error) {
    EXPECT_THAT(error.what(), HasSubstr("/no/such/folder/out.csv: cannot be opened for writing"));
  }
}

}  // namespace
}  // namespace plumbline

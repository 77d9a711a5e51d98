#include "arch/sink.hpp"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <array>
#include <csignal>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "tests/support/run_program.hpp"

namespace plumbline::sink_test {
namespace {

using test::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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

// --- H1 of the attack: --out and --report replaced what is no regular file ------------------------------------------------

mode_t mode_of(const std::string& path) {
  struct stat there {};
  return ::lstat(path.c_str(), &there) == 0 ? there.st_mode : 0;
}

TEST(OutputSink, KeepsTheModeOfTheFileThere) {
  const TemporaryFolder folder;
  const std::string path = folder / "out";
  for (const mode_t mode : {0600U, 0640U, 0755U}) {
    test::put_file(path, "earlier");
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    write_text_file(path, "new");
    EXPECT_EQ(test::whole_file(path), "new");
    EXPECT_EQ(mode_of(path), S_IFREG | mode);
  }
  EXPECT_THAT(folder.names(), ElementsAre("out"));
}

TEST(OutputSink, ANewFileHasTheModeThatTheUmaskLeaves) {
  const TemporaryFolder folder;
  const mode_t before = ::umask(027);
  write_text_file(folder / "out", "new");
  ::umask(before);
  EXPECT_EQ(mode_of(folder / "out"), S_IFREG | 0640U);
}

TEST(OutputSink, WritesTheTargetOfASymbolicLinkAndKeepsTheLink) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "far");
  test::put_file(folder / "far/target", "earlier");
  ASSERT_EQ(::chmod((folder / "far/target").c_str(), 0600), 0);
  std::filesystem::create_symlink("far/target", folder / "inner");  // relative to its own folder
  std::filesystem::create_symlink(folder / "inner", folder / "link");
  write_text_file(folder / "link", "new");
  EXPECT_TRUE(S_ISLNK(mode_of(folder / "link")));
  EXPECT_TRUE(S_ISLNK(mode_of(folder / "inner")));
  EXPECT_EQ(test::whole_file(folder / "far/target"), "new");
  EXPECT_EQ(mode_of(folder / "far/target"), S_IFREG | 0600U);

  std::filesystem::create_symlink("far/made", folder / "dangling");
  write_text_file(folder / "dangling", "made");
  EXPECT_TRUE(S_ISLNK(mode_of(folder / "dangling")));
  EXPECT_EQ(test::whole_file(folder / "far/made"), "made");

  std::filesystem::create_symlink("circle", folder / "circle");
  EXPECT_THROW(write_text_file(folder / "circle", "x"), BadInput);
  EXPECT_TRUE(S_ISLNK(mode_of(folder / "circle")));
}

TEST(OutputSink, WritesIntoADeviceAndLeavesItADevice) {
  const TemporaryFolder folder;
  const std::string null = folder / "null", full = folder / "full";
  const auto device = [](const std::string& path, unsigned number) {
    return ::mknod(path.c_str(), S_IFCHR | 0666U, ::makedev(1, number)) == 0;
  };
  if (!device(null, 3) || !device(full, 7)) GTEST_SKIP() << "needs the right to make device nodes";
  try {
    write_text_file(null, "gone");
  } catch (const BadInput& refused) {
    GTEST_SKIP() << "devices cannot be opened in " << folder / ""
                 << ": " << refused.what();
  }
  EXPECT_TRUE(S_ISCHR(mode_of(null)));
  try {
    write_text_file(full, "no space");
    FAIL() << "written";
  } catch (const BadInput& error) {
    EXPECT_THAT(error.what(), HasSubstr("write failed: No space left on device"));
  }
  EXPECT_TRUE(S_ISCHR(mode_of(full)));
  EXPECT_EQ(folder.names().size(), 2U);
}

TEST(OutputSink, WritesIntoTheNullDeviceOfTheMachine) {
  if (::geteuid() == 0) GTEST_SKIP() << "a failure would cost this machine its /dev/null";
  write_text_file("/dev/null", "gone");
  EXPECT_TRUE(S_ISCHR(mode_of("/dev/null")));
}

TEST(OutputSink, WritesIntoAFifoOnceSomebodyReads) {
  const TemporaryFolder folder;
  const std::string fifo = folder / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { read = test::whole_file(fifo); });
  write_text_file(fifo, "through the pipe");
  reader.join();
  EXPECT_EQ(read, "through the pipe");
  EXPECT_TRUE(S_ISFIFO(mode_of(fifo)));
  EXPECT_THAT(folder.names(), ElementsAre("fifo"));
}

TEST(OutputSink, RefusesAFileThatMayNotBeWritten) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everything";
  const TemporaryFolder folder;
  test::put_file(folder / "out", "kept");
  ASSERT_EQ(::chmod((folder / "out").c_str(), 0400), 0);
  EXPECT_THROW(write_text_file(folder / "out", "new"), BadInput);
  EXPECT_EQ(test::whole_file(folder / "out"), "kept");
}

/// What the shell's `> file` and `>> file` do to stdout, around `--out /dev/stdout`.
TEST(OutputSink, ItsOwnStdoutIsWrittenThroughAtItsPlace) {
  const TemporaryFolder folder;
  const std::string path = folder / "log";
  test::put_file(path, "earlier\n");
  const int saved = ::dup(STDOUT_FILENO), log = ::open(path.c_str(), O_WRONLY | O_APPEND);
  ::dup2(log, STDOUT_FILENO);
  for (const std::string& name : {std::string("/dev/stdout"), path}) {
    OutputSink sink(name);
    sink.write("new\n");
    sink.commit();
  }
  ::dup2(saved, STDOUT_FILENO);
  ::close(saved);
  ::close(log);
  EXPECT_EQ(test::whole_file(path), "earlier\nnew\nnew\n");
  EXPECT_THAT(folder.names(), ElementsAre("log"));
}

// --- M2: a signal left OUT.partial-PID -----------------------------------------------------------------------------------

TEST(UnfinishedFiles, ASignalRemovesThemAndEndsWithExitCode130) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    const TemporaryFolder folder;
    test::put_file(folder / "a", "earlier");
    const auto interrupted = [&] {
      remove_unfinished_files_on_signals();
      OutputSink a(folder / "a"), b(folder / "b"), done(folder / "done");
      a.write("half");
      b.write("half");
      done.commit();
      std::raise(number);
    };
    EXPECT_EXIT(interrupted(), testing::ExitedWithCode(130), "");
    EXPECT_THAT(folder.names(), testing::UnorderedElementsAre("a", "done"));
    EXPECT_EQ(test::whole_file(folder / "a"), "earlier");
  }
}

TEST(UnfinishedFiles, ASignalThatTheCallerIgnoresStaysIgnored) {
  const auto under_nohup = [] {
    std::signal(SIGHUP, SIG_IGN);
    remove_unfinished_files_on_signals();
    std::raise(SIGHUP);
    std::_Exit(0);
  };
  EXPECT_EXIT(under_nohup(), testing::ExitedWithCode(0), "");
}

TEST(UnfinishedFiles, MoreThanTheHandlerKnowsAreStillWritten) {
  const TemporaryFolder folder;
  {
    std::array<std::optional<OutputSink>, 40> sinks;
    for (std::size_t i = 0; i < sinks.size(); ++i) sinks[i].emplace(folder / std::to_string(i));
    for (auto& sink : sinks) sink->commit();
  }
  EXPECT_EQ(folder.names().size(), 40U);
}

}  // namespace
}  // namespace plumbline::sink_test

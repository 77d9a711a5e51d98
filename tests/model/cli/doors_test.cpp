// The front door of predict-model: what --out may replace, what a signal leaves,
// what a name may hold.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arch/files.hpp"
#include "arch/printable.hpp"
#include "tests/support/places.hpp"
#include "tests/support/run_program.hpp"

namespace plumbline::doors_test {
namespace {

using test::ProgramResult;
using test::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using Words = std::vector<std::string>;

ProgramResult run(const Words& args, const std::string& input = "") {
  return test::run_program("predict-model", args, input);
}

/// One line of at most 500 bytes that a terminal shows as it is.
void expect_clean_refusal(const ProgramResult& result, int code) {
  EXPECT_EQ(result.code, code) << result.err;
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_LE(result.err.size(), kLongestMessage);
  ASSERT_FALSE(result.err.empty());
  const std::string line = result.err.substr(0, result.err.size() - 1);
  EXPECT_EQ(result.err.back(), '\n');
  EXPECT_EQ(printable(line), line);
}

/// A program that runs until it is told to stop.
class Running {
 public:
  explicit Running(const Words& args, int ignored = 0) {
    pid_ = ::fork();
    if (pid_ != 0) return;
    if (ignored != 0) std::signal(ignored, SIG_IGN);
    const int nowhere = ::open("/dev/null", O_RDWR);
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nowhere, stream);
    std::string path = testing_support::programs_folder() + "/predict-model";
    std::vector<char*> argv{path.data()};
    Words words(args);
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::execv(path.c_str(), argv.data());
    ::_exit(127);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() {
    if (pid_ > 0) end(SIGKILL);
  }
  int end(int signal) {
    ::kill(pid_, signal);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_;
};

template <class Condition>
bool becomes_true(Condition condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

// --- H1 ------------------------------------------------------------------------------------------------------------------

TEST(Doors, OutKeepsModesLinksAndPipes) {
  const TemporaryFolder folder;
  test::put_file(folder / "file", "earlier");
  ASSERT_EQ(::chmod((folder / "file").c_str(), 0600), 0);
  std::filesystem::create_symlink("file", folder / "link");
  EXPECT_EQ(run({"gpu", "h200", "--out", folder / "link"}).code, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_THAT(test::whole_file(folder / "file"), HasSubstr("H200"));
  struct stat there {};
  ASSERT_EQ(::stat((folder / "file").c_str(), &there), 0);
  EXPECT_EQ(there.st_mode & 07777U, 0600U);

  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { read = test::whole_file(folder / "fifo"); });
  EXPECT_EQ(run({"ops", "--gpu", "h200", "--out", folder / "fifo"}, "op,shape\ncopy,rows=8;cols=64\n").code, 0);
  reader.join();
  EXPECT_THAT(read, HasSubstr("copy,rows=8;cols=64,"));
  EXPECT_TRUE(std::filesystem::is_fifo(folder / "fifo"));
  EXPECT_THAT(folder.names(), UnorderedElementsAre("file", "link", "fifo"));
}

// --- H3, L1, L2 ----------------------------------------------------------------------------------------------------------

TEST(Doors, AFileNameThatIsNoUtf8IsShownInEveryFormat) {
  const TemporaryFolder folder;
  for (const std::string& name : {std::string("\xff"), std::string("\x1b[31m<b>")}) {
    const std::string file = folder / (name + ".json");
    std::filesystem::copy_file(data_folder() + "/models/gpt2.json", file);
    for (const char* format : {"json", "trace", "html", "table", "csv"}) {
      const auto result =
          run({"llm", "--model", file, "--gpu", "h200", "--phase", "decode", "--context", "64", "--format", format});
      EXPECT_EQ(result.code, 0) << format << result.err;
      EXPECT_NO_THROW((void)nlohmann::json(result.out).dump()) << format << ": not UTF-8";
      EXPECT_EQ(result.out.find('\x1b'), std::string::npos) << format;
      if (std::string(format) == "json") {
        EXPECT_EQ(nlohmann::json::parse(result.out).at("model"), printable(name));
      }
    }
  }
}

TEST(Doors, NothingThatAMessageQuotesReachesTheTerminalAsItIs) {
  const std::string bad = "\x1b[31mred\xff\n\x9b";
  const std::string endless(100000, 'x');
  for (const std::string& word : {bad, endless}) {
    for (const Words& args :
         {Words{"gpu", word}, Words{word}, Words{"gpu", "h200", word}, Words{"op", word, "--gpu", "h200"},
          Words{"gpu", "h200", "--set", word}, Words{"gpu", "h200", "--set", word + "=1"},
          Words{"gpu", "h200", "--format", word}, Words{"list", word}, Words{"gpu", "h200", "--" + word},
          Words{"ops", "--gpu", "h200", "--in", "/none/" + word}, Words{"gpu", "h200", "--out", "/none/" + word}}) {
      expect_clean_refusal(run(args), 2);
    }
  }
  const TemporaryFolder folder;
  test::put_file(folder / "long.json", "{\"a\":" + std::string(3000000, '9') + "}");
  expect_clean_refusal(run({"gpu", folder / "long.json"}), 2);
}

TEST(Doors, HelpThatCannotBeWrittenIsNoSuccess) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full";
  const std::string program = testing_support::programs_folder() + "/predict-model";
  for (const char* args : {"--help", "llm --help", "list gpus", "--version"}) {
    const int status = std::system(("'" + program + "' " + args + " >/dev/full 2>/dev/null").c_str());
    EXPECT_EQ(WEXITSTATUS(status), 2) << args;
  }
}

// Found by fuzz/programs.py under UBSan: parameters were made 64-bit integers, whatever they were.
TEST(Doors, AModelOfMoreParametersThanIntegersHoldHasThemInItsJson) {
  const TemporaryFolder folder;
  test::put_file(folder / "wide.json", R"({"model_type":"llama","hidden_size":2147483648,"num_hidden_layers":10000,
      "num_attention_heads":8,"intermediate_size":2147483648,"vocab_size":100,"torch_dtype":"bfloat16"})");
  const auto result =
      run({"llm", "--model", folder / "wide.json", "--gpu", "h200", "--phase", "decode", "--format", "json"});
  ASSERT_EQ(result.code, 1) << result.err;
  // 4 h^2 of attention and 3 h^2 of FFN a layer
  EXPECT_NEAR(nlohmann::json::parse(result.out).at("params").get<double>(), 7.0 * 4.611686e18 * 10000, 1e18);
}

// --- M2 ------------------------------------------------------------------------------------------------------------------

TEST(Doors, ASignalLeavesNothingHalfWritten) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const TemporaryFolder folder;
    test::put_file(folder / "out", "earlier");
    ASSERT_EQ(::mkfifo((folder / "in").c_str(), 0600), 0);
    Running ops({"ops", "--gpu", "h200", "--in", folder / "in", "--out", folder / "out"});
    const int writer = ::open((folder / "in").c_str(), O_WRONLY);  // ops waits for more
    ASSERT_TRUE(becomes_true([&] { return folder.names().size() == 3; })) << "no partial file";
    EXPECT_EQ(ops.end(signal), 130);
    ::close(writer);
    EXPECT_THAT(folder.names(), UnorderedElementsAre("in", "out"));
    EXPECT_EQ(test::whole_file(folder / "out"), "earlier");
  }
}

/// What is refused before a point is priced leaves nothing to go on with beside the file, and the file as it was.
TEST(Doors, ARefusedSweepLeavesNothingBesideItsFile) {
  const Words sweep{"sweep", "op", "gemm", "M=1:8", "N=128", "K=128", "--gpu", "h200"};
  for (const Words& wrong : {Words{"--top", "3"}, Words{"--top", "3", "--resume"},
                             Words{"--top", "3", "--format", "html"}, Words{"--objective", "max nothing"}}) {
    const TemporaryFolder folder;
    test::put_file(folder / "out", "earlier");
    Words words = sweep;
    words.insert(words.end(), wrong.begin(), wrong.end());
    words.insert(words.end(), {"--out", folder / "out"});
    expect_clean_refusal(run(words), 2);
    EXPECT_THAT(folder.names(), ElementsAre("out"));
    EXPECT_EQ(test::whole_file(folder / "out"), "earlier");
  }
}

TEST(Doors, WaitingForAFifoEndsCleanlyAtASignal) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const Words& args : {Words{"ops", "--gpu", "h200", "--in", folder / "pipe"}, Words{"gpu", folder / "pipe"},
                            Words{"gpu", "h200", "--out", folder / "pipe"}}) {
    Running waiting(args);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_EQ(waiting.end(SIGINT), 130) << args[0];
  }
  EXPECT_THAT(folder.names(), ElementsAre("pipe"));
}

TEST(Doors, UnderNohupAHangUpIsIgnored) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "in").c_str(), 0600), 0);
  Running ops({"ops", "--gpu", "h200", "--in", folder / "in", "--out", folder / "out"}, SIGHUP);
  const int writer = ::open((folder / "in").c_str(), O_WRONLY);
  ASSERT_TRUE(becomes_true([&] { return folder.names().size() == 2; }));
  const std::string text = "op,shape\ncopy,rows=8;cols=64\n";
  EXPECT_EQ(::write(writer, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ::close(writer);
  EXPECT_EQ(ops.end(SIGHUP), 0);
  EXPECT_THAT(test::whole_file(folder / "out"), HasSubstr("copy,rows=8;cols=64,"));
}

// --- M9 ------------------------------------------------------------------------------------------------------------------

TEST(Doors, ADataFolderThatIsNotThereIsAnErrorOfEveryCommand) {
  const char* before = std::getenv("PLUMBLINE_DATA");
  const std::string old = before == nullptr ? "" : before;
  ::setenv("PLUMBLINE_DATA", "/nonexistent", 1);
  for (const Words& args :
       {Words{"list", "gpus"}, Words{"list", "models"}, Words{"list", "clusters"}, Words{"list", "ops"},
        Words{"gpu", "h200"}, Words{"op", "copy", "rows=8", "cols=8", "--gpu", "h200"}}) {
    const ProgramResult result = run(args);
    expect_clean_refusal(result, 2);
    EXPECT_THAT(result.err, HasSubstr("PLUMBLINE_DATA"));
  }
  EXPECT_EQ(run({"--help"}).code, 0);
  if (old.empty()) ::unsetenv("PLUMBLINE_DATA");
  else ::setenv("PLUMBLINE_DATA", old.c_str(), 1);
}

}  // namespace
}  // namespace plumbline::doors_test

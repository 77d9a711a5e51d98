// The main of every floor's tests. Properties draw from a new seed in each run; a red run ends with the line that
// repeats it: the same seed, only the tests that failed. RC_PARAMS from outside (RapidCheck's own variable) keeps what it
// says.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

namespace {

class SaysHowToRepeat : public testing::EmptyTestEventListener {
 public:
  explicit SaysHowToRepeat(std::string program) : program_(std::move(program)) {}

  void OnTestEnd(const testing::TestInfo& test) override {
    if (!test.result()->Failed()) return;
    failed_ += (failed_.empty() ? "" : ":") + std::string(test.test_suite_name()) + "." + test.name();
  }

  void OnTestProgramEnd(const testing::UnitTest&) override {
    if (failed_.empty()) return;
    std::printf("to repeat: RC_PARAMS='%s' %s --gtest_filter='%s'\n", std::getenv("RC_PARAMS"), program_.c_str(),
                failed_.c_str());
  }

 private:
  std::string program_, failed_;
};

std::string new_seed() {
  std::random_device source;
  return "seed=" + std::to_string((static_cast<unsigned long long>(source()) << 31U) ^ source());
}

}  // namespace

int main(int argc, char** argv) {
  // What a shell runs in the background ignores an interrupt, and so do the programs that a test starts and interrupts.
  std::signal(SIGINT, SIG_DFL);
  testing::InitGoogleTest(&argc, argv);
  const char* given = std::getenv("RC_PARAMS");
  std::string parameters = given == nullptr ? "" : given;
  if (parameters.find("seed=") == parameters.npos) {
    parameters += (parameters.empty() ? "" : " ") + new_seed();
    ::setenv("RC_PARAMS", parameters.c_str(), 1);
  }
  testing::UnitTest::GetInstance()->listeners().Append(new SaysHowToRepeat(argv[0]));
  return RUN_ALL_TESTS();
}

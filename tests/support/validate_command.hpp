// Runs the built `validate` through a shell, in a folder of its own.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/places.hpp"

namespace plumbline::testing_support {

namespace fs = std::filesystem;

inline std::string text_of_file(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

class ValidateCommand : public testing::Test {
 protected:
  void SetUp() override {
    program_ = fs::path(testing_support::programs_folder()) / "validate";
    ASSERT_TRUE(fs::exists(program_)) << program_ << " is not built";
    std::string pattern = (fs::temp_directory_path() / "plumbline-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path file(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }

  int run(const std::string& arguments) { return run_shell("'" + program_.string() + "' " + arguments); }

  int run_shell(const std::string& line) {
    const std::string command =
        "{ " + line + "; } >'" + (folder_ / "out").string() + "' 2>'" + (folder_ / "err").string() + "'";
    const int status = std::system(command.c_str());
    out_ = text_of_file(folder_ / "out");
    err_ = text_of_file(folder_ / "err");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  int run_both(const std::string& first, const std::string& second, const std::string& more) {
    return run("replay '" + first + "' --repeat '" + second + "'" + more);
  }

  fs::path program_, folder_;
  std::string out_, err_;
};

/// Three rows that the model can price.
inline constexpr const char* kGood =
    "op,dtype,shape,measured_us,clock\n"
    "gemm,bf16,M=4096;N=4096;K=4096,210,burst\n"
    "gemm,bf16,M=8192;N=8192;K=8192,1650,burst\n"
    "gemm,bf16,M=16;N=4096;K=4096,14,burst\n";

}  // namespace plumbline::testing_support

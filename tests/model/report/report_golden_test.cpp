// Whole outputs of predict-model against tests/golden/*.txt. After a change that is meant:
//   UPDATE_GOLDEN=1 build/bin/model_tests --gtest_filter='Golden*'    and read the diff.
// Those with `--kernels ideal` have figures that follow from the descriptor alone: a new calibration leaves them be.
// Those named `default_` are of the path that a user meets, those named `own_` of our kernels; they move with the model and its calibration, and the
// commit that moves them says why.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "tests/support/places.hpp"
#include "tests/support/run_program.hpp"

namespace plumbline::report_golden_test {
namespace {

struct Case {
  const char* file;
  std::vector<std::string> args;
  std::string input;
  int code = 0;
};

const std::vector<std::string>& llm() {
  static const std::vector<std::string> words{"llm",      "--model",   "llama-3.1-8b", "--gpu",
                                              "h200_sxm", "--kernels", "ideal"};
  return words;
}

std::vector<std::string> llm_with(std::vector<std::string> more) {
  more.insert(more.begin(), llm().begin(), llm().end());
  return more;
}

std::vector<std::string> own_llm(std::vector<std::string> more) {
  more.insert(more.begin(), {"llm", "--model", "llama-3.1-8b", "--gpu", "h200_sxm", "--stack", "own"});
  return more;
}

std::vector<std::string> own_op(std::vector<std::string> more) {
  more.insert(more.begin(), "op");
  more.insert(more.end(), {"--gpu", "h200_sxm", "--stack", "own"});
  return more;
}

std::vector<Case> cases() {
  return {
      {"llm_decode_table.txt", llm_with({"--phase", "decode", "--batch", "16", "--context", "4096"}), ""},
      {"llm_decode_json.txt", llm_with({"--phase", "decode", "--format", "json"}), ""},
      {"llm_decode_csv.txt", llm_with({"--phase", "decode", "--format", "csv"}), ""},
      {"llm_prefill_fp8_table.txt", llm_with({"--phase", "prefill", "--prompt", "2048", "--dtype", "fp8"}), ""},
      {"op_gemm_table.txt",
       {"op", "gemm", "M=4096", "N=4096", "K=4096", "--gpu", "h200_sxm", "--kernels", "ideal"},
       ""},
      {"op_gemm_json.txt",
       {"op", "gemm", "M=4096", "N=4096", "K=4096", "--gpu", "h200_sxm", "--kernels", "ideal", "--format", "json"},
       ""},
      {"ops_csv.txt",
       {"ops", "--gpu", "h200_sxm", "--kernels", "ideal"},
       "id,op,dtype,shape\n1,gemm,bf16,M=64;N=4096;K=4096\n2,gem,bf16,M=1\n\"3, "
       "quoted\",rmsnorm,bf16,rows=64;cols=4096\n"
       "4,attention_decode,bf16,B=32;Hq=32;Hkv=8;D=128;S=4096\n",
       3},
      {"default_llm_decode_table.txt",
       {"llm", "--model", "llama-3.1-8b", "--gpu", "h200_sxm", "--phase", "decode", "--batch", "16", "--context",
        "4096"},
       ""},
      {"default_op_gemm_json.txt",
       {"op", "gemm", "M=512", "N=4096", "K=4096", "--dtype", "int8", "--gpu", "h200_sxm", "--format", "json"},
       ""},
      {"own_llm_decode_table.txt", own_llm({"--phase", "decode", "--batch", "16", "--context", "4096"}), ""},
      {"own_llm_decode_json.txt", own_llm({"--phase", "decode", "--batch", "16", "--format", "json"}), ""},
      {"own_llm_prefill_table.txt", own_llm({"--phase", "prefill", "--prompt", "2048"}), ""},
      {"own_op_gemm_table.txt", own_op({"gemm", "M=4096", "N=4096", "K=4096"}), ""},
      {"own_op_gemm_json.txt", own_op({"gemm", "M=4096", "N=4096", "K=4096", "--format", "json"}), ""},
      {"own_op_decode_table.txt", own_op({"attention_decode", "B=8", "Hq=32", "Hkv=8", "D=128", "S=4096"}), ""},
      {"own_op_decode_json.txt",
       own_op({"attention_decode", "B=8", "Hq=32", "Hkv=8", "D=128", "S=4096", "--format", "json"}), ""},
      {"own_op_rmsnorm_table.txt", own_op({"rmsnorm", "rows=4096", "cols=8192"}), ""},
      {"gpu_h200_table.txt", {"gpu", "h200_sxm"}, ""},
      {"help.txt", {"--help"}, ""},
      {"help_llm.txt", {"llm", "--help"}, ""},
  };
}

/// JSON has every digit of a double, of which compilers and optimization change the last: six say what is predicted.
std::string six_digits(const std::string& json) {
  std::string text;
  for (std::size_t at = 0; at < json.size();) {
    const std::size_t end = std::min(json.find_first_not_of("0123456789.e+-", at), json.size());
    if (end - at < 8 || json.find('.', at) >= end) {
      text.append(json, at, std::max(end, at + 1) - at);
    } else {
      std::array<char, 32> digits{};
      std::snprintf(digits.data(), digits.size(), "%.6g", std::stod(json.substr(at, end - at)));
      text += digits.data();
    }
    at = std::max(end, at + 1);
  }
  return text;
}

TEST(Golden, OutputsAreAsReviewed) {
  const char* update = std::getenv("UPDATE_GOLDEN");
  for (const Case& c : cases()) {
    const test::ProgramResult result = test::run_program("predict-model", c.args, c.input);
    EXPECT_EQ(result.code, c.code) << c.file << ": " << result.err;
    const std::string path = testing_support::tests_folder() + "/golden/" + c.file;
    const std::string file = c.file;
    const std::string out =
        file.starts_with("own_") && file.ends_with("_json.txt") ? six_digits(result.out) : result.out;
    if (update != nullptr && *update == '1') test::put_file(path, out);
    EXPECT_EQ(out, test::whole_file(path)) << c.file;
  }
}

}  // namespace
}  // namespace plumbline::report_golden_test

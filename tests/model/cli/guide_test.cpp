// docs/predict-model.md names all that the program takes and prints: flags, shape keys, parameters, JSON keys, columns.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "arch/dtype.hpp"
#include "arch/gpu/gpu.hpp"
#include "ops/table/table.hpp"
#include "tests/support/places.hpp"
#include "tests/support/run_program.hpp"

namespace plumbline::guide_test {
namespace {

using test::run_program;
using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;

std::string guide() { return test::whole_file(testing_support::tests_folder() + "/../docs/predict-model.md"); }

/// Words inside of backquotes, and in what commands of the page print.
const std::set<std::string>& named() {
  static const std::set<std::string> words = [] {
    std::set<std::string> found;
    const std::string text = guide();
    static const std::regex kSpan("`([^`\n]+)`"), kWord("[A-Za-z0-9_.-]+");
    for (std::sregex_iterator span(text.begin(), text.end(), kSpan), end; span != end; ++span) {
      const std::string inside = (*span)[1];
      for (std::sregex_iterator word(inside.begin(), inside.end(), kWord); word != end; ++word)
        found.insert(word->str());
    }
    return found;
  }();
  return words;
}

std::string printed(const Words& arguments, int code = 0) {
  const test::ProgramResult result = run_program("predict-model", arguments);
  EXPECT_EQ(result.code, code) << arguments.front() << ": " << result.err;
  return result.out;
}

TEST(Guide, NamesEveryFlag) {
  static const std::regex kFlag("--[a-z][a-z0-9-]*");
  int seen = 0;
  for (const char* command : {"", "llm", "op", "ops", "plan", "gpu", "list", "sweep", "sensitivity", "solve", "diff"}) {
    const Words arguments = *command == '\0' ? Words{"--help"} : Words{command, "--help"};
    const std::string help = printed(arguments);
    for (std::sregex_iterator flag(help.begin(), help.end(), kFlag), end; flag != end; ++flag, ++seen) {
      EXPECT_EQ(named().count(flag->str()), 1U) << command << " " << flag->str();
    }
  }
  EXPECT_GT(seen, 60);
}

/// Keys of one operator each.
TEST(Guide, NamesEveryShapeKey) {
  for (const Operator& each : operators()) {
    for (const Key& key : each.keys) {
      EXPECT_EQ(named().count(std::string(key.name)), 1U) << each.name << " " << key.name;
    }
  }
}

/// The page prints the list itself.
TEST(Guide, NamesEveryParameterAndOperator) {
  const std::string page = guide();
  for (const GpuParameter& each : gpu_parameters()) {
    EXPECT_NE(page.find("\n" + each.path + " "), std::string::npos) << each.path;
  }
  for (const Operator& each : operators()) {
    EXPECT_NE(page.find("\n" + std::string(each.name) + " "), std::string::npos) << each.name;
  }
}

/// Keys of data (types, paths of sources, names of coefficients) are not the program's.
void collect(const Json& value, std::set<std::string>& keys) {
  if (value.is_array()) {
    for (const Json& element : value) collect(element, keys);
  }
  if (!value.is_object()) return;
  for (const auto& [key, inside] : value.items()) {
    if (!parse_dtype(key)) keys.insert(key);
    if (key == "sources") continue;
    if (key == "machine") {
      for (const auto& coefficient : inside) collect(coefficient, keys);
    } else {
      collect(inside, keys);
    }
  }
}

TEST(Guide, NamesEveryKeyOfJson) {
  const std::vector<Words> commands = {
      {"llm", "--model", "llama-3.1-8b", "--gpu", "h200", "--phase", "decode", "--explain"},
      {"llm", "--model", "deepseek-v3", "--gpu", "h200", "--phase", "prefill", "--context", "64", "--power-cap", "500"},
      {"llm", "--model", "llama-3.1-8b", "--gpu", "h200", "--phase", "generate"},
      {"llm", "--model", "llama-3.1-8b", "--gpu", "h200", "--phase", "decode", "--stack", "ideal"},
      {"llm", "--model", "llama-3.1-8b", "--gpu", "h200", "--phase", "decode", "--gpus", "4"},
      {"plan", "--model", "llama-3.1-8b", "--gpu", "h200", "--gpus", "4"},
      {"op", "gemm", "M=16", "N=4096", "K=4096", "--gpu", "h200"},
      {"op", "attention_decode", "B=32", "Hq=32", "Hkv=8", "D=128", "S=4096", "--gpu", "mi300x"},
      {"sweep", "op", "gemm", "M=1,2", "N=64", "K=64", "--gpu", "h200"},
      {"sensitivity", "llm", "--model", "llama-3.1-8b", "--gpu", "h200", "--phase", "decode"},
      {"solve", "llm", "--model", "llama-3.1-8b", "--gpu", "h200", "--phase", "decode", "--vary", "batch", "--target",
       "latency_s<=1"},
      {"diff", "llm", "--model", "llama-3.1-8b", "--gpu", "h200", "--phase", "decode", "--against", "--gpu", "a100"},
      {"gpu", "h200"},
      {"gpu", "mi300x"},
      {"list", "gpus"},
      {"list", "models"},
      {"list", "ops"},
      {"list", "clusters"},
      {"list", "stacks"},
      {"list", "parameters"}};
  std::set<std::string> keys;
  for (Words command : commands) {
    command.insert(command.end(), {"--format", "json"});
    const test::ProgramResult result = run_program("predict-model", command);
    EXPECT_LE(result.code, 1) << command.front() << ": " << result.err;  // deepseek-v3 does not fit
    collect(Json::parse(result.out), keys);
  }
  EXPECT_GT(keys.size(), 120U);
  for (const std::string& key : keys) EXPECT_EQ(named().count(key), 1U) << key;
}

TEST(Guide, NamesEveryColumn) {
  const Words llm{"llm", "--model", "llama-3.1-8b", "--gpu", "h200", "--format", "csv", "--phase"};
  std::string headers;
  for (const char* phase : {"decode", "generate"}) {
    Words command = llm;
    command.emplace_back(phase);
    const std::string text = printed(command);
    headers += text.substr(0, text.find('\n')) + ",";
  }
  const std::string rows = run_program("predict-model", {"ops", "--gpu", "h200"}, "op,dtype,shape\n").out;
  headers += rows.substr(0, rows.find('\n'));
  std::istringstream in(headers);
  int seen = 0;
  for (std::string column; std::getline(in, column, ','); ++seen) EXPECT_EQ(named().count(column), 1U) << column;
  EXPECT_GT(seen, 40);
}

}  // namespace
}  // namespace plumbline::guide_test

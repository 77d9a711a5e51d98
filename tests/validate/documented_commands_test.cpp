// What README.md and docs/*.md show after `$` is what the commands print; commands that any document names exist and take
// their flags. After a change that is meant: UPDATE_GOLDEN=1 build/bin/validate_tests --gtest_filter='DocumentedCommands*'.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/document_page.hpp"
#include "tests/support/places.hpp"
#include "tests/support/run_program.hpp"
#include "validate/cli/command_line.hpp"

namespace plumbline::documented_commands_test {
namespace {

namespace fs = std::filesystem;
using test::Lines;

const std::string kRoot = testing_support::tests_folder() + "/..";

class DocumentedCommands : public ::testing::TestWithParam<std::string> {};

TEST_P(DocumentedCommands, PrintWhatThePageShows) {
#ifdef PLUMBLINE_SANITIZED
  // Whole tables of accuracy, that other tests ask the library for; commands of README, which other pages show too;
  // studies, which tests/model/study sweep.
  for (const char* left_out : {"README.md", "docs/accuracy.md", "docs/studies.md", "docs/validate.md"}) {
    if (GetParam() == left_out) GTEST_SKIP() << "half a minute to a minute under sanitizers";
  }
#endif
  test::DocumentPage page(kRoot + "/" + GetParam(), kRoot, testing_support::programs_folder());
  page.play();
}

Lines pages() {
  Lines names{"README.md"};
  for (const auto& entry : fs::directory_iterator(kRoot + "/docs")) {
    if (entry.path().extension() == ".md") names.push_back("docs/" + entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string stem(const ::testing::TestParamInfo<std::string>& page) {
  std::string name = fs::path(page.param).stem().string();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Of, DocumentedCommands, ::testing::ValuesIn(pages()), stem);

/// Spans in backquotes and indented lines that start with the program's name.
Lines commands_in(std::string text, const std::string& program) {
  Lines found;
  const std::regex line("(^|\n)(    |\\$ )(\\./dev )?" + program + " ([a-z][^\n]*)");
  for (std::sregex_iterator at(text.begin(), text.end(), line), end; at != end; ++at) found.push_back((*at)[4]);
  std::replace(text.begin(), text.end(), '\n', ' ');
  const std::regex span("`(\\./dev )?" + program + " ([^`]*)`");
  for (std::sregex_iterator at(text.begin(), text.end(), span), end; at != end; ++at) found.push_back((*at)[2]);
  return found;
}

Lines documents() {
  Lines files{kRoot + "/README.md"};
  for (const char* folder : {"/docs", "/data", "/bench", "/tools"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kRoot + folder)) {
      if (entry.path().extension() == ".md") files.push_back(entry.path().string());
    }
  }
  return files;
}

/// Flags that a command of the program takes; empty: there is no such command.
Lines flags_of(const std::string& program, const std::string& command) {
  Lines flags;
  if (program == "validate") {
    const auto mode = std::find_if(modes().begin(), modes().end(), [&](const Mode& m) { return m.name == command; });
    if (mode != modes().end()) flags.assign(mode->takes.begin(), mode->takes.end());
  } else {
    Lines pages{command};
    const bool study = command == "sweep" || command == "sensitivity" || command == "solve" || command == "diff";
    if (study) pages.insert(pages.end(), {"llm", "op"});  // take their flags too
    for (const std::string& page : pages) {
      const test::ProgramResult help = test::run_program(program, {page, "--help"});
      static const std::regex kFlag("--[a-z][a-z0-9-]*");
      for (std::sregex_iterator at(help.out.begin(), help.out.end(), kFlag), end; at != end; ++at) {
        flags.push_back(at->str());
      }
    }
  }
  return flags;
}

class NamedCommands : public ::testing::TestWithParam<std::string> {};

TEST_P(NamedCommands, ExistAndTakeTheFlagsThatAreNamed) {
  const std::string program = GetParam();
  std::map<std::string, Lines> known;
  int seen = 0;
  for (const std::string& file : documents()) {
    for (const std::string& command : commands_in(test::whole_file(file), program)) {
      std::istringstream words(command);
      std::string word;
      words >> word;
      if (word == "COMMAND" || word.rfind("--", 0) == 0) continue;
      if (known.count(word) == 0) known[word] = flags_of(program, word);
      const Lines& takes = known[word];
      ASSERT_FALSE(takes.empty()) << file << ": " << program << " " << command;
      ++seen;
      while (words >> word && word != "|" && word != "&&") {
        if (word.rfind("[--", 0) == 0) word = word.substr(1);
        if (word.rfind("--", 0) != 0) continue;
        word = word.substr(0, word.find_first_of("=],;|"));
        EXPECT_NE(std::find(takes.begin(), takes.end(), word), takes.end())
            << file << ": " << program << " " << command;
      }
    }
  }
  EXPECT_GT(seen, 20);
}

INSTANTIATE_TEST_SUITE_P(Of, NamedCommands, ::testing::Values("validate", "predict-model"), [](const auto& program) {
  return program.param == "validate" ? "validate" : "predict_model";
});

TEST(Readme, FitsOnTwoScreens) { EXPECT_LE(test::lines_of(test::whole_file(kRoot + "/README.md")).size(), 150U); }

}  // namespace
}  // namespace plumbline::documented_commands_test

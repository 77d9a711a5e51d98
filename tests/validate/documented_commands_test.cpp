// What docs/validate.md shows after `$` is what the commands print; commands that any document names exist and take their
// flags. After a change that is meant: UPDATE_GOLDEN=1 build/bin/validate_tests --gtest_filter='DocumentedCommands*'.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/run_program.hpp"
#include "validate/cli/command_line.hpp"

namespace plumbline {
namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;

const std::string kRoot = std::string(PLUMBLINE_TESTS) + "/..";
const std::string kPage = kRoot + "/docs/validate.md";
const char* const kLeftOut = "...";

Lines lines_of(const std::string& text) {
  std::istringstream in(text);
  Lines lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool updating() {
  const char* update = std::getenv("UPDATE_GOLDEN");
  return update != nullptr && *update == '1';
}

bool needs_card(const std::string& command) { return command.find("# needs a card") != command.npos; }
bool may_have_a_card() { return fs::exists("/dev/nvidiactl") || fs::exists("/dev/dxg"); }

/// A folder that has the data below it, as the root of the repository has.
class Shell {
 public:
  Shell() { fs::create_directory_symlink(fs::canonical(kRoot + "/data"), folder_ / "data"); }
  void put(const std::string& name, const std::string& text) const { test::put_file(folder_ / name, text); }
  int run(const std::string& command, std::string& printed) const {
    const std::string file = folder_ / "printed";
    const std::string line =
        "cd '" + (folder_ / "") + "' && PATH='" + PLUMBLINE_BIN + "':\"$PATH\" && { " + command + "\n} >printed 2>&1";
    const int status = std::system(line.c_str());
    printed = test::whole_file(file);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  test::TemporaryFolder folder_;
};

bool matches(const Lines& shown, const Lines& printed) {
  const auto gap = std::find(shown.begin(), shown.end(), kLeftOut);
  if (gap == shown.end()) return shown == printed;
  const auto before = static_cast<std::size_t>(gap - shown.begin()), after = shown.size() - before - 1;
  return printed.size() > before + after && std::equal(shown.begin(), gap, printed.begin()) &&
         std::equal(gap + 1, shown.end(), printed.end() - static_cast<std::ptrdiff_t>(after));
}

/// As many lines around the gap as there were; a long printout gets a gap.
Lines shortened(const Lines& shown, const Lines& printed) {
  const auto gap = std::find(shown.begin(), shown.end(), kLeftOut);
  std::size_t before = static_cast<std::size_t>(gap - shown.begin()), after = shown.size() - before;
  if (gap == shown.end()) {
    if (printed.size() <= 30) return printed;
    before = 6;
    after = 3;
  }
  after -= gap == shown.end() ? 0 : 1;
  if (printed.size() <= before + after) return printed;
  Lines out(printed.begin(), printed.begin() + static_cast<std::ptrdiff_t>(before));
  out.emplace_back(kLeftOut);
  out.insert(out.end(), printed.end() - static_cast<std::ptrdiff_t>(after), printed.end());
  return out;
}

/// Runs the page from top to bottom; gives it back with what the commands printed.
class Page {
 public:
  explicit Page(const Lines& page) : page_(page) {}
  Lines play() {
    while (at_ < page_.size()) {
      const std::string line = next();
      if (line == "```console") console();
      else if (line.rfind("```csv ", 0) == 0) shell_.put(line.substr(7), body());
    }
    return std::move(out_);
  }
  int commands() const { return commands_; }

 private:
  const std::string& next() { return out_.emplace_back(page_[at_++]); }
  bool fenced() const { return at_ < page_.size() && page_[at_] != "```"; }
  std::string body() {
    std::string text;
    while (fenced()) text += next() + "\n";
    return text;
  }
  void console() {
    while (fenced()) {
      const std::string command = next().substr(2);
      Lines shown;
      while (fenced() && page_[at_].rfind("$ ", 0) != 0) shown.push_back(page_[at_++]);
      const Lines printed = needs_card(command) ? shown : run(command);
      const bool same = matches(shown, printed);
      if (!updating()) {
        EXPECT_TRUE(same) << "$ " << command << "\n" << text_of(printed);
      }
      const Lines kept = same ? shown : shortened(shown, printed);
      out_.insert(out_.end(), kept.begin(), kept.end());
      if (needs_card(command)) check_without_card(command);
    }
  }
  Lines run(const std::string& command) {
    std::string printed;
    shell_.run(command, printed);
    ++commands_;
    return lines_of(printed);
  }
  void check_without_card(const std::string& command) {
    std::string printed;
    if (may_have_a_card()) return;
    EXPECT_EQ(shell_.run(command, printed), 4) << "$ " << command << "\n" << printed;
  }
  static std::string text_of(const Lines& lines) {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    return text;
  }

  const Lines& page_;
  std::size_t at_ = 0;
  int commands_ = 0;
  Lines out_;
  Shell shell_;
};

TEST(DocumentedCommands, PrintWhatThePageShows) {
  const Lines before = lines_of(test::whole_file(kPage));
  Page page(before);
  const Lines after = page.play();
  EXPECT_GE(page.commands(), 12);
  if (!updating() || after == before) return;
  std::string text;
  for (const std::string& line : after) text += line + "\n";
  test::put_file(kPage, text);
}

/// Spans in backquotes and indented lines that start with the program's name.
Lines commands_in(std::string text) {
  Lines found;
  static const std::regex kLine("(^|\n)    (\\./dev )?validate ([a-z][^\n]*)");
  for (std::sregex_iterator at(text.begin(), text.end(), kLine), end; at != end; ++at) found.push_back((*at)[3]);
  std::replace(text.begin(), text.end(), '\n', ' ');
  static const std::regex kSpan("`(\\./dev )?validate ([^`]*)`");
  for (std::sregex_iterator at(text.begin(), text.end(), kSpan), end; at != end; ++at) found.push_back((*at)[2]);
  return found;
}

TEST(DocumentedCommands, ExistAndTakeTheFlagsThatAreNamed) {
  Lines files{kRoot + "/README.md"};
  for (const char* folder : {"/docs", "/data", "/bench", "/tools"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kRoot + folder)) {
      if (entry.path().extension() == ".md") files.push_back(entry.path().string());
    }
  }
  int seen = 0;
  for (const std::string& file : files) {
    for (const std::string& command : commands_in(test::whole_file(file))) {
      std::istringstream words(command);
      std::string word;
      words >> word;
      if (word == "COMMAND" || word == "--help") continue;
      const auto named = [&](const Mode& mode) { return mode.name == word; };
      const auto mode = std::find_if(modes().begin(), modes().end(), named);
      ASSERT_NE(mode, modes().end()) << file << ": validate " << command;
      ++seen;
      while (words >> word) {
        if (word.rfind("[--", 0) == 0) word = word.substr(1);
        if (word.rfind("--", 0) != 0) continue;
        word = word.substr(0, word.find_first_of("=],;|"));
        EXPECT_NE(std::find(mode->takes.begin(), mode->takes.end(), word), mode->takes.end())
            << file << ": validate " << command;
      }
    }
  }
  EXPECT_GT(seen, 30);
}

}  // namespace
}  // namespace plumbline

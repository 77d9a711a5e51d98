// A page of documentation as a program: commands after `$` run in a folder of their own, and what they print stands on the
// page. Blocks with a file's name are that file. Pages are written again where that is asked for.
//
//   ```console               commands after "$ ", each with its output; a line "..." stands for lines left out
//   <!-- $ COMMAND -->        ... with output that is Markdown itself, up to <!-- end -->
//   ```csv NAME, ```json NAME, ```python NAME: a file that the commands below find
//   ```cpp PATH               a source file of the repository, letter by letter
//
// "# needs a card" behind a command: without a card it says that the card is missing (exit code 4) and nothing else.
// `python3` is the one that the module of this build is for; where the build has none its commands are left out.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/run_program.hpp"

namespace plumbline::test {

using Lines = std::vector<std::string>;

inline Lines lines_of(const std::string& text) {
  std::istringstream in(text);
  Lines lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

inline std::string text_of(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

/// UPDATE_GOLDEN=1: pages take what was printed, and nothing fails.
inline bool updating_pages() {
  const char* update = std::getenv("UPDATE_GOLDEN");
  return update != nullptr && *update == '1';
}

/// What is left out of a long output, and what must not stand on a page.
inline constexpr const char* kLeftOut = "...";

/// A folder that has the repository's data below it, and its `dev`.
class PageFolder {
 public:
  PageFolder(const std::string& root, std::string programs) : programs_(std::move(programs)) {
    std::filesystem::create_directory_symlink(std::filesystem::canonical(root + "/data"), folder_ / "data");
    put_file(folder_ / "dev", "#!/bin/sh\nexec \"$@\"\n");
    std::filesystem::permissions(folder_ / "dev", std::filesystem::perms::owner_all);
  }
  void put(const std::string& name, const std::string& text) const { put_file(folder_ / name, text); }
  /// Whether the module was built, not only its folder made.
  bool has_python() const {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(programs_ + "/../python/plumbline", none)) {
      const std::string name = entry.path().filename();
      if (name.rfind("_core.", 0) == 0 && name != "_core.pyi") return true;
    }
    return false;
  }
  int run(const std::string& command, std::string& printed) const {
    const std::string line = "cd '" + (folder_ / "") + "' && PATH='" + programs_ + "':'" + programs_ +
                             "/../python/bin':\"$PATH\" && { " + command + "\n} >printed 2>&1";
    const int status = std::system(line.c_str());
    printed = whole_file(folder_ / "printed");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  TemporaryFolder folder_;
  std::string programs_;
};

inline bool shows(const Lines& shown, const Lines& printed) {
  const auto gap = std::find(shown.begin(), shown.end(), kLeftOut);
  if (gap == shown.end()) return shown == printed;
  const auto before = static_cast<std::size_t>(gap - shown.begin()), after = shown.size() - before - 1;
  return printed.size() > before + after && std::equal(shown.begin(), gap, printed.begin()) &&
         std::equal(gap + 1, shown.end(), printed.end() - static_cast<std::ptrdiff_t>(after));
}

/// As many lines around the gap as there were; a long printout gets a gap.
inline Lines shortened(const Lines& shown, const Lines& printed) {
  const auto gap = std::find(shown.begin(), shown.end(), kLeftOut);
  std::size_t before = static_cast<std::size_t>(gap - shown.begin()), after = shown.size() - before;
  if (gap == shown.end()) {
    if (printed.size() <= 90) return printed;
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

/// Runs a page from top to bottom; gives it back with what the commands printed.
class DocumentPage {
 public:
  DocumentPage(std::string file, std::string root, const std::string& programs)
      : file_(std::move(file)), root_(std::move(root)), page_(lines_of(whole_file(file_))), folder_(root_, programs) {}

  void play() {
    while (at_ < page_.size()) {
      const std::string line = next();
      if (line == "```console") console();
      else if (line.rfind("<!-- $ ", 0) == 0) rendered(line.substr(7, line.rfind(" -->") - 7));
      else if (line.rfind("```cpp ", 0) == 0) source(line.substr(7));
      else if (line.rfind("```csv ", 0) == 0) folder_.put(line.substr(7), body());
      else if (line.rfind("```json ", 0) == 0) folder_.put(line.substr(8), body());
      else if (line.rfind("```python ", 0) == 0) folder_.put(line.substr(10), body());
    }
    if (updating_pages() && out_ != page_) put_file(file_, text_of(out_));
  }
  int commands() const { return commands_; }

 private:
  const std::string& next() { return out_.emplace_back(page_[at_++]); }
  bool before(const char* end) const { return at_ < page_.size() && page_[at_] != end; }
  Lines up_to(const char* end) {
    Lines lines;
    while (before(end)) lines.push_back(page_[at_++]);
    return lines;
  }
  std::string body() {
    std::string text;
    while (before("```")) text += next() + "\n";
    return text;
  }
  void console() {
    while (before("```")) {
      const std::string command = next().substr(2);
      Lines shown;
      while (before("```") && page_[at_].rfind("$ ", 0) != 0) shown.push_back(page_[at_++]);
      if (command.find("# needs a card") != command.npos) {
        check_without_card(command);
        out_.insert(out_.end(), shown.begin(), shown.end());
      } else if (command.rfind("python3 ", 0) == 0 && !folder_.has_python()) {
        out_.insert(out_.end(), shown.begin(), shown.end());
      } else {
        keep(command, shown, run(command));
      }
    }
  }
  void rendered(const std::string& command) { keep(command, up_to("<!-- end -->"), run(command)); }
  void source(const std::string& path) {
    keep(path, up_to("```"), lines_of(whole_file(root_ + "/" + path)));
    EXPECT_TRUE(std::filesystem::exists(root_ + "/" + path)) << file_ << ": " << path;
  }
  void keep(const std::string& what, const Lines& shown, const Lines& printed) {
    const bool same = shows(shown, printed);
    EXPECT_TRUE(same || updating_pages()) << file_ << "\n$ " << what << "\n" << text_of(printed);
    const Lines kept = same ? shown : shortened(shown, printed);
    out_.insert(out_.end(), kept.begin(), kept.end());
  }
  Lines run(const std::string& command) {
    std::string printed;
    folder_.run(command, printed);
    ++commands_;
    return lines_of(printed);
  }
  void check_without_card(const std::string& command) const {
    std::string printed;
    if (std::filesystem::exists("/dev/nvidiactl") || std::filesystem::exists("/dev/dxg")) return;
    EXPECT_EQ(folder_.run(command, printed), 4) << file_ << "\n$ " << command << "\n" << printed;
  }

  std::string file_, root_;
  Lines page_, out_;
  PageFolder folder_;
  std::size_t at_ = 0;
  int commands_ = 0;
};

}  // namespace plumbline::test

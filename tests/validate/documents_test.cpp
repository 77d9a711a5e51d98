// Tables and printouts in README.md are what the commands print.
// After a change that is meant: UPDATE_GOLDEN=1 build/bin/validate_tests --gtest_filter='Readme*' and read the diff.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "arch/files.hpp"
#include "tests/support/run_program.hpp"
#include "validate/compare/accuracy.hpp"
#include "validate/compare/report.hpp"

namespace plumbline {
namespace {

using Lines = std::vector<std::string>;

Lines lines_of(const std::string& text) {
  std::istringstream in(text);
  Lines lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string readme_file() { return std::string(PLUMBLINE_TESTS) + "/../README.md"; }

/// The lines of README.md from the first of `printed` to the next empty one at the margin, replaced when asked for.
void expect_in_readme(const Lines& printed, const std::string& end) {
  Lines readme = lines_of(test::whole_file(readme_file()));
  const auto first = std::find(readme.begin(), readme.end(), printed.front());
  ASSERT_NE(first, readme.end()) << "README.md has no line '" << printed.front() << "'";
  const auto last = std::find(first, readme.end(), end);
  const Lines found(first, last);
  const char* update = std::getenv("UPDATE_GOLDEN");
  if (update != nullptr && *update == '1' && found != printed) {
    const auto at = readme.erase(first, last);
    readme.insert(at, printed.begin(), printed.end());
    std::string text;
    for (const std::string& line : readme) text += line + "\n";
    test::put_file(readme_file(), text);
    return;
  }
  EXPECT_EQ(found, printed);
}

TEST(Readme, AccuracyTableIsAsValidatePrintsIt) {
  const std::string list = data_folder() + "/studies/accuracy.json";
  expect_in_readme(lines_of(accuracy_table(accuracy_of(read_accuracy_sets(list)))), "");
}

TEST(Readme, ExampleIsAsPredictModelPrintsIt) {
  const std::string readme = test::whole_file(readme_file());
  const std::string command = "    ./dev predict-model llm ";
  const std::size_t at = readme.find(command);
  ASSERT_NE(at, std::string::npos);
  std::istringstream words(readme.substr(at + command.size(), readme.find('\n', at) - at - command.size()));
  std::vector<std::string> arguments{"llm"};
  for (std::string word; words >> word;) arguments.push_back(word);
  const test::ProgramResult result = test::run_program("predict-model", arguments);
  ASSERT_EQ(result.code, 0) << result.err;
  Lines printed = lines_of(result.out);
  for (std::string& line : printed) {
    if (!line.empty()) line.insert(0, "    ");
  }
  while (printed.back().empty()) printed.pop_back();
  const Lines all = lines_of(readme);
  const auto first = std::find(all.begin(), all.end(), printed.front());
  ASSERT_NE(first, all.end()) << printed.front();
  const auto found_end =
      first + std::min<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(printed.size()), all.end() - first);
  const Lines found(first, found_end);
  const char* update = std::getenv("UPDATE_GOLDEN");
  if (update != nullptr && *update == '1' && found != printed) {
    // The printout ends where text at the margin begins again.
    auto last = first;
    while (last != all.end() && (last->empty() || last->rfind("    ", 0) == 0)) ++last;
    std::string text;
    for (auto line = all.begin(); line != first; ++line) text += *line + "\n";
    for (const std::string& line : printed) text += line + "\n";
    text += "\n";
    for (; last != all.end(); ++last) text += *last + "\n";
    test::put_file(readme_file(), text);
    return;
  }
  EXPECT_EQ(found, printed);
}

/// A row of a kernels table with the reason itself, less its date, in place of the number of its note.
Lines with_reasons(const Lines& rows, const Lines& notes) {
  const std::string mark = "not representative (";
  Lines out;
  for (const std::string& row : rows) {
    const std::size_t at = row.find(mark);
    if (at == std::string::npos) {
      out.push_back(row);
      continue;
    }
    const std::string number = row.substr(at + mark.size(), row.find(')', at) - at - mark.size()) + ". ";
    const auto note = std::find_if(notes.begin(), notes.end(), [&](const auto& n) { return n.rfind(number, 0) == 0; });
    std::string reason = note == notes.end() ? "no note" : note->substr(number.size());
    if (reason.ends_with(")") && reason.rfind(" (20") == reason.size() - 13) reason.resize(reason.size() - 13);
    out.push_back(row.substr(0, at) + reason);
  }
  return out;
}

/// Body rows and numbered notes of what stands between `first` and a line that starts with `end`.
Lines rows_between(const Lines& lines, const std::string& first, const std::string& end) {
  auto at = std::find_if(lines.begin(), lines.end(), [&](const auto& line) { return line.rfind(first, 0) == 0; });
  Lines rows, notes;
  for (at += 2; at != lines.end() && (end.empty() || at->rfind(end, 0) != 0); ++at) {
    if (at->rfind("| ", 0) == 0) rows.push_back(*at);
    else if (!at->empty() && std::isdigit(static_cast<unsigned char>(at->front())) != 0) notes.push_back(*at);
  }
  return with_reasons(rows, notes);
}

TEST(Readme, KernelsTableIsWhatTheRecordingsGive) {
  Lines printed;
  for (const char* name : {"full", "rowwise"}) {
    CompareOptions options;
    options.where = {parse_row_filter("study=heldout")};
    const Recording recording = read_recording(data_folder() + "/measurements/h200/" + name + ".json");
    const auto report = compare_recording(recording, options, read_demands());
    for (std::string& row : rows_between(lines_of(kernels_table(*report)), "| kernel |", "")) {
      printed.push_back(std::move(row));
    }
  }
  EXPECT_EQ(rows_between(lines_of(test::whole_file(readme_file())), "| kernel |", "bf16 8192^3"), printed);
  EXPECT_GT(printed.size(), 10U);
}

}  // namespace
}  // namespace plumbline

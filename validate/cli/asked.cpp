#include "validate/cli/asked.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <ostream>

#include "arch/files.hpp"
#include "ops/table/text.hpp"

namespace plumbline {

namespace {

constexpr std::size_t kMessagesShown = 20, kMessagesOfAReason = 3;

}  // namespace

Override parse_override(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    throw BadInput("--set '" + text + "': expected PATH=VALUE, such as memory.bandwidth=6TB/s");
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

void need_operators(const std::vector<std::string>& ops) {
  for (const std::string& op : ops) {
    if (std::find(op_names().begin(), op_names().end(), op) == op_names().end()) {
      throw BadInput("--ops '" + op + "': expected an operator's name" + did_you_mean(op, op_names()));
    }
  }
}

void need_writable(const std::string& file) {
  if (file.empty()) return;
  const std::string beside = file + ".partial-" + std::to_string(::getpid());
  const bool opened = std::ofstream(beside).is_open();
  std::error_code ignored;
  std::filesystem::remove(beside, ignored);
  if (!opened) throw BadInput(file + ": cannot be opened for writing");
}

void write_or_print(const std::string& file, const std::string& text, std::ostream& out) {
  if (file.empty()) {
    out << text;
  } else {
    write_text_file(file, text);
  }
}

void show_messages(const std::vector<std::string>& lines, std::ostream& messages) {
  std::map<std::string, std::size_t> seen;
  std::size_t shown = 0;
  for (const std::string& line : lines) {
    const std::size_t end_of_place = line.find(": ");
    const std::string reason = end_of_place == std::string::npos ? line : line.substr(end_of_place);
    if (shown == kMessagesShown || ++seen[reason] > kMessagesOfAReason) continue;
    messages << line << "\n";
    ++shown;
  }
  if (lines.size() > shown) messages << "... and " << lines.size() - shown << " rows more\n";
}

ExitCode accuracy_answer(const std::vector<ClassSummary>& classes, const std::optional<double>& fail_over_percent,
                         std::ostream& messages, ExitCode otherwise) {
  if (!fail_over_percent) return otherwise;
  const ClassSummary* worse = worse_than(classes, *fail_over_percent / 100);
  if (worse == nullptr) return otherwise;
  messages << worse->gpu << " " << worse->op << " " << worse->dtype << " "
           << (worse->mode.empty() ? "" : worse->mode + " ") << name(worse->size) << ": median error "
           << 100 * worse->median_error << " % is above the " << *fail_over_percent << " % asked for\n";
  return ExitCode::answered_no;
}

}  // namespace plumbline

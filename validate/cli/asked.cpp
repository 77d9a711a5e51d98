#include "validate/cli/asked.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <ostream>

#include "arch/files.hpp"
#include "arch/printable.hpp"
#include "arch/sink.hpp"
#include "ops/table/text.hpp"
#include "validate/printed.hpp"

namespace plumbline {

namespace {

constexpr std::size_t kMessagesShown = 20, kMessagesOfAReason = 3;

/// Each line printable; the line ends stay.
std::string printable_lines(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    out += printable(std::string_view(text).substr(at, end - at));
    if (end < text.size()) out += '\n';
    at = end + 1;
  }
  return out;
}

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
  std::error_code none;
  // A FIFO is opened when there is something to write: its reader must not see an end before.
  if (file.empty() || std::filesystem::is_fifo(std::filesystem::status(file, none))) return;
  const OutputSink probe(file);  // gone without commit
}

std::vector<RowFilter> filters_of(const AskedRows& rows) {
  std::vector<RowFilter> filters = rows.where;
  if (rows.ops.empty()) return filters;
  std::string text;
  for (const std::string& op : rows.ops) text += (text.empty() ? "op=" : ",") + op;
  filters.push_back(parse_row_filter(text));
  return filters;
}

void write_or_print(const AskedReport& report, const std::string& text, std::ostream& out) {
  const std::string shown = report.format == "json" ? text : printable_lines(text);
  if (report.file.empty()) {
    out << shown;
  } else {
    write_text_file(report.file, shown);
  }
}

void show_messages(const std::vector<std::string>& lines, std::ostream& messages) {
  std::map<std::string, std::size_t> seen;
  std::size_t shown = 0;
  for (const std::string& line : lines) {
    const std::size_t end_of_place = line.find(": ");
    const std::string reason = end_of_place == std::string::npos ? line : line.substr(end_of_place);
    if (shown == kMessagesShown || ++seen[reason] > kMessagesOfAReason) continue;
    messages << printable(line) << "\n";
    ++shown;
  }
  if (lines.size() > shown) messages << "... and " << lines.size() - shown << " rows more\n";
}

void show_trouble(const std::vector<std::string>& lines, std::size_t rows, const std::string& what,
                  std::ostream& messages) {
  if (lines.empty()) return;
  messages << "validate: " << lines.size() << " of " << rows << " " << what << "; first: " << printable(lines.front())
           << "\n";
}

void warn_of_shared_card(const MeasuringSession& session, std::ostream& messages) {
  if (session.other_processes == 0) return;
  messages << "validate: " << shared_card_text(session)
           << ": times and powers are not of these kernels alone; the recording is marked" << std::endl;
}

ExitCode accuracy_answer(const std::vector<ClassSummary>& classes, const std::optional<double>& fail_over_percent,
                         std::ostream& messages, ExitCode otherwise) {
  if (!fail_over_percent) return otherwise;
  const ClassSummary* worse = worse_than(classes, *fail_over_percent / 100);
  if (worse == nullptr) return otherwise;
  messages << "validate: " << worse->gpu << " " << worse->op << " " << worse->dtype << " "
           << (worse->mode.empty() ? "" : worse->mode + " ") << name(worse->size) << ": median error "
           << printed("%.3g", 100 * worse->median_error) << " % is above the " << *fail_over_percent
           << " % asked for\n";
  return ExitCode::answered_no;
}

}  // namespace plumbline

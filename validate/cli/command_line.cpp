#include "validate/cli/command_line.hpp"

#include <algorithm>
#include <cctype>

#include "arch/files.hpp"

namespace plumbline {

namespace {

constexpr std::size_t kHelpWidth = 108, kHelpColumn = 32;

template <class Names, class Text>
bool contains(const Names& names, const Text& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// "a, b or c"
template <class Names>
std::string alternatives(const Names& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + std::string(names[i]);
  }
  return text;
}

const Mode* find_mode(std::string_view name) {
  const auto& all = modes();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Mode& mode) { return mode.name == name; });
  return found == all.end() ? nullptr : &*found;
}

const Mode& need_mode(const std::string& name) {
  if (const Mode* mode = find_mode(name)) return *mode;
  std::vector<std::string> names;
  for (const Mode& mode : modes()) names.emplace_back(mode.name);
  const std::string what = name.rfind('-', 0) == 0 ? "option '" : "command '";
  std::string near = did_you_mean(name, names);
  if (near.empty()) near = "; expected a command, such as compare, replay or run (see validate --help)";
  throw BadInput("unknown " + what + name + "'" + near);
}

[[noreturn]] void refuse_flag(const Mode& mode, const std::string& name) {
  const std::string command = "validate " + std::string(mode.name);
  if (find_flag(name) != nullptr) {
    throw BadInput(name + ": has no meaning for '" + command + "' (see " + command + " --help)");
  }
  std::vector<std::string> taken(mode.takes.begin(), mode.takes.end());
  std::string near = did_you_mean(name, taken);
  if (near.empty()) near = " (see " + command + " --help)";
  throw BadInput("unknown option '" + name + "'" + near);
}

/// Reads the words after the command.
class Reader {
 public:
  Reader(const Mode& mode, const std::vector<std::string>& words) : mode_(mode), words_(words) {}

  Flags read() {
    bool only_operands = false;
    for (at_ = 1; at_ < words_.size(); ++at_) {
      const std::string& word = words_[at_];
      if (only_operands || word.size() < 2 || word.front() != '-') flags_.operands.push_back(word);
      else if (word == "--") only_operands = true;
      else read_flag(word);
    }
    check_operands();
    if (flags_.format.empty() && !mode_.formats.empty()) flags_.format = mode_.formats.front();
    return std::move(flags_);
  }

 private:
  void read_flag(const std::string& word) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const Flag* flag = contains(mode_.takes, name) ? find_flag(name) : nullptr;
    if (flag == nullptr) refuse_flag(mode_, name);
    if (!flags_.given.insert(name).second && !flag->repeatable) throw BadInput(name + ": given twice");
    const bool wants_value = !flag->value.empty() || name == "--format";
    if (!wants_value && equals != std::string::npos) throw BadInput(name + ": takes no value, found '" + word + "'");
    std::string value;
    if (wants_value && equals != std::string::npos) value = word.substr(equals + 1);
    else if (wants_value && ++at_ < words_.size()) value = words_[at_];
    if (wants_value && value.empty()) throw BadInput(name + ": expected " + shape_of(*flag) + ", found nothing");
    if (name == "--format") check_format(value);
    flag->read(flags_, value);
  }

  std::string shape_of(const Flag& flag) const {
    return flag.name == "--format" ? alternatives(mode_.formats) : std::string(flag.value);
  }

  void check_format(const std::string& value) const {
    if (contains(mode_.formats, value)) return;
    throw BadInput("--format: 'validate " + std::string(mode_.name) + "' expected " + alternatives(mode_.formats) +
                   ", found '" + value + "'" +
                   did_you_mean(value, std::vector<std::string>(mode_.formats.begin(), mode_.formats.end())));
  }

  void check_operands() const {
    const std::size_t found = flags_.operands.size();
    if (found < mode_.least) throw BadInput("expected " + std::string(mode_.operands) + " (see validate --help)");
    if (found <= mode_.most) return;
    throw BadInput("unexpected argument '" + flags_.operands[mode_.most] + "': expected " +
                   (mode_.operands.empty() ? "flags only" : std::string(mode_.operands)));
  }

  const Mode& mode_;
  const std::vector<std::string>& words_;
  std::size_t at_ = 0;
  Flags flags_;
};

/// `left` and `right` in two columns, `right` wrapped.
std::string entry(const std::string& left, std::string_view right) {
  std::string text = "  " + left;
  if (text.size() + 2 > kHelpColumn) text += "\n";
  else text.resize(kHelpColumn, ' ');
  if (text.back() == '\n') text += std::string(kHelpColumn, ' ');
  for (std::size_t room = kHelpWidth - kHelpColumn; right.size() > room;) {
    const std::size_t space = right.rfind(' ', room);
    text += std::string(right.substr(0, space)) + "\n" + std::string(kHelpColumn, ' ');
    right.remove_prefix(space + 1);
  }
  return text + std::string(right) + "\n";
}

std::string usage_of(const Mode& mode) {
  std::string text = "validate " + std::string(mode.name);
  if (!mode.operands.empty()) text += " " + std::string(mode.operands);
  return text;
}

bool is_help(const std::string& word) { return word == "--help" || word == "-h" || word == "help"; }

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& words) {
  CommandLine line;
  if (words.empty() || (is_help(words.front()) && words.size() == 1)) {
    line.help = general_help();
    return line;
  }
  if (words.front() == "--version") {
    if (words.size() > 1) throw BadInput("unexpected argument '" + words[1] + "': expected nothing after --version");
    line.help = std::string("plumbline ") + PLUMBLINE_VERSION + "\n";
    return line;
  }
  if (is_help(words.front())) {
    line.help = help_of(need_mode(words[1]));
    return line;
  }
  const Mode& mode = need_mode(words.front());
  const auto values_end = std::find(words.begin(), words.end(), "--");
  if (std::any_of(words.begin() + 1, values_end, [](const auto& w) { return w == "--help" || w == "-h"; })) {
    line.help = help_of(mode);
    return line;
  }
  line.flags = Reader(mode, words).read();
  line.mode = &mode;
  return line;
}

std::string place_of(const std::vector<std::string>& words) {
  const bool known = !words.empty() && find_mode(words.front()) != nullptr;
  return known ? "validate " + words.front() : "validate";
}

std::string general_help() {
  std::string text = "Holds predicted time, power and clock of transformer operators against measurements.\n";
  text += "usage: validate COMMAND [ARGUMENTS] [FLAGS]\n";
  const auto group = [&](ModeGroup wanted, const char* title) {
    text += std::string("\n") + title + "\n";
    for (const Mode& mode : modes()) {
      if (mode.group == wanted) text += entry(usage_of(mode).substr(9), mode.summary);
    }
  };
  group(ModeGroup::desk, "Without a card:");
  group(ModeGroup::card, "On the card at hand:");
  group(ModeGroup::advanced, "Advanced, makers of coefficients and bands:");
  return text +
         "\n'validate COMMAND --help' explains a command. Start with:\n"
         "  validate compare measurements.csv --gpu h200\n"
         "  validate accuracy\n"
         "Exit codes: 0 done, 1 worse than asked, 2 bad input or usage, 3 some rows not measured or\n"
         "modelled, 4 no device or device error, 130 interrupted, 70 internal error.\n";
}

std::string help_of(const Mode& mode) {
  std::string text = std::string(mode.summary);
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  text += "\nusage: " + usage_of(mode) + " [FLAGS]\n\n";
  for (const Flag& flag : flag_table()) {
    if (!contains(mode.takes, flag.name)) continue;
    std::string left(flag.name), help(flag.help);
    if (flag.name == "--format") {
      std::string shown;
      for (const std::string_view format : mode.formats) shown += (shown.empty() ? "" : "|") + std::string(format);
      left += " " + shown;
      help = "how to print the report [" + std::string(mode.formats.front()) + "]";
    } else if (!flag.value.empty()) {
      left += " " + std::string(flag.value);
    }
    text += entry(left, help);
  }
  if (!mode.details.empty()) text += "\n" + std::string(mode.details) + "\n";
  return text;
}

}  // namespace plumbline

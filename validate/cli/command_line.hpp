// The command line of `validate`: words into a command and its flags, and the help of both tables.
#pragma once

#include <string>
#include <vector>

#include "validate/cli/modes.hpp"

namespace plumbline {

/// What was asked. Without a mode, `help` is what to print.
struct CommandLine {
  const Mode* mode = nullptr;
  Flags flags;
  std::string help;
};

/// Reads `words` (without the program's name). Throws BadInput, with the nearest name, for a command or flag that is not
/// known, a flag that means nothing to the command, a value that is missing or none, a flag given twice that is not
/// repeatable, and operands too many or too few. A value may start with a dash: `--fail-over -5` is a wrong value.
CommandLine parse_command_line(const std::vector<std::string>& words);

/// The command that messages name: "validate compare", or "validate" where `words` start with none.
std::string place_of(const std::vector<std::string>& words);

/// `validate --help`, and `validate COMMAND --help`.
std::string general_help();
std::string help_of(const Mode& mode);

}  // namespace plumbline

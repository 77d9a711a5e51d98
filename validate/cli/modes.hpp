// What `validate` can be asked, as a table: each command, its operands, the flags and formats that mean something to it,
// and the function that does it. This knows no CUDA.
#pragma once

#include <iosfwd>
#include <string_view>
#include <vector>

#include "arch/error.hpp"
#include "validate/cli/calibrate.hpp"
#include "validate/cli/flags.hpp"
#include "validate/cli/live.hpp"
#include "validate/cli/steps.hpp"
#include "validate/probe/links.hpp"

namespace plumbline {

/// Where measurements come from, and where text goes.
struct Surroundings {
  MakeMeasurer measurer;
  MakeStepMeasurer step_measurer;
  RunProbes probes;
  MeasureLinks links;
  std::istream& in;
  std::ostream& out;
  std::ostream& messages;
  bool terminal = false;  ///< messages go to one
};

/// Where the help lists a command.
enum class ModeGroup { desk, card, advanced };

struct Mode {
  std::string_view name;  ///< the command: "compare"
  ModeGroup group;
  std::string_view operands;              ///< as the help shows them: "FILE.csv...", "[MODEL]"
  std::size_t least, most;                ///< how many operands
  std::string_view summary;               ///< one line
  std::vector<std::string_view> takes;    ///< the flags that mean something to it
  std::vector<std::string_view> formats;  ///< of --format, the default first; one that has none does not take the flag
  std::string_view details;               ///< more lines of its help
  ExitCode (*run)(const Flags& flags, const Surroundings& around);
};

/// All of them, in the order of the help.
const std::vector<Mode>& modes();

}  // namespace plumbline

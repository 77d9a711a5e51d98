// validate: holds predictions against measurements. Words in, text and an exit code out; what can be asked is the table
// of modes.cpp, and every error becomes one line here.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/printable.hpp"
#include "arch/sink.hpp"
#include "arch/unfinished.hpp"
#include "validate/cli/command_line.hpp"
#include "validate/cli/message_stream.hpp"
#include "validate/measure/cuda_measurer.hpp"
#include "validate/measure/cuda_prober.hpp"
#include "validate/measure/cuda_step.hpp"

namespace {

using namespace plumbline;

/// A file that is opened while stdout is closed would get its number, and the report. A descriptor that can't be written
/// holds the place instead, so that writing fails as it should.
void hold_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    (void)::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

/// Throws BadInput when stdout does not take it: a report that is lost is no success.
void deliver(const std::string& text) {
  OutputSink sink("");
  sink.write(text);
  sink.commit();
}

ExitCode answer(const std::vector<std::string>& words) {
  const CommandLine line = parse_command_line(words);
  if (line.mode == nullptr) {
    deliver(line.help);
    return ExitCode::done;
  }
  data_folder();  // one that is not there is said of every command, not only of those that read it
  std::ostringstream out;
  MessageStream messages(std::cerr);
  const Surroundings around{
      make_cuda_measurer, make_cuda_step_measurer,     run_cuda_probes, measure_links, std::cin, out,
      messages,           ::isatty(STDERR_FILENO) == 1};
  const ExitCode code = line.mode->run(line.flags, around);
  deliver(out.str());
  return code;
}

int failed(const std::string& what, ExitCode code) {
  std::cerr << message_line(what);
  return static_cast<int>(code);
}

}  // namespace

int main(int argc, char** argv) {
  hold_standard_descriptors();
  remove_unfinished_files_on_signals();
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  try {
    return static_cast<int>(answer(words));
  } catch (const Error& error) {
    return failed(place_of(words) + ": " + error.what(), error.code());
  } catch (const std::exception& error) {
    return failed(std::string("validate: internal error: ") + error.what(), ExitCode::our_bug);
  }
}

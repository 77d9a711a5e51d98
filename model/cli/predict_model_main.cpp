// predict-model: what a GPU will do with a transformer.
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

#include "arch/unfinished.hpp"
#include "model/cli/front.hpp"

namespace {

/// Under mpirun a sweep is shared: the program that knows MPI takes this one's place. False where it was not built.
bool give_way_to_mpi(int argc, char** argv) {
  const char* ranks = std::getenv("OMPI_COMM_WORLD_SIZE");
  if (ranks == nullptr || std::string_view(ranks) == "1") return true;
  if (argc < 2 || std::string_view(argv[1]) != "sweep") return true;
  std::array<char, PATH_MAX> self{};
  if (::readlink("/proc/self/exe", self.data(), self.size() - 1) <= 0) return false;
  const std::string program = std::string(self.data()) + "-mpi";
  ::execv(program.c_str(), argv);
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  if (!give_way_to_mpi(argc, argv)) {
    std::cerr
        << "predict-model sweep: this build knows no MPI: expected it without mpirun, or predict-model-mpi beside it\n";
    return static_cast<int>(plumbline::ExitCode::bad_input);
  }
  plumbline::remove_unfinished_files_on_signals();
  return plumbline::cli::run_program({argv + 1, argv + argc});
}

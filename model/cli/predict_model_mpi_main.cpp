// predict-model under mpirun, for commands that several processes share. The only file that knows MPI: predict-model runs
// this program in its place where mpirun started it, so that it starts as quickly as ever where none did.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>

#include "arch/unfinished.hpp"
#include "model/cli/front.hpp"
#include "model/cli/ranks.hpp"

namespace plumbline::cli {
namespace {

/// One call of MPI at a time; waiting ranks sleep, as their cores may be others' too. What fails in MPI aborts the run.
class MpiRanks : public Ranks {
 public:
  MpiRanks() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &count_);
  }
  int rank() const override { return rank_; }
  int count() const override { return count_; }
  void send(int to, int tag, std::string_view bytes) override {
    const std::scoped_lock lock(mutex_);
    MPI_Send(bytes.data(), static_cast<int>(bytes.size()), MPI_CHAR, to, tag, MPI_COMM_WORLD);
  }
  std::string receive(int from, int tag) override {
    constexpr std::chrono::microseconds kFirst{20}, kMost{1000};
    std::string message;
    for (auto pause = kFirst; !received(from, tag, message); pause = std::min(2 * pause, kMost)) {
      std::this_thread::sleep_for(pause);
    }
    return message;
  }

 private:
  bool received(int from, int tag, std::string& message) {
    const std::scoped_lock lock(mutex_);
    int there = 0, size = 0;
    MPI_Status status;
    MPI_Iprobe(from, tag, MPI_COMM_WORLD, &there, &status);
    if (there == 0) return false;
    MPI_Get_count(&status, MPI_CHAR, &size);
    message.resize(static_cast<std::size_t>(size));
    MPI_Recv(message.data(), size, MPI_CHAR, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return true;
  }

  int rank_ = 0, count_ = 1;
  std::mutex mutex_;
};

}  // namespace
}  // namespace plumbline::cli

int main(int argc, char** argv) {
  int given = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &given);
  plumbline::remove_unfinished_files_on_signals();
  int exit = 0;
  {
    plumbline::cli::MpiRanks ranks;
    exit = plumbline::cli::run_program({argv + 1, argv + argc}, &ranks);
  }
  MPI_Finalize();
  return exit;
}

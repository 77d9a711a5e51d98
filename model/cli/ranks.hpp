// The processes of one run: those that `mpirun` started, as commands see them.
#pragma once

#include <string>
#include <string_view>

namespace plumbline::cli {

/// Safe for any number of threads. What can't be sent ends the run, as MPI has it.
class Ranks {
 public:
  Ranks() = default;
  virtual ~Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  virtual int rank() const = 0;
  virtual int count() const = 0;
  /// Messages from one rank to another with one tag arrive in their order.
  virtual void send(int to, int tag, std::string_view bytes) = 0;
  /// Waits for the next one.
  virtual std::string receive(int from, int tag) = 0;
};

}  // namespace plumbline::cli

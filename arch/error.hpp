// The few kinds of error. Thrown where noticed, caught once in `main`, each with its exit code (contract: exit codes).
#pragma once

#include <stdexcept>
#include <string>

namespace plumbline {

enum class ExitCode : int {
  done = 0,
  answered_no = 1,
  bad_input = 2,
  not_modelled = 3,
  no_device = 4,
  our_bug = 70,
  interrupted = 130  ///< by SIGINT or SIGTERM, with what there was written and reported (128 + SIGINT, as shells say)
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// A file or a flag is wrong. The message is one line: place, thing, what was expected, nearest name.
class BadInput : public Error {
 public:
  explicit BadInput(const std::string& message) : Error(ExitCode::bad_input, message) {}
};

/// A sound question outside what the model covers.
class NotModelled : public Error {
 public:
  explicit NotModelled(const std::string& message) : Error(ExitCode::not_modelled, message) {}
};

/// No device, or the device (or its driver) failed.
class DeviceError : public Error {
 public:
  explicit DeviceError(const std::string& message) : Error(ExitCode::no_device, message) {}
};

}  // namespace plumbline

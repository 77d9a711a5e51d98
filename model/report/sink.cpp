#include "model/report/sink.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "arch/error.hpp"

namespace plumbline {

OutputSink::OutputSink(std::string path) : path_(std::move(path)), descriptor_(STDOUT_FILENO) {
  if (path_.empty()) return;
  beside_ = path_ + ".partial-" + std::to_string(::getpid());
  descriptor_ = ::open(beside_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("cannot be opened for writing");
}

OutputSink::~OutputSink() {
  if (path_.empty() || descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(beside_.c_str());
}

void OutputSink::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write failed");
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void OutputSink::commit() {
  if (path_.empty()) return;
  const bool closed = ::close(std::exchange(descriptor_, -1)) == 0;
  if (closed && std::rename(beside_.c_str(), path_.c_str()) == 0) return;
  const int reason = errno;
  ::unlink(beside_.c_str());
  errno = reason;
  fail("write failed");
}

void OutputSink::fail(const char* what) const {
  throw BadInput((path_.empty() ? "stdout" : path_) + ": " + what + ": " + std::strerror(errno));
}

}  // namespace plumbline

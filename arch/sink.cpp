#include "arch/sink.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <utility>

#include "arch/error.hpp"

namespace plumbline {
namespace {

bool same_file(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

/// stdout or stderr when it writes into `file`, else -1.
int own_stream_into(const struct stat& file) {
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat there {};
    if (::fstat(stream, &there) != 0 || !same_file(there, file)) continue;
    if ((::fcntl(stream, F_GETFL) & O_ACCMODE) != O_RDONLY) return stream;
  }
  return -1;
}

/// The path at the end of a chain of symbolic links, whether or not there is something; "" (errno says why) for a circle.
std::string followed(std::string path) {
  constexpr int kMostLinks = 40;  // as the kernel has it
  for (int links = 0; links < kMostLinks; ++links) {
    struct stat there {};
    if (::lstat(path.c_str(), &there) != 0 || !S_ISLNK(there.st_mode)) return path;
    char target[PATH_MAX];
    const ssize_t length = ::readlink(path.c_str(), target, sizeof target);
    if (length < 0) return "";
    const std::string_view text(target, static_cast<std::size_t>(length));
    if (text.substr(0, 1) == "/") path = text;
    else path = path.substr(0, path.rfind('/') + 1).append(text);
  }
  errno = ELOOP;
  return "";
}

}  // namespace

OutputSink::OutputSink(std::string path) : path_(std::move(path)), descriptor_(STDOUT_FILENO) {
  if (path_.empty()) return;
  struct stat there {};
  const bool exists = ::stat(path_.c_str(), &there) == 0;
  if (!exists && errno != ENOENT) fail("cannot be opened for writing");
  if (exists && !S_ISREG(there.st_mode)) {
    open_directly(0);
    return;
  }
  if (const int stream = exists ? own_stream_into(there) : -1; stream >= 0) {
    descriptor_ = ::fcntl(stream, F_DUPFD_CLOEXEC, 0);
    if (descriptor_ < 0) fail("cannot be opened for writing");
    return;
  }
  const std::string target = followed(path_);
  if (target.empty()) fail("cannot be opened for writing");
  struct stat at_target {};
  // An open file under /proc has a link that reads like a path but need not be one: "/tmp/x (deleted)".
  const bool elsewhere = exists && (::lstat(target.c_str(), &at_target) != 0 || !same_file(at_target, there));
  if (elsewhere) open_directly(O_APPEND);
  else open_beside(target, exists ? &there : nullptr);
}

void OutputSink::open_directly(int flags) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | flags);
  if (descriptor_ < 0) fail("cannot be opened for writing");
}

void OutputSink::open_beside(const std::string& target, const struct ::stat* earlier) {
  if (earlier != nullptr && ::faccessat(AT_FDCWD, target.c_str(), W_OK, AT_EACCESS) != 0) {
    fail("cannot be opened for writing");
  }
  target_ = target;
  beside_ = target + ".partial-" + std::to_string(::getpid());
  unfinished_.emplace(beside_);
  ::unlink(beside_.c_str());  // of a killed process with this number: in a container they repeat
  descriptor_ = ::open(beside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, earlier == nullptr ? 0666 : 0600);
  if (descriptor_ < 0) fail("cannot be opened for writing");
  if (earlier == nullptr) return;
  if (::fchown(descriptor_, earlier->st_uid, earlier->st_gid) != 0) errno = 0;  // only root may give files away
  if (::fchmod(descriptor_, earlier->st_mode & 07777U) != 0) {
    const int reason = errno;
    ::close(descriptor_);
    ::unlink(beside_.c_str());
    errno = reason;
    fail("cannot be given the mode of the file there");
  }
}

OutputSink::~OutputSink() {
  if (path_.empty() || descriptor_ < 0) return;
  ::close(descriptor_);
  if (!beside_.empty()) ::unlink(beside_.c_str());
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
  if (closed && (beside_.empty() || std::rename(beside_.c_str(), target_.c_str()) == 0)) {
    unfinished_.reset();
    return;
  }
  const int reason = errno;
  if (!beside_.empty()) ::unlink(beside_.c_str());
  errno = reason;
  fail("write failed");
}

void OutputSink::fail(const char* what) const {
  throw BadInput((path_.empty() ? "stdout" : path_) + ": " + what + ": " + std::strerror(errno));
}

}  // namespace plumbline

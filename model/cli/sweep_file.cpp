#include "model/cli/sweep_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "arch/error.hpp"

namespace plumbline::cli {
namespace {

/// FILE, or what it is a symbolic link to.
std::string target_of(const std::string& file) {
  std::array<char, PATH_MAX> target{};
  return ::realpath(file.c_str(), target.data()) != nullptr ? std::string(target.data()) : file;
}

struct State {
  long long bytes = 0, done = 0, kept = 0, refused = 0, bugs = 0;

  long long check() const { return bytes * 31 + done * 17 + kept * 13 + refused * 7 + bugs + 1; }
};

constexpr std::size_t kStateBytes = 128;
constexpr const char* kFresh = ".new";  // until it is whole

}  // namespace

bool SweepFile::can_be(const std::string& file) {
  struct stat known {};
  return !file.empty() && (::stat(file.c_str(), &known) != 0 || S_ISREG(known.st_mode));
}

SweepFile::SweepFile(const std::string& file, const std::string& identity, bool resume)
    : file_(target_of(file)),
      partial_(file_ + ".partial-" + identity),
      state_(partial_ + ".state"),
      best_(partial_ + ".best") {
  constexpr mode_t kMode = 0666;
  if (::access(file_.c_str(), F_OK) == 0 && ::access(file_.c_str(), W_OK) != 0) fail("cannot be written");
  out_ = ::open(partial_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kMode);
  if (out_ < 0) fail("cannot be written beside");
  if (::flock(out_, LOCK_EX | LOCK_NB) != 0) {
    ::close(out_);
    throw BadInput(file_ + ": another run is writing this study there");
  }
  state_out_ = ::open(state_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kMode);
  if (state_out_ < 0) fail("cannot be written beside");
  if (resume) {
    read_state();
    read_best();
  } else {
    ::unlink(best_.c_str());
  }
  if (::ftruncate(out_, bytes_) != 0 || ::lseek(out_, bytes_, SEEK_SET) < 0) fail("cannot be cut");
  if (bytes_ == 0 && ::ftruncate(state_out_, 0) != 0) fail("cannot be cut");
  worth_keeping_ = before_.done > 0;
}

/// What ends before any point is done, as a study that is refused does, leaves nothing to go on with.
SweepFile::~SweepFile() {
  if (!worth_keeping_) {
    ::unlink(partial_.c_str());
    ::unlink(state_.c_str());
  }
  if (out_ >= 0) ::close(out_);
  if (state_out_ >= 0) ::close(state_out_);
}

void SweepFile::fail(const std::string& what) const {
  throw BadInput(file_ + ": " + what + ": " + std::strerror(errno));
}

void SweepFile::read_state() {
  std::array<char, kStateBytes + 1> text{};
  State s;
  long long check = 0;
  if (::pread(state_out_, text.data(), kStateBytes, 0) <= 0) return;
  const int read = std::sscanf(text.data(), "%lld %lld %lld %lld %lld %lld", &s.bytes, &s.done, &s.kept, &s.refused,
                               &s.bugs, &check);
  struct stat lines {};
  const bool good =
      read == 6 && check == s.check() && s.bytes >= 0 && ::fstat(out_, &lines) == 0 && lines.st_size >= s.bytes;
  if (!good) return;
  bytes_ = s.bytes;
  before_.done = s.done;
  before_.kept = s.kept;
  before_.refused = s.refused;
  before_.bugs = s.bugs;
}

/// "DONE KEPT REFUSED BUGS COUNT", then so many numbers of points: a whole file, as it was put there by renaming.
void SweepFile::read_best() {
  std::ifstream in(best_);
  SweepProgress p;
  std::size_t count = 0;
  if (!(in >> p.done >> p.kept >> p.refused >> p.bugs >> count) || p.done < 0) return;
  std::vector<std::int64_t> points;
  for (std::int64_t point = 0; in >> point;) points.push_back(point);
  if (points.size() != count) return;
  before_ = p;
  best_before_ = std::move(points);
}

void SweepFile::note_best(const SweepProgress& p, const std::vector<std::int64_t>& points) {
  std::string text;
  for (const std::int64_t each : {p.done, p.kept, p.refused, p.bugs, static_cast<std::int64_t>(points.size())}) {
    text += std::to_string(each) + ' ';
  }
  for (const std::int64_t each : points) text += '\n' + std::to_string(each);
  const std::string fresh = best_ + kFresh;
  std::ofstream out(fresh, std::ios::binary | std::ios::trunc);
  out << text << '\n';
  out.close();
  if (!out || ::rename(fresh.c_str(), best_.c_str()) != 0) fail("write failed beside");
  worth_keeping_ = worth_keeping_ || p.done > 0;
}

void SweepFile::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(out_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write failed");
    bytes_ += written;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void SweepFile::note(const SweepProgress& p) {
  const State s{bytes_, p.done, p.kept, p.refused, p.bugs};
  std::array<char, kStateBytes + 1> text{};
  std::memset(text.data(), ' ', kStateBytes);
  const int length = std::snprintf(text.data(), kStateBytes, "%lld %lld %lld %lld %lld %lld", s.bytes, s.done, s.kept,
                                   s.refused, s.bugs, s.check());
  text[static_cast<std::size_t>(length)] = '\n';
  if (::pwrite(state_out_, text.data(), kStateBytes, 0) < 0) fail("write failed");
  worth_keeping_ = worth_keeping_ || p.done > 0;
}

void SweepFile::commit() {
  struct stat earlier {};
  if (::stat(file_.c_str(), &earlier) == 0) ::fchmod(out_, earlier.st_mode & 07777U);
  if (::rename(partial_.c_str(), file_.c_str()) != 0) fail("cannot be renamed to");
  worth_keeping_ = true;  // there is nothing left beside it, and what comes there is another run's
  ::unlink(state_.c_str());
  ::unlink(best_.c_str());
  ::unlink((best_ + kFresh).c_str());
}

}  // namespace plumbline::cli

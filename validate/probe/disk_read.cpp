#include "validate/probe/disk_read.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>

#include "arch/error.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kAlignment = 4096, kPiece = std::size_t{1} << 20, kBlock = std::size_t{8} << 20;

struct Released {
  void operator()(void* memory) const { std::free(memory); }
};
using Block = std::unique_ptr<void, Released>;

class OpenFile {
 public:
  OpenFile(const std::string& path, int flags) : file_(::open(path.c_str(), flags, 0600)) {}
  ~OpenFile() {
    if (file_ >= 0) ::close(file_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  bool good() const { return file_ >= 0; }
  int number() const { return file_; }

 private:
  int file_;
};

/// Bytes [from, to); whether all came.
bool read_share(int file, void* block, std::size_t from, std::size_t to) {
  while (from < to) {
    const ssize_t got = ::pread(file, block, std::min(kBlock, to - from), static_cast<off_t>(from));
    if (got <= 0) return false;
    from += static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace

DiskFile::DiskFile(const std::string& neighbour, std::size_t bytes)
    : path_(neighbour + ".disk-" + std::to_string(::getpid())), bytes_(bytes) {
  const OpenFile file(path_, O_WRONLY | O_CREAT | O_TRUNC);
  std::vector<std::uint64_t> piece(kPiece / sizeof(std::uint64_t));
  std::mt19937_64 random(bytes);
  bool good = file.good();
  for (std::size_t at = 0; good && at < bytes; at += kPiece) {
    for (std::uint64_t& word : piece) word = random();  // what cannot be compressed
    good = ::write(file.number(), piece.data(), kPiece) == static_cast<ssize_t>(kPiece);
  }
  good = good && ::fsync(file.number()) == 0;
  if (good) return;
  ::unlink(path_.c_str());
  throw BadInput(path_ + ": can't be written");
}

DiskFile::~DiskFile() { ::unlink(path_.c_str()); }

DiskFile::Read DiskFile::read(int threads) const {
  Read result;
  const auto flags_of = [&](bool direct) { return O_RDONLY | (direct ? O_DIRECT : 0); };
  result.direct = OpenFile(path_, flags_of(true)).good();
  const OpenFile file(path_, flags_of(result.direct));
  if (!file.good()) throw BadInput(path_ + ": can't be read");
  if (!result.direct) ::posix_fadvise(file.number(), 0, 0, POSIX_FADV_DONTNEED);
  std::vector<Block> blocks;
  for (int t = 0; t < threads; ++t) blocks.emplace_back(std::aligned_alloc(kAlignment, kBlock));
  const std::size_t pieces = bytes_ / kPiece, shares = static_cast<std::size_t>(threads);
  std::atomic<bool> good{true};
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> readers;
  for (std::size_t t = 0; t < shares; ++t) {
    readers.emplace_back([&, t] {
      const std::size_t from = t * pieces / shares * kPiece, to = (t + 1) * pieces / shares * kPiece;
      if (!read_share(file.number(), blocks[t].get(), from, to)) good = false;
    });
  }
  for (std::thread& reader : readers) reader.join();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!good) throw BadInput(path_ + ": ended early");
  return result;
}

}  // namespace plumbline

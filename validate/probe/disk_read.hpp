// How fast a file is read from the disk that it lies on, past the page cache where the file system lets it. No CUDA in here.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace plumbline {

/// A file of random bytes, which is removed at the end.
class DiskFile {
 public:
  /// Written beside `neighbour`, and on the disk before this returns. `bytes`: a multiple of 1 MiB. BadInput where it
  /// cannot be written.
  DiskFile(const std::string& neighbour, std::size_t bytes);
  ~DiskFile();
  DiskFile(const DiskFile&) = delete;
  DiskFile& operator=(const DiskFile&) = delete;

  struct Read {
    double seconds = 0;
    bool direct = false;  ///< past the page cache (O_DIRECT); else the cache was asked to forget the file
  };
  /// All of it once, by `threads` threads, a share each, in blocks of 8 MiB.
  Read read(int threads) const;

 private:
  std::string path_;
  std::size_t bytes_ = 0;
};

}  // namespace plumbline

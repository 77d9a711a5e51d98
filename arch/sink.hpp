// Where output goes: stdout, or a file that appears whole or not at all.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "arch/unfinished.hpp"

struct stat;

namespace plumbline {

/// Streams to stdout, or to what stands at `path` (contract: `--out`):
///   nothing, or a regular file   written beside it as PATH.partial-PID, and renamed by `commit` with the earlier file's
///                                mode (and owner, where the system lets us); one that may not be written is refused
///   a symbolic link              stays, and its target is treated so; a target that is not there yet is made
///   a device, FIFO or terminal   opened and written, never replaced; opening a FIFO waits for its reader
///   the file that stdout or stderr go to (`--out /dev/stdout > f`)   written through them, at their place in it
/// Destroyed without commit (an error on the way), or ended by a signal (arch/unfinished.hpp): the partial file is
/// removed and an earlier file stays as it was. Hard links to the earlier file keep the earlier text.
class OutputSink {
 public:
  /// Empty `path`: stdout. Throws BadInput with the system's reason.
  explicit OutputSink(std::string path);
  ~OutputSink();
  OutputSink(const OutputSink&) = delete;
  OutputSink& operator=(const OutputSink&) = delete;

  /// Throws BadInput when the disk is full or the reader of the pipe has gone.
  void write(std::string_view text);
  void commit();

 private:
  void open_beside(const std::string& target, const struct ::stat* earlier);
  void open_directly(int flags);
  [[noreturn]] void fail(const char* what) const;

  std::string path_;
  std::string target_, beside_;  // empty: written directly
  std::optional<UnfinishedFile> unfinished_;
  int descriptor_;
};

}  // namespace plumbline

// Where output goes: stdout, or a file that appears whole or not at all.
#pragma once

#include <string>
#include <string_view>

namespace plumbline {

/// Streams to stdout, or beside `path` until `commit` renames it into place. Destroyed without commit (an error on the
/// way): the partial file is removed and an earlier file at `path` stays as it was.
class OutputSink {
 public:
  /// Empty `path`: stdout. Throws BadInput when the file can't be created.
  explicit OutputSink(std::string path);
  ~OutputSink();
  OutputSink(const OutputSink&) = delete;
  OutputSink& operator=(const OutputSink&) = delete;

  /// Throws BadInput when the disk is full or the reader of the pipe has gone.
  void write(std::string_view text);
  void commit();

 private:
  [[noreturn]] void fail(const char* what) const;
  std::string path_, beside_;
  int descriptor_;
};

}  // namespace plumbline

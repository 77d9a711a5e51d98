// Files that are being written, and what becomes of them when the process is asked to end.
#pragma once

#include <string>

namespace plumbline {

/// From now on SIGINT, SIGTERM and SIGHUP remove what UnfinishedFile names and end the process with exit code 130. Called
/// once by a program's main; a library never touches signals. A signal that the caller ignores (nohup) stays ignored.
void remove_unfinished_files_on_signals();

/// While it lives, a signal removes the file at `path`. For at most 16 at a time; more are not known to the handler.
class UnfinishedFile {
 public:
  explicit UnfinishedFile(const std::string& path);
  ~UnfinishedFile();
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

 private:
  int slot_ = -1;
};

}  // namespace plumbline

// The file that a sweep writes: one that can be gone on with after any end of the process.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/study.hpp"

namespace plumbline::cli {

/// Beside FILE stand FILE.partial-STUDY, whose lines grow, and FILE.partial-STUDY.state, which says how far they are good;
/// STUDY is the study's identity, so that another study's beginning is never gone on with. When all points are in it, the
/// first takes FILE's name and the other goes. Of the best points, which are known when all have been priced, the first
/// stays empty until then, and FILE.partial-STUDY.best has their numbers and how far the sweep is.
class SweepFile {
 public:
  /// `resume`: goes on where an earlier run ended, if one did. Throws BadInput where FILE can't be written, and where
  /// another run is writing the same study there.
  SweepFile(const std::string& file, const std::string& identity, bool resume);
  ~SweepFile();
  SweepFile(const SweepFile&) = delete;
  SweepFile& operator=(const SweepFile&) = delete;

  /// How far an earlier run came.
  const SweepProgress& before() const { return before_; }
  void write(std::string_view text);
  /// What has been written is good up to here.
  void note(const SweepProgress& progress);
  /// Of a sweep whose lines come last: how far it is, and which points are among the best so far.
  void note_best(const SweepProgress& progress, const std::vector<std::int64_t>& points);
  /// Those of an earlier run.
  const std::vector<std::int64_t>& best_before() const { return best_before_; }
  void commit();

  /// Whether FILE is a regular file or nothing yet: no terminal, pipe or device.
  static bool can_be(const std::string& file);

 private:
  [[noreturn]] void fail(const std::string& what) const;
  void read_state();
  void read_best();

  std::string file_, partial_, state_, best_;
  int out_ = -1, state_out_ = -1;
  long long bytes_ = 0;
  bool worth_keeping_ = false;
  SweepProgress before_;
  std::vector<std::int64_t> best_before_;
};

}  // namespace plumbline::cli

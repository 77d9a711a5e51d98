// A sweep by several processes: the first writes, and hands out ranges of points to the threads of all.
#pragma once

#include <cstdint>
#include <vector>

#include "model/cli/ranks.hpp"
#include "model/study.hpp"

namespace plumbline::cli {

/// Threads of a process that shares its machine with others: the cores that it may use, or its share of them.
int threads_of_rank(const Ranks& ranks, std::int64_t asked);

/// The other ranks' threads, as the first rank asks them. They are let go at its end, whatever ended it.
class RankHelpers {
 public:
  /// Waits until each rank has said how many threads it has; one that has none says why, which is told on stderr.
  explicit RankHelpers(Ranks& ranks);
  ~RankHelpers();
  RankHelpers(const RankHelpers&) = delete;
  RankHelpers& operator=(const RankHelpers&) = delete;

  std::vector<SweepHelper> helpers() const;

 private:
  struct Thread {
    int rank, tag;
  };
  Ranks& ranks_;
  std::vector<Thread> threads_;
};

/// What a rank but the first does: answers the ranges that it is sent, until it is let go. `best`: of best_points().
void serve_first_rank(Ranks& ranks, const Study& study, const SweepOptions& options, bool best, std::int64_t top);
/// A rank that can't serve says why.
void decline_to_serve(Ranks& ranks, const std::string& why);

}  // namespace plumbline::cli

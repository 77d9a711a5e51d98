// Times what all ranks of a group do together: one CUDA graph a rank, which begins with a barrier among the GPUs.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "kernels/collective/peer_group.hpp"

namespace plumbline {

class RankGraphs {
 public:
  explicit RankGraphs(const PeerGroup& group);
  ~RankGraphs();
  RankGraphs(const RankGraphs&) = delete;
  RankGraphs& operator=(const RankGraphs&) = delete;

  /// One stream a rank.
  const std::vector<StreamHandle>& streams() const;
  /// Puts one call of all ranks on their streams. When timed, these are capturing.
  using Enqueue = std::function<void(const std::vector<StreamHandle>&)>;
  /// Runs it once, without a graph, and waits for all ranks.
  void run(const Enqueue& enqueue) const;
  void wait() const;
  /// Seconds from the barrier to behind the last of `calls` calls, the maximum over the ranks, of each of `repeats`
  /// replays after two that are not counted. Includes what no call at all takes (calls = 0).
  std::vector<double> time(int calls, int repeats, const Enqueue& enqueue) const;

 private:
  struct Ranks;
  const PeerGroup& group_;
  std::unique_ptr<Ranks> ranks_;
};

}  // namespace plumbline

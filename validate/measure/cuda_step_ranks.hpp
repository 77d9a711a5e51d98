// The cards that a step runs on, one rank each: its share loaded, its graph, and a thread a rank to launch it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/collective/peer_group.hpp"
#include "kernels/common/measure.cuh"
#include "kernels/run/clock_stamps.hpp"
#include "validate/board/nvml_board.hpp"
#include "validate/measure/cuda_step_run.hpp"

namespace plumbline {

struct StepCard {
  /// CUDA's card of this number, which becomes the current one.
  explicit StepCard(int device);

  const int device;
  const Board board;
  const Stream stream;
  ClockStamps stamps;
  std::unique_ptr<LoadedStep> loaded;
  std::unique_ptr<CudaGraph> graph;
};

/// Several cards reach each other's memory. A rank whose launch fails leaves the others waiting for it: they give up after
/// two seconds (PeerGroup), and `need_no_fault` tells.
class StepRanks {
 public:
  /// The first `count` cards; throws DeviceError where there are fewer, or two that cannot reach each other.
  explicit StepRanks(std::size_t count);

  std::size_t count() const { return cards_.size(); }
  StepCard& card(std::size_t rank) { return *cards_[rank]; }
  const StepCard& first() const { return *cards_.front(); }

  /// Every rank's share of the step; what was loaded before is dropped first. Throws as LoadedStep does.
  void load(const StepTask& task);
  void unload();
  bool loaded() const { return first().loaded != nullptr; }
  const StepProgram& program() const { return first().loaded->program(); }

  /// Launches an operator on all ranks; nothing is waited for.
  void enqueue(const StepLaunch& launch);
  /// All of them in order, outside of graphs: no rank gets more than one launch ahead of the others, as a stream holds a
  /// thousand.
  void enqueue_all();
  void wait();
  /// The step as one graph a rank, uploaded.
  void capture();

  /// `work` for every rank, each in a thread of its own with the rank's card as the current one; behind a barrier among
  /// the cards. Throws the first rank's exception once all are through.
  void together(const std::function<void(std::size_t rank, StepCard& card)>& work);

  /// Throws DeviceError when a rank gave up waiting for another since the last call. Waits for the cards.
  void need_no_fault();
  /// Empty, or what is wrong with some rank's last logits.
  std::string complaint();

 private:
  void select(std::size_t rank) const;
  std::string replicas_complaint();

  std::unique_ptr<PeerGroup> group_;  ///< null: one card
  std::vector<std::unique_ptr<StepCard>> cards_;
};

}  // namespace plumbline

// The points of a study in blocks of neighbours: priced by threads, each block in an order in which points of one machine
// follow one another, or by helpers elsewhere, and delivered in the order of the study.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "model/study/pricing.hpp"

namespace plumbline {

/// Points of one machine share what planners remember: more of them meet in longer blocks, whose text is kept until they
/// leave.
inline constexpr std::int64_t kMostInBlock = 16'384;
inline constexpr std::int64_t kBlocksAThread = 8;
inline constexpr std::int64_t kFewest = 16;

inline int thread_count(const SweepOptions& options, std::int64_t points) {
  const auto cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const int asked = options.threads > 0 ? options.threads : cores;
  return static_cast<int>(std::clamp<std::int64_t>(points / kFewest, 1, asked));
}

inline std::int64_t block_size(const SweepOptions& options, std::int64_t points, int threads) {
  if (options.block > 0) return options.block;
  return std::clamp(points / (threads * kBlocksAThread), kFewest, kMostInBlock);
}

inline void count_outcome(const PricedPoint& point, SweepProgress& counts) {
  ++counts.done;
  if (point.outcome == PricedPoint::Outcome::dropped) return;
  ++counts.kept;
  if (point.outcome == PricedPoint::Outcome::refused) ++counts.refused;
  if (point.outcome == PricedPoint::Outcome::bug) ++counts.bugs;
}

inline void add_counts(const SweepProgress& part, SweepProgress& sum) {
  sum.done += part.done;
  sum.kept += part.kept;
  sum.refused += part.refused;
  sum.bugs += part.bugs;
}

/// Calls `taken(place in the block, point, settings)` for each point of a block, points of one machine together.
class BlockPricer {
 public:
  BlockPricer(const StudyPlan& plan, StudyInputs& inputs) : plan_(plan), pricer_(plan, inputs) {}

  template <class Taken>
  void price(std::int64_t first, std::int64_t count, Taken taken) {
    order_.resize(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
      plan_.points().places(first + i, places_);
      order_[static_cast<std::size_t>(i)] = {plan_.points().machine_order(places_), i};
    }
    std::sort(order_.begin(), order_.end());
    for (const auto& [machine, i] : order_) {
      plan_.points().places(first + i, places_);
      pricer_.price(places_, point_);
      taken(i, point_, pricer_.settings());
    }
  }

 private:
  const StudyPlan& plan_;
  Pricer pricer_;
  PricedPoint point_;
  std::vector<std::uint32_t> places_;
  std::vector<std::pair<std::int64_t, std::int64_t>> order_;
};

/// Blocks by number, handed out in order and taken back in order.
class BlockQueue {
 public:
  BlockQueue(std::int64_t first, std::int64_t end, std::int64_t size)
      : next_(first), due_(first), end_(end), size_(size) {}

  struct Block {
    std::int64_t first = 0, count = 0;
  };
  /// Nothing left: a block of no points.
  Block take() {
    const std::scoped_lock lock(mutex_);
    if (failure_ || next_ >= end_) return {};
    const Block block{next_, std::min(size_, end_ - next_)};
    next_ += block.count;
    return block;
  }
  /// Calls `deliver()` when all earlier blocks have been delivered. False where another thread failed.
  template <class Deliver>
  bool in_turn(const Block& block, const Deliver& deliver) {
    std::unique_lock lock(mutex_);
    turn_.wait(lock, [&] { return failure_ || due_ == block.first; });
    if (failure_) return false;
    deliver();
    due_ += block.count;
    turn_.notify_all();
    return true;
  }
  void fail(std::exception_ptr failure) {
    const std::scoped_lock lock(mutex_);
    if (!failure_) failure_ = std::move(failure);
    turn_.notify_all();
  }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable turn_;
  std::int64_t next_, due_, end_, size_;
  std::exception_ptr failure_;
};

/// `make(first, count, pricer)` prices a block, `take(part, pricer)` is given what a helper answered; `deliver` gets what
/// either made, in turn.
template <class Make, class Take, class Deliver>
void in_blocks(const StudyPlan& plan, const SweepOptions& options, const Make& make, const Take& take,
               const Deliver& deliver) {
  const std::int64_t points = plan.points().count() - options.before.done;
  const int own = thread_count(options, points), all = own + static_cast<int>(options.helpers.size());
  BlockQueue queue(options.before.done, plan.points().count(), block_size(options, points, all));
  StudyInputs inputs;
  const auto run = [&](const SweepHelper* helper) {
    try {
      BlockPricer pricer(plan, inputs);
      for (auto block = queue.take(); block.count > 0; block = queue.take()) {
        std::optional<SweepPart> part;
        if (helper != nullptr) part = (*helper)(block.first, block.count);
        if (!part) helper = nullptr;  // gone: its points are this thread's from now on
        auto made = part ? take(std::move(*part), pricer) : make(block.first, block.count, pricer);
        if (!queue.in_turn(block, [&] { deliver(made); })) return;
      }
    } catch (...) {
      queue.fail(std::current_exception());
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < own; ++i) others.emplace_back(run, nullptr);
  for (const SweepHelper& each : options.helpers) others.emplace_back(run, &each);
  run(nullptr);
  for (std::thread& each : others) each.join();
  queue.rethrow();
}

}  // namespace plumbline

// All points of a study: blocks of neighbouring points are priced by threads, each block in an order in which points of
// one machine follow one another, and leave in the order of the study.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "arch/error.hpp"
#include "model/study/lines.hpp"
#include "model/study/pricing.hpp"

namespace plumbline {
namespace {

/// Points of one machine share what planners remember: more of them meet in longer blocks, whose text is kept until they
/// leave.
constexpr std::int64_t kMostInBlock = 16'384;
constexpr std::int64_t kBlocksAThread = 8;
constexpr std::int64_t kFewest = 16;

int thread_count(const SweepOptions& options, std::int64_t points) {
  const auto cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const int asked = options.threads > 0 ? options.threads : cores;
  return static_cast<int>(std::clamp<std::int64_t>(points / kFewest, 1, asked));
}

std::int64_t block_size(const SweepOptions& options, std::int64_t points, int threads) {
  if (options.block > 0) return options.block;
  return std::clamp(points / (threads * kBlocksAThread), kFewest, kMostInBlock);
}

/// What became of a block, to be added to the sum in order.
struct BlockCounts {
  std::int64_t points = 0, kept = 0, refused = 0, bugs = 0;
};

void count(const PricedPoint& point, BlockCounts& counts) {
  const auto outcome = point.outcome;
  if (outcome == PricedPoint::Outcome::dropped) return;
  ++counts.kept;
  if (outcome == PricedPoint::Outcome::refused) ++counts.refused;
  if (outcome == PricedPoint::Outcome::bug) ++counts.bugs;
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
  bool in_turn(const Block& block, Deliver deliver) {
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

/// Runs `work(block, its own pricer)`, which makes a function that delivers the block in turn.
template <class Work>
void in_blocks(const StudyPlan& plan, const SweepOptions& options, const Work& work) {
  const std::int64_t points = plan.points().count() - options.before.done;
  const int threads = thread_count(options, points);
  BlockQueue queue(options.before.done, plan.points().count(), block_size(options, points, threads));
  StudyInputs inputs;
  const auto run = [&] {
    try {
      BlockPricer pricer(plan, inputs);
      for (auto block = queue.take(); block.count > 0; block = queue.take()) {
        const auto deliver = work(block.first, block.count, pricer);
        if (!queue.in_turn(block, deliver)) return;
      }
    } catch (...) {
      queue.fail(std::current_exception());
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(run);
  run();
  for (std::thread& each : others) each.join();
  queue.rethrow();
}

void add(const BlockCounts& block, SweepProgress& sum) {
  sum.done += block.points;
  sum.kept += block.kept;
  sum.refused += block.refused;
  sum.bugs += block.bugs;
}

}  // namespace

SweepProgress sweep(const Study& study, const SweepOptions& options,
                    const std::function<void(std::string_view)>& sink) {
  check_study(study, "study");
  const StudyPlan plan(study);
  const SweepLines lines(options.format, plan.points().names(), plan.written());
  SweepProgress sum = options.before;
  sum.points = plan.points().count();
  if (sum.done == 0) sink(lines.head());
  const auto work = [&](std::int64_t first, std::int64_t count_of_block, BlockPricer& pricer) {
    std::vector<std::string> texts(static_cast<std::size_t>(count_of_block));
    BlockCounts counts;
    counts.points = count_of_block;
    pricer.price(first, count_of_block,
                 [&](std::int64_t i, const PricedPoint& point, const std::vector<const std::string*>& settings) {
                   count(point, counts);
                   if (point.outcome == PricedPoint::Outcome::dropped) return;
                   // the comma before it depends on what earlier blocks kept
                   lines.append(settings, point.figures, point.error, false, texts[static_cast<std::size_t>(i)]);
                 });
    std::string all;
    for (const std::string& text : texts) all += text;
    return [&sum, &sink, &options, counts, all = std::move(all)]() mutable {
      if (options.format == SweepFormat::json && sum.kept == 0 && !all.empty()) all.erase(0, 1);
      if (!all.empty()) sink(all);
      add(counts, sum);
      if (options.progress) options.progress(sum);
    };
  };
  in_blocks(plan, options, work);
  const std::string tail = lines.tail();
  if (!tail.empty()) sink(tail);
  return sum;
}

namespace {

/// What of a point is better: more of each number.
struct Worth {
  std::vector<double> numbers;

  bool beats(const Worth& other) const {
    bool more = false;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (numbers[i] < other.numbers[i]) return false;
      more = more || numbers[i] > other.numbers[i];
    }
    return more;
  }
};

struct Candidate {
  StudyRow row;
  Worth worth;
};

/// The best of the points so far, whatever the order in which they come.
class Best {
 public:
  Best(const StudyPlan& plan, std::int64_t top, std::int64_t most) : plan_(plan), top_(top), most_(most) {
    const Study& study = plan.study();
    if (top > 0 && study.objective.empty())
      throw BadInput("top: expected an objective to rank by, such as max tokens_per_s");
    std::vector<std::string> all = study.pareto;
    if (all.empty() && !study.objective.empty()) all = {study.objective};
    for (const std::string& each : all) {
      const Objective objective = parse_objective(study.of_op, each, "objective");
      columns_.push_back({plan.place_of(objective.name), objective.most});
    }
  }

  void add(std::int64_t number, const PricedPoint& point, const std::vector<const std::string*>& settings) {
    if (point.outcome == PricedPoint::Outcome::dropped) return;
    Candidate candidate;
    const bool ranked = top_ > 0 || !plan_.study().pareto.empty();
    if (ranked && (!point.fits || !point.error.empty() || !worth_of(point, candidate.worth))) return;
    if (!plan_.study().pareto.empty() && beaten(candidate.worth)) return;
    candidate.row.point = number;
    for (const std::string* each : settings) candidate.row.settings.push_back(*each);
    candidate.row.figures = point.figures;
    candidate.row.figures.resize(plan_.written().size());
    candidate.row.error = point.error;
    keep(std::move(candidate));
  }

  void add_all(std::vector<Candidate>&& others) {
    for (Candidate& each : others) {
      if (plan_.study().pareto.empty() || !beaten(each.worth)) keep(std::move(each));
    }
  }

  std::vector<Candidate>& candidates() { return candidates_; }

  std::vector<StudyRow> rows() {
    const bool ranked = top_ > 0 || !plan_.study().pareto.empty();
    std::sort(candidates_.begin(), candidates_.end(), [&](const Candidate& a, const Candidate& b) {
      if (ranked && a.worth.numbers.front() != b.worth.numbers.front()) {
        return a.worth.numbers.front() > b.worth.numbers.front();
      }
      return a.row.point < b.row.point;
    });
    if (top_ > 0 && static_cast<std::int64_t>(candidates_.size()) > top_) {
      candidates_.resize(static_cast<std::size_t>(top_));
    }
    std::vector<StudyRow> rows;
    for (Candidate& each : candidates_) rows.push_back(std::move(each.row));
    return rows;
  }

 private:
  struct Column {
    std::size_t place;
    bool most;
  };

  bool worth_of(const PricedPoint& point, Worth& worth) const {
    for (const Column& column : columns_) {
      const auto* number = std::get_if<double>(&point.figures[column.place]);
      if (number == nullptr) return false;
      worth.numbers.push_back(column.most ? *number : -*number);
    }
    return true;
  }

  bool beaten(const Worth& worth) const {
    return std::any_of(candidates_.begin(), candidates_.end(),
                       [&](const Candidate& each) { return each.worth.beats(worth); });
  }

  void keep(Candidate&& candidate) {
    if (!plan_.study().pareto.empty()) {
      std::erase_if(candidates_, [&](const Candidate& each) { return candidate.worth.beats(each.worth); });
    }
    candidates_.push_back(std::move(candidate));
    if (top_ > 0 && plan_.study().pareto.empty() && static_cast<std::int64_t>(candidates_.size()) >= 2 * top_ + 64)
      thin();
    if (static_cast<std::int64_t>(candidates_.size()) > most_) {
      throw BadInput("study: expected at most " + std::to_string(most_) +
                     " points in a table or a page; csv and jsonl have no bound");
    }
  }

  void thin() {
    const auto better = [](const Candidate& a, const Candidate& b) {
      const double left = a.worth.numbers.front(), right = b.worth.numbers.front();
      return left != right ? left > right : a.row.point < b.row.point;
    };
    std::nth_element(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(top_), candidates_.end(),
                     better);
    candidates_.resize(static_cast<std::size_t>(top_));
  }

  const StudyPlan& plan_;
  std::int64_t top_, most_;
  std::vector<Column> columns_;
  std::vector<Candidate> candidates_;
};

}  // namespace

StudyRows best_points(const Study& study, std::int64_t top, const SweepOptions& options, std::int64_t most) {
  check_study(study, "study");
  const StudyPlan plan(study);
  StudyRows out;
  out.names = plan.points().names();
  out.columns = plan.written();
  out.counts.points = plan.points().count();
  Best best(plan, top, most);
  const auto work = [&](std::int64_t first, std::int64_t count_of_block, BlockPricer& pricer) {
    Best of_block(plan, top, most);
    BlockCounts counts;
    counts.points = count_of_block;
    pricer.price(first, count_of_block,
                 [&](std::int64_t i, const PricedPoint& point, const std::vector<const std::string*>& settings) {
                   count(point, counts);
                   of_block.add(first + i, point, settings);
                 });
    return [&out, &best, &options, counts, found = std::move(of_block.candidates())]() mutable {
      best.add_all(std::move(found));
      add(counts, out.counts);
      if (options.progress) options.progress(out.counts);
    };
  };
  in_blocks(plan, options, work);
  out.rows = best.rows();
  return out;
}

}  // namespace plumbline

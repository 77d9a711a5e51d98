#include "model/report/ops_batch.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "arch/error.hpp"
#include "model/report/ops_batch_block.hpp"
#include "ops/csv.hpp"

namespace plumbline {
namespace {

/// Cuts a byte stream into blocks that end where a record ends.
class BlockReader {
 public:
  BlockReader(const ByteSource& source, const BatchOptions& options) : source_(source), options_(options) {}

  /// The next whole records, at least one, or one line that is too long; empty at the end of the input.
  void next(InputBlock& block) {
    block.overlong_line = 0;
    cut(block);
    line_ += static_cast<std::size_t>(std::count(block.text.begin(), block.text.end(), '\n'));
    if (block.overlong_line > 0) ++line_;
  }

 private:
  void cut(InputBlock& block) {
    std::string& text = block.text;
    text.assign(carried_);
    carried_.clear();
    std::size_t wanted = options_.block_bytes;
    for (;;) {
      const bool more = fill(text, wanted);
      std::size_t end = more ? csv_whole_records(text) : text.size();
      if (end == 0 && more && text.size() >= options_.record_bytes) {
        // No record ends within the limit: most likely a quote is not closed. Its line goes alone (and is refused as
        // malformed), so that the lines behind it are read as what they are.
        const std::size_t line_end = text.find('\n');
        if (line_end == text.npos) {
          skip_line(block);
          return;
        }
        end = line_end + 1;
      }
      if (end > 0 || !more) {
        carried_.assign(text, end);
        text.resize(end);
        return;
      }
      wanted = std::max(wanted, text.size()) * 2;
    }
  }

  /// Leaves the beginning of a line that is longer than a record may be, and reads past its end.
  void skip_line(InputBlock& block) {
    constexpr std::size_t kMost = std::size_t{64} << 20, kKept = 100;
    block.overlong_line = line_;
    std::size_t passed = block.text.size(), end = block.text.npos;
    block.text.resize(std::min(passed, kKept));
    std::string rest;
    while (end == rest.npos && !ended_) {
      if (passed > kMost) {
        throw BadInput(options_.place + ":" + std::to_string(line_) + ": a line is longer than " +
                       std::to_string(kMost >> 20U) + " MiB: is this a CSV?");
      }
      rest.clear();
      fill(rest, options_.block_bytes);
      passed += rest.size();
      end = rest.find('\n');
    }
    if (end != rest.npos) carried_.assign(rest, end + 1);
  }

  /// Reads until `block` holds `wanted` bytes; false at the end of the input.
  bool fill(std::string& block, std::size_t wanted) {
    while (!ended_ && block.size() < wanted) {
      const std::size_t before = block.size();
      block.resize(wanted);
      const std::size_t got = source_(block.data() + before, wanted - before);
      block.resize(before + got);
      ended_ = got == 0;
    }
    return !ended_;
  }

  const ByteSource& source_;
  const BatchOptions& options_;
  std::string carried_;
  std::size_t line_ = 1;  // where the next block starts
  bool ended_ = false;
};

/// A ring of blocks on their way: free -> read -> taken by a worker -> predicted -> written and free again. The ring's
/// length bounds memory, its order keeps the output in the input's order.
class Pipeline {
 public:
  Pipeline(BlockReader& reader, const ByteSink& sink, const Machine& machine, const BatchColumns& columns,
           const BatchOptions& options)
      : reader_(reader),
        sink_(sink),
        machine_(machine),
        predict_(options.predict),
        columns_(columns),
        slots_(static_cast<std::size_t>(std::max(1, options.workers)) + 3),
        workers_(std::max(1, options.workers)) {}

  BatchOutcome run(InputBlock first_block) {
    std::vector<std::thread> threads;
    const auto guarded = [this](auto member) {
      return std::thread([this, member] {
        try {
          (this->*member)();
        } catch (...) {
          stop(std::current_exception());
        }
      });
    };
    slots_[0].in = std::move(first_block);
    try {
      threads.push_back(guarded(&Pipeline::write_all));
      for (int i = 0; i < workers_; ++i) threads.push_back(guarded(&Pipeline::predict_all));
      read_all();
    } catch (...) {
      stop(std::current_exception());
    }
    for (std::thread& thread : threads) thread.join();
    if (failure_) std::rethrow_exception(failure_);
    return outcome_;
  }

 private:
  enum class State { free, read, taken, predicted };
  struct Slot {
    InputBlock in;
    std::string out;
    BatchOutcome outcome;
    State state = State::free;
  };
  Slot& slot(std::size_t index) { return slots_[index % slots_.size()]; }

  void stop(std::exception_ptr why) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(why);
    changed_.notify_all();
  }

  template <class Condition>
  bool wait(std::unique_lock<std::mutex>& lock, Condition condition) {
    changed_.wait(lock, [&] { return failure_ || condition(); });
    return !failure_;
  }

  void set(Slot& s, State state) {
    const std::lock_guard lock(mutex_);
    s.state = state;
    changed_.notify_all();
  }

  void read_all() {
    for (std::size_t index = 0;; ++index) {
      Slot& s = slot(index);
      {
        std::unique_lock lock(mutex_);
        if (!wait(lock, [&] { return s.state == State::free; })) return;
      }
      if (index > 0) reader_.next(s.in);
      if (index > 0 && s.in.text.empty()) {
        const std::lock_guard lock(mutex_);
        block_count_ = index;
        changed_.notify_all();
        return;
      }
      set(s, State::read);
    }
  }

  void predict_all() {
    RowPredictor rows(machine_, predict_);
    for (;;) {
      std::size_t index;
      {
        std::unique_lock lock(mutex_);
        if (!wait(lock, [&] { return next_ >= block_count_ || slot(next_).state == State::read; })) return;
        if (next_ >= block_count_) return;
        index = next_++;
        slot(index).state = State::taken;
      }
      Slot& s = slot(index);
      s.outcome = predict_block(s.in, columns_, rows, s.out);
      set(s, State::predicted);
    }
  }

  void write_all() {
    for (std::size_t index = 0;; ++index) {
      Slot& s = slot(index);
      {
        std::unique_lock lock(mutex_);
        if (!wait(lock, [&] { return index >= block_count_ || s.state == State::predicted; })) return;
        if (index >= block_count_) return;
      }
      sink_(s.out);
      outcome_.rows += s.outcome.rows;
      outcome_.refused += s.outcome.refused;
      outcome_.bugs += s.outcome.bugs;
      outcome_.over_cap += s.outcome.over_cap;
      outcome_.by_attention += s.outcome.by_attention;
      set(s, State::free);
    }
  }

  BlockReader& reader_;
  const ByteSink& sink_;
  const Machine& machine_;
  const PredictOptions predict_;
  const BatchColumns& columns_;
  std::vector<Slot> slots_;
  int workers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t next_ = 0;                                    // block that the next idle worker takes
  std::size_t block_count_ = static_cast<std::size_t>(-1);  // known at the end of the input
  std::exception_ptr failure_;
  BatchOutcome outcome_;
};

}  // namespace

BatchOutcome predict_batch(const ByteSource& source, const ByteSink& sink, const Machine& machine,
                           const BatchOptions& options) {
  BlockReader reader(source, options);
  InputBlock block;
  reader.next(block);
  if (block.overlong_line > 0) {
    throw BadInput(options.place + ":1: expected a header with op and shape, found a line of more than " +
                   std::to_string(options.record_bytes) + " bytes");
  }
  const BatchHeader header = read_header(block.text, options.place);
  sink(header.output);
  block.text.erase(0, header.consumed);
  return Pipeline(reader, sink, machine, header.columns, options).run(std::move(block));
}

}  // namespace plumbline

#include "validate/timeline/align.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "arch/error.hpp"

namespace plumbline {
namespace {

// Points of a pair, and of a launch that has no partner. Only their order matters: a shape that agrees outweighs names,
// a product or attention that is left over outweighs any element-wise pair.
constexpr int kNoPair = std::numeric_limits<int>::min() / 4;
constexpr int kSameKind = 2, kMainKind = 8, kSameSizes = 8, kSameGrid = 4, kSameBlock = 1, kNamesAgree = 4;
constexpr int kLeftOver = 1, kMainLeftOver = 16;
constexpr double kMostCells = 4e8;
/// Of several steps at a time; longer timelines are cut into steps first.
constexpr double kCellsOfSeveral = 5e7;
/// Launches: how far from its place another order may take one, about half of a layer of eager PyTorch.
constexpr std::size_t kNearby = 32;
/// Products whose work is this near are each other's though their sizes are told in another order, or a token more.
constexpr double kNearWork = 0.05;

/// What of a measured launch counts.
struct Seen {
  explicit Seen(const TimelineKernel& kernel)
      : kind(kind_of(kernel)),
        sizes(matrix_sizes(kernel)),
        ctas(kernel.ctas),
        threads(kernel.threads),
        words(words_of(kernel)) {}
  LaunchKind kind;
  std::optional<MatrixSizes> sizes;
  std::int64_t ctas, threads;
  std::uint32_t words;
};

int points(const ExpectedLaunch& mine, const Seen& theirs) {
  const LaunchKind kind = theirs.kind;
  const std::optional<MatrixSizes>& sizes = theirs.sizes;
  if (mine.kind != kind) return kNoPair;
  if (kind == LaunchKind::other) {
    int sum = kSameKind;
    if (mine.ctas > 0 && mine.ctas == theirs.ctas) sum += kSameGrid;
    if (mine.threads > 0 && mine.threads == theirs.threads) sum += kSameBlock;
    if ((mine.words & theirs.words) != 0) sum += kNamesAgree;
    return sum;
  }
  if (kind != LaunchKind::matrix || !mine.matrix || !sizes) return kMainKind;
  if (*mine.matrix == *sizes) return kMainKind + kSameSizes;
  const bool near = std::abs(std::log(sizes->products() / mine.matrix->products())) < kNearWork;
  return near ? kMainKind : kNoPair;
}

int left_over(LaunchKind kind) { return kind == LaunchKind::other ? kLeftOver : kMainLeftOver; }

/// Measured launches [first, last) beside `steps` steps.
class Table {
 public:
  Table(const std::vector<ExpectedLaunch>& expected, const std::vector<TimelineKernel>& measured, std::size_t first,
        std::size_t last, std::size_t steps)
      : expected_(expected),
        measured_(measured),
        first_(first),
        count_(last - first),
        width_(steps * expected.size() + 1) {}

  /// Writes the partner of each launch; `step`: number of the first.
  void fill(int step, std::vector<Alignment::Match>& of) {
    turns_.assign((count_ + 1) * width_, Turn::measured_alone);
    std::vector<int> above(width_, 0), here(width_, 0);
    std::fill_n(turns_.begin(), width_, Turn::expected_alone);
    for (std::size_t i = 1; i <= count_; ++i) {
      row(i, above, here);
      std::swap(above, here);
    }
    trace_back(step, of);
  }

 private:
  enum class Turn : std::uint8_t { pair, expected_alone, measured_alone };

  void row(std::size_t i, const std::vector<int>& above, std::vector<int>& here) {
    const Seen seen(measured_[first_ + i - 1]);
    const int alone = left_over(seen.kind);
    here[0] = above[0] - alone;
    for (std::size_t j = 1; j < width_; ++j) {
      const ExpectedLaunch& mine = expected_[(j - 1) % expected_.size()];
      const int pair = above[j - 1] + points(mine, seen);
      // behind the last measured launch nothing more is asked for
      const int skipped = here[j - 1] - (i == count_ ? 0 : left_over(mine.kind));
      const int best = std::max({pair, skipped, above[j] - alone});
      here[j] = best;
      turns_[i * width_ + j] = best == pair      ? Turn::pair
                               : best == skipped ? Turn::expected_alone
                                                 : Turn::measured_alone;
    }
  }

  void trace_back(int step, std::vector<Alignment::Match>& of) const {
    std::size_t i = count_, j = width_ - 1;
    while (i > 0) {
      const Turn turn = turns_[i * width_ + j];
      Alignment::Match& match = of[first_ + i - 1];
      if (turn == Turn::expected_alone) {
        --j;
        continue;
      }
      match = {step + static_cast<int>((j == 0 ? 0 : j - 1) / expected_.size()), -1};
      --i;
      if (turn == Turn::pair) match.expected = static_cast<int>(--j % expected_.size());
    }
  }

  const std::vector<ExpectedLaunch>& expected_;
  const std::vector<TimelineKernel>& measured_;
  std::size_t first_, count_, width_;
  std::vector<Turn> turns_;
};

bool is_main(LaunchKind kind) { return kind == LaunchKind::matrix || kind == LaunchKind::attention; }

/// Where each step begins: behind the last product of the one before, at the longest pause.
std::vector<std::size_t> step_begins(const std::vector<TimelineKernel>& measured, const std::vector<std::size_t>& main,
                                     int steps) {
  std::vector<std::size_t> begins{0};
  for (int s = 1; s < steps; ++s) {
    const std::size_t next = main.size() * static_cast<std::size_t>(s) / static_cast<std::size_t>(steps);
    std::size_t best = main[next];
    Seconds longest;
    for (std::size_t i = main[next - 1] + 1; i <= main[next]; ++i) {
      const Seconds pause = measured[i].start - (measured[i - 1].start + measured[i - 1].duration);
      if (pause <= longest) continue;
      longest = pause;
      best = i;
    }
    begins.push_back(best);
  }
  begins.push_back(measured.size());
  return begins;
}

/// Launches that run in another order than the step's list has them: what is left over on both sides near each other and
/// agrees in sizes, or in names.
void take_reordered(const std::vector<ExpectedLaunch>& expected, const std::vector<TimelineKernel>& measured,
                    Alignment& out) {
  const std::size_t size = expected.size();
  std::vector<bool> taken(size * static_cast<std::size_t>(out.steps), false);
  const auto place = [&](const Alignment::Match& match) {
    return static_cast<std::size_t>(match.step) * size + static_cast<std::size_t>(match.expected);
  };
  for (const Alignment::Match& match : out.of) {
    if (match.expected >= 0) taken[place(match)] = true;
  }
  std::size_t here = 0;  // behind the partner of the launch before
  for (std::size_t i = 0; i < measured.size(); ++i) {
    if (out.of[i].expected >= 0) {
      here = place(out.of[i]) + 1;
      continue;
    }
    const Seen seen(measured[i]);
    const int least = seen.kind == LaunchKind::other ? kSameKind + kNamesAgree : kMainKind + kSameSizes;
    const auto fits = [&](std::size_t j) {
      return j < taken.size() && !taken[j] && points(expected[j % size], seen) >= least;
    };
    for (std::size_t away = 0; away <= kNearby; ++away) {
      const std::size_t after = here + away, before = here - std::min(here, away);
      if (!fits(after) && !fits(before)) continue;
      const std::size_t found = fits(after) ? after : before;
      out.of[i] = {static_cast<int>(found / size), static_cast<int>(found % size)};
      taken[found] = true;
      break;
    }
  }
}

/// Launches beside main ones.
void attach(const std::vector<TimelineKernel>& measured, Alignment& out) {
  std::map<std::int64_t, Alignment::Match> of_call;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    if (measured[i].call_number >= 0 && out.of[i].expected >= 0) of_call.emplace(measured[i].call_number, out.of[i]);
  }
  for (std::size_t i = 0; i < measured.size(); ++i) {
    if (out.of[i].expected >= 0) continue;
    const auto call = of_call.find(measured[i].call_number);
    if (measured[i].call_number >= 0 && call != of_call.end()) out.of[i] = call->second;
    else if (i > 0 && is_helper(measured[i]) && out.of[i - 1].expected >= 0) out.of[i] = out.of[i - 1];
  }
}

}  // namespace

std::vector<ExpectedLaunch> expected_launches(const StepPrediction& step) {
  std::vector<ExpectedLaunch> out;
  for (const Segment& segment : step.graph.segments) {
    for (std::int64_t r = 0; r < segment.repeat; ++r) {
      for (int i = segment.first; i < segment.first + segment.size; ++i) {
        const NodePrediction& n = step.nodes[static_cast<std::size_t>(i)];
        if (n.op.launch_count == 0) continue;
        const KernelPlan& plan = n.op.launches.front().demand.plan;
        const ExpectedLaunch one{i,         kind_of(n.node->op), matrix_sizes(n.node->op),
                                 plan.ctas, plan.threads,        words_of(n.node->name, op_name(n.node->op))};
        // executions of a repetition: what does not divide runs in the first ones
        const std::int64_t each = n.node->count / segment.repeat + (r < n.node->count % segment.repeat ? 1 : 0);
        for (std::int64_t e = 0; e < each; ++e) out.push_back(one);
      }
    }
  }
  return out;
}

Alignment align(const std::vector<ExpectedLaunch>& expected, const std::vector<TimelineKernel>& measured) {
  std::vector<std::size_t> main;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    if (is_main(kind_of(measured[i]))) main.push_back(i);
  }
  const auto mine = std::count_if(expected.begin(), expected.end(), [](const auto& e) { return is_main(e.kind); });
  Alignment out;
  if (mine > 0) {
    out.steps =
        std::max(1, static_cast<int>(std::lround(static_cast<double>(main.size()) / static_cast<double>(mine))));
  }
  out.of.resize(measured.size());
  if (expected.empty()) return out;
  const auto copies = static_cast<double>(out.steps), size = static_cast<double>(expected.size());
  if (static_cast<double>(measured.size()) * size * copies <= kCellsOfSeveral) {
    Table(expected, measured, 0, measured.size(), static_cast<std::size_t>(out.steps)).fill(0, out.of);
  } else {
    const std::vector<std::size_t> begins = step_begins(measured, main, out.steps);
    for (std::size_t s = 0; s + 1 < begins.size(); ++s) {
      if (static_cast<double>(begins[s + 1] - begins[s]) * size > kMostCells) {
        throw BadInput("expected a trace of fewer launches: a few steps are enough");
      }
      Table(expected, measured, begins[s], begins[s + 1], 1).fill(static_cast<int>(s), out.of);
    }
  }
  take_reordered(expected, measured, out);
  attach(measured, out);
  return out;
}

}  // namespace plumbline

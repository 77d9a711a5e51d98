// The best points of a study.
#include <algorithm>

#include "arch/error.hpp"
#include "model/study/parts.hpp"

namespace plumbline {
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
  std::vector<std::int64_t> points() const {
    std::vector<std::int64_t> points;
    for (const Candidate& each : candidates_) points.push_back(each.row.point);
    return points;
  }

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

struct BestOfBlock {
  SweepProgress counts;
  std::vector<Candidate> candidates;
};

BestOfBlock candidates_of(const StudyPlan& plan, std::int64_t top, std::int64_t most, BlockPricer& pricer,
                          std::int64_t first, std::int64_t count) {
  Best best(plan, top, most);
  BestOfBlock block;
  pricer.price(first, count,
               [&](std::int64_t i, const PricedPoint& point, const std::vector<const std::string*>& settings) {
                 count_outcome(point, block.counts);
                 best.add(first + i, point, settings);
               });
  block.candidates = std::move(best.candidates());
  return block;
}

/// Points that were priced before, elsewhere or by an earlier run: their rows are made again.
std::vector<Candidate> candidates_again(const StudyPlan& plan, std::int64_t top, std::int64_t most, BlockPricer& pricer,
                                        const std::vector<std::int64_t>& points) {
  Best best(plan, top, most);
  for (const std::int64_t number : points) {
    if (number < 0 || number >= plan.points().count()) continue;
    pricer.price(number, 1,
                 [&](std::int64_t, const PricedPoint& point, const std::vector<const std::string*>& settings) {
                   best.add(number, point, settings);
                 });
  }
  return std::move(best.candidates());
}

constexpr std::int64_t kNoBound = std::int64_t{1} << 60;

}  // namespace

SweepPart best_of_block(const StudyPlan& plan, std::int64_t top, BlockPricer& pricer, std::int64_t first,
                        std::int64_t count) {
  const BestOfBlock block = candidates_of(plan, top, kNoBound, pricer, first, count);
  SweepPart part;
  part.counts = block.counts;
  for (const Candidate& each : block.candidates) part.best.push_back(each.row.point);
  return part;
}

StudyRows best_points(const Study& study, std::int64_t top, const SweepOptions& options, std::int64_t most) {
  check_study(study, "study");
  const StudyPlan plan(study);
  StudyRows out;
  out.names = plan.points().names();
  out.columns = plan.written();
  out.counts = options.before;
  out.counts.points = plan.points().count();
  Best best(plan, top, most);
  if (!options.best_before.empty()) {
    StudyInputs inputs;
    BlockPricer pricer(plan, inputs);
    best.add_all(candidates_again(plan, top, most, pricer, options.best_before));
  }
  const auto make = [&](std::int64_t first, std::int64_t count, BlockPricer& pricer) {
    return candidates_of(plan, top, most, pricer, first, count);
  };
  const auto take = [&](SweepPart&& part, BlockPricer& pricer) {
    return BestOfBlock{part.counts, candidates_again(plan, top, most, pricer, part.best)};
  };
  const auto deliver = [&](BestOfBlock& block) {
    best.add_all(std::move(block.candidates));
    add_counts(block.counts, out.counts);
    if (options.note) options.note(out.counts, best.points());
    if (options.progress) options.progress(out.counts);
  };
  in_blocks(plan, options, make, take, deliver);
  out.rows = best.rows();
  return out;
}

}  // namespace plumbline

// The cheapest of a planner's candidates: all are bounded from below (timing.hpp, lower_bound), the most promising is
// priced first, then those whose bound is below the best answer so far. The result is that of pricing all of them.
#pragma once

#include <algorithm>

#include "model/stacks/common/gemm_cache.hpp"
#include "model/stacks/common/gemm_tiles.hpp"

namespace plumbline::gemm {

inline constexpr Seconds kNoAnswer = 1e30 * units::s;

/// `Planner` says what one kernel asks for: Demand demand(const TileLayout&, const WorkSplit&, Traffic) const, and
/// GemmPlan plan(const TileLayout&, const WorkSplit&) const.
template <class Planner>
class Search {
 public:
  /// Takes the storage of the cache: one search at a time. `layouts` that are laid out stay where they are.
  Search(const Planner& planner, const Context& context, GemmCache& cache)
      : planner_(planner), c_(context), scratch_(cache.state().scratch), bound_(context.rates, context.family) {
    scratch_.candidates.clear();
    scratch_.layouts.clear();
    best_.total = kNoAnswer;
  }

  const TileLayout& lay_out(const TileLayout& layout) { return scratch_.layouts.emplace_back(layout); }

  void add(const TileLayout& layout, const WorkSplit& split) {
    scratch_.candidates.push_back({at_least(layout, split, Traffic::compulsory), &layout, split});
  }

  bool empty() const { return scratch_.candidates.empty(); }

  GemmChoice run() {
    const auto& all = scratch_.candidates;
    const auto likeliest = std::min_element(all.begin(), all.end(),
                                            [](const Candidate& a, const Candidate& b) { return a.bound < b.bound; });
    consider(*likeliest);
    for (const Candidate& k : all) {
      if (k.bound < best_.total && &k != &*likeliest) consider(k);
    }
    return best_;
  }

  /// The launches of a candidate. Above `give_up` the total is only a bound.
  GemmChoice priced(const TileLayout& layout, const WorkSplit& split, Seconds give_up = kNoAnswer) const {
    GemmChoice out;
    Seconds extra;
    if (split.second_launch) {
      out.reduces = true;
      out.reduce = reduction_demand(c_.task, c_.rates, split.splits);
      extra = price_total(out.reduce, c_.rates, c_.reduce, give_up) + c_.rates.gap_graph;
    }
    out.main = planner_.demand(layout, split, Traffic::counted);
    out.total = extra + price_total(out.main, c_.rates, c_.family, give_up - extra);
    out.plan = planner_.plan(layout, split);
    return out;
  }

 private:
  Seconds at_least(const TileLayout& layout, const WorkSplit& split, Traffic traffic) const {
    const Seconds main = bound_(planner_.demand(layout, split, traffic));
    return split.second_launch ? main + c_.reduce.fixed + c_.rates.gap_graph : main;
  }

  void consider(const Candidate& k) {
    if (at_least(*k.layout, k.split, Traffic::counted) >= best_.total) return;
    const GemmChoice choice = priced(*k.layout, k.split, best_.total);
    if (choice.total < best_.total) best_ = choice;
  }

  const Planner& planner_;
  const Context& c_;
  Scratch& scratch_;
  const LowerBound bound_;
  GemmChoice best_;
};

}  // namespace plumbline::gemm

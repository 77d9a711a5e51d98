// The cheapest of a planner's candidates: all are bounded from below (timing.hpp, lower_bound), the most promising is
// priced first, then those whose bound is below the best answer so far. The result is that of pricing all of them; where
// the task says so, at the clock that each really runs at.
#pragma once

#include <algorithm>

#include "model/stacks/common/gemm_cache.hpp"
#include "model/stacks/common/gemm_tiles.hpp"
#include "model/stacks/common/priced_times.hpp"

namespace plumbline::gemm {

inline constexpr Seconds kNoAnswer = 1e30 * units::s;

/// `Planner` says what one kernel asks for:
///   void adapt(TileLayout&) const                                    what it does otherwise than tiles alone have it
///   WorkSplit split(const TileLayout&, double splits) const          how `splits` parts of K are dealt out
///   Demand demand(const TileLayout&, const WorkSplit&, Traffic) const
///   GemmPlan plan(const TileLayout&, const WorkSplit&) const
///   Demand reduction(double splits) const                            where its second launch is not the general one
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

  const TileLayout& lay_out(const TileCosts& costs) {
    TileLayout& layout = scratch_.layouts.emplace_back(c_, costs);
    planner_.adapt(layout);
    return layout;
  }

  void add(const TileLayout& layout, double splits) {
    const WorkSplit split = planner_.split(layout, splits);
    const Seconds bound = at_least(planner_.demand(layout, split, Traffic::compulsory), split);
    scratch_.candidates.emplace_back(bound, &layout, splits);
  }

  /// Tiles of a menu, each whole and in as many parts as are worth a look (`splits`: from 1 up). Those much wider than
  /// the operands only where there is nothing else.
  template <class Splits>
  void add_menu(const std::vector<TileCosts>& menu, const Splits& splits) {
    for (const bool any_width : {false, true}) {
      for (const TileCosts& e : menu) {
        const bool wide = oversized(e.tile_m, c_.task.m) || oversized(e.tile_n, c_.task.n);
        if (any_width || !wide) add_tile(e, splits);
      }
      if (!empty()) return;
    }
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
    if (c_.task.alone_flops > 0 && c_.rates.power) choose_as_priced();
    return best_;
  }

  /// The launches of a candidate.
  GemmChoice priced(const TileLayout& layout, double splits) const {
    const WorkSplit split = planner_.split(layout, splits);
    return priced(layout, split, planner_.demand(layout, split, Traffic::counted), kNoAnswer);
  }

 private:
  template <class Splits>
  void add_tile(const TileCosts& costs, const Splits& splits) {
    if (!fits(costs, c_.smem)) return;
    const TileLayout& layout = lay_out(costs);
    for (const auto n : splits) {
      if (n > 1 && !worth_splitting(layout, c_.rates, static_cast<double>(n))) break;
      add(layout, static_cast<double>(n));
    }
  }

  Seconds at_least(const Demand& main, const WorkSplit& split) const {
    return split.second_launch ? bound_(main) + c_.reduce.fixed + c_.rates.gap_graph : bound_(main);
  }

  /// Above `give_up` the total is only a bound.
  GemmChoice priced(const TileLayout& layout, const WorkSplit& split, const Demand& main, Seconds give_up) const {
    GemmChoice out;
    Seconds extra;
    if (split.second_launch) {
      out.reduces = true;
      if constexpr (requires { planner_.reduction(split.splits); }) out.reduce = planner_.reduction(split.splits);
      else out.reduce = reduction_demand(c_.task, c_.rates, split.splits);
      extra = price_total(out.reduce, c_.rates, c_.reduce, give_up) + c_.rates.gap_graph;
    }
    out.main = main;
    out.total = extra + price_total(main, c_.rates, c_.family, give_up - extra);
    out.plan = planner_.plan(layout, split);
    return out;
  }

  void consider(const Candidate& k) {
    const WorkSplit split = planner_.split(*k.layout, k.splits);
    const Demand main = planner_.demand(*k.layout, split, Traffic::counted);
    if (at_least(main, split) >= best_.total) return;
    const GemmChoice choice = priced(*k.layout, split, main, best_.total);
    if (choice.total < best_.total) best_ = choice;
  }

  /// The best of the candidates at the clocks that they really run at. Their bounds are of the family's own share of the
  /// tensor rate, which may have skipped cycles in it that are not skipped there.
  void choose_as_priced() {
    constexpr double kOfBound = 0.8;
    PricedTimes times(c_.rates, c_.task.alone_flops * units::FLOP, c_.task.math);
    std::array<PlannedLaunch, 2> launches;
    PricedTimes::Priced best = times.price(launches_of(best_, launches));
    GemmChoice chosen = best_;
    for (const Candidate& k : scratch_.candidates) {
      if (kOfBound * k.bound >= best.time) continue;
      const WorkSplit split = planner_.split(*k.layout, k.splits);
      const GemmChoice other = priced(*k.layout, split, planner_.demand(*k.layout, split, Traffic::counted), kNoAnswer);
      const PricedTimes::Priced here = times.price(launches_of(other, launches), best);
      if (here.time >= best.time) continue;
      best = here;
      chosen = other;
    }
    best_ = chosen;
  }

  std::span<const PlannedLaunch> launches_of(const GemmChoice& choice, std::array<PlannedLaunch, 2>& room) const {
    room = {{{&choice.main, &c_.family}, {&choice.reduce, &c_.reduce}}};
    return std::span(room).first(choice.reduces ? 2 : 1);
  }

  const Planner& planner_;
  const Context& c_;
  Scratch& scratch_;
  const LowerBound bound_;
  GemmChoice best_;
};

}  // namespace plumbline::gemm

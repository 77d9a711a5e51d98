#include "model/stacks/common/plan_gemm.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/engine/timing.hpp"
#include "model/stacks/common/gemm_cache.hpp"
#include "model/stacks/common/gemm_menu.hpp"
#include "model/stacks/cublas/gemm_library.hpp"
#include "ops/plan/kernel_menu.hpp"

namespace plumbline {
namespace {

using gemm::Candidate;
using gemm::Context;
using gemm::Cut;
using gemm::Deal;
using gemm::kMenuSize;
using gemm::kSplits;
using gemm::MenuEntry;

constexpr double kFp32Bytes = 4;

/// The second launch of a split-K GEMM: `splits` fp32 partials through L2 (DRAM when they do not fit) to one result.
Demand reduction(const GemmTask& t, const Rates& m, double splits) {
  Demand d;
  const double elements = t.batch * t.m * t.n;
  constexpr double kElementsPerCta = 1024;
  d.plan.ctas = static_cast<std::int64_t>(std::ceil(elements / kElementsPerCta));
  d.plan.ctas_per_sm = 8;
  d.plan.threads = 256;
  d.l2 = 2.0 * std::min(elements, kElementsPerCta) * splits * kFp32Bytes * units::B;  // written by the first, read here
  const double spill = elements * splits * kFp32Bytes;
  if (spill > m.l2_capacity.in(units::B)) d.dram_read = d.dram_write = spill * units::B;
  d.dram_write += elements * t.output_bytes * units::B;
  d.step_latency = m.l2_latency;
  return d;
}

GemmPlan plan_of(const GemmTask& task, const MenuEntry& e, const Deal& deal) {
  GemmPlan plan;
  plan.tile_m = static_cast<std::int64_t>(e.tile_m);
  plan.tile_n = static_cast<std::int64_t>(e.tile_n);
  plan.tile_k = static_cast<std::int64_t>(e.tile_k);
  plan.stages = static_cast<std::int64_t>(e.stages);
  plan.splits = static_cast<std::int64_t>(deal.splits);
  // a cluster of ours lies along the row side; of a library's, nothing is known
  const bool along_n = task.own && e.swapped;
  (along_n ? plan.cluster_n : plan.cluster_m) = static_cast<std::int64_t>(e.cluster);
  plan.swapped = e.swapped;
  if (task.own) plan.engine = *task.own;
  return plan;
}

/// Collects candidates with their cheap bounds, prices the most promising first, then those whose bound is below the
/// best answer so far: the result is that of pricing all of them.
class Search {
 public:
  Search(const Context& context, GemmCache& cache) : c_(context), candidates_(cache.state().candidates) {
    best_.total = 1e30 * units::s;
    candidates_.clear();
    const double p = context.family.overlap;
    squarings_ = p <= 4 ? 2 : p <= 8 ? 3 : 4;
    chord_ = p <= 16 ? std::exp2(1 / p) - 1 : 0;
  }

  void add(const Cut& cut, const Deal& deal) {
    candidates_.push_back({cut.bound(c_, deal) + second_at_least(deal), &cut, deal});
  }

  bool empty() const { return candidates_.empty(); }

  GemmChoice run() {
    const auto likeliest = std::min_element(candidates_.begin(), candidates_.end(),
                                            [](const Candidate& a, const Candidate& b) { return a.bound < b.bound; });
    consider(*likeliest);
    for (const Candidate& k : candidates_) {
      if (k.bound < best_.total && &k != &*likeliest) consider(k);
    }
    return best_;
  }

  /// The launches of a candidate. Above `give_up` the total is only a bound.
  GemmChoice priced(const Candidate& k, Seconds give_up = 1e30 * units::s) const {
    GemmChoice out;
    Seconds extra;
    if (k.deal.second_launch) {
      out.reduces = true;
      out.reduce = reduction(c_.task, c_.machine, k.deal.splits);
      extra = price_total(out.reduce, c_.machine, c_.reduce, give_up) + c_.machine.gap_graph;
    }
    out.main = k.cut->demand(c_, k.deal);
    out.total = extra + price_total(out.main, c_.machine, c_.family, give_up - extra);
    out.plan = plan_of(c_.task, *k.cut->e, k.deal);
    return out;
  }

 private:
  Seconds second_at_least(const Deal& deal) const {
    return deal.second_launch ? c_.reduce.fixed + c_.machine.gap_graph : Seconds{};
  }

  /// Below the p-norm, without logarithms: ratios to the largest are at most 1, so their p-th powers are at least those
  /// of the next power of two, and (1 + s)^(1/p) is concave in s: above its chord from 0 to 1.
  Seconds norm_at_least(const PerResource<Seconds>& own) const {
    Seconds largest;
    for (const Seconds t : own) largest = std::max(largest, t);
    if (chord_ <= 0) return largest;
    double sum = -1;  // without the largest itself
    const auto per_largest = 1.0 / largest;
    for (const Seconds t : own) {
      double power = t * per_largest;
      for (int i = 0; i < squarings_; ++i) power *= power;
      sum += power;
    }
    return largest * (1 + chord_ * std::clamp(sum, 0.0, 1.0));
  }

  void consider(const Candidate& k) {
    const Cut::Totals t = k.cut->totals(c_, k.deal);
    const Seconds exposed = t.exposed + second_at_least(k.deal);
    if (exposed + norm_at_least(t.own) >= best_.total) return;
    if (exposed + pnorm(t.own, c_.family.overlap) >= best_.total) return;
    const GemmChoice choice = priced(k, best_.total);
    if (choice.total < best_.total) best_ = choice;
  }

  const Context& c_;
  std::vector<Candidate>& candidates_;
  double chord_ = 0;
  int squarings_ = 4;
  GemmChoice best_;
};

/// A tile much wider than the operand only wastes tensor work, and its narrower neighbour is in the menu.
bool oversized(double tile, double size) { return tile > 64 && tile >= 2 * size; }

/// Rings have two stages at least. (64 KiB of Turing do not hold two of the largest tiles.)
bool fits(const MenuEntry& entry, double smem) { return entry.resident * entry.stages * entry.stage_bytes <= smem; }

/// Splits worth a look: the slots are not filled twice by them, and each has two steps of K.
bool worth_splitting(const Cut& cut, const Rates& m, double splits) {
  return cut.tiles / m.sm_count * splits <= 2 && cut.k_steps >= 2 * splits;
}

void add_library_cuts(Search& search, const Context& c, const Cut& cut) {
  for (const double splits : kSplits) {
    if (splits > 1 && !worth_splitting(cut, c.machine, splits)) break;
    search.add(cut, cut.tiled(splits));
  }
}

/// The portable kernel adds up its splits in a second launch, the Hopper kernel within the first.
Deal own_deal(const Context& c, const Cut& cut, double splits) {
  return *c.task.own == GemmEngine::wgmma && splits != 1 ? cut.shared(c, splits) : cut.tiled(splits);
}

/// Without the cut of the tiles left over behind whole waves alone (0 splits): of 50 swept shapes it was the best for
/// 9, 0.3 % in the geometric mean, and lost up to half where tiles are small (H200, 2026-11-20).
void add_own_cuts(Search& search, const Context& c, const Cut& cut) {
  for (const std::int64_t n : own_gemm_splits()) {
    const auto splits = static_cast<double>(n);
    if (splits == 1 || worth_splitting(cut, c.machine, splits)) search.add(cut, own_deal(c, cut, splits));
  }
}

/// A library's kernels that fetch by TMA: tiles to measure, not from a list.
GemmChoice search_library(const Context& context, GemmCache& cache) {
  std::unique_ptr<gemm::LibrarySearch>& storage = cache.state().library;
  if (!storage) storage = std::make_unique<gemm::LibrarySearch>();
  gemm::LibraryMenu& menu = storage->menu;
  auto& cuts = storage->cuts;
  gemm::fill_library_menu(context, menu);
  Search search(context, cache);
  for (std::size_t i = 0; i < menu.size; ++i) {
    const Cut& cut = cuts[i].emplace(context, menu.entries[i]);
    const gemm::LibrarySplits splits = gemm::library_splits(context, cut);
    for (std::size_t j = 0; j < splits.size; ++j) search.add(cut, cut.tiled(splits.counts[j]));
  }
  return search.run();
}

GemmChoice search(const GemmTask& t, const Rates& m, GemmCache& cache) {
  const Context context(t, m);
  if (gemm::takes_tma(context)) return search_library(context, cache);
  const gemm::GemmMenu& menu = gemm::gemm_menu(context, cache);
  std::array<std::optional<Cut>, kMenuSize> cuts;
  Search search(context, cache);
  const auto add = [&](bool any_size) {
    for (std::size_t i = 0; i < menu.size; ++i) {
      const MenuEntry& e = menu.entries[i];
      if (!any_size && (oversized(e.tile_m, t.m) || oversized(e.tile_n, t.n))) continue;
      if (!fits(e, context.smem)) continue;
      const Cut& cut = cuts[i].emplace(context, e);
      t.own ? add_own_cuts(search, context, cut) : add_library_cuts(search, context, cut);
    }
  };
  add(false);
  if (search.empty()) add(true);
  return search.run();
}

std::size_t slot_of(const GemmTask& t, std::size_t slots) {
  std::uint64_t hash = 0;
  for (const double v : {t.m, t.n, t.k, t.batch}) {  // whole numbers have empty low halves as doubles: fold and mix
    hash = (hash ^ (hash >> 29) ^ (std::bit_cast<std::uint64_t>(v) >> 32)) * 0x9E3779B97F4A7C15U;
  }
  return static_cast<std::size_t>(hash >> 40) % slots;
}

}  // namespace

GemmCache::GemmCache() : state_(std::make_unique<State>()) {}
GemmCache::~GemmCache() = default;
GemmCache::GemmCache(GemmCache&&) noexcept = default;
GemmCache& GemmCache::operator=(GemmCache&&) noexcept = default;

void GemmCache::clear() {
  for (auto& answer : state_->answers) {
    if (answer) answer->task = GemmTask{};  // no shape has m = 0
  }
  state_->menus.clear();
  state_->oldest_menu = 0;
}

std::optional<GemmChoice> price_own_plan(const GemmTask& t, const GemmPlan& plan, const Rates& m, GemmCache& cache) {
  if (!t.own || plan.engine != *t.own) return std::nullopt;
  const Context context(t, m);
  const gemm::GemmMenu& menu = gemm::gemm_menu(context, cache);
  const std::span<const MenuEntry> entries(menu.entries.data(), menu.size);
  for (const MenuEntry& entry : entries) {
    if (!fits(entry, context.smem)) continue;
    const Cut cut(context, entry);
    const Deal deal = own_deal(context, cut, static_cast<double>(plan.splits));
    if (plan_of(t, entry, deal) == plan) return Search(context, cache).priced({{}, &cut, deal});
  }
  return std::nullopt;
}

const GemmChoice& plan_gemm(const GemmTask& t, const Rates& m, GemmCache& cache) {
  std::unique_ptr<GemmCache::State::Answer>& known = cache.state().answers[slot_of(t, GemmCache::State::kAnswers)];
  if (!known) known = std::make_unique<GemmCache::State::Answer>();
  if (known->task == t) return known->choice;
  known->task = GemmTask{};
  known->choice = search(t, m, cache);
  known->task = t;
  return known->choice;
}

}  // namespace plumbline

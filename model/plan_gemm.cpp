#include "model/plan_gemm.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "model/gemm_menu.hpp"
#include "model/timing.hpp"
#include "ops/kernel_menu.hpp"

namespace plumbline {
namespace {

using gemm::Context;
using gemm::Cut;
using gemm::kMenuSize;
using gemm::kSplits;
using gemm::MenuEntry;

constexpr double kFp32Bytes = 4;

/// The second launch of a split-K GEMM: `splits` fp32 partials through L2 (DRAM when they do not fit) to one result.
Demand reduction(const GemmTask& t, const Machine& m, double splits) {
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

/// One way to cut the work: `splits` CTAs a tile with a reduction launch behind them, or (0) stream-K: one persistent
/// CTA a slot, the K steps of all tiles dealt out evenly; a tile that several CTAs share costs each of them a seam
/// (fix-up of a partial tile through L2): about ten steps and three more for each extra peer. Source: NVIDIA/cutlass
/// threadblock_swizzle_streamk.h (modeling notes, section 3, "Waves").
struct Candidate {
  Seconds bound;
  const Cut* cut = nullptr;
  double splits = 1, ctas = 0, steps = 0;
};

Candidate stream_k(const Context& c, const Cut& cut) {
  constexpr double kSeam = 10, kSeamPerPeer = 3;
  Candidate k;
  k.cut = &cut;
  k.splits = 0;
  k.ctas = c.machine.sm_count * cut.e->resident;
  const double peers = std::max(1.0, std::ceil(k.ctas / cut.tiles));
  k.steps = cut.tiles * cut.k_steps / k.ctas + kSeam + kSeamPerPeer * (peers - 1);
  return k;
}

Candidate tiled(const Cut& cut, double splits) {
  Candidate k;
  k.cut = &cut;
  k.splits = splits;
  k.ctas = cut.tiles * splits;
  k.steps = std::ceil(cut.k_steps / splits);
  return k;
}

/// Collects candidates with their cheap bounds, prices the most promising first, then those whose bound is below the
/// best answer so far: the result is that of pricing all of them.
class Search {
 public:
  explicit Search(const Context& context) : c_(context), candidates_(storage()) {
    best_.total = 1e30 * units::s;
    candidates_.clear();
    const double p = context.family.overlap;
    squarings_ = p <= 4 ? 2 : p <= 8 ? 3 : 4;
    chord_ = p <= 16 ? std::exp2(1 / p) - 1 : 0;
  }

  void add(Candidate candidate) {
    candidate.bound = candidate.cut->bound(c_, candidate.ctas, candidate.steps) + second_at_least(candidate);
    candidates_.push_back(candidate);
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

 private:
  Seconds second_at_least(const Candidate& k) const {
    return k.splits > 1 ? c_.reduce.fixed + c_.machine.gap_graph : Seconds{};
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
    const Cut::Totals t = k.cut->totals(c_, k.ctas, k.steps);
    const Seconds exposed = t.exposed + second_at_least(k);
    if (exposed + norm_at_least(t.own) >= best_.total) return;
    if (exposed + pnorm(t.own, c_.family.overlap) >= best_.total) return;
    Demand reduce;
    Seconds extra;
    if (k.splits > 1) {
      reduce = reduction(c_.task, c_.machine, k.splits);
      extra = price_total(reduce, c_.machine, c_.reduce, best_.total) + c_.machine.gap_graph;
    }
    Demand main = k.cut->demand(c_, k.ctas, k.steps, std::max(1.0, k.splits));
    if (k.splits == 0) main.once_clk *= std::max(1.0, k.cut->tiles / k.ctas);
    const Seconds total = extra + price_total(main, c_.machine, c_.family, best_.total - extra);
    if (total >= best_.total) return;
    best_.total = total;
    best_.main = main;
    best_.reduce = reduce;
    best_.plan.tile_m = static_cast<std::int64_t>(k.cut->e->tile_m);
    best_.plan.tile_n = static_cast<std::int64_t>(k.cut->e->tile_n);
    best_.plan.tile_k = static_cast<std::int64_t>(k.cut->e->tile_k);
    best_.plan.stages = static_cast<std::int64_t>(k.cut->e->stages);
    best_.plan.splits = static_cast<std::int64_t>(k.splits);
    best_.plan.cluster_m = static_cast<std::int64_t>(k.cut->e->cluster);
    best_.plan.swapped = k.cut->e->swapped;
    if (c_.task.own) best_.plan.engine = *c_.task.own;
  }

  static std::vector<Candidate>& storage() {  // kept from search to search
    thread_local std::vector<Candidate> candidates;
    return candidates;
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

/// Adds a menu entry's ways of cutting the task: whole tiles, K in splits while the slots are not filled twice, and (of
/// a library) stream-K.
void add_cuts(Search& search, const Context& c, const Cut& cut) {
  const double waves = cut.tiles / c.machine.sm_count;
  const bool own = c.task.own.has_value();
  if (!own && c.path.stream_k && c.task.batch == 1 && waves > 0.5 && waves < 4) search.add(stream_k(c, cut));
  const auto add = [&](double splits) {
    if (splits > 1 && (waves * splits > 2 || cut.k_steps < 2 * splits)) return false;
    search.add(tiled(cut, splits));
    return true;
  };
  if (own) {
    for (const std::int64_t splits : own_gemm_splits()) {
      if (!add(static_cast<double>(splits))) break;
    }
  } else {
    for (const double splits : kSplits) {
      if (!add(splits)) break;
    }
  }
}

GemmChoice search(const GemmTask& t, const Machine& m, const FamilyScalars& family) {
  const Context context(t, m, family);
  const gemm::GemmMenu& menu = gemm::gemm_menu(context);
  std::array<std::optional<Cut>, kMenuSize> cuts;
  Search search(context);
  const auto add = [&](bool any_size) {
    for (std::size_t i = 0; i < menu.size; ++i) {
      const MenuEntry& e = menu.entries[i];
      if (!any_size && (oversized(e.tile_m, t.m) || oversized(e.tile_n, t.n))) continue;
      if (fits(e, context.smem)) add_cuts(search, context, cuts[i].emplace(context, e));
    }
  };
  add(false);
  if (search.empty()) add(true);
  return search.run();
}

/// Answers of this thread's last searches, by machine serial and family address: what make_machine returns does not
/// change. Sweeps ask for the same GEMM again and again: a context sweep changes none of a decode step's.
struct Remembered {
  std::uint64_t machine = 0;
  const FamilyScalars* family = nullptr;
  GemmTask task;
  GemmChoice choice;
};

std::size_t slot_of(const GemmTask& t, std::size_t slots) {
  std::uint64_t hash = 0;
  for (const double v : {t.m, t.n, t.k, t.batch}) {  // whole numbers have empty low halves as doubles: fold and mix
    hash = (hash ^ (hash >> 29) ^ (std::bit_cast<std::uint64_t>(v) >> 32)) * 0x9E3779B97F4A7C15U;
  }
  return static_cast<std::size_t>(hash >> 40) % slots;
}

}  // namespace

GemmChoice plan_gemm(const GemmTask& t, const Machine& m, const FamilyScalars& family) {
  constexpr std::size_t kSlots = 256;
  thread_local std::vector<Remembered> table(kSlots);
  Remembered& known = table[slot_of(t, kSlots)];
  if (known.machine == m.serial && known.family == &family && known.task == t) return known.choice;
  known.choice = search(t, m, family);
  known.machine = m.serial;
  known.family = &family;
  known.task = t;
  return known.choice;
}

}  // namespace plumbline

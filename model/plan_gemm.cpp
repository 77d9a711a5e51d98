#include "model/plan_gemm.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "model/tensor_path.hpp"
#include "model/timing.hpp"

namespace plumbline {
namespace {

struct Tile {
  std::int16_t rows, cols;
};

/// Tile menus of today's libraries: the 64-row side of the tensor instruction times any width up to the accumulator
/// limit. Either operand may take the row side ("swapped": weights fill the rows when there are few tokens). Large
/// tiles first: they are usually right, and a good first candidate prunes the rest.
constexpr std::array<Tile, 16> kTiles{{{128, 256},
                                       {256, 128},
                                       {128, 192},
                                       {128, 128},
                                       {128, 160},
                                       {64, 256},
                                       {64, 192},
                                       {64, 128},
                                       {128, 96},
                                       {128, 64},
                                       {64, 96},
                                       {64, 64},
                                       {64, 32},
                                       {64, 16},
                                       {128, 32},
                                       {128, 16}}};
constexpr std::array<double, 10> kSplits{1, 2, 3, 4, 6, 8, 12, 16, 24, 32};

constexpr double kStepBytes = 128;  // one main-loop step covers 128 bytes of K (a swizzle span): 64 bf16, 128 fp8
constexpr double kFp32Bytes = 4;

double ceil_div(double a, double b) { return std::ceil(a / b); }

/// What every candidate of one task shares.
struct Context {
  const GemmTask& task;
  const Machine& machine;
  const FamilyScalars& family;
  const TensorPath& path;
  double tile_k, a_bytes, w_bytes, out_bytes;  // whole operands of one batch entry
  double smem, smem_port, l2_port;             // bytes, bytes a clock
  Seconds dram_floor;                          // compulsory traffic
  Seconds clk, per_l2;                         // one SM clock; one byte of L2
  double per_tensor_rate = 1, k_steps = 0;

  Context(const GemmTask& t, const Machine& m, const FamilyScalars& f) : task(t), machine(m), family(f), path(m.path) {
    tile_k = std::max(16.0, kStepBytes / std::max(t.input_bytes, t.weight_bytes));
    a_bytes = t.m * t.k * t.input_bytes;
    w_bytes = t.n * t.k * t.weight_bytes * t.weight_kept * t.weights_read;
    out_bytes = t.m * t.n * t.output_bytes;
    smem = m.gpu.sm.smem.in(units::B);
    smem_port = m.gpu.sm.smem_bytes_per_clk.in(units::B);
    l2_port = m.gpu.sm.l2_bytes_per_clk.in(units::B);
    // a split writes its result in a launch of its own: no turnaround, and that launch's share of the card
    dram_floor = dram_time(t.batch * (a_bytes + w_bytes) * units::B, Bytes{}, m) / f.dram_share +
                 dram_time(Bytes{}, t.batch * out_bytes * units::B, m) / std::max(f.dram_share, m.reduce.dram_share);
    clk = 1.0 / m.clock;
    per_l2 = units::B / m.l2;
    // no cut does less dense work than the task, so none sees a larger share of the peak
    const double dense = 2.0 * t.m * t.n * t.k * t.batch / t.tensor_flop_per_clk / m.sm_count;
    per_tensor_rate = 1.0 / (m.sustained_fraction(dense / m.clock) * f.efficiency);
    k_steps = std::ceil(t.k / tile_k);
  }
};

/// Panels of A and B that cross the DRAM interface, given how many tiles run at a time. CTAs walk in super-rows of
/// about the square root of the concurrent tiles; the operand that is swept again for each super-row is re-read unless
/// it fits in L2 beside the other's panel (modeling notes, section 3, "L2/DRAM traffic").
double dram_panels(double a, double b, double tiles_m, double tiles_n, double concurrent, double tile_ratio,
                   double l2_capacity) {
  if (a + b <= l2_capacity) return a + b;
  const double rows = std::clamp(std::round(std::sqrt(concurrent * tile_ratio)), 1.0, tiles_m);
  const double cols = std::clamp(std::round(concurrent / rows), 1.0, tiles_n);
  const double a_panel = a * rows / tiles_m;
  const double b_panel = b * cols / tiles_n;
  const double sweep_b = a + (b + a_panel <= l2_capacity ? b : b * ceil_div(tiles_m, rows));
  const double sweep_a = b + (a + b_panel <= l2_capacity ? a : a * ceil_div(tiles_n, cols));
  return std::min(sweep_a, sweep_b);
}

/// What a tile costs a step, whatever the sizes of the operands: worked out once a machine and precision.
struct MenuEntry {
  Tile tile{};
  bool swapped = false;
  double tile_m = 0, tile_n = 0;
  double resident = 1, stages = 2, stage_bytes = 0, a = 0, w = 0;
  double tensor_clk = 0, fp32_clk = 0, smem_clk = 0, once_clk = 0;
  Seconds step_latency;
};

MenuEntry menu_entry(const Context& c, Tile tile, bool swapped) {
  const GemmTask& task = c.task;
  const StreamingMultiprocessor& sm = c.machine.gpu.sm;
  MenuEntry e;
  e.tile = tile;
  e.swapped = swapped;
  e.tile_m = swapped ? tile.cols : tile.rows;
  e.tile_n = swapped ? tile.rows : tile.cols;
  e.a = e.tile_m * c.tile_k * task.input_bytes;
  e.w = e.tile_n * c.tile_k * task.weight_bytes * task.weight_kept;
  // unpacked weights take the activations' width in shared memory
  const double w_smem = task.dequant_per_weight > 0 ? e.tile_n * c.tile_k * task.input_bytes : e.w;
  const double row_side = swapped ? w_smem : e.a;
  const double col_side = swapped ? e.a : w_smem;
  e.tensor_clk = 2.0 * e.tile_m * e.tile_n * c.tile_k / task.tensor_flop_per_clk;
  e.fp32_clk = task.dequant_per_weight * e.tile_n * c.tile_k / (0.5 * sm.fp32_flop_per_clk);
  e.smem_clk = (c.path.operand_reads(tile.rows, tile.cols, row_side, col_side) + row_side + col_side) / c.smem_port;
  e.once_clk = c.family.exposed * e.tile_m * e.tile_n * task.output_bytes / c.l2_port;
  // ring depth: what shared memory gives to as many CTAs as their accumulators leave room for
  e.stage_bytes = e.a + e.w;
  const double accumulators = static_cast<double>(tile.rows) * tile.cols;
  const double room = std::floor(0.5 * static_cast<double>(sm.registers) / accumulators);
  constexpr double kLeastStages = 4;
  e.resident = std::clamp(std::min(room, std::floor(c.smem / (kLeastStages * e.stage_bytes))), 1.0, c.path.most_ctas);
  e.stages = std::clamp(std::floor(c.smem / (e.resident * e.stage_bytes)), 2.0, c.path.most_stages);
  e.step_latency = c.machine.dram_latency / e.stages;
  return e;
}

constexpr std::size_t kMenuSize = 2 * kTiles.size();

/// All tiles on both sides for one machine, family and precision. A thread keeps the last few it used: planning a step
/// asks for the same two or three precisions again and again.
struct GemmMenu {
  std::uint64_t machine = 0;
  const FamilyScalars* family = nullptr;
  GemmTask key;
  std::array<MenuEntry, kMenuSize> entries;

  bool serves(const Context& c) const {
    const GemmTask& t = c.task;
    return machine == c.machine.serial && family == &c.family && key.input_bytes == t.input_bytes &&
           key.weight_bytes == t.weight_bytes && key.output_bytes == t.output_bytes &&
           key.tensor_flop_per_clk == t.tensor_flop_per_clk && key.dequant_per_weight == t.dequant_per_weight &&
           key.weight_kept == t.weight_kept;
  }
};

const GemmMenu& gemm_menu(const Context& c) {
  constexpr std::size_t kKept = 8;
  thread_local std::array<GemmMenu, kKept> kept;
  thread_local std::size_t oldest = 0;
  for (const GemmMenu& menu : kept) {
    if (menu.serves(c)) return menu;
  }
  GemmMenu& menu = kept[oldest];
  oldest = (oldest + 1) % kKept;
  menu.machine = c.machine.serial;
  menu.family = &c.family;
  menu.key = c.task;
  for (std::size_t i = 0; i < kTiles.size(); ++i) {
    menu.entries[2 * i] = menu_entry(c, kTiles[i], false);
    menu.entries[2 * i + 1] = menu_entry(c, kTiles[i], true);
  }
  return menu;
}

/// A menu entry laid over the operands.
struct Cut {
  const MenuEntry* e = nullptr;
  double tiles_m = 0, tiles_n = 0, tiles = 0, k_steps = 0, l2_bytes = 0;

  Cut(const Context& c, const MenuEntry& entry) : e(&entry) {
    tiles_m = std::ceil(c.task.m / e->tile_m);
    tiles_n = std::ceil(c.task.n / e->tile_n);
    tiles = tiles_m * tiles_n * c.task.batch;
    k_steps = c.k_steps;
    // a cluster of two CTAs fetches the operand they share once (TMA multicast)
    l2_bytes = e->a + e->w;
    if (c.path.multicast && tiles >= 2)
      l2_bytes -= 0.5 * std::max(tiles_m >= 2 ? e->w : 0.0, tiles_n >= 2 ? e->a : 0.0);
  }

  /// Own times of all CTAs together on the busiest SM, and what is exposed: from these follow two lower bounds of the
  /// engine's answer, a cheap one (the largest) and a close one (the p-norm of sums is below the sum of p-norms:
  /// Minkowski's inequality).
  struct Totals {
    PerResource<Seconds> own;
    Seconds exposed;
  };
  Totals totals(const Context& c, double ctas, double steps) const {
    const Machine& m = c.machine;
    const double turns = std::ceil(ctas / m.sm_count);
    const double waves = std::ceil(ctas / (m.sm_count * e->resident));
    const Seconds on_sm = turns * steps * c.clk;
    Totals t;
    t.own[Resource::tensor] = on_sm * (e->tensor_clk * c.per_tensor_rate);
    t.own[Resource::fp32] = on_sm * e->fp32_clk;
    t.own[Resource::smem] = on_sm * e->smem_clk;
    t.own[Resource::l2] = ctas * steps * l2_bytes * c.per_l2;
    t.own[Resource::dram] = c.dram_floor;
    t.own[Resource::latency] = waves * steps * e->step_latency;
    t.exposed = c.family.fixed + waves * c.family.per_cta + turns * e->once_clk * c.clk;
    return t;
  }

  /// exposed + the largest own time of `totals`, without the rest.
  Seconds bound(const Context& c, double ctas, double steps) const {
    const double turns = std::ceil(ctas / c.machine.sm_count);
    const double waves = e->resident > 1 ? std::ceil(ctas / (c.machine.sm_count * e->resident)) : turns;
    const double sm_clk = std::max({e->tensor_clk * c.per_tensor_rate, e->fp32_clk, e->smem_clk});
    const Seconds largest = std::max({turns * steps * sm_clk * c.clk, ctas * steps * l2_bytes * c.per_l2, c.dram_floor,
                                      waves * steps * e->step_latency});
    return c.family.fixed + waves * c.family.per_cta + turns * e->once_clk * c.clk + largest;
  }

  Demand demand(const Context& c, double ctas, double steps, double splits) const {
    const GemmTask& task = c.task;
    const Machine& m = c.machine;
    Demand d;
    d.plan.ctas = static_cast<std::int64_t>(ctas);
    d.plan.ctas_per_sm = static_cast<std::int64_t>(e->resident);
    d.plan.threads = c.path.threads(e->tile.rows);
    d.plan.shared_memory = e->stages * e->stage_bytes * units::B;
    d.plan.steps = d.plan.longest = steps;
    d.tensor_clk = e->tensor_clk;
    d.fp32_clk = e->fp32_clk;
    d.smem_clk = e->smem_clk;
    d.once_clk = e->once_clk;
    d.l2 = l2_bytes * units::B;
    d.step_latency = e->step_latency;
    d.in_flight = e->stages * e->stage_bytes * units::B;
    const double at_once = std::min(ctas, m.sm_count * e->resident);
    const double tiles_at_once = std::max(1.0, at_once / splits / std::min(task.batch, at_once));
    const double panels = dram_panels(c.a_bytes, c.w_bytes, tiles_m, tiles_n, tiles_at_once, e->tile_n / e->tile_m,
                                      m.l2_capacity.in(units::B));
    d.dram_read = task.batch * (panels + task.bias_bytes) * units::B;
    d.dram_write = splits > 1 ? Bytes{} : task.batch * c.out_bytes * units::B;
    return d;
  }
};

/// The second launch of a split-K GEMM: `splits` fp32 partials through L2 (DRAM when they do not fit) to one result.
Demand reduction(const GemmTask& t, const Machine& m, double splits) {
  Demand d;
  const double elements = t.batch * t.m * t.n;
  constexpr double kElementsPerCta = 1024;
  d.plan.ctas = static_cast<std::int64_t>(ceil_div(elements, kElementsPerCta));
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
    return k.splits > 1 ? c_.machine.reduce.fixed + c_.machine.gap_graph : Seconds{};
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
      extra = price_total(reduce, c_.machine, c_.machine.reduce, best_.total) + c_.machine.gap_graph;
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
    best_.plan.tile_k = static_cast<std::int64_t>(c_.tile_k);
    best_.plan.stages = static_cast<std::int64_t>(k.cut->e->stages);
    best_.plan.splits = static_cast<std::int64_t>(k.splits);
    best_.plan.cluster_m = c_.path.multicast ? 2 : 1;
    best_.plan.swapped = k.cut->e->swapped;
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

/// The smallest ring has two stages. (64 KiB of Turing do not hold two of the largest tiles.)
bool fits(const MenuEntry& entry, double smem) { return 2 * entry.stage_bytes <= smem; }

GemmChoice search(const GemmTask& t, const Machine& m, const FamilyScalars& family) {
  const Context context(t, m, family);
  const GemmMenu& menu = gemm_menu(context);
  std::array<std::optional<Cut>, kMenuSize> cuts;
  Search search(context);
  for (std::size_t i = 0; i < kMenuSize; ++i) {
    const MenuEntry& entry = menu.entries[i];
    if (oversized(entry.tile_m, t.m) || oversized(entry.tile_n, t.n) || !fits(entry, context.smem)) continue;
    const Cut& cut = cuts[i].emplace(context, entry);
    const double waves = cut.tiles / m.sm_count;
    if (context.path.stream_k && t.batch == 1 && waves > 0.5 && waves < 4) search.add(stream_k(context, cut));
    for (const double splits : kSplits) {
      if (splits > 1 && (waves * splits > 2 || cut.k_steps < 2 * splits)) break;
      search.add(tiled(cut, splits));
    }
  }
  return search.run();
}

/// Answers of this thread's last searches. Sweeps ask for the same GEMM again and again: a context sweep changes none
/// of a decode step's.
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

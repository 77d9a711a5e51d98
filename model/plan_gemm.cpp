#include "model/plan_gemm.hpp"

#include <algorithm>
#include <array>
#include <cmath>

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
  TensorPath path;
  double tile_k, a_bytes, w_bytes, out_bytes;  // whole operands of one batch entry
  double smem, smem_port, l2_port;             // bytes, bytes a clock
  Seconds dram_floor;                          // compulsory traffic
  Seconds clk;

  Context(const GemmTask& t, const Machine& m, const FamilyScalars& f)
      : task(t), machine(m), family(f), path(tensor_path(m.gpu)) {
    tile_k = std::max(16.0, kStepBytes / std::max(t.input_bytes, t.weight_bytes));
    a_bytes = t.m * t.k * t.input_bytes;
    w_bytes = t.n * t.k * t.weight_bytes * t.weight_kept;
    out_bytes = t.m * t.n * t.output_bytes;
    smem = m.gpu.sm.smem.in(units::B);
    smem_port = m.gpu.sm.smem_bytes_per_clk.in(units::B);
    l2_port = m.gpu.sm.l2_bytes_per_clk.in(units::B);
    dram_floor = dram_time(t.batch * (a_bytes + w_bytes) * units::B, t.batch * out_bytes * units::B, m);
    clk = 1.0 / m.clock;
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

/// A tile on one side or the other: per-step work of one CTA, in plain numbers so that hundreds can be compared.
struct Cut {
  Tile tile;
  bool swapped = false;
  double tile_m = 0, tile_n = 0, tiles_m = 0, tiles_n = 0, tiles = 0;
  double k_steps = 0, resident = 1, stages = 2, stage_bytes = 0;
  double tensor_clk = 0, smem_clk = 0, l2_bytes = 0;

  Cut(const Context& c, Tile t, bool swap) : tile(t), swapped(swap) {
    const GemmTask& task = c.task;
    tile_m = swap ? t.cols : t.rows;
    tile_n = swap ? t.rows : t.cols;
    tiles_m = ceil_div(task.m, tile_m);
    tiles_n = ceil_div(task.n, tile_n);
    tiles = tiles_m * tiles_n * task.batch;
    k_steps = ceil_div(task.k, c.tile_k);
    const double a = tile_m * c.tile_k * task.input_bytes;
    const double w = tile_n * c.tile_k * task.weight_bytes * task.weight_kept;
    // unpacked weights take the activations' width in shared memory
    const double w_smem = task.dequant_per_weight > 0 ? tile_n * c.tile_k * task.input_bytes : w;
    const double row_side = swap ? w_smem : a;
    const double col_side = swap ? a : w_smem;
    tensor_clk = 2.0 * tile_m * tile_n * c.tile_k / task.tensor_flop_per_clk;
    smem_clk = (c.path.operand_reads(t.rows, t.cols, row_side, col_side) + row_side + col_side) / c.smem_port;
    // ring depth: what shared memory gives to as many CTAs as their accumulators leave room for
    stage_bytes = a + w;
    const double accumulators = static_cast<double>(t.rows) * t.cols;
    const double room = std::floor(0.5 * static_cast<double>(c.machine.gpu.sm.registers) / accumulators);
    constexpr double kLeastStages = 4;
    resident = std::clamp(std::min(room, std::floor(c.smem / (kLeastStages * stage_bytes))), 1.0, c.path.most_ctas);
    stages = std::clamp(std::floor(c.smem / (resident * stage_bytes)), 2.0, c.path.most_stages);
    // a cluster of two CTAs fetches the operand they share once (TMA multicast)
    l2_bytes = a + w;
    if (c.path.multicast && tiles >= 2) l2_bytes -= 0.5 * std::max(tiles_m >= 2 ? w : 0.0, tiles_n >= 2 ? a : 0.0);
  }

  /// Below what the engine will answer: the slowest of the resources on the busiest SM, and compulsory DRAM traffic.
  Seconds bound(const Context& c, double ctas, double steps) const {
    const Machine& m = c.machine;
    const double on_sm = ceil_div(ctas, m.sm_count) * steps;
    const Seconds tensor = on_sm * tensor_clk / (m.tensor_fraction * c.family.efficiency) * c.clk;
    const Seconds smem = on_sm * smem_clk * c.clk;
    const Seconds l2 = ctas * steps * l2_bytes * units::B / m.l2;
    return c.family.fixed + std::max({tensor, smem, l2, c.dram_floor});
  }

  Demand demand(const Context& c, double ctas, double steps, double splits) const {
    const GemmTask& task = c.task;
    const Machine& m = c.machine;
    Demand d;
    d.plan.ctas = static_cast<std::int64_t>(ctas);
    d.plan.ctas_per_sm = static_cast<std::int64_t>(resident);
    d.plan.threads = c.path.threads(tile.rows);
    d.plan.shared_memory = stages * stage_bytes * units::B;
    d.plan.steps = d.plan.longest = steps;
    d.tensor_clk = tensor_clk;
    d.fp32_clk = task.dequant_per_weight * tile_n * c.tile_k / (0.5 * m.gpu.sm.fp32_flop_per_clk);
    d.smem_clk = smem_clk;
    d.l2 = l2_bytes * units::B;
    d.step_latency = m.dram_latency / stages;
    d.in_flight = stages * stage_bytes * units::B;
    d.once_clk = c.family.exposed * tile_m * tile_n * task.output_bytes / c.l2_port;
    const double at_once = std::min(ctas, m.sm_count * resident);
    const double tiles_at_once = std::max(1.0, at_once / splits / std::min(task.batch, at_once));
    const double panels = dram_panels(c.a_bytes, c.w_bytes, tiles_m, tiles_n, tiles_at_once, tile_n / tile_m,
                                      m.l2_capacity.in(units::B));
    d.dram_read = task.batch * panels * units::B;
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

/// Keeps the cheapest candidate seen.
class Search {
 public:
  explicit Search(const Context& context) : c_(context) { best_.total = 1e30 * units::s; }

  /// Data-parallel tiles, or `splits` CTAs a tile with a reduction launch behind them.
  void try_splits(const Cut& cut, double splits) {
    const double ctas = cut.tiles * splits;
    const double steps = ceil_div(cut.k_steps, splits);
    const Seconds least_second = splits > 1 ? c_.machine.second.fixed + c_.machine.gap_graph : Seconds{};
    if (cut.bound(c_, ctas, steps) + least_second >= best_.total) return;
    Demand reduce;
    Seconds extra;
    if (splits > 1) {
      reduce = reduction(c_.task, c_.machine, splits);
      extra = price_total(reduce, c_.machine, c_.machine.second, best_.total) + c_.machine.gap_graph;
    }
    offer(cut, cut.demand(c_, ctas, steps, splits), extra, splits, reduce);
  }

  /// Stream-K: one persistent CTA a slot, the K steps of all tiles dealt out evenly; a tile that several CTAs share
  /// costs each of them a seam (fix-up of a partial tile through L2): about ten steps and three more for each extra
  /// peer. Source: NVIDIA/cutlass threadblock_swizzle_streamk.h (modeling notes, section 3, "Waves").
  void try_stream_k(const Cut& cut) {
    const double slots = c_.machine.sm_count * cut.resident;
    const double peers = std::max(1.0, ceil_div(slots, cut.tiles));
    constexpr double kSeam = 10, kSeamPerPeer = 3;
    const double steps = cut.tiles * cut.k_steps / slots + kSeam + kSeamPerPeer * (peers - 1);
    if (cut.bound(c_, slots, steps) >= best_.total) return;
    Demand d = cut.demand(c_, slots, steps, 1);
    d.once_clk *= std::max(1.0, cut.tiles / slots);
    offer(cut, d, Seconds{}, 0, Demand{});
  }

  GemmChoice best() const { return best_; }

 private:
  void offer(const Cut& cut, const Demand& main, Seconds extra, double splits, const Demand& reduce) {
    const Seconds total = extra + price_total(main, c_.machine, c_.family, best_.total - extra);
    if (total >= best_.total) return;
    best_.total = total;
    best_.main = main;
    best_.reduce = reduce;
    best_.plan.tile_m = static_cast<std::int64_t>(cut.tile_m);
    best_.plan.tile_n = static_cast<std::int64_t>(cut.tile_n);
    best_.plan.tile_k = static_cast<std::int64_t>(c_.tile_k);
    best_.plan.stages = static_cast<std::int64_t>(cut.stages);
    best_.plan.splits = static_cast<std::int64_t>(splits);
    best_.plan.cluster_m = c_.path.multicast ? 2 : 1;
    best_.plan.swapped = cut.swapped;
  }

  const Context& c_;
  GemmChoice best_;
};

/// A tile much wider than the operand only wastes tensor work, and its narrower neighbour is in the menu.
bool oversized(double tile, double size) { return tile > 64 && tile >= 2 * size; }

}  // namespace

GemmChoice plan_gemm(const GemmTask& t, const Machine& m, const FamilyScalars& family) {
  const Context context(t, m, family);
  Search search(context);
  for (const Tile tile : kTiles) {
    for (const bool swapped : {false, true}) {
      if (oversized(swapped ? tile.cols : tile.rows, t.m) || oversized(swapped ? tile.rows : tile.cols, t.n)) continue;
      const Cut cut(context, tile, swapped);
      const double waves = cut.tiles / m.sm_count;
      if (context.path.stream_k && t.batch == 1 && waves > 0.5 && waves < 4) search.try_stream_k(cut);
      for (const double splits : kSplits) {
        if (splits > 1 && (waves * splits > 2 || cut.k_steps < 2 * splits)) break;
        search.try_splits(cut, splits);
      }
    }
  }
  return search.best();
}

}  // namespace plumbline

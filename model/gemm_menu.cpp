#include "model/gemm_menu.hpp"

#include "ops/kernel_menu.hpp"

namespace plumbline::gemm {
namespace {

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
  const double sweep_b = a + (b + a_panel <= l2_capacity ? b : b * std::ceil(tiles_m / rows));
  const double sweep_a = b + (a + b_panel <= l2_capacity ? a : a * std::ceil(tiles_n / cols));
  return std::min(sweep_a, sweep_b);
}

/// What follows from the tile alone.
MenuEntry tile_entry(const Context& c, Tile tile, double tile_k, bool swapped) {
  const GemmTask& task = c.task;
  MenuEntry e;
  e.tile = tile;
  e.swapped = swapped;
  e.tile_m = swapped ? tile.cols : tile.rows;
  e.tile_n = swapped ? tile.rows : tile.cols;
  e.tile_k = tile_k;
  e.a = e.tile_m * tile_k * task.input_bytes;
  e.w = e.tile_n * tile_k * task.weight_bytes * task.weight_kept;
  // unpacked weights take the activations' width in shared memory
  const double w_smem = task.dequant_per_weight > 0 ? e.tile_n * tile_k * task.input_bytes : e.w;
  const double row_side = swapped ? w_smem : e.a;
  const double col_side = swapped ? e.a : w_smem;
  e.tensor_clk = 2.0 * e.tile_m * e.tile_n * tile_k / task.tensor_flop_per_clk;
  e.fp32_clk = task.dequant_per_weight * e.tile_n * tile_k / (0.5 * c.machine.gpu.sm.fp32_flop_per_clk);
  e.smem_clk = (c.path.operand_reads(tile.rows, tile.cols, row_side, col_side) + row_side + col_side) / c.smem_port;
  e.once_clk = c.family.exposed * e.tile_m * e.tile_n * task.output_bytes / c.l2_port;
  e.stage_bytes = e.a + e.w;
  return e;
}

/// A library's kernel of that tile: as many stages as shared memory gives to as many CTAs as their accumulators leave
/// room for.
MenuEntry library_entry(const Context& c, Tile tile, bool swapped) {
  const GemmTask& task = c.task;
  MenuEntry e =
      tile_entry(c, tile, std::max(16.0, kStepBytes / std::max(task.input_bytes, task.weight_bytes)), swapped);
  e.cluster = c.path.multicast ? 2 : 1;
  const double accumulators = static_cast<double>(tile.rows) * tile.cols;
  const double room = std::floor(0.5 * static_cast<double>(c.machine.gpu.sm.registers) / accumulators);
  constexpr double kLeastStages = 4;
  e.resident = std::clamp(std::min(room, std::floor(c.smem / (kLeastStages * e.stage_bytes))), 1.0, c.path.most_ctas);
  e.stages = std::clamp(std::floor(c.smem / (e.resident * e.stage_bytes)), 2.0, c.path.most_stages);
  e.step_latency = c.machine.dram_latency / e.stages;
  return e;
}

/// One of our own compiled kernels.
MenuEntry own_entry(const Context& c, const GemmVariant& v, bool swapped) {
  const Tile tile{static_cast<std::int16_t>(v.rows), static_cast<std::int16_t>(v.cols)};
  MenuEntry e = tile_entry(c, tile, static_cast<double>(v.step_bytes) / c.task.input_bytes, swapped);
  e.cluster = static_cast<double>(v.cluster);
  e.resident = static_cast<double>(v.ctas_per_sm);
  e.stages = static_cast<double>(v.stages);
  e.step_latency = c.machine.dram_latency / e.stages;
  e.persistent = *c.task.own == GemmEngine::wgmma;
  // accumulators pass through shared memory on their way out: written there and read again by the copy engine
  e.serial_clk = 2.0 * e.tile_m * e.tile_n * c.task.output_bytes / c.smem_port;
  return e;
}

void fill(GemmMenu& menu, const Context& c) {
  menu.size = 0;
  const auto add = [&menu](const MenuEntry& entry) {
    if (menu.size < menu.entries.size()) menu.entries[menu.size++] = entry;
  };
  if (c.task.own) {
    for (const GemmVariant& v : own_gemm_menu(*c.task.own, c.task.math)) {
      for (const bool swapped : {false, true}) add(own_entry(c, v, swapped));
    }
  } else {
    for (const Tile tile : kTiles) {
      for (const bool swapped : {false, true}) add(library_entry(c, tile, swapped));
    }
  }
}

}  // namespace

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
  fill(menu, c);
  return menu;
}

Cut::Cut(const Context& c, const MenuEntry& entry) : e(&entry) {
  tiles_m = std::ceil(c.task.m / e->tile_m);
  tiles_n = std::ceil(c.task.n / e->tile_n);
  k_steps = std::ceil(c.task.k / e->tile_k);
  l2_bytes = e->a + e->w;
  if (c.task.own) {  // neighbours on the row side share the columns, whole clusters of them
    double& rows = e->swapped ? tiles_n : tiles_m;
    rows = std::ceil(rows / e->cluster) * e->cluster;
    l2_bytes -= (e->swapped ? e->a : e->w) * (1 - 1 / e->cluster);
  }
  tiles = tiles_m * tiles_n * c.task.batch;
  if (!c.task.own && e->cluster > 1 && tiles >= 2)
    l2_bytes -= 0.5 * std::max(tiles_m >= 2 ? e->w : 0.0, tiles_n >= 2 ? e->a : 0.0);
}

Deal Cut::tiled(double splits) const {
  Deal d;
  d.splits = splits;
  d.ctas = tiles * splits;
  d.steps = std::ceil(k_steps / splits);
  d.serial_clk = e->serial_clk;
  d.once_clk = e->once_clk;
  d.second_launch = splits > 1;
  return d;
}

Deal Cut::stream_k(const Context& c) const {
  constexpr double kSeam = 10, kSeamPerPeer = 3;
  Deal d;
  d.splits = 0;
  d.ctas = c.machine.sm_count * e->resident;
  const double peers = std::max(1.0, std::ceil(d.ctas / tiles));
  d.steps = tiles * k_steps / d.ctas + kSeam + kSeamPerPeer * (peers - 1);
  d.serial_clk = e->serial_clk;
  d.once_clk = e->once_clk * std::max(1.0, tiles / d.ctas);
  return d;
}

Deal Cut::shared(const Context& c, double splits) const {
  const double clusters = std::floor(c.machine.sm_count * e->resident / e->cluster);
  const double all = tiles / e->cluster;  // counted in clusters, as `share`
  const double waves = std::floor(all / clusters);
  const double share = splits > 1 || waves < 2 ? all : all - (waves - 1) * clusters;
  const double dealers = std::min(clusters, splits > 1 ? all * splits : share * k_steps);
  const double run = share * k_steps / dealers;
  const double whole = std::ceil((all - share) / clusters);
  // ends of tiles in a run, and CTAs that meet in a tile
  const bool aligned = std::fmod(dealers, share) == 0;
  const double ends = aligned ? 1 : std::floor(run / k_steps) + 2;
  const double peers = aligned ? dealers / share : std::ceil(dealers / share) + 1;
  // sums on their way to L2 or back: at the port, or one round trip; before and after the counter is told
  const double round_trip = c.machine.l2_latency * c.machine.clock;
  const double sums = std::max(4 * e->tile_m * e->tile_n / c.l2_port, round_trip);
  Deal d;
  d.splits = splits;
  d.ctas = dealers * e->cluster;
  d.steps = std::ceil(run) + whole * k_steps;
  d.serial_clk = (ends - 1) * (peers > 1 ? sums + 2 * round_trip : e->serial_clk) + whole * e->serial_clk;
  d.once_clk = e->once_clk + (peers > 1 ? (1 + peers) * sums + 2 * round_trip : 0);
  return d;
}

Demand Cut::demand(const Context& c, const Deal& deal) const {
  const double ctas = deal.ctas, splits = std::max(1.0, deal.splits);
  const GemmTask& task = c.task;
  const Machine& m = c.machine;
  Demand d;
  d.plan.ctas = static_cast<std::int64_t>(ctas);
  d.plan.ctas_per_sm = static_cast<std::int64_t>(e->resident);
  d.plan.cluster = static_cast<std::int64_t>(e->cluster);
  d.plan.persistent = e->persistent;
  d.plan.threads = c.path.threads(e->tile.rows);
  d.plan.shared_memory = e->stages * e->stage_bytes * units::B;
  d.plan.steps = d.plan.longest = deal.steps;
  d.tensor_clk = e->tensor_clk;
  d.fp32_clk = e->fp32_clk;
  d.smem_clk = e->smem_clk;
  d.once_clk = deal.once_clk;
  d.serial_clk = deal.serial_clk;
  d.l2 = l2_bytes * units::B;
  d.step_latency = e->step_latency;
  d.in_flight = e->stages * e->stage_bytes * units::B;
  const double at_once = std::min(ctas, m.sm_count * e->resident);
  const double tiles_at_once = std::max(1.0, at_once / splits / std::min(task.batch, at_once));
  const double panels = dram_panels(c.a_bytes, c.w_bytes, tiles_m, tiles_n, tiles_at_once, e->tile_n / e->tile_m,
                                    m.l2_capacity.in(units::B));
  d.dram_read = task.batch * (panels + task.bias_bytes) * units::B;
  d.dram_write = deal.second_launch ? Bytes{} : task.batch * c.out_bytes * units::B;
  return d;
}

}  // namespace plumbline::gemm

#include "model/stacks/common/gemm_menu.hpp"

#include "model/stacks/common/gemm_cache.hpp"

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

}  // namespace

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

namespace {

/// A library's kernel of that tile where operands come by cp.async: as many stages as shared memory gives to as many
/// CTAs as their accumulators leave room for.
MenuEntry library_entry(const Context& c, Tile tile, bool swapped) {
  const GemmTask& task = c.task;
  MenuEntry e =
      tile_entry(c, tile, std::max(16.0, kStepBytes / std::max(task.input_bytes, task.weight_bytes)), swapped);
  const double accumulators = static_cast<double>(tile.rows) * tile.cols;
  const double room = std::floor(0.5 * static_cast<double>(c.machine.gpu.sm.registers) / accumulators);
  constexpr double kLeastStages = 4;
  e.resident = std::clamp(std::min(room, std::floor(c.smem / (kLeastStages * e.stage_bytes))), 1.0, c.path.most_ctas);
  e.stages = std::clamp(std::floor(c.smem / (e.resident * e.stage_bytes)), 2.0, c.path.most_stages);
  e.step_latency = c.machine.dram_latency / e.stages;
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

namespace {

/// FP32 operations a clock.
double sm_lanes(const Context& c) { return c.machine.gpu.sm.fp32_flop_per_clk; }

/// Clocks from a tile's last step to the first of the next: the warpgroups convert their sums, lay them into shared
/// memory by chunks of columns, and leave them to the copy engine. Launches of 1 to 63 waves of one step, tiles of 64 x
/// 16 to 128 x 256 (H200, 2026-11-20): 430 clocks a tile, 300 a chunk (two barriers, a fence, the wait for an earlier
/// chunk's copy), and the bytes of 64 rows at `exposed` of the L2 port's time. Within 8 % of what 11 of 13 tiles take.
double drain_clk(const Context& c, const GemmVariant& v) {
  constexpr double kTileClk = 430, kChunkClk = 300, kRows = 64, kWarpgroups = 2;
  const double chunk = v.cols % 64 == 0 ? 64 : v.cols % 32 == 0 ? 32 : 16;  // as GemmTile::kChunk
  const double bytes = kRows * chunk * c.task.output_bytes;
  const double chunks =
      static_cast<double>(v.cols) / chunk * std::max(1.0, static_cast<double>(v.rows) / (kRows * kWarpgroups));
  return kTileClk + chunks * (kChunkClk + c.family.exposed * bytes / c.l2_port);
}

/// What differs where tiles come by TMA.
void hopper_kernel(MenuEntry& e, const Context& c, const GemmVariant& v) {
  e.persistent = e.merges = true;
  e.smem_clk -= (1 - kFillShare) * e.stage_bytes / c.smem_port;
  e.serial_clk = drain_clk(c, v);
  // fp8 instructions keep some 22 bits of a sum: every eighth step, and behind the last, the tensor unit runs dry and
  // the sums are added to a second set of accumulators
  constexpr double kPromotedSteps = 8, kRunDryClk = 120;
  if (c.task.math == DType::fp8) {
    const double promotion = e.tile_m * e.tile_n / (0.5 * sm_lanes(c)) + kRunDryClk;
    e.tensor_clk += promotion / kPromotedSteps;
    e.serial_clk += 0.5 * promotion;
  }
}

}  // namespace

MenuEntry own_entry(const Context& c, const GemmVariant& v, bool swapped) {
  const Tile tile{static_cast<std::int16_t>(v.rows), static_cast<std::int16_t>(v.cols)};
  MenuEntry e = tile_entry(c, tile, static_cast<double>(v.step_bytes) / c.task.input_bytes, swapped);
  e.cluster = static_cast<double>(v.cluster);
  e.resident = static_cast<double>(v.ctas_per_sm);
  e.stages = static_cast<double>(v.stages);
  // a step cannot be shorter than its own chain: barrier, instructions, release
  e.step_latency = std::max(c.machine.dram_latency / e.stages, c.family.step);
  // accumulators pass through shared memory on their way out: the CTA's tensor work waits for that
  e.serial_clk = e.once_clk;
  e.once_clk = 0;
  if (*c.task.own == GemmEngine::wgmma) {
    hopper_kernel(e, c, v);
  } else {
    // within a CTA of the portable kernel a step's fragments, products and barrier come one after the other
    constexpr Seconds kBetween = 170.0 * units::ns;
    e.step_latency = std::max(e.step_latency, kBetween + e.tensor_clk * c.clk);
  }
  return e;
}

const GemmMenu& gemm_menu(const Context& c, GemmCache& cache) {
  GemmCache::State& state = cache.state();
  for (const GemmMenu& menu : state.menus) {
    if (menu.serves(c)) return menu;
  }
  if (state.menus.size() < GemmCache::State::kMenus) state.menus.emplace_back();
  GemmMenu& menu = state.menus[state.oldest_menu];
  state.oldest_menu = (state.oldest_menu + 1) % GemmCache::State::kMenus;
  menu.key = c.task;
  menu.whole_units = c.whole_units;
  fill(menu, c);
  return menu;
}

Cut::Cut(const Context& c, const MenuEntry& entry)
    : e(&entry), smem_clk(entry.smem_clk), step_latency(entry.step_latency) {
  tiles_m = std::ceil(c.task.m / e->tile_m);
  tiles_n = std::ceil(c.task.n / e->tile_n);
  k_steps = std::ceil(c.task.k / e->tile_k);
  l2_bytes = e->a + e->w;
  if (c.task.own) {  // neighbours on the row side share the columns, whole clusters of them
    double& rows = e->swapped ? tiles_n : tiles_m;
    rows = std::ceil(rows / e->cluster) * e->cluster;
    // what comes in through the SM's port, multicast too; or the lines that it asks for
    const double asked = l2_bytes - (e->swapped ? e->a : e->w) * (1 - 1 / e->cluster);
    const bool pieces = e->merges || !c.starts.whole_sectors;
    l2_bytes = std::max(l2_bytes, asked * (pieces ? c.starts.lines : 1));
    if (*c.task.own == GemmEngine::mma_sync) add_pieces(c);
  }
  if (!c.task.own && c.path.kind == TensorPath::Kind::mma_sync && !whole_units(c.task)) add_library_pieces(c);
  tiles = tiles_m * tiles_n * c.task.batch;
  if (!c.task.own && e->cluster > 1 && tiles >= 2)
    l2_bytes -= 0.5 * std::max(tiles_m >= 2 ? e->w : 0.0, tiles_n >= 2 ? e->a : 0.0);
  // a row of a box that lies across two lines: two requests, no more data (between both: five recorded shapes)
  if (!c.task.own) l2_bytes *= 0.5 * (1 + c.starts.lines);
  if (!e->merges) return;
  look_up(c);
  fill_rows(c);
}

/// Requests for the same line that meet on their way to L2 are one lookup there. CTAs next to each other are neighbours
/// on the row side: they share their columns, two of them a lookup, unless the rows come from DRAM and the columns from
/// L2 (then they drift apart). Rows that do not begin at whole sectors are asked for in pieces, none of which meet.
/// Counted by ncu on an H200, 2026-11-20: lookups of 31 cuts from 0.5 to 1.3 of the bytes that came through the ports,
/// this within 15 % for 24 of them.
void Cut::look_up(const Context& c) {
  const double row_side = e->swapped ? e->w : e->a, col_side = e->swapped ? e->a : e->w;
  const double row_tiles = e->swapped ? tiles_n : tiles_m;
  const double row_operand = e->swapped ? c.w_bytes : c.a_bytes, col_operand = e->swapped ? c.a_bytes : c.w_bytes;
  lookups = row_side + col_side / e->cluster;  // fetched once for a cluster
  if (!c.starts.whole_sectors) {
    lookups *= c.starts.lines;
    return;
  }
  const bool drift = row_operand > c.machine.l2_capacity.in(units::B) && row_operand > 2 * col_operand;
  if (row_tiles < 2) lookups -= tiles >= 2 ? 0.5 * row_side : 0;
  else if (!drift && e->cluster <= 1) lookups -= 0.5 * col_side;
  lookups *= 0.5 * (1 + c.starts.lines);  // two requests a line, but no more sectors
}

/// Rows of a box outside the tensor are written as zeros, and that is not free: in tiles with 16 to 88 rows outside,
/// steps that wait for their loads take 3 to 4 clocks a row longer (H200, 2026-11-20), those of the last of a few tiles
/// 4 to 8. Beside another CTA few tokens on the column side make no difference. CTAs take every n-th tile: where tiles
/// of a column are few and divide n, the same CTAs get all that reach beyond the edge. And where K ends within a step,
/// every row of its boxes reaches beyond: 3 clocks a row of that step.
void Cut::fill_rows(const Context& c) {
  constexpr double kRowClk = 2.8, kEndClk = 3, kFew = 12;
  if (std::fmod(c.task.k, e->tile_k) != 0) edge_fill_clk += kEndClk * (e->tile_m + e->tile_n) / k_steps;
  if (e->resident > 1) return;
  const auto outside = [&](double all, double tile, double size) {
    const double rows = all * tile - size;
    return all <= kFew && std::fmod(c.machine.sm_count, all) == 0 ? rows : rows / all;
  };
  edge_fill_clk += kRowClk * (outside(tiles_m, e->tile_m, c.task.m) + outside(tiles_n, e->tile_n, c.task.n));
}

/// The portable kernel's way with rows that are not whole 16-byte units. Even K: pairs of elements by cp.async. Odd K:
/// single elements through registers, 16 bytes a thread at a time, whose way from memory nothing hides.
void Cut::add_pieces(const Context& c) {
  constexpr double kUnit = 16, kPair = 4, kWarp = 32;
  const auto k = static_cast<std::int64_t>(c.task.k);
  if (std::fmod(c.task.k * c.task.input_bytes, kUnit) == 0) return;
  const double piece = k % 2 == 0 ? kPair : c.task.input_bytes;
  // the 32 lanes of one instruction have a piece each of 32 different units, 16 sectors of 32 bytes; sweeps of the menu
  // at K = 1001, 1002 and 2049 take 13 clocks a cp.async and 7 a load (H200, 2026-11-20)
  smem_clk += e->stage_bytes / piece / kWarp * (k % 2 == 0 ? 13.0 : 7.0);
  if (k % 2 == 0) return;
  constexpr double kLargeTile = 128.0 * 256.0;  // has 256 threads, the others 128
  const double threads = e->tile_m * e->tile_n >= kLargeTile ? 256 : 128;
  const double turns = std::ceil(e->stage_bytes / kUnit / threads);
  step_latency = std::max(step_latency, turns * (c.machine.gpu.memory.latency + c.machine.l2_latency));
}

/// Libraries' kernels for such rows: pairs of elements by cp.async, single ones through registers. The load unit is
/// busy 8 clocks with an instruction of 32 pairs, 9 with one of 32 elements: large products of 40 recorded cuBLAS
/// launches run at 840 and 440 FLOP a clock and SM (H200, 2026-11-20).
void Cut::add_library_pieces(const Context& c) {
  constexpr double kWarp = 32, kPairClk = 7.7, kSingleClk = 9.3;
  const bool pairs = std::fmod(c.task.k, 2) == 0 && std::fmod(c.task.n, 2) == 0;
  const double piece = c.task.input_bytes * (pairs ? 2 : 1);
  smem_clk += e->stage_bytes / piece / kWarp * (pairs ? kPairClk : kSingleClk);
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

Deal Cut::shared(const Context& c, double splits) const {
  const double clusters = std::floor(c.machine.sm_count * e->resident / e->cluster);
  const double all = tiles / e->cluster, left = std::fmod(all, clusters);  // counted in clusters
  const double parts = splits > 0 ? splits : left > 0 ? std::min(std::floor(clusters / left), k_steps) : 1;
  const double run = std::ceil(k_steps / parts);
  const double sharers = (splits > 0 ? std::min(tiles * parts, clusters * e->cluster) : left * parts * e->cluster);
  // sums on their way to L2 or back: at the SM's port, at what L2 takes from all, or one round trip. Meeting costs what
  // a grid barrier does (plan_stream.cpp): write, fence, count, look.
  const double sum_bytes = 4 * e->tile_m * e->tile_n;
  const double round_trip = c.machine.l2_latency * c.machine.clock;
  const double sums = std::max({sum_bytes / c.l2_port, sharers * sum_bytes * c.per_l2 / c.clk, round_trip});
  const double leave = sums + 8 * round_trip, take = parts * sums;
  Deal d;
  d.splits = splits;
  d.once_clk = e->once_clk;
  if (splits > 0) {
    d.ctas = tiles * parts;
    d.steps = run;
    d.serial_clk = leave;
    d.meet_clk = e->serial_clk + take;
    return d;
  }
  const double whole = std::floor(all / clusters);
  d.ctas = clusters * e->cluster;
  d.steps = (left > 0 ? run : 0) + whole * k_steps;
  d.serial_clk = (parts > 1 ? leave + take : 0) + whole * e->serial_clk;
  return d;
}

Demand Cut::demand(const Context& c, const Deal& deal) const {
  const double ctas = deal.ctas, splits = std::max(1.0, deal.splits);
  const GemmTask& task = c.task;
  const Rates& m = c.machine;
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
  d.smem_clk = smem_clk;
  d.edge_fill_clk = edge_fill_clk;
  d.once_clk = deal.once_clk;
  d.serial_clk = deal.serial_clk;
  d.l2 = l2_bytes * units::B;
  d.step_latency = step_latency;
  d.in_flight = e->stages * e->stage_bytes * units::B;
  d.loads_stop = task.own.has_value();
  d.dealt_once = task.own && e->persistent;
  if (task.own) {
    d.l2_distinct = task.batch * (c.a_bytes + c.w_bytes) * units::B;
    d.l2_written = task.batch * c.out_bytes * units::B;
  }
  // nothing hides the first step's way: the tensor map's from memory, then that of the operands it describes
  if (e->merges) {
    d.l2_limit = L2Limit::lookups;
    d.lookups = lookups * units::B;
    // a launch of clusters takes longer to begin and end (0.8 us of the same tiles, H200, 2026-11-20)
    constexpr Seconds kClusters = 0.8 * units::us;
    d.serial_latency =
        kChainedLoads * m.gpu.memory.latency + deal.meet_clk * c.clk + (e->cluster > 1 ? kClusters : Seconds{});
    d.serial_latency_of = deal.meet_clk > 0 ? "to load tensor maps and for the sums of a tile to meet"
                          : e->cluster > 1  ? "to load tensor maps and place clusters"
                                            : "to load tensor maps and what they describe";
  } else if (e->shared_reads) {
    d.l2_limit = L2Limit::ports;
    d.serial_latency = kColdTrips * m.gpu.memory.latency;
    d.serial_latency_of = "to load code, tensor maps and what they describe";
    // tiles that take more than two turns are handed out by a counter in memory, which a launch before clears: 104 of
    // 104 recorded cuBLAS launches with more than two turns have it, none of 263 others (H200, 2026-11-20)
    if (ctas > 2 * m.sm_count) {
      d.serial_latency += c.family.counter;
      d.serial_latency_of = "to clear a counter, load code, tensor maps and what they describe";
    }
  }
  const double at_once = std::min(ctas, m.sm_count * e->resident);
  const double tiles_at_once = std::max(1.0, at_once / splits / std::min(task.batch, at_once));
  const double panels = dram_panels(c.a_bytes, c.w_bytes, tiles_m, tiles_n, tiles_at_once, e->tile_n / e->tile_m,
                                    m.l2_capacity.in(units::B));
  // Where a step's 128 bytes of a row begin inside an access of DRAM, the next step asks for the rest of it again: 64
  // of 128 bytes, two thirds of the time. (Weights of 25 to 1300 MB, K a multiple of 16 or 8, one to 60 tokens: 1.15
  // and 1.28 of the time of whole ones; own sweep of ragged training shapes on an H200, 2026-11-20.)
  constexpr double kTwice = 0.5 * 2 / 3;
  const double again = e->merges ? kTwice * c.starts.inside : 0;
  d.dram_read = task.batch * (panels * (1 + again) + task.bias_bytes) * units::B;
  // all CTAs ask for their first step at once
  if (e->merges) d.start = d.dram_read * (at_once / ctas) / deal.steps / m.dram_read;
  d.dram_write = deal.second_launch ? Bytes{} : task.batch * c.out_bytes * units::B;
  return d;
}

}  // namespace plumbline::gemm

#include "model/stacks/own/plan_gemm.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "model/stacks/own/gemm_engines.hpp"
#include "model/stacks/own/gemm_traffic.hpp"
#include "model/stacks/own/mma_planner.hpp"

namespace plumbline {
namespace {

using namespace own_gemm;

// --- wgmma ----------------------------------------------------------------------------------------------------------

/// The kernel for Hopper: persistent CTAs, a producer warp that fetches by TMA, split sums that meet in L2.
class WgmmaPlanner {
 public:
  static constexpr GemmEngine kEngine = GemmEngine::wgmma;
  /// `clips`: whether last tiles ask for their own rows alone (GemmPlan::clipped).
  explicit WgmmaPlanner(const Context& context, bool clips = true) : c(context), clips_(clips) {}

  TileCosts costs(const GemmVariant& v, bool swapped) const {
    TileCosts e = own_costs(c, v, swapped);
    e.persistent = true;
    e.smem_clk -= (1 - gemm::kFillShare) * e.stage_bytes / c.smem_port;
    e.serial_clk = drain_clk(v) + add_clk(e);
    // fp8 instructions keep some 22 bits of a sum: every eighth step, and behind the last, the tensor unit runs dry and
    // the sums are added to a second set of accumulators
    constexpr double kPromotedSteps = 8, kRunDryClk = 120;
    if (c.task.math == DType::fp8) {
      const double promotion = e.tile_m * e.tile_n / (0.5 * sm_lanes(c)) + kRunDryClk;
      e.tensor_clk += promotion / kPromotedSteps;
      e.serial_clk += 0.5 * promotion;
    }
    return e;
  }

  void adapt(TileLayout& t) const {
    t.l2_bytes = row_bytes(t) + col_bytes(t);
    ask_l2(t, c, true);
    look_up(t);
    fill_rows(t);
  }

  WorkSplit split(const TileLayout& t, double splits) const {
    return splits == 1 ? gemm::tiled(t, 1) : sums_meet(t, splits);
  }

  Demand demand(const TileLayout& t, const WorkSplit& split, Traffic traffic) const {
    // Where a step's 128 bytes of a row begin inside an access of DRAM, the next step asks for the rest of it again: 64
    // of 128 bytes, two thirds of the time. (Weights of 25 to 1300 MB, K a multiple of 16 or 8, one to 60 tokens: 1.15
    // and 1.28 of the time of whole ones; own sweep of ragged training shapes on an H200, 2026-11-20.)
    constexpr double kTwice = 0.5 * 2 / 3;
    const Rates& m = c.rates;
    Demand d = own_demand(c, t, split, traffic, kTwice * c.starts.inside);
    if (traffic == Traffic::counted) {
      const double again = 1 + kTwice * c.starts.inside;
      d.dram_read = c.task.batch * (walked(t, split) * again + c.task.bias_bytes) * units::B;
    }
    d.dealt_once = true;
    d.l2_limit = L2Limit::lookups;
    d.lookups = t.lookups * units::B;
    // Nothing hides the first step's way: the tensor map's from memory, then that of the operands it describes. A launch
    // of clusters takes longer to begin and end (0.8 us of the same tiles, H200, 2026-11-20).
    constexpr Seconds kClusters = 0.8 * units::us;
    const bool clusters = t.costs->cluster > 1;
    d.serial_latency =
        kChainedLoads * m.gpu.memory.latency + split.meet_clk * c.clk + (clusters ? kClusters : Seconds{});
    d.serial_latency_of = split.meet_clk > 0 ? "to load tensor maps and for the sums of a tile to meet"
                          : clusters         ? "to load tensor maps and place clusters"
                                             : "to load tensor maps and what they describe";
    // all CTAs ask for their first step at once
    d.start = d.dram_read * (gemm::ctas_at_once(c, t, split) / split.ctas) / split.steps / m.dram_read;
    return d;
  }

  GemmPlan plan(const TileLayout& t, const WorkSplit& split) const {
    GemmPlan plan = own_plan(t, split, kEngine);
    const bool even = t.tiles_m * t.costs->tile_m == c.task.m && t.tiles_n * t.costs->tile_n == c.task.n;
    plan.clipped = clips_ && !even;
    return plan;
  }

 private:
  /// Bytes that a step of a whole tile asks for, on either side.
  double row_bytes(const TileLayout& t) const {
    const TileCosts& e = *t.costs;
    return e.row_side() * asked(e.swapped ? c.task.n : c.task.m, e.swapped ? e.tile_n : e.tile_m);
  }
  double col_bytes(const TileLayout& t) const {
    const TileCosts& e = *t.costs;
    return e.col_side() * asked(e.swapped ? c.task.m : c.task.n, e.swapped ? e.tile_m : e.tile_n);
  }
  /// The share of a box that is asked for, of an operand that has fewer rows than it.
  double asked(double size, double tile) const { return clips_ ? std::min(1.0, size / tile) : 1; }

  /// Bytes of the operands that cross the DRAM interface; the band is the kernel's (gemm_sm90_launch.cu).
  double walked(const TileLayout& t, const WorkSplit& split) const {
    const TileCosts& e = *t.costs;
    const double slots = std::floor(c.rates.sm_count * e.resident / e.cluster) * e.cluster;
    const double square = std::sqrt(slots * e.tile.cols / e.tile.rows);
    own::GemmWalk walk;
    walk.row_tiles = e.swapped ? t.tiles_n : t.tiles_m;
    walk.col_tiles = e.swapped ? t.tiles_m : t.tiles_n;
    walk.row_bytes = (e.swapped ? c.w_bytes : c.a_bytes) / walk.row_tiles;
    walk.col_bytes = (e.swapped ? c.a_bytes : c.w_bytes) / walk.col_tiles;
    walk.tile_bytes = e.tile_m * e.tile_n * c.task.output_bytes;
    walk.at_once = std::max(1.0, slots / std::max(1.0, split.splits));
    walk.band = std::max(1.0, std::round(square / e.cluster)) * e.cluster;
    const auto partitions = static_cast<double>(std::max<std::int64_t>(1, c.rates.gpu.l2.partitions));
    return own::walked_bytes(walk, c.rates.l2_capacity.in(units::B), partitions);
  }

  /// Sums that are added to what memory holds: the copy engine's reduction has L2 fetch the lines first, while the ring
  /// is full and nothing else is asked for, so that its share of DRAM's rate is what a tile waits for; of a few CTAs their
  /// SMs' ports.
  double add_clk(const TileCosts& e) const {
    if (!c.task.adds) return 0;
    const double tiles = std::ceil(c.task.m / e.tile_m) * std::ceil(c.task.n / e.tile_n) * c.task.batch;
    const Bandwidth share = c.rates.dram_read / std::min(c.rates.sm_count, tiles);
    const double tile = e.tile_m * e.tile_n * c.task.output_bytes;
    return std::max(tile * units::B / share / c.clk, tile / c.l2_port);
  }

  /// Clocks from a tile's last step to the first of the next: the warpgroups convert their sums, lay them into shared
  /// memory by chunks of columns, and leave them to the copy engine. Launches of 1 to 63 waves of one step, tiles of 64
  /// x 16 to 128 x 256 (H200, 2026-11-20): 430 clocks a tile, 300 a chunk (two barriers, a fence, the wait for an
  /// earlier chunk's copy), and the bytes of 64 rows at `exposed` of the L2 port's time. Within 8 % of what 11 of 13
  /// tiles take.
  double drain_clk(const GemmVariant& v) const {
    constexpr double kTileClk = 430, kChunkClk = 300, kRows = 64, kWarpgroups = 2;
    const bool floats = c.task.output_bytes > 2;
    const double chunk = !floats && v.cols % 64 == 0 ? 64 : v.cols % 32 == 0 ? 32 : 16;  // as GemmTile::kChunk
    const double bytes = kRows * chunk * c.task.output_bytes;
    const double chunks =
        static_cast<double>(v.cols) / chunk * std::max(1.0, static_cast<double>(v.rows) / (kRows * kWarpgroups));
    return kTileClk + chunks * (kChunkClk + c.family.exposed * bytes / c.l2_port);
  }

  /// Requests for the same line that meet on their way to L2 are one lookup there. CTAs next to each other are
  /// neighbours on the row side: they share their columns, two of them a lookup, unless the rows come from DRAM and the
  /// columns from L2 (then they drift apart). Rows that do not begin at whole sectors are asked for in pieces, none of
  /// which meet. Counted by ncu on an H200, 2026-11-20: lookups of 31 layouts from 0.5 to 1.3 of the bytes that came
  /// through the ports, this within 15 % for 24 of them.
  void look_up(TileLayout& t) const {
    const TileCosts& e = *t.costs;
    const double row_tiles = e.swapped ? t.tiles_n : t.tiles_m;
    const double row_operand = e.swapped ? c.w_bytes : c.a_bytes, col_operand = e.swapped ? c.a_bytes : c.w_bytes;
    t.lookups = row_bytes(t) + col_bytes(t) / e.cluster;  // fetched once for a cluster
    if (!c.starts.whole_sectors) {
      t.lookups *= c.starts.lines;
      return;
    }
    const bool drift = row_operand > c.rates.l2_capacity.in(units::B) && row_operand > 2 * col_operand;
    if (row_tiles < 2) t.lookups -= t.tiles >= 2 ? 0.5 * row_bytes(t) : 0;
    else if (!drift && e.cluster <= 1) t.lookups -= 0.5 * col_bytes(t);
    t.lookups *= 0.5 * (1 + c.starts.lines);  // two requests a line, but no more sectors
  }

  /// Rows of a box outside the tensor are written as zeros, and that is not free: in tiles with 16 to 88 rows outside,
  /// steps that wait for their loads take 3 to 4 clocks a row longer (H200, 2026-11-20), those of the last of a few
  /// tiles 4 to 8. Beside another CTA they take the SM's port, as rows that are there do, and hide behind DRAM: few tokens
  /// on the column side make no difference, but tiles of 64 x 32 with 3 to 48 tokens took 310 to 210 ns a step, which are
  /// the port's 96 rows and 3.9 clocks more for each one outside (H100, 2026-11-24). And where K ends within a step, every
  /// row of its boxes reaches beyond: 3 clocks a row of that step. Clipped tiles ask for none of the others.
  void fill_rows(TileLayout& t) const {
    constexpr double kPortRowClk = 3.9, kEndClk = 3;
    const TileCosts& e = *t.costs;
    if (t.k_steps * e.tile_k != c.task.k) t.edge_fill_clk += kEndClk * (e.tile_m + e.tile_n) / t.k_steps;
    if (clips_) return;
    if (e.resident > 1) {
      const double rows = e.tile_m - c.task.m / t.tiles_m + e.tile_n - c.task.n / t.tiles_n;
      t.port_fill_clk += kPortRowClk * std::max(0.0, rows);
      return;
    }
    ask_outside(t, t.tiles_m, e.tile_m, c.task.m, e.swapped ? e.cluster : 1);
    ask_outside(t, t.tiles_n, e.tile_n, c.task.n, e.swapped ? 1 : e.cluster);
  }

  /// Of one operand, laid over by `all` tiles; `sharers` CTAs ask for its rows once. CTAs take every n-th tile: where tiles of a
  /// column are few and divide n, the same CTAs get all that reach beyond the edge. But L2 answers all CTAs' rows outside at
  /// one place. CTAs that begin together ask together, and requests merge; over several tiles they drift apart where only
  /// some tiles are edges: then the longer of the two. Nothing is fitted. (Training rows of more than one wave, H200: 510 where
  /// it counts 5.6 -> 5.2 % in the median, p90 17.5 -> 16.1; 257 x 128000 x 3584 in tiles of 256 x 112 -40 -> +1 %. Within a
  /// wave 135 rows are better without.)
  void ask_outside(TileLayout& t, double all, double tile, double size, double sharers) const {
    constexpr double kFew = 12;
    const double rows = all * tile - size, turns = c.rates.sm_count / all;
    const double of_sm_clk = gemm::kOutsideRowClk * (all <= kFew && turns == std::floor(turns) ? rows : rows / all);
    const double of_l2_clk = rows / all / sharers / gemm::kOutsideRowsPerClk;
    const bool drift = size > tile && t.tiles > c.rates.sm_count;
    const bool queue = drift && of_l2_clk * c.rates.sm_count > of_sm_clk;
    (queue ? t.outside_clk : t.edge_fill_clk) += queue ? of_l2_clk : of_sm_clk;
  }

  /// `splits` parts of K a tile, whose sums meet in L2: each part leaves its own, the last to come takes them all. 0:
  /// only the tiles that are left over behind whole waves are cut, into as many parts as fill a wave.
  WorkSplit sums_meet(const TileLayout& t, double splits) const {
    const TileCosts& e = *t.costs;
    const double clusters = std::floor(c.rates.sm_count * e.resident / e.cluster);
    const double all = t.tiles / e.cluster, left = std::fmod(all, clusters);  // counted in clusters
    const double parts = splits > 0 ? splits : left > 0 ? std::min(std::floor(clusters / left), t.k_steps) : 1;
    const double run = std::ceil(t.k_steps / parts);
    const double sharers = (splits > 0 ? std::min(t.tiles * parts, clusters * e.cluster) : left * parts * e.cluster);
    // sums on their way to L2 or back: at the SM's port, at what L2 takes from all, or one round trip. Meeting costs
    // what a grid barrier does (plan_stream.cpp): write, fence, count, look.
    const double sum_bytes = 4 * e.tile_m * e.tile_n;
    const double round_trip = c.rates.l2_latency * c.rates.clock;
    const Seconds per_l2 = units::B / c.rates.l2;
    const double sums = std::max({sum_bytes / c.l2_port, sharers * sum_bytes * per_l2 / c.clk, round_trip});
    const double leave = sums + 8 * round_trip, collect = parts * sums;
    WorkSplit s;
    s.splits = splits;
    s.once_clk = e.once_clk;
    if (splits > 0) {
      s.ctas = t.tiles * parts;
      s.steps = run;
      s.serial_clk = leave;
      s.meet_clk = e.serial_clk + collect;
      return s;
    }
    const double whole = std::floor(all / clusters);
    s.ctas = clusters * e.cluster;
    s.steps = (left > 0 ? run : 0) + whole * t.k_steps;
    s.serial_clk = (parts > 1 ? leave + collect : 0) + whole * e.serial_clk;
    return s;
  }

  const Context& c;
  bool clips_;
};

// --- both -----------------------------------------------------------------------------------------------------------

template <class Planner>
const std::vector<TileCosts>& menu_of(const Planner& planner, const Context& c, GemmCache& cache) {
  return cache.state().menu(c.task, [&](std::vector<TileCosts>& tiles) {
    if (c.task.weights_kn) {
      for (const GemmVariant& v : own_gradient_menu()) tiles.push_back(planner.costs(v, false));
      return;
    }
    for (const GemmVariant& v : own_gemm_menu(Planner::kEngine, c.task.math)) {
      for (const bool swapped : {false, true}) tiles.push_back(planner.costs(v, swapped));
    }
  });
}

/// Without the split of the tiles left over behind whole waves alone (0 splits): of 50 swept shapes it was the best for
/// 9, 0.3 % in the geometric mean, and lost up to half where tiles are small (H200, 2026-11-20).
template <class Planner>
GemmChoice cheapest(const Planner& planner, const Context& c, GemmCache& cache) {
  Search<Planner> search(planner, c, cache);
  search.add_menu(menu_of(planner, c, cache), own_gemm_splits());
  return search.run();
}

template <class Planner>
std::optional<GemmChoice> priced(const Planner& planner, const Context& c, const GemmPlan& plan, GemmCache& cache) {
  for (const TileCosts& e : menu_of(planner, c, cache)) {
    if (!gemm::fits(e, c.smem)) continue;
    TileLayout t(c, e);
    planner.adapt(t);
    const auto splits = static_cast<double>(plan.splits);
    if (planner.plan(t, planner.split(t, splits)) == plan) return Search<Planner>(planner, c, cache).priced(t, splits);
  }
  return std::nullopt;
}

/// mma.sync kernels fetch operands as on cards that have nothing newer.
Context context_of(const GemmTask& task, const Rates& rates, std::span<const FamilyScalars> families) {
  TensorPath path = rates.path;
  if (task.engine == GemmEngine::mma_sync) path.kind = TensorPath::Kind::mma_sync;
  const FamilyScalars& family = families[*task.engine == GemmEngine::wgmma ? own::kGemm : own::kGemmPortable];
  return {task, rates, family, families[own::kReduce], path, gemm::row_starts(task)};
}

}  // namespace

GemmChoice plan_own_gemm(const GemmTask& task, const Rates& rates, std::span<const FamilyScalars> families,
                         GemmCache& cache) {
  const Context c = context_of(task, rates, families);
  return *task.engine == GemmEngine::wgmma ? cheapest(WgmmaPlanner(c), c, cache) : cheapest(MmaPlanner(c), c, cache);
}

std::optional<GemmChoice> price_own_plan(const GemmTask& task, const GemmPlan& plan, const Rates& rates,
                                         std::span<const FamilyScalars> families, GemmCache& cache) {
  if (plan.engine != *task.engine) return std::nullopt;
  const Context c = context_of(task, rates, families);
  return *task.engine == GemmEngine::wgmma ? priced(WgmmaPlanner(c, plan.clipped), c, plan, cache)
                                           : priced(MmaPlanner(c), c, plan, cache);
}

}  // namespace plumbline

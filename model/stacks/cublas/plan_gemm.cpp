#include "model/stacks/cublas/plan_gemm.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "model/stacks/common/gemm_search.hpp"

namespace plumbline {
namespace {

using gemm::Context;
using gemm::kStepBytes;
using gemm::Search;
using gemm::Tile;
using gemm::TileCosts;
using gemm::TileLayout;
using gemm::Traffic;
using gemm::WorkSplit;

/// A step of 128 bytes of the wider operand, 16 elements of K at least.
double step_of(const GemmTask& t) { return std::max(16.0, kStepBytes / std::max(t.input_bytes, t.weight_bytes)); }

/// A cluster of a library's: along which side, nothing is known.
GemmPlan library_plan(const TileLayout& layout, const WorkSplit& split) {
  GemmPlan plan = gemm::plan_of(layout, split);
  plan.cluster_m = static_cast<std::int64_t>(layout.costs->cluster);
  return plan;
}

// --- by TMA ---------------------------------------------------------------------------------------------------------

constexpr std::array<std::int16_t, 7> kRowSides{128, 256, 192, 64, 320, 384, 512};
constexpr double kWidest = 256, kMostAccumulators = 320 * 128;

double whole_eights(double size) { return 8 * std::ceil(size / 8); }

/// Whether the plan is the best of all that the kernels can launch: then nothing that is looked at goes with the SMs, so
/// that a GPU with more of them has every plan that one with fewer has. cuBLAS itself looks at few.
bool looks_at_all(const Context& c) { return c.task.alone_flops > 0; }

/// Widths for one row side: the widest even one, those that fill one to three turns of the SMs, and the usual ones.
class Widths {
 public:
  Widths(const Context& c, double rows, double row_size, double col_size)
      : most_(std::min(kWidest, 8 * std::floor(kMostAccumulators / rows / 8))) {
    const double whole = whole_eights(col_size);
    if (looks_at_all(c)) {
      for (double width = 8; width <= std::min(whole, most_); width += 8) list_[size_++] = width;
      return;
    }
    add(whole_eights(col_size / std::ceil(whole / most_)));
    const double tall = std::ceil(row_size / rows) * c.task.batch;
    for (const double turns : {1.0, 2.0, 3.0}) {
      const double across = std::floor(turns * c.rates.sm_count / tall);
      if (across >= 1) add(whole_eights(col_size / across));
    }
    for (const double usual : {128.0, 256.0}) {
      if (usual < whole) add(usual);
    }
  }
  const double* begin() const { return list_.data(); }
  const double* end() const { return list_.data() + size_; }

 private:
  void add(double width) {
    if (width > most_ || std::find(begin(), end(), width) != end()) return;
    list_[size_++] = width;
  }
  double most_;
  std::array<double, 32> list_{};
  std::size_t size_ = 0;
};

/// Persistent kernels whose tiles are to measure, not from a list.
class TmaPlanner {
 public:
  explicit TmaPlanner(const Context& context) : c(context) {}

  /// The tiles worth a look. The row side is a multiple of 64 up to 512, the other any multiple of 8, so that a shape
  /// can be cut to fill one turn of the SMs, or two, exactly; accumulators take at most five eighths of the register
  /// file.
  void fill(std::vector<TileCosts>& menu) const {
    menu.clear();
    for (const bool swapped : {false, true}) {
      const double row_size = swapped ? c.task.n : c.task.m, col_size = swapped ? c.task.m : c.task.n;
      for (const std::int16_t rows : kRowSides) {
        if (rows > 64 && rows >= 2 * row_size) continue;
        for (const double width : Widths(c, rows, row_size, col_size)) {
          const TileCosts e = costs({rows, static_cast<std::int16_t>(width)}, swapped);
          if (e.stages * e.stage_bytes <= c.smem) menu.push_back(e);
        }
      }
    }
  }

  /// CTAs of a pair share what they have in common; a row of a box that lies across two lines is two requests, no more
  /// data (between both: five recorded shapes).
  void adapt(TileLayout& t) const {
    const TileCosts& e = *t.costs;
    if (t.tiles >= 2) t.l2_bytes -= 0.5 * std::max(t.tiles_m >= 2 ? e.w : 0.0, t.tiles_n >= 2 ? e.a : 0.0);
    t.l2_bytes *= 0.5 * (1 + c.starts.lines);
  }

  WorkSplit split(const TileLayout& t, double splits) const { return gemm::tiled(t, splits); }

  /// How many parts K may be cut into: tiles that do not fill the SMs once are cut until they do, as long as each part
  /// has 20 steps of 128 bytes (82 recorded launches: no part had fewer than 18). Sums are added up by a second launch.
  template <class Visit>
  void for_each_split(const TileLayout& t, const Visit& visit) const {
    constexpr double kLeastSteps = 20;
    const double most = std::floor(std::min(c.rates.sm_count / t.tiles, t.k_steps / kLeastSteps));
    visit(1.0);
    if (most < 2) return;
    if (looks_at_all(c)) {
      for (double splits = 2; splits <= most; ++splits) visit(splits);
      return;
    }
    double last = 1;
    for (const double splits : {std::max(2.0, std::floor(most / 2)), std::max(2.0, std::ceil(0.7 * most)), most}) {
      if (splits > last) visit(last = splits);
    }
  }

  Demand demand(const TileLayout& t, const WorkSplit& split, Traffic traffic) const {
    Demand d = gemm::launch_demand(c, t, split, traffic);
    d.l2_limit = L2Limit::ports;
    d.serial_latency = gemm::kColdTrips * c.rates.gpu.memory.latency;
    d.serial_latency_of = "to load code, tensor maps and what they describe";
    // tiles that take more than two turns are handed out by a counter in memory, which a launch before clears: 104 of
    // 104 recorded cuBLAS launches with more than two turns have it, none of 263 others (H200, 2026-11-20)
    if (split.ctas > 2 * c.rates.sm_count) {
      d.serial_latency += c.family.counter;
      d.serial_latency_of = "to clear a counter, load code, tensor maps and what they describe";
    }
    return d;
  }

  GemmPlan plan(const TileLayout& t, const WorkSplit& split) const { return library_plan(t, split); }

 private:
  TileCosts costs(Tile tile, bool swapped) const {
    TileCosts e = gemm::tile_costs(c, tile, step_of(c.task), swapped);
    e.cluster = 2;
    e.persistent = true;
    e.smem_clk -= (1 - gemm::kFillShare) * e.stage_bytes / c.smem_port;
    constexpr double kBarriers = 3072;  // bytes beside the ring
    e.stages = std::clamp(std::floor((c.smem - kBarriers) / e.stage_bytes), 2.0, c.path.most_stages);
    e.step_latency = c.family.step;
    // at every tile tensor units wait while accumulators leave the registers; behind the last, the way to L2 is seen
    // too
    e.serial_clk = e.once_clk;
    return e;
  }

  const Context& c;
};

// --- by cp.async ----------------------------------------------------------------------------------------------------

/// Tile menu: the 64-row side of the tensor instruction times any width up to the accumulator limit. Large tiles first:
/// they are usually right, and a good first candidate prunes the rest.
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

class CpAsyncPlanner {
 public:
  explicit CpAsyncPlanner(const Context& context) : c(context) {}

  /// As many stages as shared memory gives to as many CTAs as their accumulators leave room for.
  TileCosts costs(Tile tile, bool swapped) const {
    TileCosts e = gemm::tile_costs(c, tile, step_of(c.task), swapped);
    const double accumulators = static_cast<double>(tile.rows) * tile.cols;
    const double room = std::floor(0.5 * static_cast<double>(c.rates.gpu.sm.registers) / accumulators);
    constexpr double kLeastStages = 4;
    e.resident = std::clamp(std::min(room, std::floor(c.smem / (kLeastStages * e.stage_bytes))), 1.0, c.path.most_ctas);
    e.stages = std::clamp(std::floor(c.smem / (e.resident * e.stage_bytes)), 2.0, c.path.most_stages);
    e.step_latency = c.rates.dram_latency / e.stages;
    return e;
  }

  /// Rows that are no whole 16-byte units: pairs of elements by cp.async, single ones through registers. The load unit
  /// is busy 8 clocks with an instruction of 32 pairs, 9 with one of 32 elements: large products of 40 recorded cuBLAS
  /// launches run at 840 and 440 FLOP a clock and SM (H200, 2026-11-20).
  void adapt(TileLayout& t) const {
    constexpr double kWarp = 32, kPairClk = 7.7, kSingleClk = 9.3;
    if (c.path.kind != TensorPath::Kind::mma_sync || gemm::whole_units(c.task)) return;
    const bool pairs = std::fmod(c.task.k, 2) == 0 && std::fmod(c.task.n, 2) == 0;
    const double piece = c.task.input_bytes * (pairs ? 2 : 1);
    t.pieces_clk += t.costs->stage_bytes / piece / kWarp * (pairs ? kPairClk : kSingleClk);
  }

  WorkSplit split(const TileLayout& t, double splits) const { return gemm::tiled(t, splits); }

  Demand demand(const TileLayout& t, const WorkSplit& split, Traffic traffic) const {
    return gemm::launch_demand(c, t, split, traffic);
  }

  GemmPlan plan(const TileLayout& t, const WorkSplit& split) const { return library_plan(t, split); }

 private:
  const Context& c;
};

GemmChoice cheapest_by_tma(const Context& c, GemmCache& cache) {
  const TmaPlanner planner(c);
  std::vector<TileCosts>& menu = cache.state().scratch.tiles;
  planner.fill(menu);
  Search<TmaPlanner> search(planner, c, cache);
  for (const TileCosts& e : menu) {
    const TileLayout& t = search.lay_out(e);
    planner.for_each_split(t, [&](double splits) { search.add(t, splits); });
  }
  return search.run();
}

GemmChoice cheapest_by_cp_async(const Context& c, GemmCache& cache) {
  const CpAsyncPlanner planner(c);
  const std::vector<TileCosts>& menu = cache.state().menu(c.task, [&](std::vector<TileCosts>& tiles) {
    for (const Tile tile : kTiles) {
      for (const bool swapped : {false, true}) tiles.push_back(planner.costs(tile, swapped));
    }
  });
  Search<CpAsyncPlanner> search(planner, c, cache);
  search.add_menu(menu, kSplits);
  return search.run();
}

bool by_tensor_map(const GemmTask& t, const Rates& m) { return m.path.multicast && gemm::whole_units(t); }

}  // namespace

cublas::Family cublas::family_of(const GemmTask& t, const Rates& m) {
  if (t.kind == GemmKind::grouped) return kGrouped;
  if (t.kind == GemmKind::sparse24) return kGemm;
  return by_tensor_map(t, m) ? kGemm : kGemmMma;
}

GemmChoice plan_cublas_gemm(const GemmTask& t, const Rates& m, std::span<const FamilyScalars> families,
                            GemmCache& cache) {
  const bool by_tma = by_tensor_map(t, m);
  // libraries fall back to older kernels for rows that no tensor map can describe
  const TensorPath path = m.path.multicast && !by_tma ? TensorPath{} : m.path;
  const Context c(t, m, families[cublas::family_of(t, m)], families[cublas::kReduce], path,
                  by_tma ? gemm::row_starts(t) : gemm::RowStarts{});
  return by_tma ? cheapest_by_tma(c, cache) : cheapest_by_cp_async(c, cache);
}

}  // namespace plumbline

#include "model/stacks/cublas/nvjet.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "model/stacks/common/gemm_search.hpp"
#include "model/stacks/cublas/choice.hpp"
#include "model/stacks/cublas/clusters.hpp"
#include "model/stacks/cublas/walk.hpp"

namespace plumbline {
namespace {

using gemm::Context;
using gemm::Search;
using gemm::Tile;
using gemm::TileCosts;
using gemm::TileLayout;
using gemm::Traffic;
using gemm::WorkSplit;

/// tcgen05 has the same row sides, in instructions of 128 and 64 rows. (Names of its kernels in published traces, tile and
/// stages: nvjet_sm100_tst_192x288_64x5_2x1_2cta, 256x256_64x4_2x1_2cta, 256x128_64x5_2x2_2cta, 320x192_64x4_2x1_2cta,
/// 384x32_64x4_2x1_2cta, 512x24_64x3_4x1, 256x104_64x4_4x1, 128x256_64x6_2x1_2cta, 64x8_64x16_4x1. No time of theirs was
/// looked at.)
constexpr std::array<std::int16_t, 7> kRowSides{128, 256, 192, 64, 320, 384, 512};

bool has_tensor_memory(const TensorPath& path) { return path.kind == TensorPath::Kind::tcgen05; }

double widest(const TensorPath& path) { return has_tensor_memory(path) ? 288 : 256; }

/// Beyond 256 columns a tile is of two instructions, equally wide ones of whole sixteens: 288 is the one width seen.
bool is_a_width(double width) { return width <= 256 || std::fmod(width, 32) == 0; }

/// Turns of the SMs that a width is made to fill. Tensor memory holds sums of two tiles, where these are small, and the same
/// product takes more turns.
std::int64_t most_turns(const TensorPath& path) { return has_tensor_memory(path) ? 6 : 3; }

/// A tile's sums: in registers, five eighths of the file; in tensor memory, all of its 128 lanes x 512 columns (256 x 256 in
/// the names above).
double most_accumulators(const TensorPath& path) {
  constexpr double kInRegisters = 320 * 128, kInTensorMemory = 128 * 512;
  return has_tensor_memory(path) ? kInTensorMemory : kInRegisters;
}

/// Two tiles' sums find room in tensor memory, so that one leaves while the next one is summed. (CUTLASS,
/// sm100_gemm_tma_warpspecialized: accumulator stages.)
bool sums_in_turns(const TensorPath& path, Tile tile) {
  constexpr int kHalf = 128 * 256;
  return has_tensor_memory(path) && tile.rows * tile.cols <= kHalf;
}

double whole_eights(double size) { return 8 * std::ceil(size / 8); }

/// Whether the plan is the best of all that the kernels can launch: then nothing that is looked at goes with the SMs, so
/// that a GPU with more of them has every plan that one with fewer has. cuBLAS itself looks at few.
bool looks_at_all(const Context& c) { return c.task.alone_flops > 0; }

/// Widths for one row side: the widest even one, those that fill a few turns of the SMs, and the usual ones.
class Widths {
 public:
  Widths(const Context& c, double rows, double row_size, double col_size)
      : most_(std::min(widest(c.path), 8 * std::floor(most_accumulators(c.path) / rows / 8))) {
    const double whole = whole_eights(col_size);
    if (looks_at_all(c)) {
      for (double width = 8; width <= std::min(whole, most_); width += 8) {
        if (is_a_width(width)) list_[size_++] = width;
      }
      return;
    }
    add(whole_eights(col_size / std::ceil(whole / most_)));
    const double tall = std::ceil(row_size / rows) * c.task.batch;
    for (std::int64_t turns = 1; turns <= most_turns(c.path); ++turns) {
      const double across = std::floor(static_cast<double>(turns) * c.rates.sm_count / tall);
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
    if (!is_a_width(width)) width = 32 * std::ceil(width / 32);
    if (width > most_ || std::find(begin(), end(), width) != end()) return;
    list_[size_++] = width;
  }
  double most_;
  std::array<double, 36> list_{};
  std::size_t size_ = 0;
};

/// Persistent kernels whose tiles are to measure, not from a list.
class TmaPlanner {
 public:
  explicit TmaPlanner(const Context& context, bool as_library = false) : c(context), as_library_(as_library) {}

  /// The tiles worth a look. The row side is a multiple of 64 up to 512, the other any multiple of 8, so that a shape
  /// can be cut to fill one turn of the SMs, or two, exactly; accumulators take at most five eighths of the register
  /// file.
  void fill(std::vector<TileCosts>& menu) const {
    menu.clear();
    if (fixed()) {
      for (const Tile tile : of_few()) {
        const TileCosts e = costs(tile, false);
        if (e.stages * e.stage_bytes <= c.smem) menu.push_back(e);
      }
      if (menu.empty()) menu.push_back(costs(of_few().back(), false));  // the smallest
      return;
    }
    if (has_large_tiles()) add_tiles(menu, kOfOneWarpgroup);
    if (menu.empty()) add_tiles(menu, 0);  // few rows, or little shared memory
  }

  /// CTAs of a pair share what they have in common; a row of a box that lies across two lines is two requests, no more
  /// data (between both: five recorded shapes).
  void adapt(TileLayout& t) const {
    const TileCosts& e = *t.costs;
    if (has_tensor_memory(c.path)) {
      pair_up(t);
    } else if (fixed()) {
      // rows that the operands do not have are not fetched: kernels of few sizes have many
      const double a = e.a * std::min(1.0, c.task.m / (t.tiles_m * e.tile_m));
      t.l2_bytes -= e.a - a;
      // scaling kernels of less than one turn: clusters of four side by side (their names)
      const double shared = c.task.block > 0 && t.tiles <= c.rates.sm_count ? 0.75 : 0.5;
      if (t.tiles >= 2) t.delivered = std::max(t.tiles_m >= 2 ? 0.5 * e.w : 0.0, t.tiles_n >= 2 ? shared * a : 0.0);
      t.l2_bytes -= t.delivered;
    }
    t.l2_bytes *= 0.5 * (1 + c.starts.lines);
  }

  /// Tiles fill whole clusters.
  WorkSplit split(const TileLayout& t, double splits) const {
    WorkSplit s = gemm::tiled(t, splits);
    if (!of_any_tile()) return s;
    const double times = c.task.batch * splits;
    const cublas::ClusterShape shape =
        cublas::cluster_of({t.tiles_m, t.tiles_n, times, t.costs->a, t.costs->w}, c.rates.sm_count);
    s.cluster_rows = shape.rows;
    s.cluster_cols = shape.cols;
    s.ctas = times * cublas::padded(t.tiles_m, shape.rows) * cublas::padded(t.tiles_n, shape.cols);
    return s;
  }

  /// How many parts K may be cut into: tiles that do not fill the SMs once are cut until they do, as long as each part
  /// has 20 steps of 128 bytes (82 recorded launches: no part had fewer than 18). Sums are added up by a second launch.
  template <class Visit>
  void for_each_split(const TileLayout& t, const Visit& visit) const {
    constexpr double kLeastSteps = 20;
    const double most = std::floor(std::min(c.rates.sm_count / t.tiles, t.k_steps / kLeastSteps));
    visit(1.0);
    if (c.task.block > 1 && fixed()) {
      if (const double parts = scaled_parts(t); parts > 1) visit(parts);
      return;
    }
    if (most < 2 || fixed()) return;
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
    if (traffic == Traffic::counted)
      d.dram_read = c.task.batch * (cublas::walked_bytes(c) + c.task.bias_bytes + sectors_in_part()) * units::B;
    if (c.path.kind == TensorPath::Kind::wgmma)
      d.smem_hidden_clk += rows_again(t.costs->tile) * t.costs->row_side() / c.smem_port;
    d.l2_limit = L2Limit::ports;
    if (of_any_tile()) share(d, t, split);
    // a tile cannot begin before the last but one has left tensor memory
    if (sums_in_turns(c.path, t.costs->tile))
      d.step_latency = std::max(d.step_latency, split.once_clk / split.steps * c.clk);
    d.serial_latency = gemm::kColdTrips * c.rates.gpu.memory.latency;
    d.serial_latency_of = "to load code, tensor maps and what they describe";
    // nobody asks for a bias before the last product is there: 0.3 us at 1 to 16 rows, where biases take turns as
    // weights do (51 products beside 178 without, data/measurements/h200/pytorch/few_rows.jsonl.gz)
    if (c.task.bias_bytes > 0) d.serial_latency += c.rates.gpu.memory.latency;
    // wgmma's sums of a block are scaled in registers; tcgen05 takes scales with the operands
    d.exposed_clk = c.task.block > 1 && c.path.kind == TensorPath::Kind::wgmma ? c.family.step_clk : 0;
    // warpgroups that take turns begin one after the other
    if (takes_turns()) d.serial_latency += c.family.start_clk * c.clk;
    // tiles that take more than two turns are handed out by a counter in memory, which a launch before clears: 104 of
    // 104 recorded cuBLAS launches with more than two turns have it, none of 263 others (H200, 2026-11-20)
    if (split.ctas > 2 * c.rates.sm_count) {
      d.serial_latency += c.family.counter;
      d.gaps = std::max(Seconds{}, c.family.counter - kClear);
      d.serial_latency_of = "to clear a counter, load code, tensor maps and what they describe";
    }
    if (as_library_) see_as_library(d);
    return d;
  }

  /// Of "splitKreduce": a thread takes an element, so that it is the elements, not the parts, that it goes by.
  /// (1.48 us and 4.45 us a million elements, 144 launches of training shapes on H200s, 2 to 7 parts: 5 % in the median.)
  Demand reduction(double splits) const {
    constexpr double kElementClk = 600.0 / 512, kElementsOfCta = 1024;  // of CTAs as gemm::reduction_demand counts them
    constexpr double kBeginClk = 792;                                   // 0.4 us of an H200
    Demand d = gemm::reduction_demand(c.task, c.rates, splits);
    if (!of_any_tile()) return d;
    d.issue_clk = kElementClk * kElementsOfCta;
    d.serial_latency += kBeginClk * c.clk;
    d.serial_latency_of = "to find its element's parts";
    return d;
  }

  /// Along which side a cluster lies is known of kernels of any tile alone.
  GemmPlan plan(const TileLayout& t, const WorkSplit& split) const {
    GemmPlan plan = gemm::plan_of(t, split);
    plan.cluster_m = static_cast<std::int64_t>(of_any_tile() ? split.cluster_rows : t.costs->cluster);
    plan.cluster_n = static_cast<std::int64_t>(split.cluster_cols);
    return plan;
  }

  /// Kernels that exist in a few sizes: where they scale rows or blocks, one (52 and 52 recorded launches); of tf32 on
  /// Hopper ("sm90_xmma", 35), which neither swap the operands nor cut K; of all types before "nvjet".
  bool fixed() const {
    return c.path.kind == TensorPath::Kind::wgmma && (c.task.block > 0 || by_xmma() || c.task.few_tiles);
  }

  /// Hopper's kernels of any tile, whose clusters cluster_of() says.
  bool of_any_tile() const { return c.path.kind == TensorPath::Kind::wgmma && !fixed(); }

  TileCosts costs(Tile tile, bool swapped) const {
    TileCosts e = gemm::tile_costs(c, tile, gemm::step_of(c.task), swapped);
    e.cluster = 2;
    e.persistent = true;
    e.smem_clk -= (1 - gemm::kFillShare) * e.stage_bytes / c.smem_port;
    e.paired = is_paired(tile, swapped);
    if (e.paired) e.stage_bytes -= 0.5 * e.col_side();
    e.stages = std::clamp(std::floor((c.smem - beside_ring()) / e.stage_bytes), 2.0, c.path.most_stages);
    e.step_latency = c.family.step;
    // at every tile tensor units wait while accumulators leave the registers; behind the last, the way to L2 is seen
    // too; sums that tensor memory holds twice leave beside the next tile's products, so that only the last ones are seen
    if (!sums_in_turns(c.path, tile) && !takes_turns()) e.serial_clk = e.once_clk;
    return e;
  }

 private:
  /// The memset's own time: a median of 309 (H200, products of PyTorch).
  static constexpr Seconds kClear = 0.74e-6 * units::s;

  bool by_xmma() const { return c.task.math == DType::tf32; }

  /// cuBLASLt chooses among these kernels as if memory were three times as fast and a step took 198 clocks (0.1 us of an H200)
  /// at least: it cuts K even of products that memory binds. (Found on 1007 recorded launches of training shapes: whether K is
  /// cut agrees for 96 %, for 92 % where the cheapest kernel is taken.)
  void see_as_library(Demand& d) const {
    constexpr double kMemory = 1.0 / 3, kStepClk = 198;
    d.dram_read *= kMemory;
    d.dram_write *= kMemory;
    d.step_latency = std::max(d.step_latency, kStepClk * c.clk);
  }

  /// What CTAs of a cluster have in common each fetches a part of for all. Rows that the operands do not have are asked for
  /// all the same (outside_clk).
  void share(Demand& d, const TileLayout& t, const WorkSplit& split) const {
    const TileCosts& e = *t.costs;
    d.plan.cluster = static_cast<std::int64_t>(split.cluster_rows * split.cluster_cols);
    const double asked = e.a / split.cluster_cols + e.w / split.cluster_rows;
    d.l2 = asked * 0.5 * (1 + c.starts.lines) * units::B;
    d.delivered = (e.a + e.w - asked) * units::B;
    const double tiles_m = cublas::padded(t.tiles_m, split.cluster_rows),
                 tiles_n = cublas::padded(t.tiles_n, split.cluster_cols);
    const double rows_of_x = tiles_m * e.tile_m - c.task.m, of_weights = tiles_n * e.tile_n - c.task.n;
    const double each =
        rows_of_x / tiles_m / split.cluster_cols + (c.task.weights_kn ? 0 : of_weights / tiles_n / split.cluster_rows);
    const double at_once = gemm::ctas_at_once(c, t, split);
    d.port_fill_clk = gemm::outside_clk(each, at_once) * at_once;
    if (!as_library_)
      d.port_fill_clk += cublas::inside_sectors_clk(c, e.a / split.cluster_cols, e.w / split.cluster_rows);
    cublas::wait_in_shared_queues(d, c, at_once);
  }

  /// Rows of the result that are no whole sectors of 32 bytes: every second one begins inside a sector, so that each piece of
  /// 128 bytes that leaves for memory writes two sectors in part, whose rest is fetched, 64 bytes at a time. Of what L2 keeps until
  /// the rest is written none is. (131 batched products of training shapes with such rows: 9.6 % off in the mean, 5.7 fast, with 32
  /// bytes and nothing fetched for results of L2's size; 8.4 and 1.2 so. How much L2 keeps was found by them.)
  double sectors_in_part() const {
    constexpr double kSector = 32, kFetched = 64, kPiece = 128, kRowsInside = 0.5, kInPart = 2, kKept = 0.25;
    const bool whole = std::fmod(c.task.n * c.task.output_bytes, kSector) == 0;
    if (whole || fixed()) return 0;
    const double kept = kKept * c.rates.l2_capacity.in(units::B) / c.task.batch;
    return kRowsInside * kInPart * kFetched / kPiece * std::max(0.0, c.out_bytes - kept);
  }

  /// Scales of blocks: parts of 20 steps and more, whose sums and 16 bytes fit PyTorch's workspace of cuBLASLt (1 MiB).
  /// (4506 answers of the heuristic with 32 MiB; 179 of 179 recorded training launches are of whole K, or of these parts.)
  double scaled_parts(const TileLayout& t) const {
    constexpr double kLeastSteps = 20, kSumBytes = 4, kWorkspace = 1024 * 1024 - 16;
    const double sums = c.task.batch * c.task.m * c.task.n * kSumBytes;
    return std::floor(std::min({(t.k_steps - 1) / kLeastSteps, kWorkspace / sums, c.rates.sm_count / t.tiles}));
  }

  std::span<const Tile> of_few() const {
    static constexpr std::array<Tile, 1> kScaled{{{128, 128}}};
    static constexpr std::array<Tile, 6> kXmma{{{128, 256}, {256, 128}, {128, 128}, {64, 128}, {128, 64}, {64, 64}}};
    return c.task.block > 0 ? std::span<const Tile>(kScaled) : std::span<const Tile>(kXmma);
  }

  /// Two SMs multiply as one; clusters of four share the rows too, where there are columns enough. (CUTLASS's profiles for
  /// sm_100: 2-SM instructions of 256 x 256, clusters of 2 x 1 and 4 x 4.)
  void pair_up(TileLayout& t) const {
    const TileCosts& e = *t.costs;
    const double along_cols = e.swapped ? t.tiles_m : t.tiles_n;
    if (e.paired) gemm::share_by_pair(t, c);
    if (along_cols >= 2) t.l2_bytes -= 0.5 * e.row_side();
  }

  /// Two SMs multiply as one (pair_up()).
  bool is_paired(Tile tile, bool swapped) const {
    return has_tensor_memory(c.path) && (swapped ? c.task.n : c.task.m) > tile.rows;
  }

  /// Bytes of shared memory that are none of the ring's. Of tcgen05 by the stages in the names above: 128 x 256 of a pair has six
  /// where seven would leave 4096 bytes, 256 x 104 four where five would leave 3072; 192 x 288 of a pair has five.
  double beside_ring() const {
    constexpr double kBarriers = 3072, kBarriersAndResults = 8192;
    return has_tensor_memory(c.path) ? kBarriersAndResults : kBarriers;
  }

  /// Kernels that scale rows are not called cooperative ("coop") as those of blocks are: their two warpgroups take turns
  /// with whole tiles, so that one's epilogue is behind the other's products.
  bool takes_turns() const { return fixed() && c.task.block == 1; }

  /// Those of more elements than that.
  void add_tiles(std::vector<TileCosts>& menu, double above) const {
    for (const bool swapped : {false, true}) {
      const double row_size = swapped ? c.task.n : c.task.m, col_size = swapped ? c.task.m : c.task.n;
      for (const std::int16_t rows : kRowSides) {
        if (rows > 64 && rows >= 2 * row_size) continue;
        for (const double width : Widths(c, rows, row_size, col_size)) {
          if (rows * width <= above) continue;
          const TileCosts e = costs({rows, static_cast<std::int16_t>(width)}, swapped);
          if (e.stages * e.stage_bytes <= c.smem) menu.push_back(e);
        }
      }
    }
  }

  static constexpr double kOfOneWarpgroup = 128 * 128;
  /// What fills four turns of the SMs with 128 x 256 is not cut into tiles of one warpgroup, however well these fill the last
  /// turn: none of 1875 products of 16 bits without a batch (traces of data/measurements/h200/pytorch_training), 11 of 1068 of
  /// one to four turns, 291 of 317 of less than half of one. Not counted: batches, other types, other generations.
  bool has_large_tiles() const {
    constexpr double kUsual = 128 * 256, kTurns = 4;
    return of_any_tile() && !looks_at_all(c) && c.task.batch == 1 && bits(c.task.math) == 16 &&
           c.task.m * c.task.n > kTurns * kUsual * c.rates.sm_count;
  }

  /// Two warpgroups, where one cannot hold the sums, halve a tile's rows where these are an even number of 64, else its
  /// columns: then both read all rows.
  /// (Bytes read from shared memory in a step of 64, by ncu on an H200, 2026-11-23: tiles of 256 x 128 98.8 kB, of
  /// 320 x 128 164.5, of 192 x 192 124.1; by this 98.3, 163.8 and 122.9.)
  static double rows_again(Tile tile) {
    constexpr int kSumsOfAWarpgroup = 128 * 128;
    const int parts = tile.rows / 64, sums = tile.rows * tile.cols;
    return parts % 2 == 1 && sums > kSumsOfAWarpgroup ? 1 : 0;
  }

  const Context& c;
  const bool as_library_;
};

GemmChoice cheapest_of(const TmaPlanner& planner, const Context& c, GemmCache& cache) {
  std::vector<TileCosts>& menu = cache.state().scratch.tiles;
  planner.fill(menu);
  Search<TmaPlanner> search(planner, c, cache);
  for (const TileCosts& e : menu) {
    const TileLayout& t = search.lay_out(e);
    planner.for_each_split(t, [&](double splits) { search.add(t, splits); });
  }
  return search.run();
}

GemmPlan plan_of(const cublas::KernelOfAnyTile& kernel) {
  GemmPlan plan;
  plan.tile_m = kernel.tile.along_m;
  plan.tile_n = kernel.tile.along_n;
  plan.swapped = kernel.tile.swapped;
  plan.splits = static_cast<std::int64_t>(kernel.parts);
  return plan;
}

/// A plan that was chosen otherwise, at its price.
GemmChoice priced_anew(const GemmPlan& plan, const TmaPlanner& planner, const Context& c, GemmCache& cache) {
  const auto rows = static_cast<std::int16_t>(plan.swapped ? plan.tile_n : plan.tile_m);
  const auto cols = static_cast<std::int16_t>(plan.swapped ? plan.tile_m : plan.tile_n);
  std::vector<TileCosts>& menu = cache.state().scratch.tiles;
  menu.assign(1, planner.costs({rows, cols}, plan.swapped));
  Search<TmaPlanner> search(planner, c, cache);
  return search.priced(search.lay_out(menu.front()), static_cast<double>(plan.splits));
}

}  // namespace

GemmChoice cublas::plan_nvjet(const Context& c, GemmCache& cache) {
  const TmaPlanner planner(c);
  if (!planner.of_any_tile() || looks_at_all(c)) return cheapest_of(planner, c, cache);
  const GemmChoice by_cost = priced_anew(cheapest_of(TmaPlanner(c, true), c, cache).plan, planner, c, cache);
  if (!cublas::was_asked_for(c)) return by_cost;
  // what was trained on one card's answers is not believed where it would be much dearer (training rows: 1.3 and 1.5 are as good)
  constexpr double kMostDearer = 1.3;
  const GemmChoice likely = priced_anew(plan_of(cublas::likely_kernel(c)), planner, c, cache);
  return likely.total <= kMostDearer * by_cost.total ? likely : by_cost;
}

}  // namespace plumbline

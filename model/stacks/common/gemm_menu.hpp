// What GEMM kernels offer and what one cut of a task asks for: the tile menu, its per-step costs on a machine, and a
// tile laid over the operands. Internal to the GEMM planner.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "model/engine/tensor_path.hpp"
#include "model/engine/timing.hpp"
#include "model/stacks/common/plan_gemm.hpp"
#include "ops/plan/kernel_menu.hpp"

namespace plumbline::gemm {

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
constexpr std::size_t kMenuSize = 2 * kTiles.size();

constexpr double kStepBytes = 128;  // one main-loop step covers 128 bytes of K (a swizzle span): 64 bf16, 128 fp8

/// Whether rows of the operands and of the result are whole 16-byte units.
inline bool whole_units(const GemmTask& t) {
  constexpr double kUnit = 16;
  return std::fmod(t.k * t.input_bytes, kUnit) == 0 && std::fmod(t.k * t.weight_bytes, kUnit) == 0 &&
         std::fmod(t.n * t.output_bytes, kUnit) == 0;
}

/// A fill takes little of the port that operands are read through: beside 15 bytes a clock of it, reads sank from
/// 127.8 to 125.1 (own probe on an H200, 2026-11-20).
constexpr double kFillShare = 0.18;

/// Dependent ways to memory before a library's first product, when nothing of the kernel is in L2: code and launch
/// parameters, tensor map, operands. (Fitted between cold recordings and published rows whose weights stay in L2: 3.7.
/// The same row-wise kernel takes 1.2 us longer cold than warm: docs/measuring.md.)
constexpr double kColdTrips = 4;

/// Where rows of K begin.
struct RowStarts {
  double lines = 1;           ///< of 128 bytes that 128 bytes of a row touch, mean over rows
  bool whole_sectors = true;  ///< of 32 bytes
  double inside = 0;          ///< share of rows that begin inside one of DRAM's accesses of 64 bytes
};
inline RowStarts row_starts(const GemmTask& t) {
  constexpr std::int64_t kLine = 128, kSector = 32;
  const std::int64_t aligned = std::gcd(static_cast<std::int64_t>(t.k * t.input_bytes), kLine);
  constexpr std::int64_t kAccess = 64;
  const double inside = aligned >= kAccess ? 0 : 1 - static_cast<double>(aligned) / kAccess;
  return {2.0 - static_cast<double>(aligned) / kLine, aligned >= kSector, inside};
}

/// mma.sync kernels fetch operands as on cards that have nothing newer. Libraries fall back to those for rows that no
/// tensor map can describe.
inline TensorPath path_of(const GemmTask& task, const Rates& rates) {
  TensorPath path = rates.path;
  if (task.own == GemmEngine::mma_sync) path.kind = TensorPath::Kind::mma_sync;
  if (!task.own && path.multicast && !whole_units(task)) path = TensorPath{};
  return path;
}

/// What every candidate of one task shares.
struct Context {
  const GemmTask& task;
  const Rates& machine;
  const FamilyScalars& family;
  const FamilyScalars& reduce;
  const TensorPath path;
  double a_bytes, w_bytes, out_bytes;  // whole operands of one batch entry
  double smem, smem_port, l2_port;     // bytes, bytes a clock
  Seconds dram_floor;                  // compulsory traffic
  Seconds clk, per_l2, per_port;       // one SM clock; one byte of L2, one through an SM's port
  double per_lookup = 1;               // time of one byte looked up in L2 / of one of distinct lines
  double per_tensor_rate = 1;
  bool whole_units = true;  // as whole_units(task)
  RowStarts starts;

  Context(const GemmTask& t, const Rates& m)
      : task(t), machine(m), family(gemm_family(t, m)), reduce(reduce_family(t, m)), path(path_of(t, m)) {
    const FamilyScalars& f = family;
    whole_units = gemm::whole_units(t);
    a_bytes = t.m * t.k * t.input_bytes;
    w_bytes = t.n * t.k * t.weight_bytes * t.weight_kept * t.weights_read;
    out_bytes = t.m * t.n * t.output_bytes;
    smem = m.gpu.sm.smem.in(units::B);
    smem_port = m.gpu.sm.smem_bytes_per_clk.in(units::B);
    l2_port = m.gpu.sm.l2_bytes_per_clk.in(units::B);
    // a split writes its result in a launch of its own: no turnaround, and that launch's share of the card
    const Bytes out = t.batch * out_bytes * units::B;
    dram_floor = dram_time(t.batch * (a_bytes + w_bytes) * units::B, Bytes{}, m) / f.dram_share +
                 dram_time(Bytes{}, out, m) / std::max(f.dram_share, reduce.dram_share);
    clk = 1.0 / (m.clock * (1 - f.droop));
    per_l2 = units::B / m.l2;
    if (t.own || path.multicast) starts = row_starts(t);
    const auto partitions = static_cast<double>(std::max<std::int64_t>(1, m.gpu.l2.partitions));
    per_lookup = 1.0 / (kLookupShare * (2 - 1 / partitions));
    per_port = units::B / m.l2_per_sm;
    // no cut does less dense work than the task, so none sees a larger share of the peak
    const double dense = 2.0 * t.m * t.n * t.k * t.batch / t.tensor_flop_per_clk / m.sm_count;
    per_tensor_rate = 1.0 / (m.sustained_fraction(dense / m.clock, f) * f.efficiency);
  }
};

/// What a tile costs a step, whatever the sizes of the operands: worked out once a machine and precision.
struct MenuEntry {
  Tile tile{};
  bool swapped = false;
  double tile_m = 0, tile_n = 0, tile_k = 0;
  double cluster = 1;  ///< CTAs that fetch the operand they share once (TMA multicast)
  bool persistent = false;
  bool shared_reads = false;  ///< of a library, by TMA: the SMs' ports are the limit (L2Limit::ports)
  bool merges = false;        ///< L2 is asked by TMA: its time is that of lookups (timing.cpp, l2_time)
  double resident = 1, stages = 2, stage_bytes = 0, a = 0, w = 0;
  double tensor_clk = 0, fp32_clk = 0, smem_clk = 0, once_clk = 0, serial_clk = 0;
  Seconds step_latency;
};

/// All tiles on both sides for one kind of GEMM and precision on one machine. GemmCache keeps the last few: planning a
/// step asks for the same two or three precisions again and again.
struct GemmMenu {
  GemmTask key;
  bool whole_units = true;
  std::array<MenuEntry, kMenuSize> entries;
  std::size_t size = 0;

  bool serves(const Context& c) const {
    const GemmTask& t = c.task;
    return size > 0 && key.kind == t.kind && whole_units == c.whole_units && key.input_bytes == t.input_bytes &&
           key.weight_bytes == t.weight_bytes && key.output_bytes == t.output_bytes &&
           key.tensor_flop_per_clk == t.tensor_flop_per_clk && key.dequant_per_weight == t.dequant_per_weight &&
           key.weight_kept == t.weight_kept && key.own == t.own;
  }
};

/// From the cache, where the last few menus are; it stays valid until as many others have been asked for.
const GemmMenu& gemm_menu(const Context& c, GemmCache& cache);
/// What follows from the tile alone, for any kernel.
MenuEntry tile_entry(const Context& c, Tile tile, double tile_k, bool swapped);
/// One of our own compiled kernels.
MenuEntry own_entry(const Context& c, const GemmVariant& variant, bool swapped);

/// How the work of one cut is dealt to CTAs. `ctas` times `steps` each; clocks as in Demand, a CTA.
struct Deal {
  double splits = 1;  ///< as in GemmPlan
  double ctas = 0, steps = 0;
  double serial_clk = 0, once_clk = 0;
  double meet_clk = 0;         ///< until the last part of a tile has taken the others' sums
  bool second_launch = false;  ///< partial results are added up by a launch of their own
};

/// A menu entry laid over the operands.
struct Cut {
  const MenuEntry* e = nullptr;
  double tiles_m = 0, tiles_n = 0, tiles = 0, k_steps = 0, l2_bytes = 0;
  double smem_clk = 0;  ///< as the entry's, and what rows that do not begin at whole 16 bytes cost
  Seconds step_latency;
  double lookups = 0;        ///< of a step, in bytes (Demand::lookups)
  double edge_fill_clk = 0;  ///< of a step: rows of its boxes that the operands do not have

  Cut(const Context& c, const MenuEntry& entry);

  /// `splits` CTAs a tile, each with its share of K.
  Deal tiled(double splits) const;
  /// Our own Hopper kernel's way with `splits` parts of K a tile, whose sums meet in L2: each part leaves its own, the
  /// last to come takes them all. 0: only the tiles that are left over behind whole waves are cut, into as many parts
  /// as fill a wave.
  Deal shared(const Context& c, double splits) const;

  /// Own times of all CTAs together on the busiest SM, and what is exposed: from these follow two lower bounds of the
  /// engine's answer, a cheap one (the largest) and a close one (the p-norm of sums is below the sum of p-norms:
  /// Minkowski's inequality).
  struct Totals {
    PerResource<Seconds> own;
    Seconds exposed;
  };
  Totals totals(const Context& c, const Deal& deal) const {
    const Rates& m = c.machine;
    const double turns = std::ceil(deal.ctas / m.sm_count);
    const double waves = std::ceil(deal.ctas / (m.sm_count * e->resident));
    const Seconds on_sm = turns * deal.steps * c.clk;
    Totals t;
    t.own[Resource::tensor] = on_sm * (e->tensor_clk * c.per_tensor_rate);
    if (e->resident <= 1) t.own[Resource::tensor] += turns * deal.serial_clk * c.clk;
    t.own[Resource::fp32] = on_sm * e->fp32_clk;
    t.own[Resource::smem] = on_sm * smem_clk;
    t.own[Resource::l2] = l2_at_least(c, deal);
    t.own[Resource::dram] = c.dram_floor;
    t.own[Resource::latency] = waves * (deal.steps * step_latency + standing_clk(deal) * c.clk);
    t.exposed = c.family.fixed + paid_once(c, deal, waves, turns);
    return t;
  }

  /// exposed + the largest own time of `totals`, without the rest.
  Seconds bound(const Context& c, const Deal& deal) const {
    const double turns = std::ceil(deal.ctas / c.machine.sm_count);
    const double waves = e->resident > 1 ? std::ceil(deal.ctas / (c.machine.sm_count * e->resident)) : turns;
    const double sm_clk = std::max({e->tensor_clk * c.per_tensor_rate, e->fp32_clk, smem_clk});
    const Seconds largest = std::max({turns * deal.steps * sm_clk * c.clk, l2_at_least(c, deal), c.dram_floor,
                                      waves * (deal.steps * step_latency + standing_clk(deal) * c.clk)});
    return c.family.fixed + paid_once(c, deal, waves, turns) + largest;
  }

  /// Loads of our kernels wait for the epilogue too; libraries' run on.
  double standing_clk(const Deal& deal) const { return e->merges ? deal.serial_clk : 0; }

  /// At the best rate that so many CTAs see, without what the launch looks up beside its steps' bytes.
  Seconds l2_at_least(const Context& c, const Deal& deal) const {
    const double sms = std::min(deal.ctas, c.machine.sm_count);
    if (e->shared_reads) return deal.ctas * deal.steps * l2_bytes * (c.per_port * (1 / ((1 - c.family.droop) * sms)));
    if (!e->merges) return deal.ctas * deal.steps * l2_bytes * c.per_l2;
    const Seconds each = std::max(c.per_l2, c.per_port * (1 / sms));
    return deal.ctas * deal.steps * lookups * (each * c.per_lookup);
  }

  /// Prologues and epilogues that nothing hides: every wave's, or those of the last (of a persistent grid).
  Seconds paid_once(const Context& c, const Deal& deal, double waves, double turns) const {
    if (!e->persistent) return waves * c.family.per_cta + turns * deal.once_clk * c.clk;
    if (e->merges) return c.family.per_cta + deal.meet_clk * c.clk;
    const double last = deal.ctas - (waves - 1) * c.machine.sm_count * e->resident;
    return c.family.per_cta + std::ceil(last / c.machine.sm_count) * deal.once_clk * c.clk;
  }

  /// The launch itself, with what crosses the DRAM interface.
  Demand demand(const Context& c, const Deal& deal) const;

 private:
  void look_up(const Context& c);
  void fill_rows(const Context& c);
  void add_pieces(const Context& c);
  void add_library_pieces(const Context& c);
};

}  // namespace plumbline::gemm

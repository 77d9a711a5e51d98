// What a machine does a second: descriptor numbers x scalars of a calibration x clock. The timing engine, the planners
// and the power model know nothing else of it. Flat: made in less than a microsecond, without files, maps or strings.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "arch/calibration/calibration.hpp"
#include "arch/gpu/gpu.hpp"
#include "model/engine/power.hpp"
#include "model/engine/tensor_path.hpp"
#include "model/types.hpp"

namespace plumbline {

struct Cluster;
struct KernelCounts;

/// How a family's scalars go over from the card that they were measured on to one that has none; those not named here
/// go over as they are.
struct CarryOver {
  /// What a launch takes at least is work of the front end, of schedulers and of code: cycles, not seconds.
  bool fixed_in_cycles = false;
  /// So are a step, a CTA's start and what one CTA moves, where these are chains of code, of polls and of L2's answers.
  bool chains_in_cycles = false;
  /// What an SM keeps outstanding is the same for the same kind of SM; another generation is built to keep its own
  /// memory busy.
  bool in_flight_with_memory = false;
  /// A step's chain of loads is what a CTA has on its way over the loaded latency: kernels of another generation are as
  /// deep as their own memory needs, so the chain of the same bytes is shorter by as much, and so is what is issued for it.
  bool chain_with_memory = false;
  /// Cycles that SMs skip where tensor units work, as the data sheet of the card has them (skipped_as_rated()), where the
  /// donor skips none.
  bool skips_as_rated = false;
  /// What the main loop loses of the tensor rate are cycles between products (fragments, barriers), which took this share
  /// of them at so many bf16 FLOP a clock and SM: tensor units of half the rate hide half of the loss. 0: a share that stays.
  double lost_at_flop_per_clk = 0;
  /// Trips to memory that its plan counts by themselves where operands come by tensor maps. What a launch takes on a card without
  /// them has those of its code in it.
  double cold_trips = 0;
  bool operator==(const CarryOver&) const = default;
};

/// What a kernel family adds to the machine: a handful of numbers, fitted on training shapes, never per shape. Not
/// every family uses each.
struct FamilyScalars {
  const char* name = "";  ///< "gemm", "attention_decode", ...: static text
  bool on_file = false;   ///< else nobody measured such kernels, and none are to be priced with these
  Seconds fixed;          ///< first CTA scheduled to first useful byte, plus drain: what an empty kernel takes
  double overlap = 8;     ///< p of the p-norm over resources: infinity = perfect overlap, 1 = none
  double efficiency = 1;  ///< share of the sustained tensor rate that the main loop reaches
  /// Share of the card's DRAM bandwidth that the family's walk reaches. (Tiles take 128 bytes of each of many rows and
  /// so open more DRAM pages than a stream does: our reading of the rows, not probed.)
  double dram_share = 1;
  /// The same where a step takes 64 bytes of each row, half a line: each opens a page of DRAM for one access.
  double half_lines = 1;
  /// Exposed time / the epilogue's store time at the L2 port (GEMM; above 1 where the way from registers through shared
  /// memory costs more than the store) or / the softmax (attention; above 1 where tensor and ordinary work hardly
  /// overlap).
  double exposed = 0;
  Seconds per_cta;  ///< prologue and epilogue latency of one CTA
  Seconds step;     ///< dependency chain of one main-loop step of one CTA
  /// SM clocks, for what is a chain of instructions and of answers from L2, so that it goes with the SMs from card to
  /// card. `step_clk`: of one main-loop step, beside the work that is counted (prefill: barriers and reductions over a
  /// row, which nothing hides; decode: the loads of 64 keys). `start_clk`: a CTA's way to its first data and from its
  /// last, while other CTAs use memory. `merge_clk`: the last CTA of a head merging the others' results (decode).
  double step_clk = 0, start_clk = 0, merge_clk = 0;
  /// What an SM is busy with for a CTA, and for one of its steps, beside what is counted: no other CTA of the SM hides it.
  double issue_start_clk = 0, issue_step_clk = 0;
  Bytes in_flight;  ///< what one CTA keeps outstanding to DRAM; 0: as the plan's ring says
  /// What one SM has outstanding to L2 and DRAM together, however deep its ring; 0: no such limit is known.
  Bytes sm_in_flight;
  /// A launch before kernels whose CTAs take tiles from a counter: it is cleared. Of exchanges of tokens what goes with
  /// the number of counters, tokens or nodes (model/stacks/deepep/provider.cpp); of our collectives a turn of what goes
  /// by elements (model/stacks/own/plan_peers.cpp).
  Seconds counter;
  /// A profiler's duration of a launch beyond its own time here: of the gap between two launches the profiler shows as idle
  /// what is behind the work of the one, and counts what is before the first CTA of the other as the other's. All of the gap
  /// for families that were fitted to a profiler's durations as they are.
  Seconds gap_inside;
  /// Share of the tensor peak at `Rates::clock` that the power limit leaves to dense work at first, and when it
  /// lasts.
  double tensor_burst = 1, tensor_steady = 1;
  /// Share by which the SM clock sinks within microseconds where tensor units work.
  double skipped_cycles = 0;
  /// The share of the tensor rate was fitted to bursts too short for the regulator to act in.
  bool fitted_in_bursts = false;
  CarryOver carry;

  /// Between GPUs: share of the links' bandwidth that a protocol reaches, and what one channel (a CTA) carries.
  double link_share = 1;
  Bandwidth channel;
  Bandwidth element;  ///< ... what it moves one element at a time, where addresses are no multiples of 16; 0: not known

  bool operator==(const FamilyScalars&) const = default;
};

struct Rates {
  GpuNumbers gpu;
  ClockMode clock_mode = ClockMode::burst;

  TensorPath path;  ///< how this generation feeds its tensor units
  Hertz clock;      ///< SM cycles are turned into time with it
  double sm_count = 0;

  /// Dense MMA on random data is held by the power limit below `clock`: a first launch runs at the burst share of the
  /// peak at `clock`, sustained work at the steady share (docs/sources.md: power; until clock and power are solved for,
  /// these two are measured scalars).
  double tensor_fraction = 1, tensor_steady_fraction = 1;
  Seconds regulator_lag;  ///< time constant of the sinking
  /// What a launch of that length sees when it is repeated a few times, as short benchmarks do.
  double sustained_fraction(Seconds launch) const {
    return sustained_fraction(launch, tensor_fraction, tensor_steady_fraction);
  }
  double sustained_fraction(Seconds launch, const FamilyScalars& family) const {
    return sustained_fraction(launch, family.tensor_burst, family.tensor_steady);
  }
  double sustained_fraction(Seconds launch, double burst, double steady) const;
  static constexpr double kBurstLaunches = 10;  ///< that a short benchmark repeats

  Bandwidth dram_read, dram_write;   ///< what reads alone and writes alone reach
  double dram_mix_loss = 0;          ///< turnaround: share of bandwidth lost at an even mix
  Seconds dram_latency, l2_latency;  ///< loaded
  /// Over both halves of a divided L2.
  Seconds l2_mean_latency() const { return 0.5 * (1 + gpu.l2.far_latency_ratio) * l2_latency; }
  Bandwidth l2, l2_per_sm;
  Bytes l2_capacity;  ///< what data shared by all SMs can really hold
  /// What is still in L2 of a set that is used again.
  Bytes l2_held() const { return gpu.l2.reuse_fraction * l2_capacity; }
  /// ... of data that is written too: each partition of L2 may keep a copy (docs/sources.md: matrix products)
  Bytes l2_kept;
  /// Share of a working set that is still in L2 when it is used again. Sets are indexed by hashed addresses, so the edge
  /// is not sharp.
  double still_held(Bytes set) const {
    constexpr double kEdge = 0.2;
    return std::clamp((1 + kEdge - set / l2_held()) / (2 * kEdge), 0.0, 1.0);
  }
  std::optional<PowerScalars> power;  ///< nothing where no energies of the card are on file
  Watts power_cap;
  double clock_limit = 1;  ///< share of the boost clock at which the SM clock is locked; 1: it is not
  DataPattern data = DataPattern::normal;
  Bandwidth pcie;
  Seconds gap_graph, gap_stream;  ///< between dependent kernels of a graph, of a stream
  /// In a step every kernel follows another one: its code has left the SMs' caches, and L2 too where weights passed
  /// through; shared memory is carved anew. Beside repeats of the same kernel, a launch takes this much longer.
  Seconds kernel_change;

  /// Scalars of kernel families, by number: each provider of a stack knows where its own begin.
  static constexpr std::size_t kMostFamilies = 128;
  std::array<FamilyScalars, kMostFamilies> families;
  /// Instructions and waits of row-wise kernels whose code was counted (ops/plan/kernel_counts.hpp); null where the
  /// stack has none. Whoever makes the rates keeps them.
  const KernelCounts* counts = nullptr;
  const Cluster* fabric = nullptr;  ///< what joins several of it; whoever makes the rates keeps it

  bool operator==(const Rates&) const = default;
};

/// Cycles that SMs skip where tensor units work. A data sheet states its tensor peaks at the clock that is left where they are
/// busy: 1830 of 1980 MHz on Hopper (own counters: 0.909 of the clock), the boost clock itself on an A100, which skips none.
struct SkippedCycles {
  double ratio = 1;  ///< of the card that takes over / of the donor
  double rated = 0;  ///< of the card that takes over, where the donor's data sheet knows of none
};
/// Shares of the boost clock that tensor peaks are stated at; cards of one generation skip alike, whatever their boards' clocks.
SkippedCycles skipped_as_rated(double gpu, double donor, bool same_generation);

/// What rates are made from beside the descriptor's numbers: one calibration, read for one choice of kernels and clock.
/// `base` holds all that does not depend on the descriptor.
struct RateScalars {
  Rates base;
  double dram_read = 1, dram_write = 1, l2_bandwidth = 1, l2_usable = 1, pcie = 1;  ///< fractions of the descriptor's
  double dram_latency = 1;                                                          ///< loaded / the descriptor's
  std::optional<PowerScalars> power;                                                ///< as the calibration has them
  std::optional<Watts> power_cap;                                                   ///< instead of the board's own
  std::optional<Hertz> sm_clock;                                                    ///< locked

  /// The card that was measured, where these scalars are taken over from another one.
  struct Donor {
    GpuNumbers gpu;
    double process_energy = 1;  ///< of the card that takes over / of the donor (scaled_to)
    /// What an SM of the card that takes over keeps outstanding / one of the donor (CarryOver::in_flight_with_memory): of
    /// the card as it is built, whatever numbers are changed in a study.
    double outstanding = 1;
    SkippedCycles skipped{};
  };
  std::optional<Donor> donor;
};

/// Bytes that keep the memory busy: an SM of another generation is built to have its share of them outstanding, no fewer
/// than the donor's.
double outstanding_ratio(const GpuNumbers& gpu, const GpuNumbers& donor, bool same_generation);

Rates make_rates(const GpuNumbers& gpu, const RateScalars& scalars);

}  // namespace plumbline

#include "model/stacks/own/plan_rows.hpp"

#include <algorithm>
#include <cmath>

#include "model/engine/timing.hpp"
#include "model/stacks/common/plan_stream.hpp"
#include "model/stacks/own/row_kernels_internal.hpp"
#include "ops/plan/row_menu.hpp"

namespace plumbline {
namespace {

using row_kernels::with_begun;

/// Share of the bytes that L2 does not hold from one launch to the next. Each of its partitions may keep a copy of the
/// other's lines, so losses begin near the size of one; half as much again is about never met when walked in order.
double missing(const Op& op, const Work& w, const Rates& m) {
  const Bytes footprint = std::holds_alternative<Rope>(op) ? std::max(w.read, w.write) : w.bytes();
  const Bytes kept = m.gpu.l2.size / static_cast<double>(std::max<std::int64_t>(1, m.gpu.l2.partitions));
  return std::clamp((footprint - m.counts->warm_l2.begin * kept) / (m.counts->warm_l2.over * kept), 0.0, 1.0);
}

/// What one CTA takes, by itself, of each.
struct CtaTimes {
  Seconds compute;  ///< in its SM's schedulers or special-function units, whichever is longer
  Seconds port;     ///< what it reads, through the SM's port to L2
  Seconds wait;     ///< dependent steps between its loads and its stores
  Seconds turn;
};

CtaTimes times_of(const RowKernel& k, const Demand& d, const Rates& m, Bytes read, Seconds first) {
  const Seconds clk = 1.0 / m.clock;
  CtaTimes t;
  t.compute = std::max(d.issue_clk, d.sfu_clk) * clk;
  t.port = read / m.l2_per_sm;
  t.wait = k.chain_clk * clk + k.l2_trips * m.l2_latency + k.loads * first;
  t.turn = m.counts->waits.turn_clk * clk;
  return t;
}

/// CTAs that flow: a slot's CTAs come one after the other, each with its own loads, arithmetic and waits. What of that
/// is seen once, at the start, is not in here.
Seconds slot_time(const RowKernel& k, const CtaTimes& t, Seconds first, const Rates& m, double* waves) {
  const double ctas = static_cast<double>(k.plan.ctas), a_sm = ctas / m.sm_count;
  const double slots = std::min(static_cast<double>(k.plan.ctas_per_sm), std::max(1.0, std::ceil(a_sm)));
  *waves = std::max(1.0, a_sm / slots);
  const double begun = with_begun(*waves, m.counts->waves);
  const double seen = k.turns > 1 ? m.counts->waves.prefetch_wait * static_cast<double>(k.turns) : 1;
  const Seconds wait = seen * t.wait;
  return begun * (first + t.turn + wait + t.compute + t.port) - first - t.turn - t.wait;
}

/// Clusters, which some SMs of a GPC are left over from (ClusterSlots). All CTAs of a cluster load, agree and write
/// together, and the next starts when all are through, so that its life is a sum.
Seconds cluster_time(const RowKernel& k, const Demand& d, const CtaTimes& t, Seconds first, Seconds memory,
                     const Rates& m) {
  const double ctas = static_cast<double>(k.plan.ctas);
  const double sms = m.sm_count * m.gpu.clusters.share(k.plan.cluster);
  const double at_once = static_cast<double>(k.plan.ctas_per_sm);
  const double resident = std::min(at_once, std::max(1.0, std::ceil(ctas / sms)));
  const double whole = std::max(1.0, ctas / (sms * at_once)),
               waves = whole < 2 ? std::ceil(whole) : with_begun(whole, m.counts->waves);
  const Bytes all = d.dram_read + d.dram_write;
  const double reads = all > Bytes{} ? d.dram_read / all : 0.5;
  const Seconds load = std::max(reads * memory / waves, resident * t.port);
  const Seconds busy = load + resident * t.compute, rest = first + t.wait;
  // Clusters of topk and softmax drift apart as other CTAs do, and hide a fifth of each other's waits or work then (26
  // training rows of topk, H200, with code fetched by the vector: 4.7 -> 4.3 % in the median, worst 16 -> 8).
  constexpr double kHidden = 0.2;
  const double drifted = k.drifts ? kHidden * std::min(1.0, (waves - 1) / m.counts->overlap.drift_waves) : 0;
  const Seconds life = busy + rest - drifted * std::min(busy, rest);
  return waves * (life + t.turn) - first - t.turn - t.wait;
}

/// What a launch that begins with nothing to write back leaves in L2 for the next one to write back: lines that it wrote,
/// by their share of the lines that it touched. Of operands that are walked, as much as L2 keeps where each of its
/// partitions has a copy of its own (launches behind a read of 256 MiB: rmsnorm_backward of 16384 x 2048 takes 50.6 us on
/// an H200, and 53.0 between launches of its kind, data/measurements/h200/gradients.json); what is added to memory has
/// one place (embedding_backward of 8192 x 2048: 63.4 us, and 70.8 in an iteration, training.json).
Bytes left_in_l2(const RowKernel& k, const Work& w, const Rates& m) {
  if (w.write <= Bytes{}) return {};
  const double share = w.write / (w.read + (1 - k.read_before) * w.write);
  return share * (k.scattered_adds > 0 ? m.l2_capacity : m.l2_kept);
}

/// CTAs that stay and take rows in turn: on an SM they share the schedulers, and each waits for its own rows.
Seconds stay_time(const RowKernel& k, const CtaTimes& t, Seconds first, const Rates& m) {
  const double seen = with_begun(k.stay_turns, m.counts->waves);
  const double on_sm =
      std::min(static_cast<double>(k.plan.ctas_per_sm), std::max(1.0, static_cast<double>(k.plan.ctas) / m.sm_count));
  return seen * (t.wait + k.turn_loads * first) + seen / k.stay_turns * on_sm * t.compute + t.port;
}

/// Waves of CTAs that are alike and go in step: what of each is seen beside its bytes.
void add_rounds(Demand& d, const RowKernel& k, const CtaTimes& t, Seconds first, Seconds dram, const Rates& m) {
  d.serial_latency += k.rounds * k.round_clk / m.clock + (k.rounds - 1) * k.turn_loads * first + (k.stretch - 1) * dram;
  d.step_latency = k.rounds * t.port;
}

/// p of the p-norm over what an SM does for different CTAs.
double overlap_of(const RowKernel& k, double waves, const KernelCounts::Overlap& c) {
  if (k.selects) return c.selecting;
  if (k.turns > 1) return c.prefetching;
  const double drifted = std::min(1.0, (waves - 1) / c.drift_waves);
  const double in_step = k.phases == 0 ? c.reading_in_step : k.phases == 1 ? c.in_step : c.twice_in_step;
  const double once = k.in_lanes ? c.lanes_drifted : c.drifted;
  const double apart = k.phases == 0 ? c.reading_drifted : k.phases == 1 ? once : c.twice_drifted;
  return in_step + drifted * (apart - in_step);
}

/// Work, bytes and what of them reaches DRAM; `lost`: the share that L2 does not hold.
Demand moved(const Op& op, const Work& w, const RowKernel& k, const Rates& m, double lost, double beyond_l2) {
  const StreamingMultiprocessor& sm = m.gpu.sm;
  const double ctas = static_cast<double>(k.plan.ctas), threads = static_cast<double>(k.plan.threads);
  Demand d;
  d.plan = k.plan;
  d.no_waves = true;
  d.issue_clk = (k.instructions + k.wide_slots) / sm.issue_per_clk;
  d.sfu_clk = k.sfu * static_cast<double>(sm.warp_size) / sm.sfu_op_per_clk;
  d.tensor_clk = tensor_clk(w, ctas, sm);  // of operators that no kernel of ours runs
  d.dram_read = lost * w.read;
  // what registers spilled leaves L2 only where the operands push it out
  d.dram_write = lost * w.write + beyond_l2 * k.evicted * threads * ctas * units::B;
  d.l2 = w.bytes() / ctas + k.spilled * threads * units::B;
  // Results stored element by element come to L2 as so many requests a sector, of which it takes a third as many as it
  // gives (mma_planner.hpp, parts_through_l2_clk). Nothing is fitted to such rows; 5269 x 701 of the fused forward
  // pass, drawn at random, took 26.6 us on an H200 where 14.2 were predicted without this, 81 x 8845 of dropout 7.8 and
  // 5.8 (2026-11-28).
  constexpr double kOfReads = 3;
  if (k.stores > 1) d.l2 += (kOfReads * k.stores - 1) * w.write / ctas;
  if (k.scattered_adds > 0) {  // what is added to passes no SM: L2 reads and writes it
    d.l2 = (w.read - w.write + k.scattered_adds * m.counts->additions.l2_B * units::B) / ctas;
  }
  if (const auto* row = std::get_if<Rowwise>(&op); row != nullptr && row->kind == RowwiseKind::transpose_copy) {
    // 256 bytes that begin within a sector of 32 touch nine of them
    constexpr std::int64_t kSectorElements = 16;
    if (row->cols % kSectorElements != 0) d.dram_read = 9.0 / 8.0 * d.dram_read;
    if (row->rows % kSectorElements != 0) d.dram_write = 9.0 / 8.0 * d.dram_write;
  }
  return d;
}

}  // namespace

Demand plan_own_rows(const Op& op, const Work& w, const Rates& m, const FamilyScalars& family, L2State l2) {
  const RowKernel k = row_kernel(op, w, *m.counts, m.gpu);
  const double ctas = static_cast<double>(k.plan.ctas), threads = static_cast<double>(k.plan.threads);
  const double beyond_l2 = missing(op, w, m), lost = l2 == L2State::operands ? beyond_l2 : 1.0;
  Demand d = moved(op, w, k, m, lost, beyond_l2);
  if (l2 == L2State::read_through) d.dram_write -= std::min(d.dram_write, left_in_l2(k, w, m));
  const Bytes passed = k.stay_turns > 0 ? Bytes{} : k.spilled * threads * units::B;
  const Seconds dram = dram_time(d.dram_read, d.dram_write, m) / family.dram_share;
  // how long the first bytes take depends on how busy DRAM then is
  const Seconds idle = m.gpu.memory.latency;
  const double busy = dram / (dram + m.dram_latency);
  const Seconds first = lost > 0 ? idle + busy * (m.dram_latency - idle) : std::min(m.l2_latency, m.dram_latency);
  const CtaTimes t = times_of(k, d, m, w.read / ctas + passed, first);
  const bool in_turns = k.stay_turns > 0, by_rounds = k.rounds > 0;
  d.serial_latency = (1 + k.start_loads) * first + (in_turns ? Seconds{} : t.wait) + k.tail_trips * m.l2_latency +
                     k.tail_clk / m.clock + k.scattered * dram;
  d.serial_latency_of = "of first loads, the last row and passes";
  d.serial_latency += (k.launches - 1) * (m.gap_graph + family.fixed + idle);
  d.serial_latency += std::max(k.end_adds_clk / m.clock, k.end_adds * m.counts->additions.l2_B * units::B / m.l2);
  d.overlap = k.overlap;
  if (in_turns) d.step_latency = stay_time(k, t, first, m);
  if (by_rounds) add_rounds(d, k, t, first, dram, m);
  if (in_turns || by_rounds || k.scattered_adds > 0) return d;
  if (k.chained) {
    d.overlap = 1;
    d.serial_latency += std::max(Seconds{}, k.beside_clk / m.clock - dram);
    d.step_latency = std::max(Seconds{}, k.chained_clk / m.clock - t.compute) * std::max(1.0, ctas / m.sm_count);
    d.l2_hidden += d.l2;
    d.l2 = Bytes{};
    return d;
  }
  if (k.lockstep) {
    d.step_latency = cluster_time(k, d, t, first, std::max(dram, w.bytes() / m.l2), m);
    return d;
  }
  double waves = 1;
  d.step_latency = slot_time(k, t, first, m, &waves);
  if (!k.holds) return d;
  d.overlap = overlap_of(k, waves, m.counts->overlap);
  // at the end fewer and fewer CTAs are left to keep memory busy
  d.serial_latency += m.counts->waves.drain * std::min(1.0, waves - 1) * (first + t.wait + t.compute + t.port);
  return d;
}

}  // namespace plumbline

#include "model/stacks/serving_rows/plan_rows.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "arch/gpu/occupancy.hpp"
#include "model/engine/timing.hpp"
#include "model/stacks/common/plan_stream.hpp"
#include "ops/as_double.hpp"

namespace plumbline::serving_rows {
namespace {

constexpr double kWarp = 32, kVector = 8, kMostThreads = 1024;  // a vector: 16 bytes of 16-bit elements

double warps_of(double threads) { return std::ceil(threads / kWarp); }

/// Elements of a vector that divides a row: 8, 4, 2 or 1.
double common_vector(std::int64_t cols) { return d(std::gcd(static_cast<std::int64_t>(kVector), cols)); }

/// Instructions of a warp and a turn, and of a warp once, counted by ncu on an H200 (one of 528 schedulers shows its own) and
/// read off the loops that the compiler made.
double norm_turn(Library library, bool residual, double vector) {
  if (library == Library::vllm && residual) return vector < kVector ? 42 : 100;
  if (vector == kVector) return library == Library::vllm ? 100 : residual ? 170 : 110;
  const double narrow = vector == 4 ? 54 : vector == 2 ? 34 : 33;  // vLLM's norm
  return library == Library::vllm ? narrow : (residual ? 170 : 110) * (vector == 4 ? 0.6 : vector == 2 ? 0.4 : 0.3);
}

}  // namespace

RowLaunch rmsnorm_launch(Library library, const Rowwise& op, const Work& w) {
  constexpr double kOnce = 90, kFewRows = 256, kManyThreads = 256;
  const bool flash = library == Library::flashinfer;
  const double cols = d(op.cols), common = common_vector(op.cols);
  // vLLM's kernel of a sum and a norm has whole vectors or single elements
  const double vector = op.residual && !flash && common < kVector ? 1 : common, vectors = cols / vector;
  RowLaunch k;
  k.ctas = d(op.rows);
  k.read = w.read;
  k.write = w.write;
  const double most = flash || d(op.rows) < kFewRows ? kMostThreads : kManyThreads;
  k.threads = std::min(most, op.residual && !flash ? cols : vectors);
  if (flash) k.threads = kWarp * warps_of(k.threads);
  k.registers = flash || op.residual ? 32 : 30;
  if (flash && op.residual) k.shared = 4 * cols * units::B;  // the sum, in fp32
  // each turn waits for what it has asked for; then the row is gone through again, in the SM's own memory or in L2
  const double turns = std::ceil(vectors / k.threads);
  k.memory_waits = turns;
  k.near_waits = flash ? (turns - 1) * (op.residual ? 2 : 1) : turns - (op.residual ? 0 : 1);
  k.common_waits = 1;  // weights, once the row's sum is known
  k.instructions = (norm_turn(library, op.residual, vector) * vectors / k.threads + kOnce) * warps_of(k.threads);
  k.begins = flash ? 2 : 1;
  return k;
}

RowLaunch swiglu_launch(Library library, const Rowwise& op, const Work& w) {
  const double cols = d(op.cols);
  RowLaunch k;
  k.ctas = d(op.rows);
  k.read = w.read;
  k.write = w.write;
  if (library == Library::vllm) {  // an element a thread and turn
    constexpr double kTurn = 45, kOnce = 30;
    k.threads = std::min(cols, kMostThreads);
    k.registers = 22;
    k.memory_waits = std::ceil(cols / k.threads);
    k.instructions = (kTurn * cols / k.threads + kOnce) * warps_of(k.threads);
    k.sfu = 2 * cols;
    return k;
  }
  constexpr double kTurn = 94, kSingle = 27, kOnce = 45, kHeld = 1.0 / 3;
  k.threads = std::clamp(std::floor(cols / kVector), 1.0, kMostThreads);
  k.registers = 31;
  k.memory_waits = std::ceil(cols / kVector / k.threads);
  // what is no whole turn of all threads is gone through once more, element by element: by then the SM's own memory has it, a
  // third as far away as L2
  const double again = std::fmod(cols, k.threads * kVector);
  k.near_waits = kHeld * std::ceil(again / k.threads);
  k.instructions = (kTurn * cols / kVector / k.threads + kSingle * again / k.threads + kOnce) * warps_of(k.threads);
  k.sfu = 2 * (cols + again);
  k.l2_beside = 2 * again * units::B;
  return k;
}

RowLaunch rope_launch(Library library, const Rope& op, const Work& w, const Rates& m) {
  constexpr double kElement = 2, kAngle = 4;
  const double tokens = d(op.tokens), heads = d(op.heads), dim = d(op.head_dim);
  RowLaunch k;
  k.read = w.read;
  k.write = w.write;
  k.common_waits = 1;              // where a token stands, before its angles can be asked for
  if (library == Library::vllm) {  // a pair of elements a thread and turn: queries, then keys
    constexpr double kTurn = 72, kOnce = 75, kThreads = 512;
    k.ctas = tokens;
    k.threads = std::min(heads * dim / 2, kThreads);
    k.registers = 32;
    const double turns = heads * dim / 2 / k.threads;
    k.memory_waits = std::ceil(turns);
    k.instructions = (kTurn * turns + kOnce) * warps_of(k.threads);
    k.read += kElement * dim * tokens * units::B;
    return k;
  }
  constexpr double kThreads = 128, kTurn = 74, kOnceInTurn = 70, kOneHead = 144;
  const double of_head = dim / std::max(kVector, dim / kWarp), together = std::max(1.0, std::floor(kThreads / of_head));
  const double along = std::ceil(tokens / together);
  k.threads = kThreads;
  k.registers = 47;
  // a CTA's tokens go through all heads where those CTAs alone fill the GPU; else each head has CTAs of its own
  const Occupancy fits = occupancy(m.gpu.sm, {static_cast<std::int64_t>(kThreads), k.registers, Bytes{}});
  const bool in_turn = along >= d(fits.blocks_per_sm) * m.sm_count;
  k.ctas = in_turn ? along : along * heads;
  if (!in_turn) k.registers = 40;
  k.memory_waits = in_turn ? heads : 1;
  k.instructions = (in_turn ? kTurn * heads + kOnceInTurn : kOneHead) * warps_of(kThreads);
  k.read += kAngle * dim * tokens * units::B;
  k.l2_beside = kAngle * dim * together * units::B;
  return k;
}

bool embedding_launch(const Embedding& op, const Work& w, RowLaunch& k) {
  constexpr double kElement = 2, kSmall = 16;
  const double rows = d(op.rows), cols = d(op.cols);
  if (rows > kSmall && common_vector(op.cols) < kVector) return false;
  k.read = w.read;
  k.write = w.write;
  k.registers = 32;
  if (rows <= kSmall) {  // indexSelectSmallIndex(): an element a thread, which goes through the rows one by one
    constexpr double kThreads = 128, kRow = 60;
    k.threads = kThreads;
    k.ctas = std::ceil(cols / kThreads);
    k.memory_waits = k.near_waits = rows;  // the row's number, then its element
    k.instructions = kRow * rows * warps_of(kThreads);
    return true;
  }
  constexpr double kMost = 256, kOnce = 95;  // vectorized_gather_kernel(): 16 bytes a thread
  const double vectors = std::ceil(cols * kElement / 16);
  k.threads = std::min(kMost, kWarp * warps_of(vectors));
  k.ctas = rows * std::ceil(vectors / k.threads);
  k.common_waits = 1;  // the row's number
  k.instructions = kOnce * warps_of(k.threads);
  return true;
}

bool argmax_launch(const Rowwise& op, const Work& w, const Rates& m, RowLaunch& k) {
  constexpr double kThreads = 512, kInput = 4, kLeastValues = 16, kMostValues = 256, kAnElement = 28.7;
  const double rows = d(op.rows), cols = d(op.cols);
  // ReduceConfig::set_block_dimension(): rows side by side in a CTA, unless each thread then has enough values of its row
  const double height = std::min(std::exp2(std::floor(std::log2(rows))), kThreads / kWarp), width = kThreads / height;
  if (cols / width < std::min(kMostValues, kLeastValues * height)) return false;
  const double values = std::ceil(cols / kThreads), slots = m.sm_count * std::floor(d(m.gpu.sm.threads) / kThreads);
  double parts = 1;
  if (values >= kMostValues && rows <= slots) {  // setReduceConfig(): a row of several CTAs
    parts =
        std::max(std::min(std::ceil(slots / rows), std::ceil(values / kLeastValues)), std::ceil(values / kMostValues));
  }
  k.read = w.read;
  k.write = w.write;
  k.ctas = rows * parts;
  k.threads = kThreads;
  k.registers = 32;
  constexpr Bytes kShared = 8208.0 * units::B;  // a value and its place for each thread
  k.shared = kShared;
  k.memory_waits = std::ceil(values / parts / kInput);  // four values of a thread, and the next when they are compared
  k.instructions = kAnElement * values / parts * warps_of(kThreads);
  k.parts = parts > 1;
  return true;
}

namespace {

/// Bytes that reach memory, or stay in L2.
void set_traffic(Demand& out, const RowLaunch& k, const Question& q) {
  const Rates& m = q.rates;
  const bool part = q.warmth == Warmth::part;
  if (q.warmth != Warmth::cold && !part && k.read + k.write <= m.l2_kept) return;
  out.dram_read = k.read;
  out.dram_write = k.write;
  if (part) hold_in_l2(out, q.held * k.read, m);
  // what is written last waits in L2 for the next launch to push it out, as far as what was read leaves it room
  if (q.read_through) out.dram_write -= std::min(out.dram_write, k.write / (k.read + k.write) * m.l2_kept);
}

/// Turns that a slot's CTAs take: the last ones of a few are as long as the others.
double turns_of(double whole) {
  constexpr double kFew = 4, kLast = 0.5;
  return whole <= 1 ? 1 : whole < kFew ? std::ceil(whole) : whole + kLast;
}

/// CTAs of a first turn go in step, so that what they ask of memory, L2 and schedulers hardly overlaps; after some turns each is
/// somewhere else. Our own kernels that go through their rows twice: 2.2, and 3.8 after ten (data/kernels/own_sm90.json).
double overlap_of(double whole, const FamilyScalars& family) {
  constexpr double kInStep = 2, kDriftTurns = 10;
  return kInStep + std::clamp((whole - 1) / kDriftTurns, 0.0, 1.0) * (family.overlap - kInStep);
}

}  // namespace

Demand demand_of(const RowLaunch& k, const Question& q, const FamilyScalars& family) {
  // from a CTA to the next, of the whole GPU (data/measurements/h200/pytorch/cta_turns.csv: 0.602 ns of an H200)
  constexpr double kBegin_clk = 1.19;
  const Rates& m = q.rates;
  const StreamingMultiprocessor& sm = m.gpu.sm;
  Demand out;
  out.plan.ctas = static_cast<std::int64_t>(k.ctas);
  out.plan.threads = static_cast<std::int64_t>(k.threads);
  out.plan.registers_per_thread = k.registers;
  out.plan.shared_memory = k.shared;
  out.plan.ctas_per_sm =
      std::max<std::int64_t>(1, occupancy(sm, {out.plan.threads, k.registers, k.shared}).blocks_per_sm);
  out.no_waves = true;
  const double a_sm = k.ctas / m.sm_count, on_sm = std::ceil(a_sm);
  const double slots = std::min(d(out.plan.ctas_per_sm), std::max(1.0, on_sm)), whole = a_sm / slots;
  const double issue_clk = k.instructions / sm.issue_per_clk;
  out.sfu_clk = k.sfu / sm.sfu_op_per_clk;
  out.l2 = (k.read + k.write) / k.ctas + k.l2_beside;
  set_traffic(out, k, q);

  if (a_sm <= 1) {  // a CTA alone on its SM waits for its bytes: their way through the port is in that wait
    out.l2_hidden += out.l2;
    out.l2 = Bytes{};
  }

  // the half of L2 next to an SM keeps a copy of what the SM read before, but not of what others wrote for it
  const Seconds near = q.warmth == Warmth::everything ? m.l2_latency : m.l2_mean_latency();
  const Seconds idle = m.gpu.memory.latency, clk = 1.0 / m.clock;
  const Seconds dram = dram_time(out.dram_read, out.dram_write, m), begins = k.begins * k.ctas * kBegin_clk * clk;
  const auto life = [&](Seconds first) {
    return (family.start_clk + issue_clk) * clk + k.memory_waits * first + (k.near_waits + k.common_waits) * near;
  };
  // memory answers the later the busier it is
  const double turns = turns_of(whole);
  const Seconds waits = (family.start_clk + issue_clk) * clk + k.memory_waits * idle;
  const Seconds least = std::max({dram, turns * waits, begins, m.dram_latency});
  const bool from_memory = out.dram_read > Bytes{};
  const Seconds first = from_memory ? idle + dram / least * (m.dram_latency - idle) : near;
  const Seconds once = (family.start_clk + issue_clk) * clk + first + k.common_waits * near;
  out.serial_latency = once + k.common_waits * (first - near);
  if (k.parts) out.serial_latency += family.counter;
  out.serial_latency_of = "of the first CTAs";
  out.step_latency = std::max(begins, turns * life(first) - once);
  // one CTA's instructions are in the first CTAs' time: they take slots, and no further time
  out.issue_clk = std::max(0.0, a_sm - 1) / on_sm * issue_clk;
  out.waiting_issue_clk = out.issue_clk - issue_clk;
  out.overlap = overlap_of(whole, family);
  return out;
}

}  // namespace plumbline::serving_rows

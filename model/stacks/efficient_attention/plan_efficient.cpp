#include "model/stacks/efficient_attention/plan_efficient.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "arch/gpu/occupancy.hpp"
#include "model/stacks/common/deal_in_order.hpp"
#include "model/stacks/common/make_gemm_task.hpp"
#include "model/stacks/common/mma_registers.hpp"
#include "model/stacks/common/plan_attention.hpp"
#include "model/stacks/common/plan_stream.hpp"
#include "model/stacks/common/shared_sms.hpp"
#include "model/stacks/common/warm.hpp"

namespace plumbline::efficient_attention {
namespace {

constexpr std::int64_t kAnyWidth = 65536;
constexpr double kCountedWidth = 256;  ///< of heads, for kernels of any width
constexpr double kQuarters = 4, kSectorBytes = 32;

// bits, widest, queries, keys, warps, registers, shared, instructions, wait, wavefronts, sectors; backward: sums, alone
// (A wait is the latency of an instruction less what a warp waits for others: not selected, tensor and other pipes that are busy. Forward
// kernels of four warps were counted with three or four CTAs on an SM, and a CTA alone has one warp a quarter: of theirs the queues to
// shared memory, to memory and to the dispatcher are left out too.)
constexpr std::array<Kernel, 6> kForward{{{16, 64, 64, 64, 4, 128, 18944, 1260, 4.0, 898, 648},
                                          {16, 128, 64, 128, 8, 128, 52224, 3097, 5.4, 2827, 2320},
                                          {16, kAnyWidth, 32, 128, 4, 122, 51200, 3020, 5.6, 3551, 6861},
                                          {32, 64, 64, 64, 4, 168, 36352, 3785, 3.4, 1808, 6398},
                                          {32, 128, 64, 128, 8, 244, 86016, 10944, 2.8, 7096, 3442},
                                          // not counted: of twice the width of the one before, in half the rows
                                          {32, kAnyWidth, 32, 128, 4, 168, 76288, 10944, 2.8, 7096, 6861}}};
constexpr std::array<Kernel, 6> kBackward{{{16, 64, 64, 64, 4, 162, 42240, 2237, 6.9, 1796, 3819},
                                           {16, 128, 128, 128, 16, 128, 133632, 14545, 8.0, 13976, 18062, 0.08, 0.08},
                                           {16, kAnyWidth, 128, 64, 8, 151, 60928, 18397, 9.9, 15777, 79303, 1.3, 1.8},
                                           {32, 64, 64, 64, 4, 232, 53504, 7972, 3.6, 5095, 7940},
                                           {32, 128, 128, 64, 8, 224, 121344, 27093, 3.7, 19599, 23142},
                                           // not counted: of twice the width of the one before
                                           {32, kAnyWidth, 128, 64, 8, 230, 121344, 54186, 3.7, 39198, 46284}}};

const Kernel* find(std::span<const Kernel> kernels, DType type, std::int64_t width) {
  const auto found = std::find_if(kernels.begin(), kernels.end(), [&](const Kernel& k) {
    return static_cast<double>(k.bits) == bits(type) && width <= k.widest;
  });
  return found == kernels.end() ? nullptr : &*found;
}

double columns_in(double width, double block) { return ceil_div(width, block) * block / kCountedWidth; }

/// A step of such heads, of one of 256 columns, by kernels for any width: products over a head's columns end with the last one,
/// those whose results are a head's columns with the last block of them (MatmulGradQ and others of kernel_backward.h).
double of_counted(const Kernel& k, const AttentionPrefill& s) {
  if (k.widest < kAnyWidth) return 1;
  return (static_cast<double>(s.qk_dim) / kCountedWidth + columns_in(static_cast<double>(s.v_dim), k.keys)) / 2;
}

double of_counted(const Kernel& k, const AttentionBackward& s) {
  if (k.widest < kAnyWidth) return 1;
  const double qk = static_cast<double>(s.qk_dim), v = static_cast<double>(s.v_dim);
  const double gradients = columns_in(qk, k.keys) + columns_in(qk, k.queries) + columns_in(v, k.queries);
  return ((qk + v) / kCountedWidth + gradients) / 5;
}

Kernel scaled(Kernel k, double share) {
  k.instructions *= share;
  k.wavefronts *= share;
  k.sectors *= share;
  return k;
}

/// Products of fp32 are three of tf32 (OpMultiplyAddFastF32). On cards whose tensor units lack the type other kernels run, on lanes,
/// of which nothing was counted: there is no answer then.
DType type_of_products(DType type) { return bits(type) == 32 ? DType::tf32 : type; }

double flop_per_clk(DType type, const Rates& m) {
  constexpr double kProducts = 3;
  return mma_sync_flop_per_clk(type_of_products(type), m) / (bits(type) == 32 ? kProducts : 1);
}

/// Bytes as of shared memory, by energy, that a FLOP of a product in tf32 takes beyond a wgmma's, of which tensor_tf32_J_per_FLOP
/// is (kMmaRegisterBytesTf32); of three products beyond the first what is taken for rows outside a shape, zeros against an operand
/// (PowerScalars::zero_rows_toggle), and holds the operands' lower bits in truth: 0.764 of 1.16 pJ, at 1.5 pJ a byte. In fp32
/// the energy is that of lanes, which is 6 to 13 % too much for these kernels.
double tf32_hidden_bytes() {
  constexpr double kProducts = 3, kOfZeroRows = 0.59;
  return kProducts * kMmaRegisterBytesTf32 + (kProducts - 1) * kOfZeroRows;
}

/// Shared by its counted amounts: products, instructions and a share of what shared memory and L2 take follow each other.
/// (Counted: tensor units 26 to 43 % busy, schedulers 41 to 65.)
SmShare share_of(const Demand& d, const Kernel& k, const Rates& m, const FamilyScalars& family) {
  const Bandwidth l2 = m.l2 / m.sm_count;
  const double summed = (k.sectors * kSectorBytes * units::B / l2).in(units::s)*m.clock.in(units::Hz);
  const double step = d.tensor_clk + k.instructions + family.exposed * (k.wavefronts + summed);
  SmShare share;
  share.resident = static_cast<std::size_t>(d.plan.ctas_per_sm);
  share.start_clk = family.start_clk;
  for (std::size_t i = 0; i < share.resident; ++i) {
    const double alone = k.wait_clk * k.instructions * kQuarters / k.warps;
    share.step_clk[i] = std::max(static_cast<double>(i + 1) * step, alone);
  }
  return share;
}

void step_demand(Demand& d, const Kernel& k, double products, DType type, const Rates& m) {
  const StreamingMultiprocessor& sm = m.gpu.sm;
  const double scores = k.queries * k.keys;
  d.tensor_clk = 2 * scores * products / flop_per_clk(type, m);
  d.sfu_clk = scores / sm.sfu_op_per_clk;
  d.fp32_clk = scores * kSoftmaxOps / (sm.fp32_flop_per_clk / 2);
  d.issue_clk = k.instructions;
  d.smem_clk = k.wavefronts;
  if (type == DType::tf32)
    d.smem_hidden_clk = 2 * scores * products * tf32_hidden_bytes() * units::B / sm.smem_bytes_per_clk;
  d.l2 = k.sectors * kSectorBytes * units::B;
  d.overlap = kBesideTheChain;
  const Bytes shared = k.shared * units::B;
  const auto threads = static_cast<std::int64_t>(k.warps) * sm.warp_size;
  const std::int64_t held = occupancy(sm, {threads, k.registers, shared}).blocks_per_sm;
  d.plan.ctas_per_sm = std::clamp<std::int64_t>(held, 1, static_cast<std::int64_t>(SmShare::kMost));
  d.plan.threads = threads;
}

/// A head's items one after the other, head by head; of many heads those before the last rounds are taken as alike.
std::vector<CtaBatch> batches_of(const std::vector<double>& of_a_head, double heads, double slots) {
  constexpr double kRounds = 4;
  const auto items = static_cast<double>(of_a_head.size());
  double sum = 0;
  for (const double steps : of_a_head) sum += steps;
  const double apart = std::min(heads, std::ceil(kRounds * slots / items));
  std::vector<CtaBatch> batches;
  if (heads > apart) batches.push_back({sum / items, (heads - apart) * items});
  for (double head = 0; head < apart; ++head) {
    for (const double steps : of_a_head) {
      if (!batches.empty() && batches.back().steps == steps) batches.back().ctas += 1;
      else batches.push_back({steps, 1});
    }
  }
  return batches;
}

void deal(Demand& d, const std::vector<double>& of_a_head, double heads, const SmShare& share, const Rates& m) {
  double sum = 0;
  for (const double steps : of_a_head) sum += steps;
  d.plan.ctas = static_cast<std::int64_t>(heads * static_cast<double>(of_a_head.size()));
  d.plan.steps = d.plan.longest = sum / static_cast<double>(of_a_head.size());
  const double slots = static_cast<double>(d.plan.ctas_per_sm) * m.sm_count;
  d.dealt_clk = clocks_of(batches_of(of_a_head, heads, slots), m.sm_count, share);
}

std::vector<double> blocks_of_tiles(const AttentionPrefill& s, const Kernel& k) {
  const double queries = static_cast<double>(s.q_len), keys = static_cast<double>(s.kv_len);
  std::vector<double> steps;
  for (double i = 1; i <= ceil_div(queries, k.queries); ++i) {
    const double seen = s.causal ? keys - queries + std::min(i * k.queries, queries) : keys;
    steps.push_back(ceil_div(seen, k.keys));
  }
  return steps;
}

/// As counted, less the sums of dO O: a part had as many tiles of queries as steps, of wide heads (6 parts) fewer.
Kernel step_alone(const Kernel& k) {
  constexpr double kCountedKeys = 2048, kCountedParts = 6;
  const double steps_a_tile = k.widest == kAnyWidth ? kCountedKeys / k.keys / kCountedParts : 1;
  return scaled(k, steps_a_tile / (steps_a_tile + k.sums));
}

/// dO O of a tile of queries, in steps. Kernels for any width go through its columns one by one, others always four times.
double sums_of_tile(const Kernel& k, const AttentionBackward& s, bool alone) {
  return (alone ? k.sums_alone : k.sums) *
         (k.widest == kAnyWidth ? static_cast<double>(s.v_dim) / kCountedWidth / of_counted(k, s) : 1);
}

/// Tiles of queries that see a part's blocks of keys, every `parts`-th block being one part's, behind the sums of dO O, which
/// each part takes of all queries, whatever the mask.
std::vector<double> steps_of_parts(const AttentionBackward& s, const Kernel& k, double parts, bool alone) {
  const double queries = static_cast<double>(s.q_len), keys = static_cast<double>(s.kv_len);
  const double sums = ceil_div(queries, k.queries) * sums_of_tile(k, s, alone);
  std::vector<double> steps(static_cast<std::size_t>(parts), sums);
  std::size_t part = 0;
  for (double block = 0; block < ceil_div(keys, k.keys); ++block) {
    const double first = s.causal ? std::clamp(block * k.keys - (keys - queries), 0.0, queries - 1) : 0;
    steps[part] += ceil_div(queries, k.queries) - std::floor(first / k.queries);
    part = part + 1 == steps.size() ? 0 : part + 1;
  }
  return steps;
}

Demand pass(double read, double written, double fp32, const Rates& m, bool warm) {
  Work w;
  w.read = read * units::B;
  w.write = written * units::B;
  w.fp32 = fp32 * units::FLOP;
  return stream_demand(w, m, warm);
}

}  // namespace

const Kernel* forward_kernel(DType type, std::int64_t width) { return find(kForward, type, width); }
const Kernel* backward_kernel(DType type, std::int64_t width) { return find(kBackward, type, width); }

double key_parts(const Kernel& k, const AttentionBackward& s) {
  constexpr double kCtas = 200;
  const double blocks = ceil_div(static_cast<double>(s.kv_len), k.keys);
  if (s.deterministic) return 1;  // num_splits_key, aten/src/ATen/native/transformers/cuda/attention_backward.cu
  if (k.widest < kAnyWidth || k.bits == 32) return blocks;
  return std::clamp(std::floor(kCtas / static_cast<double>(s.batch * s.q_heads)), 1.0, blocks);
}

void answer_forward(const AttentionPrefill& s, const FamilyScalars& family, const Question& q, Answer& out) {
  require_tensor_path(type_of_products(s.dtype), q);
  const Kernel& counted = *forward_kernel(s.dtype, std::max(s.qk_dim, s.v_dim));
  const Kernel k = scaled(counted, of_counted(counted, s));
  AttentionChoice c;
  c.math = s.dtype;
  c.family = &family;
  c.plan.q_tile = static_cast<std::int64_t>(k.queries);
  c.plan.kv_tile = static_cast<std::int64_t>(k.keys);
  step_demand(c.main, k, static_cast<double>(s.qk_dim + s.v_dim), s.dtype, q.rates);
  deal(c.main, blocks_of_tiles(s, k), static_cast<double>(s.batch * s.q_heads), share_of(c.main, k, q.rates, family),
       q.rates);
  prefill_traffic(c.main, s);
  c.main.dram_write = prefill_results(s);
  answer_attention(c, "memory-efficient attention", attention_variant(q.op), q, out);
}

void answer_backward(const AttentionBackward& s, const FamilyScalars& family, const FamilyScalars& streams,
                     const Question& q, Answer& out) {
  require_tensor_path(type_of_products(s.dtype), q);
  const Rates& m = q.rates;
  const Kernel& counted = *backward_kernel(s.dtype, std::max(s.qk_dim, s.v_dim));
  const Kernel k = scaled(step_alone(counted), of_counted(counted, s));
  const double heads = static_cast<double>(s.batch * s.q_heads), es = bytes_of(s.dtype);
  const double queries = heads * static_cast<double>(s.q_len), values = queries * static_cast<double>(s.qk_dim);
  const double keys = heads * static_cast<double>(s.kv_len * (s.qk_dim + s.v_dim));
  const bool warm = q.warmth == Warmth::everything;
  out.sign(family);
  // fp32 sums that the main launch adds to are cleared: dQ's, and of wide heads those of dK and dV
  const double sums = 4 * (values + (k.widest < kAnyWidth ? 0 : keys));
  if (bits(s.dtype) == 32) {  // 16-bit kernels sum up dO O themselves
    out.launch("dO O", streams) = pass(2 * values * es, values * es, values, m, warm);
    out.launch("sums of dO O", streams) = pass(values * es, 4 * queries, values, m, warm);
    out.launch("copy of the sums", streams) = pass(4 * queries, 4 * queries, 0, m, warm);
  }
  out.launch("clear", streams) = pass(0, sums, 0, m, warm);
  Demand d;
  step_demand(d, k, static_cast<double>(3 * s.qk_dim + 2 * s.v_dim), s.dtype, m);
  const double parts = key_parts(k, s);
  SmShare share = share_of(d, k, m, family);
  // what a part begins and ends with is as long as its steps, by the columns that it has: said of the kernel for 128
  share.start_clk *= k.instructions / find(kBackward, s.dtype, 128)->instructions;
  deal(d, steps_of_parts(s, k, parts, heads * parts <= m.sm_count), heads, share, m);
  d.dram_read = (3 * values * es + keys * es + 8 * queries) * units::B;
  d.dram_write = (values + keys) * es * units::B;
  launch_as_found(out, q, "memory-efficient attention backward", d, family);
}

}  // namespace plumbline::efficient_attention

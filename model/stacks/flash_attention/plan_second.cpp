// FlashAttention-2's forward pass over keys that lie one behind the other, by what a step asks of an SM and by the CTAs that share
// it, dealt out in the order of the grid: a head's tiles of queries first.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "arch/gpu/occupancy.hpp"
#include "model/engine/timing.hpp"
#include "model/stacks/common/deal_in_order.hpp"
#include "model/stacks/common/make_gemm_task.hpp"
#include "model/stacks/common/shared_sms.hpp"
#include "model/stacks/flash_attention/mma_paged.hpp"
#include "model/stacks/flash_attention/second.hpp"

namespace plumbline {

using namespace flash_attention;

namespace {

double held_bytes(const SecondTile& t, double qk_dim, double v_dim, double element) {
  return (t.rows * qk_dim + t.keys * (qk_dim + v_dim)) * element;
}

/// CTAs that an SM holds: threads take (nearly) all the registers they may have.
double resident(const SecondTile& t, double qk_dim, double v_dim, double element, const Rates& m) {
  constexpr std::int64_t kRegisters = 255;
  const auto threads = static_cast<std::int64_t>(t.warps) * m.gpu.sm.warp_size;
  const Bytes shared = held_bytes(t, qk_dim, v_dim, element) * units::B;
  return std::max(1.0, static_cast<double>(occupancy(m.gpu.sm, {threads, kRegisters, shared}).blocks_per_sm));
}

/// A block of keys of one tile. Every warp reads all keys and values for its rows.
SecondStep step_demand(Demand& d, const SecondTile& t, double qk_dim, double v_dim, DType type, const Rates& m) {
  const StreamingMultiprocessor& sm = m.gpu.sm;
  const double es = bytes_of(type), scores = t.rows * t.keys;
  score_demand(d, {t.rows, t.keys, qk_dim, v_dim}, mma_sync_flop_per_clk(type, m), es, m, kPlainSoftmax);
  const double width = qk_dim + v_dim;
  d.fp32_clk += t.rows * v_dim / (sm.fp32_flop_per_clk / 2);
  SecondStep step;
  step.products = 2 * scores * width / second_flop_per_clk(type, m);
  step.softmax = softmax_clk(scores, t.rows * v_dim, m);
  const double read = t.rows * qk_dim + t.warps * t.keys * width, filled = t.keys * width;
  d.smem_clk = step.operands = (read + filled) * es / sm.smem_bytes_per_clk.in(units::B);
  return step;
}

SmShare share_of(const SecondStep& step, const SecondTile& t, double held, const FamilyScalars& family) {
  SmShare share;
  share.resident = static_cast<std::size_t>(held);
  share.start_clk = family.start_clk;
  for (std::size_t i = 0; i < share.resident; ++i) {
    const double ctas = static_cast<double>(i + 1);
    share.step_clk[i] = ctas * second_step_clk(step, ctas * t.warps / kSmQuarters, family);
  }
  return share;
}

/// Blocks in which a mask cuts, or in which keys end: those that the diagonal crosses, and one more where tiles are not all whole.
double masked_of(const AttentionPrefill& s, const SecondTile& t) {
  const auto whole = [](std::int64_t length, double tile) { return std::fmod(static_cast<double>(length), tile) == 0; };
  const double ends = whole(s.q_len, t.rows) && whole(s.kv_len, t.keys) ? 0 : 1;
  return (s.causal ? std::ceil(t.rows / t.keys) : 0) + ends;
}

/// CTAs in the order of the grid, what masks add counted in steps. Of many heads those before the last rounds are taken as alike.
std::vector<CtaBatch> batches_of(const AttentionPrefill& s, const SecondTile& t, const BlockCount& blocks,
                                 double mask_steps, double slots) {
  constexpr double kRounds = 4;
  const double heads = static_cast<double>(s.batch * s.q_heads), masked = masked_of(s, t);
  const bool windowed = s.window > 0 && s.window < s.kv_len;
  const double mean = blocks.total / blocks.tiles;
  if (!s.causal || windowed) return {{mean + mask_steps * std::min(masked, mean), heads * blocks.tiles}};
  std::vector<double> of_a_head;
  double sum = 0;
  for (double i = 1; i <= blocks.tiles; ++i) {
    const double last = static_cast<double>(s.kv_len - s.q_len) + std::min(i * t.rows, static_cast<double>(s.q_len));
    const double steps = ceil_div(last, t.keys);
    of_a_head.push_back(steps + mask_steps * std::min(masked, steps));
    sum += of_a_head.back();
  }
  const double apart = std::min(heads, std::ceil(kRounds * slots / blocks.tiles));
  std::vector<CtaBatch> batches;
  if (heads > apart) batches.push_back({sum / blocks.tiles, (heads - apart) * blocks.tiles});
  for (double head = 0; head < apart; ++head) {
    for (const double steps : of_a_head) batches.push_back({steps, 1});
  }
  return batches;
}

/// The same where keys are cut: parts of a tile's keys are CTAs side by side, a head's tiles first, then its parts. Behind the
/// diagonal a part has no keys, and its CTA returns as soon as it has written that; the part that the diagonal crosses has the mask.
std::vector<CtaBatch> batches_of_parts(const AttentionPrefill& s, const SecondTile& t, const BlockCount& blocks,
                                       double mask_steps, double parts) {
  const double heads = static_cast<double>(s.batch * s.q_heads);
  const double of_a_part = ceil_div(ceil_div(static_cast<double>(s.kv_len), t.keys), parts);
  const double masked = mask_steps * std::min(masked_of(s, t), of_a_part);
  if (!s.causal) return {{of_a_part + masked, heads * blocks.tiles * parts}};
  std::vector<CtaBatch> batches;
  for (double head = 0; head < heads; ++head) {
    for (double part = 0; part < parts; ++part) {
      for (double i = 1; i <= blocks.tiles; ++i) {
        const double last =
            static_cast<double>(s.kv_len - s.q_len) + std::min(i * t.rows, static_cast<double>(s.q_len));
        const double seen = ceil_div(last, t.keys) - part * of_a_part;
        if (seen <= 0) continue;
        batches.push_back({std::min(seen, of_a_part) + (seen <= of_a_part ? masked : 0), 1});
      }
    }
  }
  return batches;
}

/// A part leaves its sums in 32 bits, which the SM's port to L2 takes that long for.
double partial_results_clk(const SecondTile& t, double v_dim, const Rates& m) {
  const Bytes sums = t.rows * v_dim * 4.0 * units::B;
  return (sums / m.l2_per_sm).in(units::s)*m.clock.in(units::Hz);
}

/// KiB from a kernel's start to the end of its main loop, and to its exit.
struct CodeEnds {
  double width = 0, loop = 0, exit = 0;
};
// SASS of PyTorch 2.11 for sm_90, bf16 (that for sm_80 is 8 % shorter to 3 % longer). Each step with a mask is code of its own, one behind
// another before the loop; lengths that are no whole blocks have one more of them up to 128 columns.
constexpr CodeEnds kCausalWhole[] = {{32, 51.5, 56.8}, {64, 59.3, 66.4}, {96, 54.0, 61.7}, {128, 70.7, 80.0}};
constexpr CodeEnds kCausal[] = {{32, 86.0, 92.4}, {64, 101.2, 109.9}, {96, 74.9, 83.4}, {128, 108.4, 119.3}};

/// Behind other launches a kernel's code comes from memory anew: of the first 76 KiB nothing is seen, each further 1.1 KiB is a trip
/// that nothing hides, once for the CTAs that the launch begins with. (Both numbers by training rows: heads of 128, 64, 32 and 96 in
/// 128 CTAs, causal, 12 tokens short of whole blocks, take 14, 13, 8 and 3 us longer than whole ones where L2 was swept before, and
/// 2 or less where it was not; H200, data/measurements/h200/pytorch/attention_tiles*.) Kernels without a mask, wider ones, and those of
/// 64 rows end before; where code lies in L2 still, this is too much.
Seconds code_comes(const AttentionPrefill& s, const SecondTile& t, double width, const Rates& m) {
  constexpr double kAtOnce = 76, kTrip = 1.1, kTall = 128;
  if (!s.causal || t.rows < kTall) return Seconds{};
  const double masked = masked_of(s, t);
  const auto& ends = masked > std::ceil(t.rows / t.keys) ? kCausal : kCausalWhole;
  const auto* found =
      std::find_if(std::begin(ends), std::end(ends), [&](const CodeEnds& e) { return e.width == width; });
  if (found == std::end(ends)) return Seconds{};
  const bool loops = ceil_div(static_cast<double>(s.kv_len), t.keys) > masked;
  return std::max(0.0, found->exit - std::max(kAtOnce, loops ? 0 : found->loop)) / kTrip * m.gpu.memory.latency;
}

/// The merge (flash_fwd_splitkv_combine_kernel): CTAs of 4, 8 or 16 rows by the width, each of which sums up what the parts leave
/// behind one another. Of 40 recorded training launches (H200) the time is a chain once, so much of an SM for each CTA, and the
/// partial sums by way of L2, all three added up: 7 % off in the median. Sums that L2 has no room for go to memory and come back.
Demand merge_demand(double rows, double v_dim, double parts, double out_bytes, const Rates& m) {
  constexpr double kChainClk = 3500, kCtaClk = 540;
  const double rows_of_cta = std::fmod(v_dim, 128) == 0 ? 4 : std::fmod(v_dim, 64) == 0 ? 8 : 16;
  const Bytes partials = rows * parts * (v_dim + 1) * 4.0 * units::B;
  const Bytes spilled = std::max(Bytes{}, partials - m.l2_capacity);
  Demand d;
  d.plan.ctas = static_cast<std::int64_t>(ceil_div(rows, rows_of_cta));
  d.plan.ctas_per_sm = 8;
  d.plan.threads = 128;
  const double ctas = static_cast<double>(d.plan.ctas);
  d.l2 = partials / ctas;
  d.partials = d.dram_read = d.dram_write = spilled;
  d.dram_write += rows * v_dim * out_bytes * units::B;
  const Seconds moved = partials / m.l2 + dram_time(spilled, spilled, m);
  d.dealt_clk = kCtaClk * ctas / m.sm_count + moved.in(units::s)*m.clock.in(units::Hz);
  d.serial_latency = kChainClk / m.clock;
  d.serial_latency_of = "to find the weights of the parts";
  d.overlap = kBesideTheChain;
  return d;
}

/// The kernel that can cut keys, with tiles of 64 queries; 1: keys are whole, and so are its tiles.
double parts_of(const AttentionPrefill& s, double width, const Rates& m) {
  constexpr double kSplitRows = 64;
  const double tiles = static_cast<double>(s.batch * s.q_heads) * ceil_div(static_cast<double>(s.q_len), kSplitRows);
  return mma_paged_parts(tiles, ceil_div(static_cast<double>(s.kv_len), mma_paged_keys(width)), m.sm_count);
}

}  // namespace

bool flash_attention::is_sm8x(const Rates& m) {
  constexpr Bytes kLarge = 128.0 * units::KiB;
  return m.gpu.sm.async_copy == AsyncCopy::cp_async && m.gpu.sm.smem < kLarge;
}

double flash_attention::second_width(std::int64_t width) {
  const auto w = static_cast<double>(width);
  for (const double compiled : {32.0, 64.0, 96.0, 128.0, 192.0, 256.0}) {
    if (w <= compiled) return compiled;
  }
  return ceil_div(w, 64) * 64;
}

SecondTile flash_attention::second_tile(double width, bool causal, const Rates& m) {
  if (width <= 64) return {128, 128, 4};
  if (width <= 96) return {is_sm8x(m) && causal ? 64.0 : 128.0, 64, 4};
  if (width <= 128) {
    if (!is_sm8x(m)) return {128, 64, 4};
    return causal ? SecondTile{64, 64, 4} : SecondTile{128, 32, 4};
  }
  if (width <= 192) return {128, 64, 8};
  // 128 rows where they fit a block, and two CTAs of 64 do not fit an SM: on an A100
  constexpr double kElement = 2;
  const bool fits = held_bytes({128, 64, 8}, width, width, kElement) * units::B <= m.gpu.sm.smem_per_block;
  const bool two = 2 * held_bytes({64, 64, 4}, width, width, kElement) * units::B <= m.gpu.sm.smem;
  return fits && !two ? SecondTile{128, 64, 8} : SecondTile{64, 64, 4};
}

double flash_attention::second_flop_per_clk(DType type, const Rates& m) {
  constexpr double kReached16 = 2200;
  return std::min(mma_sync_flop_per_clk(type, m), kReached16 * 16 / bits(type));
}

double flash_attention::softmax_clk(double scores, double results, const Rates& m) {
  constexpr double kMaximum = 1, kBesideTheExponential = 3;
  const double lanes = m.gpu.sm.fp32_flop_per_clk / 2;
  return kMaximum * scores / lanes +
         std::max(scores / m.gpu.sm.sfu_op_per_clk, kBesideTheExponential * scores / lanes) + results / lanes;
}

double flash_attention::second_step_clk(const SecondStep& s, double warps, const FamilyScalars& family) {
  const double p = family.overlap;
  const double busy = std::pow(std::pow(s.products, p) + std::pow(s.softmax, p), 1 / p);
  return std::max(busy + family.exposed * s.operands / std::max(1.0, warps), s.operands);
}

double flash_attention::second_mask_clk(double scores, const Rates& m) {
  constexpr double kClkOfInstruction = 2, kMaskOps = 8;
  return kClkOfInstruction * kMaskOps * scores / static_cast<double>(m.gpu.sm.warp_size) / kSmQuarters;
}

namespace {

/// CTAs that begin together wait for their queries and for the first keys of their heads to come from memory; the latency is the start's.
Seconds first_loads(const AttentionPrefill& s, const SecondTile& t, double qk_dim, double ctas, double ctas_of_head,
                    const Rates& m) {
  const double queries = std::min(ctas * t.rows, static_cast<double>(s.batch * s.q_heads * s.q_len));
  const double keys = ceil_div(ctas, ctas_of_head) * std::min(t.keys, static_cast<double>(s.kv_len));
  return dram_time((queries + keys) * qk_dim * bytes_of(s.dtype) * units::B, Bytes{}, m);
}

}  // namespace

AttentionChoice plan_second_prefill(const AttentionPrefill& s, const Rates& m, const FamilyScalars& family,
                                    const FamilyScalars& merge) {
  const double qk_dim = second_width(s.qk_dim), v_dim = second_width(s.v_dim), width = std::max(qk_dim, v_dim);
  const double parts = parts_of(s, width, m);
  const SecondTile tile = parts > 1 ? SecondTile{64, mma_paged_keys(width), 4} : second_tile(width, s.causal, m);
  const double held = resident(tile, qk_dim, v_dim, bytes_of(s.dtype), m);
  AttentionChoice c;
  c.math = s.dtype;
  c.family = &family;
  c.combine_family = &merge;
  c.plan.q_tile = static_cast<std::int64_t>(tile.rows);
  c.plan.kv_tile = static_cast<std::int64_t>(tile.keys);
  c.plan.splits = static_cast<std::int64_t>(parts);
  const BlockCount blocks = visited_blocks(s, tile.rows, tile.keys);
  Demand& d = c.main;
  d.plan.ctas = static_cast<std::int64_t>(static_cast<double>(s.batch * s.q_heads) * blocks.tiles * parts);
  d.plan.ctas_per_sm = static_cast<std::int64_t>(held);
  d.plan.threads = static_cast<std::int64_t>(tile.warps) * m.gpu.sm.warp_size;
  d.plan.steps = d.plan.longest = std::max(1.0, blocks.total / blocks.tiles / parts);
  const SecondStep step = step_demand(d, tile, qk_dim, v_dim, s.dtype, m);
  SmShare share = share_of(step, tile, held, family);
  if (parts > 1) share.start_clk += partial_results_clk(tile, v_dim, m);
  const double masks = second_mask_clk(tile.rows * tile.keys, m) * held / share.step_clk[share.resident - 1];
  std::vector<CtaBatch> batches = batches_of(s, tile, blocks, masks, held * m.sm_count);
  if (parts > 1) batches = batches_of_parts(s, tile, blocks, masks, parts);
  d.dealt_clk = clocks_of(batches, m.sm_count, share);
  d.overlap = kBesideTheChain;
  d.start = first_loads(s, tile, qk_dim, std::min(static_cast<double>(d.plan.ctas), held * m.sm_count),
                        blocks.tiles * parts, m);
  if (parts <= 1) d.start += code_comes(s, tile, width, m);
  prefill_traffic(d, s);
  if (parts <= 1) return c;
  c.combines = true;
  const double rows = static_cast<double>(s.batch * s.q_heads * s.q_len);
  c.combine = merge_demand(rows, v_dim, parts, output_bytes_of(s.dtype), m);
  d.dram_write = Bytes{};
  return c;
}

}  // namespace plumbline

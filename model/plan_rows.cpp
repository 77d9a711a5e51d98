#include "model/plan_rows.hpp"

#include <algorithm>
#include <cmath>

#include "model/timing.hpp"
#include "ops/row_menu.hpp"

namespace plumbline {
namespace {

constexpr double kLn2 = 0.693147180559945;

/// What a kernel does to one element, read off its source: instructions a lane, special-function operations.
struct PerElement {
  double issue = 0, sfu = 0;
};

PerElement per_element(const Rowwise& s, std::int64_t vecs) {
  switch (s.kind) {
    case RowwiseKind::copy: return {0.4, 0};
    case RowwiseKind::transpose_copy: return {1.5, 0};
    case RowwiseKind::scale:
    case RowwiseKind::relu: return {2.5, 0};
    case RowwiseKind::add:
    case RowwiseKind::mask: return {3.7, 0};
    case RowwiseKind::silu: return {8, 2};
    case RowwiseKind::gelu: return {11, 2};
    case RowwiseKind::swiglu: return {10, 2};
    case RowwiseKind::dropout: return {12, 0};
    case RowwiseKind::dropout_backward: return {5, 0};
    case RowwiseKind::sum_rows: return {2, 0};
    case RowwiseKind::argmax: return {1.3, 0};
    case RowwiseKind::quantize: return {5, 0};
    case RowwiseKind::rmsnorm: return {6, 0};
    case RowwiseKind::layernorm: return {10, 0};
    // up to four vectors a thread keep their exponentials, more are worked out twice
    case RowwiseKind::softmax: return vecs > 4 ? PerElement{12, 2} : PerElement{10, 1};
    case RowwiseKind::softmax_backward: return {8, 0};
    case RowwiseKind::scale_mask_softmax_dropout: return {25, 1};  // counted by the profiler, random numbers and all
    case RowwiseKind::scale_mask_softmax_dropout_backward: return {22, 1};
    case RowwiseKind::adamw: return {15, 2};
    case RowwiseKind::count_: break;
  }
  return {};
}

/// A kernel as its CTAs see it. Times of one CTA's own, alone on its SM.
struct Life {
  KernelPlan plan;
  double elements = 0;  ///< of the whole launch
  PerElement each;
  double select_clk = 0;       ///< issue clocks of a CTA beside the elements'
  Seconds waits;               ///< of a CTA: barriers, clusters, look-back; not the first load
  bool holds = false;          ///< a CTA reads all it has, agrees on something, then writes
  bool lockstep = false;       ///< CTAs side by side wait for one another and so do not hide each other's waiting
  bool writes_within = false;  ///< ... and each waits for its turn to write
  Seconds code;                ///< instructions that are met once, in order, from beyond the SM's cache
};

/// The scheduler's turn from one CTA to the next, and a barrier of a whole CTA with the shuffles around it.
constexpr Seconds kTurn = 0.12 * units::us, kBarrier = 0.06 * units::us;

/// A cluster starts when all of its CTAs can, and each of its barriers waits for the last: by the levels of a tree.
Seconds cluster_waits(const KernelPlan& plan) { return 0.4 * std::log2(static_cast<double>(plan.cluster)) * units::us; }

/// Rows that are not whole vectors ask of each element whether it is there.
double ragged(std::int64_t cols) { return whole_rows(cols) ? 1.0 : 1.5; }

/// Of the flat kernels: threads a CTA, and CTAs an SM.
constexpr std::int64_t kFlatThreads = 256, kFlatTogether = 8;

Life flat(double vectors) {
  Life l;
  l.plan.threads = kFlatThreads;
  l.plan.ctas = static_cast<std::int64_t>(std::max(1.0, std::ceil(vectors / static_cast<double>(kFlatThreads))));
  l.plan.ctas_per_sm = kFlatTogether;
  l.elements = vectors * static_cast<double>(kRowVector);
  return l;
}

double elements_of(const Rowwise& s) { return static_cast<double>(s.rows) * static_cast<double>(s.cols); }

/// Rows as fp32 in the registers of a few lanes; forward takes up to eight rows one after the other.
Life chain_life(const Rowwise& s) {
  ChainHolding h = chain_holding(s.cols);
  if (h.lanes == 0) h = kChainMenu[std::size(kChainMenu) - 1];  // walked by as many threads
  const bool forward = s.kind == RowwiseKind::scale_mask_softmax_dropout;
  Life l;
  l.holds = true;
  l.plan.threads = chain_threads(h.lanes);
  l.plan.ctas = chain_ctas(s.rows, h.lanes, chain_rows_each(forward, s.rows, h.lanes));
  const std::int64_t registers = h.groups > 2 ? 80 : forward ? 64 : 50;
  constexpr std::int64_t kRegisters = 65536;
  l.plan.ctas_per_sm = std::max<std::int64_t>(1, kRegisters / (registers * l.plan.threads));
  l.elements = elements_of(s);
  l.each = per_element(s, h.groups);
  l.each.issue *= ragged(s.cols);
  // some hundred instructions of random numbers, unrolled
  if (forward) l.code = 0.8 * units::us;
  return l;
}

Life row_life(const Rowwise& s) {
  const RowWay way = row_way(s);
  Life l;
  l.holds = true;
  l.elements = elements_of(s);
  if (way.choice.entry < 0) {  // no kernel of ours: as the widest would
    l = flat(l.elements / static_cast<double>(kRowVector));
    l.each = per_element(s, 8);
    return l;
  }
  const Holding& h = way.holding();
  l.plan = plan_of(h, way.choice, s.rows);
  // nothing but the row itself is in a reduction's registers
  const bool small = way.menu == RowMenu::reductions && h.vecs <= 4;
  l.plan.ctas_per_sm = small ? std::max<std::int64_t>(1, 2048 / l.plan.threads) : together(h);
  l.plan.ctas_per_sm = std::min<std::int64_t>(32, l.plan.ctas_per_sm);
  l.each = per_element(s, h.vecs);
  l.each.issue *= ragged(s.cols);
  l.waits = kBarrier + cluster_waits(l.plan) + (s.residual ? 0.1 * units::us : Seconds{});
  l.lockstep = l.plan.cluster > 1;
  return l;
}

/// Selection (kernels/topk.cu). A warp takes its largest out k times; a CTA finds a threshold among the largest of 128
/// groups, collects who reaches it (128 ln(128 / (128 - k)) elements of shuffled data), and ranks them; a cluster's
/// lists are merged by its first CTA.
Life selection_life(std::int64_t rows, std::int64_t cols, std::int64_t k_, bool softmax) {
  const Choice choice = choose_topk(rows, cols, k_);
  const Holding& h = kTopKMenu[choice.entry < 0 ? std::size(kTopKMenu) - 1 : static_cast<std::size_t>(choice.entry)];
  const double k = static_cast<double>(k_), vecs = h.vecs, odd = ragged(cols);
  constexpr double kIssue = 4;  // warps a clock
  Life l;
  l.holds = true;
  l.plan = plan_of(h, choice, rows);
  l.elements = static_cast<double>(rows) * static_cast<double>(cols);
  l.each = softmax ? PerElement{7 * odd, 1} : PerElement{2 * odd, 0};
  if (h.threads == kRowWarp) {
    l.plan.ctas_per_sm = 6;
    l.waits = kBarrier + (0.1 + 0.05 * k) * units::us;  // a warp-wide maximum and its removal, k times in a row
    l.select_clk = kRowsPerCta * (45 * k * odd + 240) * vecs / kIssue;
    l.code = 0.3 * units::us;
    return l;
  }
  l.plan.ctas_per_sm = h.vecs == 8 ? 1 : 1024 / h.threads;
  l.lockstep = l.plan.cluster > 1;
  l.code = 0.8 * units::us;
  // the chain of barriers and shared-memory passes from the groups' largest to the ranks
  l.waits = kBarrier + cluster_waits(l.plan) + 2.2 * units::us;
  if (l.lockstep) l.waits += (softmax ? 3.6 : 2.4) * units::us;  // the lists' way to the first CTA, and their merge
  const double warps = static_cast<double>(h.threads) / kRowWarp;
  const double found = -128 * std::log(1 - std::min(k, 127.0) / 128);
  // twice, to count and to store: a look at each vector, and at each element of those that hold one
  constexpr double kLook = 6, kElements = 90;
  l.select_clk = warps * 2 * (kLook * vecs + kElements * std::min(vecs, found / warps)) * odd / kIssue;
  return l;
}

/// Whether whole rows are held, and by whom.
Life life_of(const Rowwise& s) {
  switch (s.kind) {
    case RowwiseKind::layernorm:
    case RowwiseKind::rmsnorm:
    case RowwiseKind::softmax:
    case RowwiseKind::sum_rows:
    case RowwiseKind::argmax:
    case RowwiseKind::quantize: return row_life(s);
    case RowwiseKind::softmax_backward:
    case RowwiseKind::scale_mask_softmax_dropout:
    case RowwiseKind::scale_mask_softmax_dropout_backward: return chain_life(s);
    default: break;
  }
  Life l = flat(elements_of(s) / static_cast<double>(kRowVector));
  l.each = per_element(s, 1);
  if (s.kind == RowwiseKind::transpose_copy) {  // tiles of 128 x 128 pass through shared memory, 32 KB each
    constexpr std::int64_t kTile = 128;
    l.plan.threads = 512;
    l.plan.ctas = ((s.rows + kTile - 1) / kTile) * ((s.cols + kTile - 1) / kTile);
    l.plan.ctas_per_sm = 4;
    l.holds = true;
    l.waits = kBarrier;
  }
  return l;
}

Life scan_life(const Scan& s) {
  const double n = static_cast<double>(s.n), bytes = s.dtype == DType::fp32 ? 4 : 2;
  if (s.kind == ScanKind::sum_all) {
    Life l = flat(n * bytes / 16);
    l.elements = n;
    l.plan.threads = 512;
    l.plan.ctas = std::clamp<std::int64_t>(static_cast<std::int64_t>(std::ceil(n * bytes / 16 / 512)), 1, 4 * 132);
    l.plan.ctas_per_sm = 4;
    l.each = {2, 0};
    // the last CTA's fence, counter, and its reading of the others' sums
    l.code = 1.35 * units::us;
    return l;
  }
  Life l;
  constexpr double kTile = 48 * 1024;
  l.plan.threads = 256;
  l.plan.ctas = static_cast<std::int64_t>(std::max(1.0, std::ceil(n * bytes / kTile)));
  l.plan.ctas_per_sm = 3;
  l.elements = n;
  l.each = {6, 0};
  // tiles wait for those before them and hold their registers meanwhile: decoupled look-back, a few trips through L2
  l.holds = l.lockstep = l.writes_within = true;
  l.waits = 2.0 * units::us;
  return l;
}

Life life_of(const Op& op, const Work& w) {
  if (const auto* row = std::get_if<Rowwise>(&op)) return life_of(*row);
  if (const auto* top = std::get_if<TopK>(&op)) return selection_life(top->rows, top->cols, top->k, false);
  if (const auto* top = std::get_if<SoftmaxTopK>(&op)) return selection_life(top->rows, top->cols, top->k, true);
  if (const auto* scan = std::get_if<Scan>(&op)) return scan_life(*scan);
  Life l = flat(std::max(w.read, w.write).in(units::B) / 16);
  l.elements = 1;
  if (const auto* rope = std::get_if<Rope>(&op)) {
    l.elements = static_cast<double>(rope->tokens * rope->heads) * static_cast<double>(rope->head_dim);
    l.plan = flat(l.elements / 2 / static_cast<double>(kRowVector)).plan;
    l.plan.ctas_per_sm = 6;
    l.each = {5, 0};
  } else if (std::holds_alternative<Embedding>(op)) {
    l.code = 0.2 * units::us;  // the row's number first
  } else {                     // no kernel of ours counted: what the operator needs whatever the kernel
    l.elements = static_cast<double>(l.plan.ctas);
    l.each = {w.fp32.in(units::FLOP) / l.elements, w.sfu / l.elements};
  }
  return l;
}

/// Share of the bytes that L2 does not hold from one operator to the next. Up to `l2_kept` nothing is lost (each
/// partition may keep a copy); from one and a half times that on nothing is kept of what is walked in order.
double missing(const Op& op, const Work& w, const Machine& m) {
  const Bytes footprint = std::holds_alternative<Rope>(op) ? std::max(w.read, w.write) : w.bytes();
  return std::clamp((footprint - m.l2_kept) / (0.5 * m.l2_kept), 0.0, 1.0);
}

/// Time of `ctas` CTAs of a wave. A CTA goes through its parts one after the other; those of its neighbours on the SM
/// fill its gaps the better the more there are. Two parts of equal and constant length take (R + 1/2) / R of one part's
/// time on R CTAs (mean-value analysis, queues of constant service being half as long), which is the p-norm with
/// p = ln 2 / ln(1 + 1 / 2R); four is as far as CTAs that start together drift apart.
Seconds side_by_side(const Life& l, const Machine& m, double ctas, const PerResource<Seconds>& parts) {
  const double each = std::ceil(ctas / m.sm_count);
  if (each > 1 && !l.lockstep) {
    constexpr double kMostOverlap = 4;
    return pnorm(parts, std::min(kLn2 / std::log1p(0.5 / each), kMostOverlap));
  }
  Seconds sum;
  for (const Seconds t : parts) sum += t;
  return sum;
}

}  // namespace

bool has_own_rows(const Machine& m) {
  return m.kernels == KernelSet::own && !m.rowwise.borrowed && m.path.kind == TensorPath::Kind::wgmma;
}

Demand plan_own_rows(const Op& op, const Work& w, const Machine& m, bool warm) {
  const Life l = life_of(op, w);
  const StreamingMultiprocessor& sm = m.gpu.sm;
  const double ctas = static_cast<double>(l.plan.ctas);
  const double lost = warm ? missing(op, w, m) : 1.0;
  Demand d;
  d.plan = l.plan;
  const double elements = l.elements / ctas;
  const double lanes = static_cast<double>(sm.warp_size) * sm.issue_per_clk;
  d.issue_clk = elements * l.each.issue / lanes + l.select_clk;
  d.sfu_clk = elements * l.each.sfu / sm.sfu_op_per_clk;
  d.dram_read = lost * w.read;
  d.dram_write = lost * w.write;
  // a line that is written passes L2 twice: to its home, and to be read or to leave
  d.l2 = (w.read + 2.0 * w.write) / ctas;
  d.l2_again = w.write / ctas;
  if (const auto* row = std::get_if<Rowwise>(&op); row != nullptr && row->kind == RowwiseKind::transpose_copy) {
    // 256 bytes that begin within a sector of 32 touch nine of them
    constexpr std::int64_t kSectorElements = 16;
    if (row->cols % kSectorElements != 0) d.dram_read = 9.0 / 8.0 * d.dram_read;
    if (row->rows % kSectorElements != 0) d.dram_write = 9.0 / 8.0 * d.dram_write;
  }
  const Seconds dram = dram_time(d.dram_read, d.dram_write, m) / m.rowwise.dram_share;
  // how long the first bytes take depends on how busy DRAM then is
  const Seconds idle = m.gpu.memory.latency;
  const double busy = dram / (dram + m.dram_latency);
  const Seconds first = lost > 0 ? idle + busy * (m.dram_latency - idle) : std::min(m.l2_latency, m.dram_latency);
  d.chain = l.code;
  if (!l.holds) {
    d.chain += first;
    return d;
  }
  const double slots = m.sm_count * static_cast<double>(l.plan.ctas_per_sm);
  const double waves = std::ceil(ctas / slots), tail = ctas - (waves - 1) * slots;
  const auto parts = [&](double at_once, Seconds memory, Seconds waits) {
    const double each = std::ceil(at_once / m.sm_count);
    PerResource<Seconds> t;
    t[Resource::dram] = at_once / ctas * memory;
    t[Resource::issue] = each * d.issue_clk / m.clock;
    t[Resource::sfu] = each * d.sfu_clk / m.clock;
    t[Resource::latency] = waits;
    return t;
  };
  const Seconds reads = l.writes_within ? dram : d.dram_read / m.dram_read, waits = l.waits + kTurn;
  // the engine prices the busiest resource of every wave: what goes beyond it is what nothing hides
  const auto beyond = [&](Seconds life, const PerResource<Seconds>& t) {
    return std::max(Seconds{}, life - std::max({t[Resource::dram], t[Resource::issue], t[Resource::sfu]}));
  };
  const auto inner = parts(slots, dram, Seconds{}), last = parts(tail, dram, waits);
  d.chain += (waves - 1) * beyond(side_by_side(l, m, slots, parts(slots, reads, waits + first)), inner);
  // the last wave's first load and its writes are waited for: no other wave reads meanwhile
  d.chain += beyond(first + side_by_side(l, m, tail, last), last);
  return d;
}

}  // namespace plumbline

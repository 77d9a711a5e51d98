// By the source: state-spaces/mamba, csrc/selective_scan/selective_scan_fwd_kernel.cuh, copied by TensorRT-LLM and vLLM. A CTA
// has a channel of a sequence. It takes the tokens in pieces of threads x items, and each number of the state one after the
// other: B and C of the piece, an exponential for each token, a scan over the CTA (cub::BlockScan by warps), and the product
// with C. So B and C are read from L2 by every channel, and what is issued, not memory, is what takes the time.
#include "model/stacks/fla/plan_selective.hpp"

#include <algorithm>
#include <cmath>

#include "ops/as_double.hpp"

namespace plumbline {
namespace {

/// How the launch is compiled (selective_scan_fwd_cuda()), and CTAs an SM by its launch bounds.
struct ScanCut {
  double threads, items, ctas_per_sm;
};
ScanCut cut_of(double tokens) {
  constexpr double kFew = 5, kMany = 3;
  if (tokens <= 128) return {32, 4, kFew};
  if (tokens <= 256) return {32, 8, kFew};
  if (tokens <= 512) return {32, 16, kFew};
  if (tokens <= 1024) return {64, 16, kFew};
  return {128, 16, kMany};
}

/// Instructions of a token and number of the state, counted in the source: B and C converted (2), exponent's argument, its
/// exponential and what is added (3), the thread's own scan before and behind the warps' (4), the product with C (1).
constexpr double kOfAToken = 10;
/// ... of a thread and number of the state: loads of B and C by way of shared memory (8), five steps of a warp's scan of
/// pairs, each two shuffles and four more (30), the warps' sums and the prefix (12).
constexpr double kOfAThread = 50;
/// Shuffles, barriers and a way to L2, one after the other.
constexpr double kChainClk = 5 * 2 * 25 + 4 * 30;

}  // namespace

bool is_selective_scan(const Recurrence& s) {
  constexpr std::int64_t kFewestNumbers = 4;
  return s.kind == RecurrentKind::mamba1 && s.seq > 1 && s.state >= kFewestNumbers;
}

void answer_selective_scan(const Recurrence& s, const FamilyScalars& family, const Question& q, Answer& out) {
  const StreamingMultiprocessor& sm = q.rates.gpu.sm;
  const ScanCut cut = cut_of(d(s.seq));
  const double piece = cut.threads * cut.items, pieces = std::ceil(d(s.seq) / piece);
  out.sign(family);
  Demand& scan = out.launch("selective scan", family) = Demand{};
  scan.plan.ctas = static_cast<std::int64_t>(d(s.batch) * d(s.heads) * d(s.head_dim));
  scan.plan.ctas_per_sm = static_cast<std::int64_t>(cut.ctas_per_sm);
  scan.plan.threads = static_cast<std::int64_t>(cut.threads);
  scan.plan.steps = scan.plan.longest = pieces * d(s.state);
  const double issued = (piece * kOfAToken + cut.threads * kOfAThread) / static_cast<double>(sm.warp_size);
  scan.issue_clk = issued / sm.issue_per_clk;
  scan.sfu_clk = piece / sm.sfu_op_per_clk;
  scan.l2 = 2 * std::min(piece, d(s.seq)) * bytes_of(s.dtype) * units::B;
  scan.smem_clk = 4 * piece * bytes_of(s.dtype) / sm.smem_bytes_per_clk.in(units::B);
  scan.step_latency = kChainClk / q.rates.clock + q.rates.l2_mean_latency();
  scan.l2_limit = L2Limit::ports;  // neighbours ask for the same B and C
  const bool held = q.warmth == Warmth::everything && q.work.bytes() <= q.rates.l2_kept;
  if (held) return;
  scan.dram_read = q.work.read;
  scan.dram_write = q.work.write;
}

}  // namespace plumbline

#include "model/stacks/generic/plan_custom.hpp"

#include <algorithm>
#include <cmath>

#include "arch/error.hpp"
#include "arch/gpu/occupancy.hpp"
#include "model/stacks/common/plan_stream.hpp"

namespace plumbline {
namespace {

constexpr Bytes kPerThread = 64.0 * units::B;  // four 16-byte vectors
constexpr Bytes kSector = 32.0 * units::B;
/// SM clocks from an arithmetic instruction to one that needs its result, from Volta on (docs/sources.md: hardware).
constexpr double kDependentClk = 4;

void check_path(const CustomOp& s, const Question& q) {
  const bool lanes = s.dtype == DType::fp32 || s.dtype == DType::fp64;
  if (s.tensor <= Flops{} || lanes || q.rates.gpu.sm.tensor_flop_per_clk[s.dtype] > 0) return;
  throw BadInput(q.gpu + " has no " + std::string(name(s.dtype)) + " tensor path for op 'custom'");
}

KernelPlan plan_of(const CustomOp& s, const Rates& m) {
  const StreamingMultiprocessor& sm = m.gpu.sm;
  const Occupancy fit = occupancy(sm, {s.threads, s.registers, s.block_smem});
  if (fit.blocks_per_sm < 1) {
    throw BadInput("op 'custom': a CTA of " + std::to_string(s.threads) +
                   " threads does not fit on an SM: " + std::string(fit.limited_by));
  }
  KernelPlan plan;
  plan.ctas = s.ctas > 0 ? s.ctas : m.gpu.sm_count * fit.blocks_per_sm;
  plan.ctas_per_sm = fit.blocks_per_sm;
  plan.threads = s.threads;
  plan.registers_per_thread = s.registers;
  plan.shared_memory = s.block_smem;
  return plan;
}

/// A launch that reads nothing waits for no answer of the memory: L2 takes its stores. One that clears a few sums takes
/// 0.7 us in an iteration, one that reads as few 1.2 to 1.5 (traces of training on an H200, training side).
void wait_for_no_answer(Demand& d, const Rates& m) {
  d.step_latency = std::min(m.l2_latency, m.dram_latency);
  d.in_flight = Bytes{};
}

Demand custom_demand(const CustomOp& s, const Question& q) {
  const Rates& m = q.rates;
  Demand d;
  d.plan = plan_of(s, m);
  spread_arithmetic(d, q.work, m.gpu.sm);
  const double ctas = static_cast<double>(d.plan.ctas);
  if (s.instructions > 0) d.issue_clk = s.instructions / ctas / m.gpu.sm.issue_per_clk;
  if (s.executed > 0) {
    // without slots of their own they pass between others: energy, no time
    const double executed = s.instructions > 0 ? std::min(s.executed, s.instructions) : s.executed;
    d.waiting_issue_clk = d.issue_clk - executed / ctas / m.gpu.sm.issue_per_clk;
  }
  d.smem_clk = s.smem / m.gpu.sm.smem_bytes_per_clk / ctas;
  const Bytes moved = s.read + s.write;
  d.l2 = std::max(s.l2, moved) / ctas;
  const bool part = q.warmth == Warmth::part;
  const bool warm = q.warmth != Warmth::cold && !part && moved > Bytes{} && moved <= m.l2_kept;
  d.serial_latency =
      static_cast<double>(s.chain) * (warm ? std::min(m.l2_mean_latency(), m.dram_latency) : m.dram_latency);
  d.serial_latency += static_cast<double>(s.dependent) * kDependentClk / m.clock;
  d.serial_latency_of = "of accesses and instructions that wait for one another";
  if (moved <= Bytes{}) return d;
  if (warm) {
    d.step_latency = std::min(2.0 * m.l2_latency, m.dram_latency);
    if (s.read <= Bytes{}) wait_for_no_answer(d, m);
    return d;
  }
  d.step_latency = m.dram_latency;
  const Bytes most = s.in_flight > Bytes{} ? s.in_flight : static_cast<double>(s.threads) * kPerThread;
  d.in_flight = std::max(kSector, std::min(most, moved / ctas));
  // CTAs of a first wave begin together and end together; after several they begin at any time
  d.ends_alone = s.in_flight > Bytes{} && ctas < 2 * m.sm_count * static_cast<double>(d.plan.ctas_per_sm);
  d.dram_read = s.read;
  d.dram_write = s.write;
  if (part) hold_in_l2(d, q.held * s.read, m);
  if (s.read <= Bytes{}) wait_for_no_answer(d, m);
  return d;
}

}  // namespace

bool answer_custom(const CustomOp& op, const Question& q, const FamilyScalars& family, Answer& out) {
  check_path(op, q);
  out.sign(family);
  out.unmeasured = true;
  out.launch("custom", family) = custom_demand(op, q);
  return true;
}

}  // namespace plumbline

#include "model/stacks/common/warm.hpp"

#include <algorithm>

namespace plumbline {
namespace {

/// Lines that are written may be kept by both partitions of L2, and all lines where reads evict first or at random; our
/// GEMM of 37 MB of operands and 0.5 MB of result finds them all (H200, 2026-11-20).
bool kept(const Demand& d, const Question& q) {
  if (d.l2_distinct > Bytes{}) return d.l2_distinct + 2.0 * d.l2_written <= q.rates.l2_capacity;
  return q.work.bytes() <= q.rates.l2_kept;
}

}  // namespace

void launch_as_found(Answer& answer, const Question& q, const char* kernel, const Demand& cold,
                     const FamilyScalars& family, double latency) {
  Demand& d = answer.launch(kernel, family);
  d = cold;
  if (q.warmth != Warmth::everything || !kept(cold, q)) return;
  const Rates& m = q.rates;
  d.dram_read = d.dram_write = d.partials;
  d.in_flight = Bytes{};
  d.step_latency = std::max(latency * cold.step_latency, std::min(cold.step_latency, family.step));
  d.start *= std::min(1.0, m.dram_read / m.l2);
  if (cold.l2_limit == L2Limit::lookups)
    d.serial_latency -= kChainedLoads * std::max(Seconds{}, m.gpu.memory.latency - m.l2_latency);
}

}  // namespace plumbline

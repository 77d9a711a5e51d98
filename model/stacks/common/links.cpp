#include "model/stacks/common/links.hpp"

#include <cmath>

namespace plumbline {

Bandwidth inner_wire(const Rates& rates) {
  const FabricTier& tier = rates.fabric->inner();
  const GpuLinks& described = rates.fabric->gpu_links;
  const bool pcie = tier.kind == LinkKind::pcie;
  const Bandwidth before = pcie ? described.pcie_per_direction : described.nvlink_per_direction;
  const Bandwidth now = pcie ? rates.gpu.links.pcie_per_direction : rates.gpu.links.nvlink_per_direction;
  return before > Bandwidth{} ? now / before * tier.bandwidth : tier.bandwidth;
}

Seconds longer_way(const FabricTier& tier) {
  switch (tier.kind) {
    case LinkKind::pcie: return tier.latency - 1.0 * units::us;
    case LinkKind::infiniband:
    case LinkKind::ethernet:
    case LinkKind::efa: return tier.latency - 2.7 * units::us;
    default: return tier.latency - 0.6 * units::us;
  }
}

bool reach_each_other(const Collective& s, std::int64_t most, const Rates& rates) {
  if (rates.fabric == nullptr || s.gpus < 2 || s.gpus > most) return false;
  return rates.fabric->inner().kind != LinkKind::pcie && s.span() <= rates.fabric->gpus_per_node();
}

Seconds pnorm_of_two(Seconds a, Seconds b, double p) {
  const double x = a.in(units::s), y = b.in(units::s);
  return std::pow(std::pow(x, p) + std::pow(y, p), 1 / p) * units::s;
}

}  // namespace plumbline

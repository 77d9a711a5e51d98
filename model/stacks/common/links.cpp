#include "model/stacks/common/links.hpp"

namespace plumbline {

Bandwidth inner_wire(const Rates& rates) {
  const FabricTier& tier = rates.fabric->inner();
  const GpuLinks& described = rates.fabric->gpu_links;
  const bool pcie = tier.kind == LinkKind::pcie;
  const Bandwidth before = pcie ? described.pcie_per_direction : described.nvlink_per_direction;
  const Bandwidth now = pcie ? rates.gpu.links.pcie_per_direction : rates.gpu.links.nvlink_per_direction;
  return before > Bandwidth{} ? now / before * tier.bandwidth : tier.bandwidth;
}

}  // namespace plumbline

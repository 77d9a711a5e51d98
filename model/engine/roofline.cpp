#include "model/engine/roofline.hpp"

#include <algorithm>

#include "arch/gpu/peaks.hpp"

namespace plumbline {

Seconds roofline(const Op& op, const Work& w, const GpuNumbers& gpu) {
  Seconds time = w.bytes() / gpu.memory.bandwidth;
  if (w.tensor > Flops{}) {
    FlopRate peak = tensor_peak(gpu, w.math, gpu.boost_clock);
    if (peak <= FlopRate{})
      peak = w.math == DType::fp64 ? fp64_peak(gpu, gpu.boost_clock) : fp32_peak(gpu, gpu.boost_clock);
    time = std::max(time, w.tensor / peak);  // 2:4: kept work only, at the dense rate, is the sparse rate
  }
  time = std::max(time, w.fp32 / fp32_peak(gpu, gpu.boost_clock));
  if (w.link > Bytes{}) {
    const auto* transfer = std::get_if<Transfer>(&op);
    const bool host = transfer && (transfer->kind == TransferKind::h2d || transfer->kind == TransferKind::d2h);
    const Bandwidth link = host ? gpu.links.pcie_per_direction : gpu.links.nvlink_per_direction;
    // a switch that adds needs each GPU's data once where a ring sends it twice
    const auto* collective = std::get_if<Collective>(&op);
    const double once = collective && collective->kind == CollectiveKind::all_reduce ? 0.5 : 1;
    if (link > Bandwidth{}) time = std::max(time, once * w.link / link);
  }
  return time;
}

Seconds roofline(const Op& op, const GpuNumbers& gpu) { return roofline(op, work(op), gpu); }

Resource roofline_limiter(const Work& w, Seconds time, const GpuNumbers& gpu) {
  if (w.bytes() / gpu.memory.bandwidth >= time) return Resource::dram;
  if (w.fp32 / fp32_peak(gpu, gpu.boost_clock) >= time) return Resource::fp32;
  return w.link > Bytes{} ? Resource::link : Resource::tensor;
}

}  // namespace plumbline

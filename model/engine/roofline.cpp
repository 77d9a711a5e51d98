#include "model/engine/roofline.hpp"

#include <algorithm>
#include <variant>

#include "arch/gpu/peaks.hpp"

namespace plumbline {

namespace {

/// The type that an attention's keys are stored in; that of its products for all else.
struct KeysOf {
  DType math;
  DType operator()(const AttentionPrefill& s) const { return s.kv_dtype; }
  DType operator()(const AttentionDecode& s) const { return s.kv_dtype; }
  DType operator()(const MlaDecode& s) const { return s.kv_dtype; }
  template <class Other>
  DType operator()(const Other&) const {
    return math;
  }
};

/// The fastest that the products may be done in: a kernel may round queries to the type that keys are stored in.
FlopRate fastest_peak(const Op& op, const Work& w, const GpuNumbers& gpu) {
  const FlopRate peak = tensor_peak(gpu, w.math, gpu.boost_clock);
  const DType keys = std::visit(KeysOf{w.math}, op);
  return bits(keys) >= bits(w.math) ? peak : std::max(peak, tensor_peak(gpu, keys, gpu.boost_clock));
}

Seconds tensor_time(const Op& op, const Work& w, const GpuNumbers& gpu) {
  if (w.tensor <= Flops{}) return {};
  FlopRate peak = fastest_peak(op, w, gpu);
  if (peak <= FlopRate{})
    peak = w.math == DType::fp64 ? fp64_peak(gpu, gpu.boost_clock) : fp32_peak(gpu, gpu.boost_clock);
  return w.tensor / peak;  // 2:4: kept work only, at the dense rate, is the sparse rate
}

Seconds link_time(const Op& op, const Work& w, const GpuNumbers& gpu) {
  if (w.link <= Bytes{}) return {};
  const auto* transfer = std::get_if<Transfer>(&op);
  const bool host = transfer && (transfer->kind == TransferKind::h2d || transfer->kind == TransferKind::d2h);
  const bool pcie = host || gpu.links.nvlink_per_direction <= Bandwidth{};
  const Bandwidth link = pcie ? gpu.links.pcie_per_direction : gpu.links.nvlink_per_direction;
  // a switch that adds needs each GPU's data once where a ring sends it twice
  const auto* collective = std::get_if<Collective>(&op);
  const double once = collective && collective->kind == CollectiveKind::all_reduce ? 0.5 : 1;
  return link > Bandwidth{} ? once * w.link / link : Seconds{};
}

/// Tells `each` every resource's least time. Special functions, instructions and caches of operators that we know are how
/// kernels do them: only a custom operator states them as its work, and may ask for nothing else.
template <class Each>
void least_times(const Op& op, const Work& w, const GpuNumbers& gpu, const Each& each) {
  const Hertz clock = gpu.boost_clock;
  each(Resource::dram, w.bytes() / gpu.memory.bandwidth);
  each(Resource::fp32, w.fp32 / fp32_peak(gpu, clock));
  each(Resource::link, link_time(op, w, gpu));
  each(Resource::tensor, tensor_time(op, w, gpu));
  const auto* custom = std::get_if<CustomOp>(&op);
  if (custom == nullptr) return;
  each(Resource::sfu, custom->sfu / sfu_peak(gpu, clock));
  each(Resource::issue, custom->instructions / (static_cast<double>(gpu.sm_count) * gpu.sm.issue_per_clk * clock));
  each(Resource::smem, custom->smem / smem_peak(gpu, clock));
  each(Resource::l2, custom->l2 / l2_peak(gpu, clock));
  each(Resource::latency, static_cast<double>(custom->chain) * gpu.memory.latency);
}

}  // namespace

Seconds roofline(const Op& op, const Work& w, const GpuNumbers& gpu) {
  Seconds largest;
  least_times(op, w, gpu, [&](Resource, Seconds time) { largest = std::max(largest, time); });
  return largest;
}

Seconds roofline(const Op& op, const GpuNumbers& gpu) { return roofline(op, work(op), gpu); }

Resource roofline_limiter(const Op& op, const Work& w, const GpuNumbers& gpu) {
  Resource limiter = Resource::dram;
  Seconds largest;
  least_times(op, w, gpu, [&](Resource resource, Seconds time) {
    if (time > largest) limiter = resource;
    largest = std::max(largest, time);
  });
  return limiter;
}

}  // namespace plumbline

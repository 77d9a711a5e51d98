#include "model/report/monitor/dcgm.hpp"

#include <algorithm>

#include "arch/fabric/cluster.hpp"

namespace plumbline {
namespace {

/// Of one execution.
struct Busy {
  Seconds kernels, sms;
  double tensor_clk = 0, fp32_clk = 0;  ///< of one SM, in the mean
  Bytes link;
};

/// What a rank sends to others in one execution: of a collective as a ring and an exchange of parts send it. A switch that
/// adds (NVLS) is sent less in an all-reduce, down to half of it.
Bytes sent(const NodePrediction& node) {
  if (const auto* c = std::get_if<Collective>(&node.node->op)) {
    const auto ranks = static_cast<double>(c->gpus);
    const double others = c->kind == CollectiveKind::broadcast ? 1 : (ranks - 1) / ranks;
    const double times = c->kind == CollectiveKind::all_reduce ? 2 : 1;
    return times * others * static_cast<double>(c->bytes) * units::B;
  }
  Bytes sum;
  if (std::holds_alternative<ExpertExchange>(node.node->op)) {
    for (int i = 0; i < node.op.launch_count; ++i) sum += node.op.launches[static_cast<std::size_t>(i)].demand.link;
  }
  return sum;
}

Busy busy_of(const NodePrediction& node, double sms) {
  Busy out;
  for (int i = 0; i < node.op.launch_count; ++i) {
    const LaunchPrediction& launch = node.op.launches[static_cast<std::size_t>(i)];
    const KernelPlan& plan = launch.demand.plan;
    const auto ctas = static_cast<double>(plan.ctas);
    out.kernels += launch.time.total;
    out.sms += std::min(1.0, ctas / sms) * launch.time.total;
    out.tensor_clk += ctas * plan.steps * launch.demand.tensor_clk / sms;
    out.fp32_clk += ctas * plan.steps * launch.demand.fp32_clk / sms;
  }
  out.link = sent(node);
  return out;
}

}  // namespace

MonitorFields monitor_fields(const StepReport& r) {
  const StepPrediction& step = r.step;
  const auto sms = static_cast<double>(r.machine.gpu().sm_count);
  Busy all;
  for (const NodePrediction& node : step.nodes) {
    const auto times = static_cast<double>(node.node->count);
    const Busy one = busy_of(node, sms);
    all.kernels += times * one.kernels;
    all.sms += times * one.sms;
    all.tensor_clk += times * one.tensor_clk;
    all.fp32_clk += times * one.fp32_clk;
    all.link += times * one.link;
  }
  const double cycles = step.latency * step.clock;
  MonitorFields out;
  // streams run side by side: no more than all of the time
  out.engine_active = std::min(1.0, all.kernels / step.latency);
  out.gpu_util = 100 * out.engine_active;
  out.sm_active = std::min(out.engine_active, all.sms / step.latency);
  out.tensor_active = std::min(1.0, all.tensor_clk / cycles);
  out.fp32_active = std::min(1.0, all.fp32_clk / cycles);
  out.dram_active = step.mbu;
  const std::int64_t ranks = r.workload.parallel.ranks();
  if (ranks <= r.machine.rates().fabric->gpus_per_node())
    out.nvlink_bytes = (all.link / step.latency).in(units::B_per_s);
  if (step.power) out.power = step.power->in(units::W);
  out.sm_clock = step.clock.in(units::MHz);
  out.framebuffer_used = step.graph.memory.total().in(units::MiB);
  return out;
}

}  // namespace plumbline

// A step as a monitor of the card would see it: fields of NVIDIA's DCGM under their names and in their units, so that a
// prediction can be laid over a monitor's series.
#pragma once

#include <optional>

#include "model/report/report.hpp"

namespace plumbline {

/// Means over a step of one GPU. Definitions: DCGM's user guide, "Feature Overview", profiling metrics
/// (docs.nvidia.com/datacenter/dcgm/latest/user-guide/feature-overview.html), and dcgm_fields.h.
struct MonitorFields {
  double gpu_util = 0;       ///< DCGM_FI_DEV_GPU_UTIL: percent of time in which a kernel runs
  double engine_active = 0;  ///< DCGM_FI_PROF_GR_ENGINE_ACTIVE: the same as a fraction
  /// DCGM_FI_PROF_SM_ACTIVE: fraction of cycles in which an SM holds a warp, mean over SMs. SMs that a last wave leaves
  /// idle are counted as busy: what is here is the most that it can be.
  double sm_active = 0;
  /// DCGM_FI_PROF_PIPE_TENSOR_ACTIVE, _FP32_ACTIVE: fraction of cycles in which the pipe is busy, by the instructions that
  /// the plans issue, mean over SMs.
  double tensor_active = 0, fp32_active = 0;
  /// DCGM_FI_PROF_DRAM_ACTIVE: bytes over what the interface could move at its datasheet rate.
  double dram_active = 0;
  /// DCGM_FI_PROF_NVLINK_TX_BYTES, _RX_BYTES: bytes a second, of collectives between GPUs of one node. Unset where ranks
  /// are of several nodes, as what crosses the network is no NVLink's.
  std::optional<double> nvlink_bytes;
  std::optional<double> power;  ///< DCGM_FI_DEV_POWER_USAGE, in W
  double sm_clock = 0;          ///< DCGM_FI_DEV_SM_CLOCK, in MHz
  double framebuffer_used = 0;  ///< DCGM_FI_DEV_FB_USED, in MiB
};
MonitorFields monitor_fields(const StepReport& report);

}  // namespace plumbline

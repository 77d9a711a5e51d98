#include "model/report/json_parts.hpp"
#include "model/report/monitor/dcgm.hpp"

namespace plumbline {

Json monitor_json(const StepReport& report) {
  const MonitorFields m = monitor_fields(report);
  const auto figure = [](const std::optional<double>& value, const char* key) {
    return value ? Json(finite(*value, key)) : Json(nullptr);
  };
  return {{"DCGM_FI_PROF_GR_ENGINE_ACTIVE", m.engine_active},
          {"DCGM_FI_PROF_SM_ACTIVE", m.sm_active},
          {"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", m.tensor_active},
          {"DCGM_FI_PROF_PIPE_FP32_ACTIVE", m.fp32_active},
          {"DCGM_FI_PROF_DRAM_ACTIVE", m.dram_active},
          {"DCGM_FI_PROF_NVLINK_TX_BYTES", figure(m.nvlink_bytes, "nvlink_bytes")},
          {"DCGM_FI_PROF_NVLINK_RX_BYTES", figure(m.nvlink_bytes, "nvlink_bytes")},
          {"DCGM_FI_DEV_GPU_UTIL", m.gpu_util},
          {"DCGM_FI_DEV_POWER_USAGE", figure(m.power, "power")},
          {"DCGM_FI_DEV_SM_CLOCK", m.sm_clock},
          {"DCGM_FI_DEV_FB_USED", m.framebuffer_used}};
}

}  // namespace plumbline

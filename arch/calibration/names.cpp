#include "arch/calibration/names.hpp"

#include <array>

namespace plumbline {
namespace {

using namespace std::string_view_literals;

/// `_fraction`: of the descriptor's number of that name; `_clk`: SM clocks; `tma_`: fills of shared memory by bulk
/// copies. These are read by the engine (model/engine/machine.cpp).
constexpr std::array kMachine{
    "dram_loaded_latency_ratio"sv,
    "dram_mix_loss_fraction"sv,
    "dram_read_fraction"sv,
    "dram_write_fraction"sv,
    "gap_graph_s"sv,
    "gap_stream_s"sv,
    "host_per_operator_s"sv,
    "kernel_change_s"sv,
    "l2_bandwidth_fraction"sv,
    "l2_usable_fraction"sv,
    "pcie_fraction"sv,
    "regulator_lag_s"sv,
    "tensor_burst_fraction"sv,
    "tensor_steady_fraction"sv,
};

/// Measured beside them; they price nothing. Tests hold constants of descriptors and planners against them.
constexpr std::array kProbed{
    "bf16x2_convert_per_clk"sv, "dram_latency_s"sv,       "dram_ramp_latency_s"sv,      "epilogue_store_clk"sv,
    "epilogue_visible_clk"sv,   "flag_latency_s"sv,       "fp32_fma_fraction"sv,        "gap_graph_pdl_s"sv,
    "gap_stream_pdl_s"sv,       "graph_fixed_s"sv,        "grid_barrier_s"sv,           "host_per_launch_s"sv,
    "l2_far_latency_s"sv,       "l2_latency_s"sv,         "l2_near_fraction"sv,         "sfu_fraction"sv,
    "smem_read_fraction"sv,     "tensor_bf16_fraction"sv, "tensor_fp8_fraction"sv,      "tensor_int8_fraction"sv,
    "tma_fill_B_per_clk"sv,     "tma_port_ratio"sv,       "wgmma_register_floor_clk"sv, "wgmma_shared_clk_per_column"sv,
    "wgmma_shared_floor_clk"sv,
};

constexpr std::array kPower{
    "band_brief_high"sv,
    "band_brief_low"sv,
    "band_card"sv,
    "band_free_high"sv,
    "band_free_low"sv,
    "band_held_down_high"sv,
    "band_held_down_low"sv,
    "boost_clock_Hz"sv,
    "clocked_W"sv,
    "constant_W"sv,
    "cool_C"sv,
    "dram_read_J_per_B"sv,
    "dram_write_J_per_B"sv,
    "droop_from_W"sv,
    "droop_ratio"sv,
    "droop_ratio_per_W"sv,
    "floor_voltage_fraction"sv,
    "fp32_J_per_FLOP"sv,
    "instruction_J"sv,
    "knee_fraction"sv,
    "l2_J_per_B"sv,
    "leakage_W_per_K"sv,
    "load_store_J_per_B"sv,
    "link_J_per_B"sv,
    "links_awake_W"sv,
    "memory_supply_fraction"sv,
    "move_toggle_ternary"sv,
    "move_toggle_uniform"sv,
    "move_toggle_zeros"sv,
    "reference_C"sv,
    "regulator_aim_fraction"sv,
    "sfu_J"sv,
    "smem_J_per_B"sv,
    "tensor_bf16_J_per_FLOP"sv,
    "tensor_fp16_J_per_FLOP"sv,
    "tensor_fp4_J_per_FLOP"sv,
    "tensor_fp64_J_per_FLOP"sv,
    "tensor_fp8_J_per_FLOP"sv,
    "tensor_int8_J_per_FLOP"sv,
    "tensor_limit_W"sv,
    "tensor_tf32_J_per_FLOP"sv,
    "tensor_toggle_ternary"sv,
    "tensor_toggle_uniform"sv,
    "tensor_toggle_zeros"sv,
    "thermal_K_per_W"sv,
};

constexpr std::array kFamilies{
    "attention_backward"sv,
    "attention_decode"sv,
    "attention_decode_8bit"sv,
    "attention_decode_single"sv,
    "attention_prefill"sv,
    "attention_prefill_8bit"sv,
    "attention_prefill_mma"sv,
    "attention_prepare"sv,
    "attention_prepare_8bit"sv,
    "combine"sv,
    "copy_engine"sv,
    "cudnn_backward"sv,
    "cudnn_combine"sv,
    "cudnn_decode"sv,
    "cudnn_prefill"sv,
    "deepep_combine"sv,
    "deepep_combine_network"sv,
    "deepep_dispatch"sv,
    "deepep_dispatch_network"sv,
    "deepep_low_combine"sv,
    "deepep_low_combine_network"sv,
    "deepep_low_dispatch"sv,
    "deepep_low_dispatch_network"sv,
    "flash_append"sv,
    "flash_backward"sv,
    "flash_decode"sv,
    "flash_decode_mma"sv,
    "flash_prefill"sv,
    "flash_prefill_mma"sv,
    "gemm"sv,
    "gemm_block"sv,
    "gemm_int8"sv,
    "gemm_lanes"sv,
    "gemm_mma"sv,
    "gemm_portable"sv,
    "gemm_scaled"sv,
    "gemm_xmma"sv,
    "gemv"sv,
    "grouped_gemm"sv,
    "grouped_mm"sv,
    "linear_chunk"sv,
    "linear_flashinfer"sv,
    "linear_scan"sv,
    "mla_decode"sv,
    "moe"sv,
    "moe_block"sv,
    "nccl_nvls"sv,
    "nccl_peer_ll"sv,
    "nccl_peer_simple"sv,
    "nccl_ring_ll"sv,
    "nccl_ring_ll128"sv,
    "nccl_ring_simple"sv,
    "peer_one_shot"sv,
    "peer_pull"sv,
    "peer_push"sv,
    "peer_scatter"sv,
    "peer_two_shot"sv,
    "quantize"sv,
    "reduce"sv,
    "rowwise"sv,
    "trtllm_all_reduce"sv,
    "vllm_one_stage"sv,
    "vllm_two_stages"sv,
};

constexpr std::array kFamilyScalars{
    "channel_B_per_s"sv,
    "clock_droop_fraction"sv,
    "counter_s"sv,
    "dram_share_fraction"sv,
    "efficiency_fraction"sv,
    "element_B_per_s"sv,
    "exposed"sv,
    "fixed_s"sv,
    "in_flight_B"sv,
    "link_share_fraction"sv,
    "merge_clk"sv,
    "overlap"sv,
    "per_cta_s"sv,
    "sm_in_flight_B"sv,
    "start_clk"sv,
    "step_clk"sv,
    "step_s"sv,
    "tensor_burst_fraction"sv,
    "tensor_steady_fraction"sv,
};

}  // namespace

std::span<const std::string_view> machine_scalar_names() { return kMachine; }
std::span<const std::string_view> probed_scalar_names() { return kProbed; }
std::span<const std::string_view> power_scalar_names() { return kPower; }
std::span<const std::string_view> family_names() { return kFamilies; }
std::span<const std::string_view> family_scalar_names() { return kFamilyScalars; }

}  // namespace plumbline

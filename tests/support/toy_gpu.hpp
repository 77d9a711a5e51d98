// A GPU of round numbers, so that a test can say in its head what a prediction must be.
//
// 10 SMs at 1 GHz; bf16 10 TFLOP/s, fp8 20; fp32 2.56 TFLOP/s; DRAM 1 TB/s after 500 ns, 16 GiB; L2 10 TB/s after 200
// ns, 32 MiB; links 100 GB/s (10 NVLinks) and 25 GB/s (PCIe) one way; 100 W cap, 20 W idle. Per-SM limits and the way
// to the tensor units as on Hopper, so occupancy behaves like a real card's; clusters leave no SM over.
#pragma once

#include "arch/gpu/gpu.hpp"

namespace plumbline {

inline StreamingMultiprocessor toy_sm() {
  StreamingMultiprocessor sm;
  sm.matrix_unit = MatrixUnit::wgmma;
  sm.async_copy = AsyncCopy::tma;
  sm.tensor_flop_per_clk[DType::bf16] = sm.tensor_flop_per_clk[DType::fp16] = 1000;
  sm.tensor_flop_per_clk[DType::tf32] = 500;
  sm.tensor_flop_per_clk[DType::fp8] = sm.tensor_flop_per_clk[DType::int8] = 2000;
  sm.tensor_flop_per_clk[DType::fp4] = 4000;
  sm.tensor_flop_per_clk[DType::fp64] = 100;
  sm.fp32_flop_per_clk = 256;
  sm.fp64_flop_per_clk = 100;
  sm.sfu_op_per_clk = 16;
  sm.issue_per_clk = 4;
  sm.smem_bytes_per_clk = 128.0 * units::B;
  sm.l2_bytes_per_clk = 1000.0 * units::B;  // never the limit: 10 SMs take 10 TB/s, all that L2 gives
  sm.smem = 228.0 * units::KiB;
  sm.smem_per_block = 227.0 * units::KiB;
  sm.smem_reserved_per_block = 1.0 * units::KiB;
  sm.smem_granule = 128.0 * units::B;
  sm.l1_and_smem = 256.0 * units::KiB;
  sm.registers = 65536;
  sm.registers_per_thread = 255;
  sm.threads = 2048;
  sm.threads_per_block = 1024;
  sm.blocks = 32;
  return sm;
}

inline Gpu toy_gpu() {
  Gpu gpu;
  gpu.name = "toy";
  gpu.title = "Toy GPU of round numbers";
  gpu.vendor = "none";
  gpu.architecture = "toy";
  gpu.compute_capability = "9.0";
  gpu.generation = "toy";
  gpu.process = {"toy", 1};
  gpu.clusters = {8, 4, 2, 1};
  gpu.calibration = "toy";
  gpu.sm_count = 10;
  gpu.base_clock = 0.5 * units::GHz;
  gpu.boost_clock = 1.0 * units::GHz;
  gpu.sm = toy_sm();
  gpu.l2 = {32.0 * units::MiB, 10.0 * units::TB_per_s, 200.0 * units::ns, 1};
  gpu.memory_type = "toy";
  gpu.memory = {16.0 * units::GiB, 1.0 * units::TB_per_s, 500.0 * units::ns};
  gpu.links = {100.0 * units::GB_per_s, 10, 25.0 * units::GB_per_s};
  gpu.tdp = 100.0 * units::W;
  gpu.idle_power = 20.0 * units::W;
  return gpu;
}

}  // namespace plumbline

// Microbenchmarks of the machine scalars. None of them is a kernel that is validated.
#pragma once

#include <functional>
#include <vector>

#include "kernels/common/records.hpp"

namespace plumbline {

/// Latency of a dependent load by footprint: `latency_s`. On Hopper three steps: the near half of L2 (lines of the far
/// half are copied there), all of L2, DRAM.
std::vector<Record> probe_latency();
/// The same from DRAM while other CTAs stream: `loaded_latency_s`, `loaded_bandwidth_B_per_s`.
std::vector<Record> probe_loaded_latency();
/// `dram_{read,write,copy,add}_B_per_s` by bytes in flight an SM; `dram_copy_plain_B_per_s`: without streaming hints.
std::vector<Record> probe_dram();
/// `l2_read_B_per_s` by footprint.
std::vector<Record> probe_l2();
/// `gap_stream_s`, `gap_graph_s`, `gap_pdl_s` (a chain of empty kernels, time each), `host_per_launch_s`,
/// `host_graph_launch_s`, `graph_fixed_s`.
std::vector<Record> probe_launches();
/// `grid_barrier_s`: one arrival of every CTA, one CTA an SM.
std::vector<Record> probe_barrier();
/// `flag_latency_s`: from a CTA's store of a flag until another SM has seen it.
std::vector<Record> probe_flag();
/// `host_to_device_B_per_s`, `device_to_host_B_per_s`: copies of pinned memory.
std::vector<Record> probe_host_link();
/// Per clock of an SM, one CTA on each: `tensor_FLOP_per_clk` by instruction, type and width, `smem_read_B_per_clk`,
/// both also beside fills of shared memory from L2, `smem_fill_B_per_clk`, `fp32_fma_per_clk`, `sfu_exp2_per_clk`,
/// `bf16x2_convert_per_clk`.
std::vector<Record> probe_instructions();
/// `epilogue_store_clk`: 128 x 256 fp32 accumulators to bf16 in global memory, until the SM can go on, by way of
/// storing; `epilogue_visible_clk`: until all is written.
std::vector<Record> probe_epilogue();

/// All of the above in turn, some 5 s, but on compute capability 9.0 only: instructions and epilogue; `done` is told
/// after each.
using ProbeDone = std::function<void(const char* what, const std::vector<Record>& records)>;
std::vector<Record> probe_machine(const ProbeDone& done);

}  // namespace plumbline

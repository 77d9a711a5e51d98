// The toy GPU with a calibration of round numbers, so that a time can be worked out by hand.
//
// Every fraction is 1 and nothing is lost to mixing, so DRAM gives 1 TB/s, L2 10 TB/s, a tensor unit 1000 FLOP a clock
// of 1 ns. DRAM answers after 500 ns. Each family takes 1 us of fixed time and overlaps perfectly (p = infinity: the
// largest term alone); no prologues, no exposed epilogues. Gaps: 1 us in a graph, 2 us in a stream.
#pragma once

#include <limits>
#include <memory>
#include <string>

#include "model/engine/rates.hpp"
#include "model/predict.hpp"
#include "tests/support/toy_gpu.hpp"

namespace plumbline::testing_support {

inline constexpr const char* kFamilies[] = {
    "gemm",        "grouped_gemm", "attention_prefill", "attention_decode",  "attention_decode_single", "mla_decode",
    "rowwise",     "reduce",       "combine",           "attention_prepare", "flash_prefill",           "flash_decode",
    "flash_append"};

inline constexpr const char* kOwnFamilies[] = {"gemm",    "gemm_portable",     "reduce",
                                               "rowwise", "attention_prefill", "attention_decode",
                                               "combine", "attention_portable"};

inline Calibration toy_calibration() {
  Calibration c;
  c.gpu = "toy";
  const auto set = [](std::map<std::string, Scalar>& scalars, const char* name, double value) {
    scalars[name] = Scalar{value, "a round number"};
  };
  for (const char* name :
       {"dram_read_fraction", "dram_write_fraction", "dram_loaded_latency_ratio", "l2_bandwidth_fraction",
        "l2_usable_fraction", "pcie_fraction", "tensor_burst_fraction", "tensor_steady_fraction"}) {
    set(c.machine, name, 1);
  }
  set(c.machine, "dram_mix_loss_fraction", 0);
  set(c.machine, "regulator_lag_s", 0);
  set(c.machine, "gap_graph_s", 1e-6);
  set(c.machine, "gap_stream_s", 2e-6);
  for (const char* family : kFamilies) {
    auto& scalars = c.families[std::string("library.") + family];
    set(scalars, "fixed_s", 1e-6);
    set(scalars, "overlap", std::numeric_limits<double>::infinity());
    set(scalars, "step_s", 0);
  }
  return c;
}

inline Machine toy_machine(const Gpu& gpu = toy_gpu(), const Calibration& calibration = toy_calibration(),
                           KernelSet kernels = KernelSet::library) {
  MachineOptions options;
  options.stack = usual_stack(kernels);
  options.clock = ClockMode::burst;
  return make_machine(gpu, calibration, options);
}

}  // namespace plumbline::testing_support

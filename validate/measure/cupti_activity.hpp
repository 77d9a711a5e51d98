// The profiler's device timestamps of every kernel: CUPTI activity records, libcupti loaded when the program runs.
//
// Kinds CONCURRENT_KERNEL (not KERNEL, which serialises) and MEMSET. Without GRAPH_TRACE the kernel nodes of a graph
// launch arrive one by one, with the graph's correlation id.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "validate/record/kernel_records.hpp"

namespace plumbline {

class KernelTracer {
 public:
  /// Starts tracing. To be made before the first CUDA call, and only one at a time. Throws DeviceError when there is no
  /// libcupti, or it refuses (no privileges, another profiler, MIG, WSL, ...).
  KernelTracer();
  ~KernelTracer();
  KernelTracer(const KernelTracer&) = delete;
  KernelTracer& operator=(const KernelTracer&) = delete;

  /// The records since the last call. The device must be idle: call after a synchronise.
  std::vector<KernelRecord> take();
  /// Records that CUPTI had no room for, since the start.
  std::uint64_t dropped() const;
  /// Now, on the clock of the records.
  std::uint64_t now_ns() const;
  /// "CUPTI 13.0.1 (libcupti.so.13)".
  std::string version() const;

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace plumbline

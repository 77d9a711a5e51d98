// From a profiler's kernel records to the times of an operator's executions. No CUDA in here: tested on faked records.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "validate/record/measurer.hpp"

namespace plumbline {

/// One kernel or memset, as the profiler recorded it on the device.
struct KernelRecord {
  std::uint64_t start_ns = 0, end_ns = 0;  ///< device timestamps on the host's clock; both 0: there was none
  const char* name = "";                   ///< mangled; shared by all records of the kernel
  std::uint64_t graph_node = 0;
  std::uint32_t graph = 0;        ///< 0: launched on a stream
  std::uint32_t correlation = 0;  ///< one value a launch call, so one for all kernels of a graph launch
  std::uint32_t stream = 0, device = 0;
  std::uint32_t grid[3] = {0, 0, 0}, block[3] = {0, 0, 0}, cluster[3] = {0, 0, 0};
  std::uint32_t registers = 0, static_shared_B = 0, dynamic_shared_B = 0;
};

/// What is expected of a run: `executions` back to back, each of `launches` kernels on one stream.
struct ExpectedRecords {
  std::size_t executions = 0, launches = 0;
  std::size_t warm_up = 0;  ///< of the executions, the first ones, that do not count
};

struct ExecutionTimes {
  std::vector<double> seconds;           ///< last end - first start of each execution that counts
  std::vector<std::uint64_t> starts_ns;  ///< of the same executions
  std::vector<MeasuredLaunch> launches;  ///< by position in an execution; times are medians
  double period_seconds = 0;             ///< median from one execution's start to the next one's: the gaps included
  std::string fault;                     ///< not empty: why the records can't be used; all else is empty then
};

/// Cuts records (any order, of one stream) into executions. A record without timestamps, one that ends before it
/// starts, a missing or surplus record, or a kernel out of its place is a fault: nothing is guessed.
ExecutionTimes execution_times(std::vector<KernelRecord> records, const ExpectedRecords& expected);

/// Leaves only the executions that started within [from, to] of the records' clock; a fault when there are none.
/// Launches keep their medians over all.
void keep_between(ExecutionTimes& times, std::uint64_t from_ns, std::uint64_t to_ns);

/// "gemm_kernel<128, 256>" of a mangled "_ZN9plumbline...": without arguments, return type and anonymous namespaces.
std::string kernel_name(std::string_view mangled);

/// Median and 10-90 % of the samples into `out`; a fault when there is none.
void set_times(const ExecutionTimes& times, Measurement& out);

}  // namespace plumbline

// What a profiler of others saw a GPU run: launches in the order in which they began, of a PyTorch profiler's trace
// (Chrome's JSON), of Nsight Compute's CSV or of Nsight Systems' SQLite export.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arch/units.hpp"
#include "validate/record/known_gpu.hpp"

namespace plumbline {

enum class TimelineSource { pytorch, ncu, nsys };
std::string_view name(TimelineSource source);  ///< "PyTorch profiler trace", ...

/// One launch, copy or fill.
struct TimelineKernel {
  std::string kernel;                            ///< demangled, as the file has it
  std::string call;                              ///< innermost operator of the framework: "aten::mm"; "": not said
  std::int64_t call_number = -1;                 ///< launches of one call share it; -1: not said
  std::vector<std::vector<std::int64_t>> sizes;  ///< of the call's tensors, of lists of them one after another
  std::int64_t ctas = 0, threads = 0;            ///< grid and block; 0: not said
  std::int64_t device = 0, stream = 0;
  Seconds start;  ///< from the first launch on; Nsight Compute, which runs them one by one, has the sum of those before
  Seconds duration;
  std::optional<Bytes> dram;  ///< read and written, where it was counted
  bool copy = false;          ///< of the copy engines, or a fill: no kernel
};

struct Timeline {
  TimelineSource source = TimelineSource::pytorch;
  std::string file;
  CardIdentity card;                    ///< as the file has it: "NVIDIA H200"; what it does not say is empty
  std::vector<TimelineKernel> kernels;  ///< of one device, by start
  long other_devices = 0;               ///< launches of other devices, left out

  Seconds busy() const;  ///< sum of durations
  Seconds span() const;  ///< from the first start to the last end
};

/// Whether the file is one of these, by its beginning: gzip and JSON with "traceEvents" or a list, SQLite, CSV of ncu.
bool is_timeline(const std::string& file);

/// Reads it. Throws BadInput for a file that has no launch in it, or is none of these.
Timeline read_timeline(const std::string& file);

// One reader a format. `text`: the file's, unpacked.
Timeline read_pytorch_trace(const std::string& text, const std::string& file);
Timeline read_ncu_csv(const std::string& text, const std::string& file);
/// Reads the file itself, through the system's libsqlite3. Throws BadInput where there is none.
Timeline read_nsys_sqlite(const std::string& file);

}  // namespace plumbline

// Collectives, the links between GPUs, copies to and from the host and reads of the disk, measured on this machine. No CUDA
// in here.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace plumbline {

struct LinkOptions {
  int gpus = 0;
  std::string out;   ///< CSV
  std::string nccl;  ///< path of libnccl.so.2; empty: look for it
  std::string only;  ///< a section's name ("nccl:2"); empty: all, each in a process of its own
  unsigned seed = 1;
  bool quick = false;
  /// Words that start this program again with these GPUs and this seed, its name first; what else differs is put behind.
  std::vector<std::string> again;
};

struct LinkResult {
  int faults = 0;   ///< rows that had one, and sections without an end
  std::string gpu;  ///< name of the first card's descriptor, where it is known; empty for one section alone
};
/// Runs the sections one after the other as processes of their own, so that one that hangs or breaks its GPU loses no
/// other; or the one section of `only`, here. Throws BadInput for a section that there is not, DeviceError where there are
/// fewer GPUs.
LinkResult measure_links(const LinkOptions& options);
using MeasureLinks = std::function<LinkResult(const LinkOptions&)>;

}  // namespace plumbline

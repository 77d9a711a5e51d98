// NVIDIA's NCCL on the same buffers, for comparison: loaded when it is asked for, never linked.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/collective/peer_group.hpp"

namespace plumbline {

/// One communicator a GPU, all driven by the calling thread. NVLink multicast is left off (NCCL_NVLS_ENABLE=0).
class NcclGroup {
 public:
  /// `library`: a path, or empty to look where toolkits and Python wheels put libnccl.so.2 (PLUMBLINE_NCCL overrides).
  /// DeviceError when there is none, or it refuses.
  NcclGroup(const std::string& library, const std::vector<int>& devices);
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  /// "2.28.9".
  const std::string& version() const;
  /// One call of all ranks, on a stream each, which may be capturing. all_to_all is a group of sends and receives.
  void enqueue(const Collective& shape, const PeerBuffers& buffers, const std::vector<StreamHandle>& streams) const;

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace plumbline

// Our own collectives among the GPUs of one process, by plain loads and stores over NVLink (or PCIe where peers reach
// each other): all_reduce, all_gather, reduce_scatter, all_to_all of bf16 or fp32. Sums are in fp32 in the order of the
// ranks, so that all ranks have the same bits. No multicast.
//
// Plain C++, the rules of kernels/common/launch.hpp. A launch runs one rank's share. All ranks must launch the same
// sequence of collectives, each on a stream of its own whose launches of this group follow one another; no launch
// completes before its peers' are under way, so that the host must launch on all ranks before it waits for any. Counters
// that tell launches apart live on the devices: launches can be captured in graphs and replayed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/common/launch.hpp"
#include "ops/plan/peer_plan.hpp"

namespace plumbline {

/// Every rank's buffers, on its device, aligned to 16 bytes. With n elements a part (peer_elements):
///   all_reduce      in [n], out [n]; in place allowed, the others' must not overlap
///   all_gather      in [n], out [ranks, n]
///   reduce_scatter  in [ranks, n], out [n]
///   all_to_all      in [ranks, n], out [ranks, n]
struct PeerBuffers {
  const void* in[kPeerRanks] = {};
  void* out[kPeerRanks] = {};
};

class PeerGroup {
 public:
  /// Lets the devices (CUDA's numbers, 2 to kPeerRanks of them) reach each other and takes the memory for flags and
  /// one-shot data. DeviceError where two of them can't.
  explicit PeerGroup(std::vector<int> devices);
  ~PeerGroup();
  PeerGroup(const PeerGroup&) = delete;
  PeerGroup& operator=(const PeerGroup&) = delete;

  int ranks() const { return static_cast<int>(devices_.size()); }
  int device(int rank) const { return devices_[static_cast<std::size_t>(rank)]; }
  /// Makes `rank`'s device the current one.
  void select(int rank) const;

  /// One launch on `rank`'s device, which becomes the current one. shape.gpus must be ranks().
  void launch(const Collective& shape, const PeerPlan& plan, int rank, const PeerBuffers& buffers,
              StreamHandle stream) const;
  /// A barrier among all ranks, behind which `stamp` (device memory, or null) gets the time in ns of %globaltimer.
  void launch_align(int rank, unsigned long long* stamp, StreamHandle stream) const;

  /// Whether some launch gave up waiting for a peer (after about two seconds; its results are wrong). Waits for the
  /// devices, and forgets.
  bool take_fault() const;

 private:
  struct Workspaces;
  std::vector<int> devices_;
  std::unique_ptr<Workspaces> workspaces_;
};

}  // namespace plumbline

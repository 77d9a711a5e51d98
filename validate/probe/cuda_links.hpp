// Sections of measure_links(): our collectives, NCCL's and the links' own speeds, measured on the GPUs of this machine.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/collective/peer_group.hpp"
#include "kernels/collective/rank_graphs.hpp"
#include "kernels/common/measure.cuh"
#include "validate/probe/link_rows.hpp"
#include "validate/probe/links.hpp"

namespace plumbline {

/// What a section works with.
class LinkBench {
 public:
  explicit LinkBench(LinkOptions wanted) : options(std::move(wanted)) {}

  const LinkOptions options;
  /// Runs one case, which fills the row; a failure becomes the row's status. The row is on disk afterwards.
  void measure(LinkRow row, const std::function<void(LinkRow&)>& work);
  void add(const LinkRow& row);
  int faults() const { return faults_; }

 private:
  int faults_ = 0, in_a_row_ = 0;
};

/// `bytes` on each rank's device.
class RankMemory {
 public:
  RankMemory(const PeerGroup& group, std::size_t bytes);
  RankMemory(const std::vector<int>& devices, std::size_t bytes);
  char* at(int rank, std::size_t offset = 0) const { return buffers_[static_cast<std::size_t>(rank)]->as() + offset; }
  std::size_t bytes() const { return buffers_.front()->bytes(); }
  /// Other random numbers on each rank.
  void fill_random(const PeerGroup& group, DType type, unsigned seed) const;

 private:
  std::vector<std::unique_ptr<DeviceBuffer>> buffers_;
};
/// The first `in` bytes and `out` bytes of each rank.
PeerBuffers peer_buffers(const PeerGroup& group, const RankMemory& in, const RankMemory& out);
std::vector<int> first_devices(int count);
/// Throws DeviceError when a launch of the group gave up.
void need_no_fault(const PeerGroup& group);
/// Our collective on all ranks.
RankGraphs::Enqueue own_collective(const PeerGroup& group, const Collective& shape, const PeerPlan& plan,
                                   const PeerBuffers& buffers);

/// The sections.
void check_collectives(LinkBench& bench, int gpus);
void time_own_collectives(LinkBench& bench, int gpus);
void time_nccl_collectives(LinkBench& bench, int gpus);
void probe_fabric(LinkBench& bench, int gpus);
void probe_copies(LinkBench& bench, int gpus);
void probe_overlap(LinkBench& bench, int gpus);
void probe_beside(LinkBench& bench, int gpus);
void probe_disk(LinkBench& bench, int gpus);

}  // namespace plumbline

#include "kernels/collective/peer_group.hpp"

#include <algorithm>
#include <string>

#include "kernels/collective/peer_sync.cuh"
#include "kernels/common/measure.cuh"

namespace plumbline {
namespace {

/// The aligning barrier's flags are those of a CTA that collectives never have.
constexpr unsigned kAlignCta = kPeerCtas;

__global__ void align(const Peers peers, unsigned long long* stamp) {
  const std::uint32_t epoch = *static_cast<volatile std::uint32_t*>(peers.barrier_epochs + kAlignCta) + 1;
  device::peer_barrier(peers, kAlignCta, epoch, device::Arrive::with_writes);
  if (threadIdx.x != 0) return;
  peers.barrier_epochs[kAlignCta] = epoch;
  if (stamp != nullptr) *stamp = device::global_nanoseconds();
}

std::size_t one_shot_bytes(int ranks) {
  return static_cast<std::size_t>(kOneShotCtas * 2 * ranks * kOneShotPacks) * sizeof(uint4);
}

void reach(int from, int to) {
  int able = 0;
  PLUMBLINE_CUDA_CHECK(cudaDeviceCanAccessPeer(&able, from, to));
  if (able == 0) {
    throw DeviceError("GPU " + std::to_string(from) + " can't reach the memory of GPU " + std::to_string(to));
  }
  PLUMBLINE_CUDA_CHECK(cudaSetDevice(from));
  const cudaError_t enabled = cudaDeviceEnablePeerAccess(to, 0);
  if (enabled == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();
    return;
  }
  PLUMBLINE_CUDA_CHECK(enabled);
}

}  // namespace

struct PeerGroup::Workspaces {
  std::vector<std::unique_ptr<DeviceBuffer>> one_shot, counters;
  std::vector<Peers> peers;
};

PeerGroup::PeerGroup(std::vector<int> devices) : devices_(std::move(devices)), workspaces_(new Workspaces) {
  if (devices_.size() < 2 || devices_.size() > static_cast<std::size_t>(kPeerRanks)) {
    throw BadInput("collectives among " + std::to_string(devices_.size()) + " GPUs: expected 2 to " +
                   std::to_string(kPeerRanks));
  }
  for (const int from : devices_) {
    for (const int to : devices_) {
      if (from != to) reach(from, to);
    }
  }
  // arrivals, epochs of the barriers, epochs of one-shot launches, fault
  constexpr std::size_t arrivals = (kPeerCtas + 1) * kPeerRanks, barriers = kPeerCtas + 1;
  constexpr std::size_t words = arrivals + barriers + kOneShotCtas + 1;
  for (const int device : devices_) {
    PLUMBLINE_CUDA_CHECK(cudaSetDevice(device));
    workspaces_->one_shot.push_back(std::make_unique<DeviceBuffer>(one_shot_bytes(ranks())));
    workspaces_->counters.push_back(std::make_unique<DeviceBuffer>(words * sizeof(std::uint32_t)));
    for (const auto* buffer : {workspaces_->one_shot.back().get(), workspaces_->counters.back().get()}) {
      PLUMBLINE_CUDA_CHECK(cudaMemset(buffer->as(), 0, buffer->bytes()));
    }
    PLUMBLINE_CUDA_CHECK(cudaDeviceSynchronize());
  }
  for (int rank = 0; rank < ranks(); ++rank) {
    Peers p;
    p.rank = rank;
    p.ranks = ranks();
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      p.one_shot[i] = workspaces_->one_shot[i]->as<uint4>();
      p.arrivals[i] = workspaces_->counters[i]->as<std::uint32_t>();
    }
    p.barrier_epochs = p.arrivals[rank] + arrivals;
    p.one_shot_epochs = p.barrier_epochs + barriers;
    p.fault = p.one_shot_epochs + kOneShotCtas;
    workspaces_->peers.push_back(p);
  }
}

PeerGroup::~PeerGroup() = default;

void PeerGroup::select(int rank) const { PLUMBLINE_CUDA_CHECK(cudaSetDevice(device(rank))); }

void PeerGroup::launch(const Collective& shape, const PeerPlan& plan, int rank, const PeerBuffers& buffers,
                       StreamHandle stream) const {
  if (shape.gpus != ranks()) {
    throw BadInput(std::string(name(shape.kind)) + ": gpus=" + std::to_string(shape.gpus) + " in a group of " +
                   std::to_string(ranks()));
  }
  if (plan.packs == 0) return;
  select(rank);
  const Peers& peers = workspaces_->peers[static_cast<std::size_t>(rank)];
  const auto launcher = plan.algorithm == PeerAlgorithm::one_shot ? launch_one_shot : launch_two_shot;
  launcher(shape, plan, peers, buffers, static_cast<cudaStream_t>(stream));
}

void PeerGroup::launch_align(int rank, unsigned long long* stamp, StreamHandle stream) const {
  select(rank);
  align<<<1, 32, 0, static_cast<cudaStream_t>(stream)>>>(workspaces_->peers[static_cast<std::size_t>(rank)], stamp);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

bool PeerGroup::take_fault() const {
  bool any = false;
  for (int rank = 0; rank < ranks(); ++rank) {
    select(rank);
    PLUMBLINE_CUDA_CHECK(cudaDeviceSynchronize());
    std::uint32_t fault = 0;
    std::uint32_t* word = workspaces_->peers[static_cast<std::size_t>(rank)].fault;
    PLUMBLINE_CUDA_CHECK(cudaMemcpy(&fault, word, sizeof fault, cudaMemcpyDeviceToHost));
    if (fault == 0) continue;
    any = true;
    PLUMBLINE_CUDA_CHECK(cudaMemset(word, 0, sizeof fault));
  }
  return any;
}

}  // namespace plumbline

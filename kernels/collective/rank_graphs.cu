#include "kernels/collective/rank_graphs.hpp"

#include <algorithm>

#include "kernels/collective/peer_sync.cuh"
#include "kernels/common/measure.cuh"

namespace plumbline {
namespace {

__global__ void stamp_time(unsigned long long* stamp) { *stamp = device::global_nanoseconds(); }

/// The graphs of all ranks, of streams that capture at the same time: NCCL's group calls need all of them.
class CapturedRanks {
 public:
  CapturedRanks(const PeerGroup& group, const std::vector<StreamHandle>& streams, const std::function<void()>& enqueue)
      : group_(group), streams_(streams), graphs_(streams.size()), execs_(streams.size()) {
    std::size_t begun = 0;
    try {
      for (; begun < streams.size(); ++begun) {
        group_.select(static_cast<int>(begun));
        PLUMBLINE_CUDA_CHECK(cudaStreamBeginCapture(stream(begun), cudaStreamCaptureModeThreadLocal));
      }
      enqueue();
      for (std::size_t r = 0; r < streams.size(); ++r) {
        group_.select(static_cast<int>(r));
        PLUMBLINE_CUDA_CHECK(cudaStreamEndCapture(stream(r), &graphs_[r]));
      }
      for (std::size_t r = 0; r < streams.size(); ++r) {
        group_.select(static_cast<int>(r));
        PLUMBLINE_CUDA_CHECK(cudaGraphInstantiate(&execs_[r], graphs_[r], 0));
        PLUMBLINE_CUDA_CHECK(cudaGraphUpload(execs_[r], stream(r)));
        PLUMBLINE_CUDA_CHECK(cudaStreamSynchronize(stream(r)));
      }
    } catch (...) {
      abandon(begun);
      throw;
    }
  }
  ~CapturedRanks() { destroy(); }
  CapturedRanks(const CapturedRanks&) = delete;
  CapturedRanks& operator=(const CapturedRanks&) = delete;

  /// On all ranks, before any is waited for.
  void launch() const {
    for (std::size_t r = 0; r < execs_.size(); ++r) {
      group_.select(static_cast<int>(r));
      PLUMBLINE_CUDA_CHECK(cudaGraphLaunch(execs_[r], stream(r)));
    }
  }

 private:
  cudaStream_t stream(std::size_t r) const { return static_cast<cudaStream_t>(streams_[r]); }

  /// No stream may be left capturing.
  void abandon(std::size_t begun) noexcept {
    for (std::size_t r = 0; r < begun; ++r) {
      cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
      cudaSetDevice(group_.device(static_cast<int>(r)));
      if (cudaStreamIsCapturing(stream(r), &status) == cudaSuccess && status == cudaStreamCaptureStatusNone) continue;
      cudaGraph_t left = nullptr;
      cudaStreamEndCapture(stream(r), &left);
      if (left != nullptr) cudaGraphDestroy(left);
    }
    destroy();
    cudaGetLastError();
  }
  void destroy() noexcept {
    for (cudaGraphExec_t exec : execs_) {
      if (exec != nullptr) cudaGraphExecDestroy(exec);
    }
    for (cudaGraph_t graph : graphs_) {
      if (graph != nullptr) cudaGraphDestroy(graph);
    }
  }

  const PeerGroup& group_;
  const std::vector<StreamHandle>& streams_;
  std::vector<cudaGraph_t> graphs_;
  std::vector<cudaGraphExec_t> execs_;
};

}  // namespace

struct RankGraphs::Ranks {
  std::vector<std::unique_ptr<Stream>> owned;
  std::vector<StreamHandle> streams;
  std::vector<std::unique_ptr<DeviceBuffer>> stamps;  // begin and end, in the rank's own time
};

RankGraphs::RankGraphs(const PeerGroup& group) : group_(group), ranks_(new Ranks) {
  for (int r = 0; r < group.ranks(); ++r) {
    group.select(r);
    ranks_->owned.push_back(std::make_unique<Stream>());
    ranks_->streams.push_back(static_cast<cudaStream_t>(*ranks_->owned.back()));
    ranks_->stamps.push_back(std::make_unique<DeviceBuffer>(2 * sizeof(unsigned long long)));
  }
}
RankGraphs::~RankGraphs() = default;

const std::vector<StreamHandle>& RankGraphs::streams() const { return ranks_->streams; }

void RankGraphs::wait() const {
  for (int r = 0; r < group_.ranks(); ++r) {
    group_.select(r);
    ranks_->owned[static_cast<std::size_t>(r)]->wait();
  }
}

void RankGraphs::run(const Enqueue& enqueue) const {
  enqueue(streams());
  wait();
}

std::vector<double> RankGraphs::time(int calls, int repeats, const Enqueue& enqueue) const {
  const int ranks = group_.ranks();
  const auto stamp = [&](int r) { return ranks_->stamps[static_cast<std::size_t>(r)]->as<unsigned long long>(); };
  const CapturedRanks graphs(group_, streams(), [&] {
    for (int r = 0; r < ranks; ++r) group_.launch_align(r, stamp(r), streams()[static_cast<std::size_t>(r)]);
    for (int call = 0; call < calls; ++call) enqueue(streams());
    for (int r = 0; r < ranks; ++r) {
      group_.select(r);
      stamp_time<<<1, 1, 0, static_cast<cudaStream_t>(streams()[static_cast<std::size_t>(r)])>>>(stamp(r) + 1);
      PLUMBLINE_CUDA_CHECK(cudaGetLastError());
    }
  });
  constexpr int warm_up = 2;
  std::vector<double> seconds;
  for (int replay = 0; replay < warm_up + repeats; ++replay) {
    graphs.launch();
    wait();
    double longest = 0;
    for (int r = 0; r < ranks; ++r) {
      unsigned long long times[2] = {};
      group_.select(r);
      PLUMBLINE_CUDA_CHECK(cudaMemcpy(times, stamp(r), sizeof times, cudaMemcpyDeviceToHost));
      longest = std::max(longest, 1e-9 * static_cast<double>(times[1] - times[0]));
    }
    if (replay >= warm_up) seconds.push_back(longest);
  }
  return seconds;
}

}  // namespace plumbline

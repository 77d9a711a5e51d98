// Copies by the copy engines: host to device and back, pinned and not, alone, both at once and on all GPUs at once; and
// between GPUs.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "arch/error.hpp"
#include "kernels/collective/fabric.hpp"
#include "validate/probe/cuda_links.hpp"

namespace plumbline {
namespace {

using Clock = std::chrono::steady_clock;

class PinnedBuffer {
 public:
  explicit PinnedBuffer(std::size_t bytes) {
    PLUMBLINE_CUDA_CHECK(cudaHostAlloc(&data_, bytes, cudaHostAllocPortable));
    std::memset(data_, 0x5a, bytes);
  }
  ~PinnedBuffer() { cudaFreeHost(data_); }
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

/// One engine's work: copies on a stream of its own.
struct Lane {
  int device = 0;
  void* to = nullptr;
  const void* from = nullptr;
};

class Copies {
 public:
  Copies(LinkBench& bench, int gpus)
      : bench_(bench),
        gpus_(gpus),
        group_(gpus > 1 ? std::make_unique<PeerGroup>(first_devices(gpus)) : nullptr),
        a_(first_devices(gpus), kMost),
        b_(first_devices(gpus), kMost),
        pageable_(kPageable) {
    std::fill(pageable_.begin(), pageable_.end(), 'x');
    for (int r = 0; r < gpus; ++r) {
      down_.push_back(std::make_unique<PinnedBuffer>(kMost));
      up_.push_back(std::make_unique<PinnedBuffer>(kMost));
    }
    for (int r = 0; r < gpus; ++r) {
      PLUMBLINE_CUDA_CHECK(cudaSetDevice(r));
      for (const RankMemory* memory : {&a_, &b_}) {
        fill_uniform_bf16(memory->at(r), memory->bytes(), bench.options.seed + static_cast<unsigned>(r), nullptr);
      }
      PLUMBLINE_CUDA_CHECK(cudaDeviceSynchronize());
    }
  }

  void run() {
    for (const std::size_t bytes :
         {std::size_t{4} << 10, std::size_t{64} << 10, std::size_t{1} << 20, std::size_t{16} << 20, kMost}) {
      pinned("h2d", bytes, {h2d(0)}, "alone");
      pinned("d2h", bytes, {d2h(0)}, "alone");
      pinned("h2d_d2h", bytes, {h2d(0), d2h(0)}, "both");
      std::vector<Lane> down, all;
      for (int r = 0; r < gpus_; ++r) {
        down.push_back(h2d(r));
        all.push_back(h2d(r));
        all.push_back(d2h(r));
      }
      if (gpus_ == 1) continue;
      pinned("h2d", bytes, down, "all_gpus");
      pinned("h2d_d2h", bytes, all, "all_gpus_both");
      pinned("p2p_copy", bytes, {{0, b_.at(1), a_.at(0)}}, "alone");
      pinned("p2p_copy", bytes, {{0, b_.at(1), a_.at(0)}, {1, b_.at(0), a_.at(1)}}, "both");
    }
    for (const std::size_t bytes : {std::size_t{64} << 10, std::size_t{1} << 20, std::size_t{16} << 20, kPageable}) {
      pageable("h2d", bytes);
      pageable("d2h", bytes);
    }
  }

 private:
  static constexpr std::size_t kMost = std::size_t{1} << 28, kPageable = std::size_t{1} << 27;

  Lane h2d(int r) const { return {r, a_.at(r), down_[static_cast<std::size_t>(r)]->data()}; }
  Lane d2h(int r) const { return {r, up_[static_cast<std::size_t>(r)]->data(), b_.at(r)}; }

  /// Every lane's copies follow one another; a copy's time is that of the slowest lane.
  void pinned(const char* op, std::size_t bytes, const std::vector<Lane>& lanes, const char* how) {
    LinkRow row;
    row.op = op;
    row.kernel = "copy_engine";
    row.shape = "bytes=" + std::to_string(bytes);
    row.plan = "host=pinned lanes=" + std::to_string(lanes.size()) + " how=" + how;
    row.gpus = lanes.back().device + 1;
    row.counted = static_cast<double>(bytes) * units::B;  // each lane's
    bench_.measure(row, [&](LinkRow& r) {
      const int count = bytes >= kMost ? 3 : bytes >= (std::size_t{16} << 20) ? 8 : 20;
      std::vector<std::unique_ptr<Stream>> streams;
      std::vector<std::unique_ptr<Stopwatch>> watches;
      for (const Lane& lane : lanes) {
        PLUMBLINE_CUDA_CHECK(cudaSetDevice(lane.device));
        streams.push_back(std::make_unique<Stream>());
        watches.push_back(std::make_unique<Stopwatch>());
      }
      std::vector<double> seconds;
      for (int repeat = -1; repeat < (bench_.options.quick ? 3 : 7); ++repeat) {
        for (std::size_t i = 0; i < lanes.size(); ++i) {
          PLUMBLINE_CUDA_CHECK(cudaSetDevice(lanes[i].device));
          watches[i]->start(*streams[i]);
          for (int copy = 0; copy < count; ++copy) {
            PLUMBLINE_CUDA_CHECK(cudaMemcpyAsync(lanes[i].to, lanes[i].from, bytes, cudaMemcpyDefault, *streams[i]));
          }
          watches[i]->stop(*streams[i]);
        }
        double longest = 0;
        for (const auto& watch : watches) longest = std::max(longest, watch->seconds() / count);
        if (repeat >= 0) seconds.push_back(longest);
      }
      r.seconds = spread(seconds);
    });
  }

  /// By the host's clock: the call itself copies through the driver's pinned buffers.
  void pageable(const char* op, std::size_t bytes) {
    LinkRow row;
    row.op = op;
    row.kernel = "copy_engine";
    row.shape = "bytes=" + std::to_string(bytes);
    row.plan = "host=pageable lanes=1 how=alone";
    row.counted = static_cast<double>(bytes) * units::B;
    const bool down = row.op == "h2d";
    bench_.measure(row, [&](LinkRow& r) {
      PLUMBLINE_CUDA_CHECK(cudaSetDevice(0));
      std::vector<double> seconds;
      for (int repeat = -1; repeat < 5; ++repeat) {
        const auto begin = Clock::now();
        PLUMBLINE_CUDA_CHECK(down ? cudaMemcpy(a_.at(0), pageable_.data(), bytes, cudaMemcpyHostToDevice)
                                  : cudaMemcpy(pageable_.data(), b_.at(0), bytes, cudaMemcpyDeviceToHost));
        PLUMBLINE_CUDA_CHECK(cudaDeviceSynchronize());
        if (repeat >= 0) seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
      }
      r.seconds = spread(seconds);
    });
  }

  LinkBench& bench_;
  const int gpus_;
  const std::unique_ptr<PeerGroup> group_;  // of several: lets the copy engines go from GPU to GPU
  RankMemory a_, b_;
  std::vector<std::unique_ptr<PinnedBuffer>> down_, up_;
  std::vector<char> pageable_;
};

}  // namespace

void probe_copies(LinkBench& bench, int gpus) { Copies(bench, gpus).run(); }

}  // namespace plumbline

#include "kernels/run/clock_stamps.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <vector>

#include "kernels/common/measure.cuh"

namespace plumbline {
namespace {

constexpr unsigned kMostSms = 1024;
constexpr Seconds kShortest = 100.0 * units::us;

struct Stamp {
  unsigned long long cycles, nanoseconds, ticket;  // another ticket: left by an earlier run
};

__global__ void read_cycle_counters(Stamp* stamps, unsigned long long ticket) {
  unsigned sm;
  unsigned long long now;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  if (sm < kMostSms) stamps[sm] = {static_cast<unsigned long long>(clock64()), now, ticket};
}

}  // namespace

struct ClockStamps::Memory {
  DeviceBuffer stamps{2 * kMostSms * sizeof(Stamp)};
  unsigned sms = static_cast<unsigned>(sm_count());

  unsigned long long ticket = 0;  // of the last start

  void enqueue(std::size_t which, StreamHandle stream) const {
    // Blocks are dealt out breadth first: one an SM.
    read_cycle_counters<<<sms, 1, 0, static_cast<cudaStream_t>(stream)>>>(stamps.as<Stamp>() + which * kMostSms,
                                                                          ticket);
    PLUMBLINE_CUDA_CHECK(cudaGetLastError());
  }
};

ClockStamps::ClockStamps() : memory_(std::make_unique<Memory>()) {
  PLUMBLINE_CUDA_CHECK(cudaMemset(memory_->stamps.as(), 0, memory_->stamps.bytes()));
}
ClockStamps::~ClockStamps() = default;

void ClockStamps::enqueue_start(StreamHandle stream) {
  ++memory_->ticket;
  memory_->enqueue(0, stream);
}
void ClockStamps::enqueue_end(StreamHandle stream) { memory_->enqueue(1, stream); }

std::optional<Hertz> ClockStamps::mean_clock(StreamHandle stream) const {
  PLUMBLINE_CUDA_CHECK(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)));
  std::vector<Stamp> stamps(2 * kMostSms);
  PLUMBLINE_CUDA_CHECK(
      cudaMemcpy(stamps.data(), memory_->stamps.as(), memory_->stamps.bytes(), cudaMemcpyDeviceToHost));
  std::vector<Hertz> clocks;
  for (std::size_t sm = 0; sm < kMostSms; ++sm) {
    const Stamp &from = stamps[sm], &to = stamps[kMostSms + sm];
    if (from.ticket != memory_->ticket || to.ticket != from.ticket || to.nanoseconds <= from.nanoseconds ||
        to.cycles <= from.cycles)
      continue;
    const Seconds time = static_cast<double>(to.nanoseconds - from.nanoseconds) * units::ns;
    if (time >= kShortest) clocks.push_back(static_cast<double>(to.cycles - from.cycles) / time);
  }
  if (clocks.empty()) return {};
  std::nth_element(clocks.begin(), clocks.begin() + static_cast<std::ptrdiff_t>(clocks.size() / 2), clocks.end());
  return clocks[clocks.size() / 2];
}

}  // namespace plumbline

// Clocks, power and heat of the card as NVML reads them, without needing NVML to build or to start. Reads only.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "validate/record/measurer.hpp"

namespace plumbline {

class Board {
 public:
  /// The card with this PCI bus id (NVML's order of cards is not CUDA's).
  explicit Board(const std::string& pci_bus_id);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  /// Whether libnvidia-ml.so.1 is there and knows the card. When not, every reading below is empty.
  bool known() const;
  std::optional<Hertz> sm_clock() const;
  std::optional<Hertz> memory_clock() const;
  /// At this moment (NVML field 186). Not nvmlDeviceGetPowerUsage, which is a mean over one second since Ampere.
  std::optional<Watts> power() const;
  /// Mean over the last second (field 185, else nvmlDeviceGetPowerUsage).
  std::optional<Watts> average_power() const;
  /// Of the memory's domain, mean over the last second; empty where the card has no such reading.
  std::optional<Watts> memory_power() const;
  std::optional<Watts> power_limit() const;
  /// Since the driver was loaded; a counter that steps every 20 to 100 ms.
  std::optional<Joules> energy() const;
  std::optional<double> temperature_C() const;
  /// Why the clock is what it is, as NVML's bits; 0x4 is the power cap.
  std::optional<std::uint64_t> clock_event_reasons() const;
  /// By all processes of the card.
  std::optional<Bytes> memory_used() const;
  /// Since the driver was loaded, of all links of a kind; takes some tenths of a millisecond.
  struct Traffic {
    std::optional<Bytes> pcie_tx, pcie_rx, nvlink_tx, nvlink_rx;
  };
  Traffic traffic() const;
  std::string driver() const;
  /// Numbers of the processes that have a compute context on the card, this one's among them; in a container they may
  /// be those of the host. Empty where the driver does not say.
  std::optional<std::vector<unsigned>> compute_processes() const;

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

/// One look at the board.
struct BoardSample {
  std::optional<Hertz> sm_clock, memory_clock;
  std::optional<Watts> power;
  std::optional<double> temperature_C;
  std::uint64_t clock_event_reasons = 0;
  std::optional<Bytes> memory_used{};
  Seconds at{};                             ///< by a clock that never goes back
  std::optional<Board::Traffic> traffic{};  ///< of the first look and the last
};
BoardSample sample(const Board& board);
/// Means of what was read (of memory the most, of counters what they moved by between two looks), and all reasons seen but "idle" (0x1), which a busy card shows for its first milliseconds.
Conditions conditions(const std::vector<BoardSample>& samples);

/// How many of `processes` (of a card that this process has a context on) are others. Where `self` is not among them, one
/// of them is this process under its number outside of the container. An empty list and none are no others.
std::int64_t other_processes(const std::optional<std::vector<unsigned>>& processes, unsigned self);

/// Looks at the board every few milliseconds from a thread of its own while kernels run.
class BoardSampler {
 public:
  explicit BoardSampler(const Board& board, std::chrono::milliseconds interval = std::chrono::milliseconds(5));
  ~BoardSampler();
  BoardSampler(const BoardSampler&) = delete;
  BoardSampler& operator=(const BoardSampler&) = delete;
  /// Stops and gives what was seen.
  std::vector<BoardSample> stop();

 private:
  std::vector<BoardSample> samples_;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace plumbline

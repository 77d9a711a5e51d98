// Clock and power of the card as NVML reads them, without needing NVML to build or to start. Reads only.
#pragma once

#include <memory>
#include <string>

namespace plumbline {

class Board {
 public:
  /// The card with this PCI bus id (NVML's order of cards is not CUDA's).
  explicit Board(const std::string& pci_bus_id);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  /// Whether libnvidia-ml.so.1 is there and knows the card. When not, the readings below are 0 and the driver is empty.
  bool known() const;
  double sm_clock_MHz() const;
  double memory_clock_MHz() const;
  /// The instantaneous reading where there is one (NVML field 186), else the one second average.
  double power_W() const;
  double power_limit_W() const;
  std::string driver() const;

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace plumbline

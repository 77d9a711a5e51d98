// Lays an operator's operands out in the arena, slot by slot. Where they lie is arithmetic, tested without a card.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/run/arena.hpp"

namespace plumbline {

/// Where an operand lies: at data + slot * stride; stride 0: shared by all slots.
struct Operand {
  char* data = nullptr;
  std::size_t stride = 0;

  void* at(std::int64_t slot) const {
    return data == nullptr ? nullptr : data + static_cast<std::size_t>(slot) * stride;
  }
  template <class T>
  T* as(std::int64_t slot) const {
    return static_cast<T*>(at(slot));
  }
};

class RunnerLayout {
 public:
  /// Adds an operand with `bytes` in each slot; 0 bytes: no operand (a null pointer).
  std::size_t add(Region region, std::size_t bytes);
  /// Adds an operand at the front of the region that all slots share.
  std::size_t add_shared(Region region, std::size_t bytes);
  std::size_t slot_bytes() const;
  /// How many slots fit into regions of these sizes. Throws NotModelled when not even one does.
  std::int64_t max_slots(const std::array<std::size_t, kRegions>& room) const;
  struct Place {
    Region region = Region::output;
    std::size_t offset = 0, stride = 0, bytes = 0;  ///< of slot 0, from the region's start; to the next slot's
  };
  /// The place of the operand to which `add` gave this number. Valid after the last add.
  Place place(std::size_t which) const;
  /// The same as addresses.
  Operand operand(std::size_t which, Arena& arena, StreamHandle stream) const;

 private:
  struct Piece {
    Region region;
    std::size_t offset, bytes;
    bool shared;
  };
  std::array<Piece, 16> pieces_{};
  std::size_t count_ = 0;
  std::array<std::size_t, kRegions> stride_{}, shared_{};
};

}  // namespace plumbline

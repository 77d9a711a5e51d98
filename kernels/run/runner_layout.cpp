#include "kernels/run/runner_layout.hpp"

#include <algorithm>
#include <string>

#include "arch/error.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kMostSlots = std::size_t{1} << 40;  // of an operator without operands of its own

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::string megabytes(std::size_t bytes) { return std::to_string(bytes / 1000000) + " MB"; }

}  // namespace

std::size_t RunnerLayout::add(Region region, std::size_t bytes) {
  std::size_t& stride = stride_[static_cast<std::size_t>(region)];
  pieces_.at(count_) = {region, stride, bytes, false};
  stride += aligned(bytes);
  return count_++;
}

std::size_t RunnerLayout::add_shared(Region region, std::size_t bytes) {
  std::size_t& shared = shared_[static_cast<std::size_t>(region)];
  pieces_.at(count_) = {region, shared, bytes, true};
  shared += aligned(bytes);
  return count_++;
}

std::size_t RunnerLayout::slot_bytes() const {
  std::size_t sum = 0;
  for (const std::size_t stride : stride_) sum += stride;
  return sum;
}

std::int64_t RunnerLayout::max_slots(const std::array<std::size_t, kRegions>& room) const {
  std::size_t most = kMostSlots;
  for (std::size_t i = 0; i < kRegions; ++i) {
    if (shared_[i] + stride_[i] > room[i]) {
      throw NotModelled("one set of operands takes " + megabytes(shared_[i] + stride_[i]) + ", there is room for " +
                        megabytes(room[i]));
    }
    if (stride_[i] > 0) most = std::min(most, (room[i] - shared_[i]) / stride_[i]);
  }
  return static_cast<std::int64_t>(most);
}

RunnerLayout::Place RunnerLayout::place(std::size_t which) const {
  const Piece& piece = pieces_.at(which);
  const auto region = static_cast<std::size_t>(piece.region);
  if (piece.shared) return {piece.region, piece.offset, 0, piece.bytes};
  return {piece.region, shared_[region] + piece.offset, stride_[region], piece.bytes};
}

}  // namespace plumbline

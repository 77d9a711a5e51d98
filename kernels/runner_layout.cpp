#include "kernels/runner_layout.hpp"

#include <algorithm>
#include <string>

#include "arch/error.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::string gigabytes(std::size_t bytes) { return std::to_string(bytes / 1000000) + " MB"; }

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

std::int64_t RunnerLayout::max_slots(const Arena& arena) const {
  std::size_t most = std::size_t{1} << 40;
  for (std::size_t i = 0; i < kRegions; ++i) {
    const std::size_t room = arena.bytes(static_cast<Region>(i));
    if (shared_[i] + stride_[i] > room) {
      throw NotModelled("one set of operands takes " + gigabytes(shared_[i] + stride_[i]) + ", there is room for " +
                        gigabytes(room));
    }
    if (stride_[i] > 0) most = std::min(most, (room - shared_[i]) / stride_[i]);
  }
  return static_cast<std::int64_t>(most);
}

Operand RunnerLayout::operand(std::size_t which, Arena& arena, StreamHandle stream) const {
  const Piece& piece = pieces_.at(which);
  if (piece.bytes == 0) return {};
  const auto region = static_cast<std::size_t>(piece.region);
  char* data = arena.data(piece.region, stream);
  if (piece.shared) return {data + piece.offset, 0};
  return {data + shared_[region] + piece.offset, stride_[region]};
}

}  // namespace plumbline

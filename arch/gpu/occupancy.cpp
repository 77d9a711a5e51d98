#include "arch/gpu/occupancy.hpp"

#include <array>
#include <limits>
#include <string>

#include "arch/error.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t b) { return divide_up(a, b) * b; }
std::int64_t whole_bytes(Bytes size) { return static_cast<std::int64_t>(size.in(units::B)); }

std::int64_t limit_by_registers(const StreamingMultiprocessor& sm, const BlockResources& block, std::int64_t warps) {
  if (block.registers_per_thread > sm.registers_per_thread) return 0;
  const std::int64_t per_warp = round_up(block.registers_per_thread * sm.warp_size, sm.register_granule);
  if (per_warp == 0) return kNoLimit;
  // The launch check assumes that all sub-partitions take as many warps as the fullest one.
  if (per_warp * round_up(warps, sm.warp_granule) > sm.registers) return 0;
  const std::int64_t warps_per_partition = sm.registers / sm.warp_granule / per_warp;
  return warps_per_partition * sm.warp_granule / warps;
}

std::int64_t limit_by_shared_memory(const StreamingMultiprocessor& sm, const BlockResources& block) {
  if (block.shared_memory > sm.smem_per_block) return 0;
  const std::int64_t per_block =
      round_up(whole_bytes(block.shared_memory + sm.smem_reserved_per_block), whole_bytes(sm.smem_granule));
  return per_block == 0 ? kNoLimit : whole_bytes(sm.smem) / per_block;
}

}  // namespace

Occupancy occupancy(const StreamingMultiprocessor& sm, const BlockResources& block) {
  if (block.threads <= 0 || block.registers_per_thread < 0 || block.shared_memory < Bytes()) {
    throw Error(ExitCode::our_bug, "occupancy asked for a block of " + std::to_string(block.threads) + " threads and " +
                                       std::to_string(block.registers_per_thread) + " registers a thread");
  }
  const std::int64_t warps = divide_up(block.threads, sm.warp_size);
  const std::int64_t most_warps = sm.threads / sm.warp_size;
  struct Limit {
    std::string_view name;
    std::int64_t blocks;
  };
  const std::array<Limit, 4> limits{{{"registers", limit_by_registers(sm, block, warps)},
                                     {"shared memory", limit_by_shared_memory(sm, block)},
                                     {"threads", block.threads > sm.threads_per_block ? 0 : most_warps / warps},
                                     {"blocks", sm.blocks}}};
  const Limit* tightest = &limits[0];
  for (const Limit& limit : limits) {
    if (limit.blocks < tightest->blocks) tightest = &limit;
  }
  Occupancy result;
  result.blocks_per_sm = tightest->blocks;
  result.limited_by = tightest->name;
  result.warp_fraction = static_cast<double>(tightest->blocks * warps) / static_cast<double>(most_warps);
  return result;
}

}  // namespace plumbline

#include "arch/gpu/occupancy.hpp"

#include <algorithm>
#include <ostream>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "arch/error.hpp"
#include "tests/support/toy_gpu.hpp"

namespace plumbline::occupancy_test {
namespace {

struct Case {
  const char* gpu;
  const char* cc;
  std::int64_t threads, registers, smem_bytes, blocks;
  const char* limit;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << "cc " << c.cc << ": " << c.threads << " threads, " << c.registers << " registers, " << c.smem_bytes << " B";
}

class OccupancyCase : public testing::TestWithParam<Case> {};

TEST_P(OccupancyCase, IsWhatTheCudaRulesSay) {
  const Case& c = GetParam();
  const Gpu gpu = load_gpu(c.gpu);
  ASSERT_EQ(gpu.compute_capability, c.cc);
  const Occupancy got = occupancy(gpu.sm, {c.threads, c.registers, static_cast<double>(c.smem_bytes) * units::B});
  EXPECT_EQ(got.blocks_per_sm, c.blocks);
  EXPECT_EQ(got.limited_by, c.limit);
  const double warps = static_cast<double>(c.blocks * ((c.threads + 31) / 32));
  EXPECT_DOUBLE_EQ(got.warp_fraction, warps / static_cast<double>(gpu.sm.threads / 32));
}

// Worked with pencil and paper from the CUDA C++ Programming Guide's table of compute capabilities (limits) and the
// rules of NVIDIA's cuda_occupancy.h: registers per warp rounded up to 256, a quarter of the file for each of four
// schedulers, 1 KiB of shared memory reserved per block from 8.0 on, granules of 256 B (7.x) and 128 B.
INSTANTIATE_TEST_SUITE_P(
    Documented, OccupancyCase,
    testing::Values(
        Case{"v100_sxm", "7.0", 1024, 32, 0, 2, "registers"}, Case{"v100_sxm", "7.0", 256, 64, 0, 4, "registers"},
        Case{"v100_sxm", "7.0", 128, 255, 0, 2, "registers"}, Case{"v100_sxm", "7.0", 32, 16, 0, 32, "blocks"},
        Case{"v100_sxm", "7.0", 256, 32, 49152, 2, "shared memory"},
        Case{"v100_sxm", "7.0", 64, 40, 98304, 1, "shared memory"}, Case{"t4", "7.5", 1024, 64, 0, 1, "registers"},
        Case{"t4", "7.5", 256, 32, 0, 4, "threads"}, Case{"t4", "7.5", 32, 32, 0, 16, "blocks"},
        Case{"t4", "7.5", 128, 32, 16384, 4, "shared memory"}, Case{"t4", "7.5", 192, 96, 0, 3, "registers"},
        Case{"a100_sxm", "8.0", 256, 128, 0, 2, "registers"},
        Case{"a100_sxm", "8.0", 128, 168, 65536, 2, "shared memory"},
        Case{"a100_sxm", "8.0", 256, 32, 166912, 1, "shared memory"},
        Case{"a100_sxm", "8.0", 384, 80, 0, 2, "registers"}, Case{"a100_sxm", "8.0", 96, 100, 1000, 5, "registers"},
        Case{"a100_sxm", "8.0", 512, 129, 0, 0, "registers"}, Case{"a10", "8.6", 1024, 32, 0, 1, "threads"},
        Case{"a10", "8.6", 768, 40, 0, 2, "registers"}, Case{"a10", "8.6", 128, 128, 49152, 2, "shared memory"},
        Case{"a10", "8.6", 64, 16, 0, 16, "blocks"}, Case{"a10", "8.6", 256, 64, 101376, 1, "shared memory"},
        Case{"l4", "8.9", 128, 128, 32768, 3, "shared memory"}, Case{"l4", "8.9", 512, 64, 0, 2, "registers"},
        Case{"l4", "8.9", 32, 24, 0, 24, "blocks"}, Case{"l4", "8.9", 64, 32, 4096, 20, "shared memory"},
        Case{"h200_sxm", "9.0", 384, 168, 232448, 1, "registers"}, Case{"h200_sxm", "9.0", 256, 255, 0, 1, "registers"},
        Case{"h200_sxm", "9.0", 128, 64, 8192, 8, "registers"}, Case{"h200_sxm", "9.0", 1024, 65, 0, 0, "registers"},
        Case{"h200_sxm", "9.0", 32, 255, 0, 8, "registers"}, Case{"h200_sxm", "9.0", 288, 90, 50000, 2, "registers"},
        Case{"h200_sxm", "9.0", 2048, 32, 0, 0, "threads"},
        Case{"b200_sxm", "10.0", 192, 168, 200000, 1, "shared memory"},
        Case{"b200_sxm", "10.0", 640, 96, 0, 1, "registers"}, Case{"b200_sxm", "10.0", 128, 32, 6144, 16, "registers"},
        Case{"b200_sxm", "10.0", 32, 32, 0, 32, "blocks"}, Case{"rtx_5090", "12.0", 256, 96, 33000, 2, "registers"},
        Case{"rtx_5090", "12.0", 1024, 64, 0, 1, "registers"}, Case{"rtx_5090", "12.0", 128, 40, 0, 12, "registers"},
        Case{"rtx_5090", "12.0", 96, 255, 0, 2, "registers"}));

/// Blocks counted by placing them one at a time on four sub-partitions, warp by warp, until something runs out.
std::int64_t blocks_by_placing(const StreamingMultiprocessor& sm, const BlockResources& block) {
  const auto bytes = [](Bytes b) { return static_cast<std::int64_t>(b.in(units::B)); };
  const std::int64_t warps = (block.threads + sm.warp_size - 1) / sm.warp_size;
  std::int64_t per_warp = 0;
  while (per_warp < block.registers_per_thread * sm.warp_size) per_warp += sm.register_granule;
  std::int64_t per_block = 0;
  while (per_block < bytes(block.shared_memory + sm.smem_reserved_per_block)) per_block += bytes(sm.smem_granule);
  if (block.threads > sm.threads_per_block || block.registers_per_thread > sm.registers_per_thread) return 0;
  if (block.shared_memory > sm.smem_per_block) return 0;
  if (per_warp * sm.warp_granule * ((warps + sm.warp_granule - 1) / sm.warp_granule) > sm.registers) return 0;
  std::vector<std::int64_t> registers_left(static_cast<std::size_t>(sm.warp_granule), sm.registers / sm.warp_granule);
  std::int64_t smem_left = bytes(sm.smem), warps_left = sm.threads / sm.warp_size, placed = 0;
  for (; placed < sm.blocks; ++placed) {
    smem_left -= per_block;
    warps_left -= warps;
    if (smem_left < 0 || warps_left < 0) return placed;
    for (std::int64_t w = 0; w < warps; ++w) {
      auto roomiest = std::max_element(registers_left.begin(), registers_left.end());
      if (*roomiest < per_warp) return placed;
      *roomiest -= per_warp;
    }
  }
  return placed;
}

RC_GTEST_PROP(Occupancy, EqualsPlacingBlocksOneByOne, ()) {
  static const std::vector<Gpu> gpus{load_gpu("v100_sxm"), load_gpu("t4"),      load_gpu("a100_sxm"),
                                     load_gpu("a10"),      load_gpu("l4"),      load_gpu("h200_sxm"),
                                     load_gpu("b200_sxm"), load_gpu("rtx_5090")};
  const Gpu& gpu = gpus[*rc::gen::inRange<std::size_t>(0, gpus.size())];
  const BlockResources block{*rc::gen::inRange<std::int64_t>(1, 1100), *rc::gen::inRange<std::int64_t>(0, 260),
                             static_cast<double>(*rc::gen::inRange<std::int64_t>(0, 240 * 1024)) * units::B};
  RC_ASSERT(occupancy(gpu.sm, block).blocks_per_sm == blocks_by_placing(gpu.sm, block));
}

RC_GTEST_PROP(Occupancy, MoreResourcesNeverFitMoreBlocks, ()) {
  const StreamingMultiprocessor sm = toy_sm();
  const BlockResources small{*rc::gen::inRange<std::int64_t>(1, 1024), *rc::gen::inRange<std::int64_t>(0, 255),
                             static_cast<double>(*rc::gen::inRange<std::int64_t>(0, 227 * 1024)) * units::B};
  BlockResources large = small;
  large.threads += *rc::gen::inRange<std::int64_t>(0, 64);
  large.registers_per_thread += *rc::gen::inRange<std::int64_t>(0, 16);
  large.shared_memory += static_cast<double>(*rc::gen::inRange<std::int64_t>(0, 4096)) * units::B;
  const Occupancy a = occupancy(sm, small), b = occupancy(sm, large);
  RC_ASSERT(b.blocks_per_sm <= a.blocks_per_sm);
  RC_ASSERT(a.warp_fraction >= 0.0 && a.warp_fraction <= 1.0);
}

TEST(Occupancy, RefusesABlockThatIsNone) {
  EXPECT_THROW(occupancy(toy_sm(), {0, 32, Bytes()}), Error);
  EXPECT_THROW(occupancy(toy_sm(), {32, -1, Bytes()}), Error);
  EXPECT_THROW(occupancy(toy_sm(), {32, 1, -1.0 * units::B}), Error);
}

TEST(Occupancy, CountsWavesOf64OnCdna) {
  const Gpu gpu = load_gpu("mi300x");  // 512 VGPRs a lane and SIMD, 4 SIMDs, 64 KiB LDS
  EXPECT_EQ(occupancy(gpu.sm, {256, 128, Bytes()}).blocks_per_sm, 4);
  EXPECT_EQ(occupancy(gpu.sm, {256, 64, 32.0 * units::KiB}).blocks_per_sm, 2);
  EXPECT_EQ(occupancy(gpu.sm, {1024, 32, Bytes()}).blocks_per_sm, 2);
}

}  // namespace
}  // namespace plumbline::occupancy_test

// Each rule of the descriptor checks at its boundary: the last value that is let through, and the first that is not.
#include "arch/gpu/checks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/refusal.hpp"
#include "tests/support/toy_gpu.hpp"

namespace plumbline::descriptor::checks_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing_support::refusal;

/// A toy with ten links of NVLink 3 (25 GB/s each) and a slot of PCIe 4, as its rates would have it.
GpuDescriptor toy() {
  GpuDescriptor d;
  d.gpu = toy_gpu();
  d.nvlink_generation = 3;
  d.gpu.links.nvlink_per_direction = 250.0 * units::GB_per_s;
  d.pcie_generation = 4;
  return d;
}

template <class Change>
std::string physics_of(Change change) {
  GpuDescriptor d = toy();
  change(d);
  return refusal([&] { check_physics(d, "toy.json"); });
}

TEST(Checks, LetASoundMachineThrough) {
  EXPECT_EQ(physics_of([](GpuDescriptor&) {}), "(accepted)");
}

TEST(Checks, AboutTwiceIsFivePercentAroundIt) {
  EXPECT_TRUE(is_about_twice(2.0, 1.0));
  EXPECT_TRUE(is_about_twice(1.91, 1.0));
  EXPECT_TRUE(is_about_twice(2.09, 1.0));
  EXPECT_FALSE(is_about_twice(1.89, 1.0));
  EXPECT_FALSE(is_about_twice(2.11, 1.0));
  EXPECT_FALSE(is_about_twice(0.0, 0.0));
  EXPECT_FALSE(is_about_twice(2.0, -1.0));
}

TEST(Checks, DatasheetClockIsBoostForFp64AndWhereNoneIsNamed) {
  Gpu gpu = toy_gpu();
  EXPECT_EQ(datasheet_clock(gpu, DType::bf16), gpu.boost_clock);
  gpu.datasheet_tensor_clock = 0.9 * units::GHz;
  EXPECT_EQ(datasheet_clock(gpu, DType::bf16), 0.9 * units::GHz);
  EXPECT_EQ(datasheet_clock(gpu, DType::fp64), gpu.boost_clock);
}

TEST(Checks, ClocksAndPowerAreOrdered) {
  EXPECT_EQ(physics_of([](GpuDescriptor& d) { d.gpu.base_clock = d.gpu.boost_clock; }), "(accepted)");
  EXPECT_THAT(physics_of([](GpuDescriptor& d) { d.gpu.base_clock = 1.001 * d.gpu.boost_clock; }),
              StartsWith("toy.json: /base_clock: expected at most the boost clock 1000 MHz"));
  EXPECT_EQ(physics_of([](GpuDescriptor& d) { d.gpu.idle_power = 99.9 * units::W; }), "(accepted)");
  EXPECT_THAT(physics_of([](GpuDescriptor& d) { d.gpu.idle_power = d.gpu.tdp; }), StartsWith("toy.json: /tdp:"));
  EXPECT_EQ(physics_of([](GpuDescriptor& d) { d.idle_power_fraction = 0.999; }), "(accepted)");
  EXPECT_THAT(physics_of([](GpuDescriptor& d) { d.idle_power_fraction = 1; }), HasSubstr("/idle_power_fraction"));
}

TEST(Checks, LimitsOfAnSmNest) {
  EXPECT_EQ(physics_of([](GpuDescriptor& d) { d.gpu.sm.smem_per_block = d.gpu.sm.smem; }), "(accepted)");
  EXPECT_THAT(physics_of([](GpuDescriptor& d) { d.gpu.sm.smem_per_block = 229.0 * units::KiB; }),
              AllOf(HasSubstr("/sm/smem_per_block"), HasSubstr("at most the SM's 228 KiB, found 229 KiB")));
  EXPECT_EQ(physics_of([](GpuDescriptor& d) { d.gpu.sm.smem_reserved_per_block = d.gpu.sm.smem; }), "(accepted)");
  EXPECT_THAT(physics_of([](GpuDescriptor& d) { d.gpu.sm.smem_reserved_per_block = 229.0 * units::KiB; }),
              HasSubstr("/sm/smem_reserved_per_block"));
  EXPECT_EQ(physics_of([](GpuDescriptor& d) { d.gpu.sm.l1_and_smem = d.gpu.sm.smem; }), "(accepted)");
  EXPECT_THAT(physics_of([](GpuDescriptor& d) { d.gpu.sm.l1_and_smem = 227.0 * units::KiB; }),
              HasSubstr("/sm/smem: expected at most l1_and_smem (227 KiB)"));
  EXPECT_EQ(physics_of([](GpuDescriptor& d) { d.gpu.sm.smem_granule = 1.0 * units::B; }), "(accepted)");
  EXPECT_EQ(physics_of([](GpuDescriptor& d) { d.gpu.sm.smem_granule = d.gpu.sm.smem; }), "(accepted)");
  EXPECT_THAT(physics_of([](GpuDescriptor& d) { d.gpu.sm.smem_granule = 229.0 * units::KiB; }),
              HasSubstr("/sm/smem_granule"));
  EXPECT_EQ(physics_of([](GpuDescriptor& d) { d.gpu.sm.threads_per_block = 2048; }), "(accepted)");
  EXPECT_THAT(physics_of([](GpuDescriptor& d) { d.gpu.sm.threads_per_block = 2049; }),
              HasSubstr("/sm/threads_per_block: expected at most the SM's 2048 threads, found 2049"));
  EXPECT_THAT(physics_of([](GpuDescriptor& d) { d.gpu.sm.threads = 2047; }),
              HasSubstr("/sm/threads: expected a multiple of the warp size 32, found 2047"));
}

TEST(Checks, LinksAreOneWay) {
  EXPECT_THAT(
      physics_of([](GpuDescriptor& d) { d.gpu.links.nvlink_per_direction = 500.0 * units::GB_per_s; }),
      AllOf(HasSubstr("/links/nvlink_per_direction: two-way rate"), HasSubstr("10 links x 25.0 GB/s = 250 GB/s")));
  EXPECT_THAT(physics_of([](GpuDescriptor& d) { d.gpu.links.pcie_per_direction = 63.0 * units::GB_per_s; }),
              AllOf(HasSubstr("/links/pcie_per_direction: two-way rate"), HasSubstr("31.5 GB/s for PCIe 4.0 x16")));
  EXPECT_THAT(physics_of([](GpuDescriptor& d) { d.nvlink_link_rate = 50.0 * units::GB_per_s; }),
              AllOf(HasSubstr("/links/nvlink_link_rate: two-way rate"), HasSubstr("25.0 GB/s for NVLink 3")));
}

TEST(Checks, ALinkRateOfItsOwnReplacesTheGenerations) {
  // 10 links of 60 GB/s: 600 is one way, 1200 is both; by the generation alone 500 would look like both.
  const auto links = [](double all) {
    return [all](GpuDescriptor& d) {
      d.nvlink_generation = 9;
      d.nvlink_link_rate = 60.0 * units::GB_per_s;
      d.gpu.links.nvlink_per_direction = all * units::GB_per_s;
    };
  };
  EXPECT_EQ(physics_of(links(600)), "(accepted)");
  EXPECT_EQ(physics_of(links(500)), "(accepted)");
  EXPECT_THAT(physics_of(links(1200)), HasSubstr("/links/nvlink_per_direction: two-way rate"));
}

TEST(Checks, EachGenerationHasItsRate) {
  const auto twice = [](std::int64_t nvlink, std::int64_t pcie, double nvlink_rate, double pcie_rate) {
    return [=](GpuDescriptor& d) {
      d.nvlink_generation = nvlink;
      d.pcie_generation = pcie;
      d.gpu.links.nvlink_per_direction = 10.0 * nvlink_rate * units::GB_per_s;
      d.gpu.links.pcie_per_direction = pcie_rate * units::GB_per_s;
    };
  };
  for (const auto& [generation, rate] : {std::pair(2, 25.0), {3, 25.0}, {4, 25.0}, {5, 50.0}, {6, 100.0}}) {
    EXPECT_EQ(physics_of(twice(generation, 0, rate, 1)), "(accepted)") << generation;
    EXPECT_THAT(physics_of(twice(generation, 0, 2 * rate, 1)), HasSubstr("nvlink_per_direction")) << generation;
  }
  for (const auto& [generation, rate] : {std::pair(3, 15.754), {4, 31.508}, {5, 63.015}, {6, 121.0}}) {
    EXPECT_EQ(physics_of(twice(0, generation, 1, rate)), "(accepted)") << generation;
    EXPECT_THAT(physics_of(twice(0, generation, 1, 2 * rate)), HasSubstr("pcie_per_direction")) << generation;
  }
}

std::string rates_of(const Gpu& gpu) {
  return refusal([&] { check_dense_rates(gpu, "toy.json"); });
}

/// A toy whose datasheet has this bf16 peak; what the rates give is 10 TFLOP/s.
Gpu with_sheet(double tflops) {
  Gpu gpu = toy_gpu();
  gpu.datasheet_tensor_peak[DType::bf16] = tflops * units::TFLOP_per_s;
  return gpu;
}

TEST(Checks, RatesAgreeWithTheDatasheetWithinATenth) {
  EXPECT_EQ(rates_of(toy_gpu()), "(accepted)");
  EXPECT_EQ(rates_of(with_sheet(10.9)), "(accepted)");
  EXPECT_EQ(rates_of(with_sheet(9.1)), "(accepted)");
  EXPECT_THAT(rates_of(with_sheet(11.1)), HasSubstr("/datasheet/tensor_peak/bf16: expected about 10.0 TFLOP/s"));
  EXPECT_THAT(rates_of(with_sheet(8.9)), HasSubstr("/datasheet/tensor_peak/bf16: expected about"));
  EXPECT_THAT(rates_of(with_sheet(20)), HasSubstr("/datasheet/tensor_peak/bf16: looks like a sparse (2:4) rate"));
  EXPECT_THAT(rates_of(with_sheet(5)), HasSubstr("/sm/tensor_flop_per_clk/bf16: looks like a sparse (2:4) rate"));
  Gpu without = with_sheet(10);
  without.datasheet_tensor_peak[DType::int4] = 1.0 * units::TFLOP_per_s;
  EXPECT_THAT(rates_of(without), HasSubstr("/datasheet/tensor_peak/int4: expected a rate at /sm/tensor_flop_per_clk/"));
}

TEST(Checks, RatesOfTypesKeepTheirRatios) {
  const auto with = [](DType type, double rate) {
    Gpu gpu = toy_gpu();
    gpu.sm.tensor_flop_per_clk[type] = rate;
    return rates_of(gpu);
  };
  EXPECT_THAT(with(DType::fp16, 2000), HasSubstr("/sm/tensor_flop_per_clk/fp16: looks like a sparse (2:4) rate"));
  EXPECT_THAT(with(DType::bf16, 2000), HasSubstr("/sm/tensor_flop_per_clk/bf16: looks like a sparse (2:4) rate"));
  EXPECT_THAT(with(DType::fp8, 4000), HasSubstr("/sm/tensor_flop_per_clk/fp8: looks like a sparse (2:4) rate"));
  EXPECT_THAT(with(DType::tf32, 250), HasSubstr("/sm/tensor_flop_per_clk/bf16: looks like a sparse (2:4) rate"));
  EXPECT_EQ(with(DType::tf32, 0), "(accepted)");
}

}  // namespace
}  // namespace plumbline::descriptor::checks_test

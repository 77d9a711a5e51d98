// What a descriptor may say: `extends`, six numbers, `--set`, and each refusal with its message.
#include "arch/gpu/gpu.hpp"

#include <cmath>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/gpu/fields.hpp"
#include "arch/gpu/peaks.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::gpu_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using testing_support::refusal;

std::string refusal_of(const std::string& body) {
  return refusal([&] { parse_gpu(R"({"name": "my", "extends": "h200_sxm", )" + body + "}", "my.json"); });
}

std::string refusal_of_set(const std::string& path, const std::string& value) {
  return refusal([&] { load_gpu("h200_sxm", {{path, value}}); });
}

constexpr const char* kSixNumbers = R"({"name": "my_chip", "extends": "family:hopper", "sm_count": 200,
  "boost_clock": "2 GHz", "tensor_bf16": "2000 TFLOP/s", "memory": {"bandwidth": "6 TB/s", "capacity": "200 GiB"},
  "tdp": "900 W"})";

TEST(GpuDescriptor, SixNumbersMakeAGpu) {
  const Gpu gpu = parse_gpu(kSixNumbers, "my.json");
  EXPECT_EQ(gpu.name, "my_chip");
  EXPECT_EQ(gpu.title, "my_chip");
  EXPECT_EQ(gpu.calibration, "h100_sxm");
  EXPECT_DOUBLE_EQ(gpu.sm.tensor_flop_per_clk[DType::bf16], 5000);  // 2000e12 / 200 / 2e9
  EXPECT_DOUBLE_EQ(gpu.sm.tensor_flop_per_clk[DType::fp8], 10000);  // Hopper: twice bf16
  EXPECT_DOUBLE_EQ(gpu.sm.tensor_flop_per_clk[DType::tf32], 2500);  // half
  EXPECT_DOUBLE_EQ(tensor_peak(gpu, DType::bf16, gpu.boost_clock).in(units::TFLOP_per_s), 2000);
  EXPECT_DOUBLE_EQ(gpu.l2.bandwidth.in(units::TB_per_s), 37.5 * 200 * 2e9 / 1e12);
  EXPECT_DOUBLE_EQ(gpu.idle_power.in(units::W), 0.1143 * 900);
  EXPECT_EQ(gpu.sm.registers, 65536);
  EXPECT_EQ(gpu.datasheet_tensor_peak[DType::bf16], FlopRate());
  EXPECT_THAT(gpu.assumptions, Contains(AllOf(HasSubstr("inherited from family hopper"), HasSubstr("sm.registers"))));
  EXPECT_THAT(gpu.assumptions, Contains(HasSubstr("tensor rates of all types scaled by 1.22")));
  EXPECT_THAT(gpu.assumptions, Contains(StartsWith("idle_power assumed")));
  EXPECT_THAT(gpu.sources.at("/sm/tensor_flop_per_clk/fp8"), HasSubstr("derived from tensor_bf16 of my.json"));
  EXPECT_THAT(gpu.sources.at("/sm/registers"), HasSubstr("inherited from family hopper"));
  EXPECT_THAT(gpu.sources.at("/memory/bandwidth"), HasSubstr("my.json"));
}

TEST(GpuDescriptor, ExtendsACardAndKeepsTheRest) {
  const Gpu base = load_gpu("h200");
  const Gpu gpu = parse_gpu(R"({"name": "h200_fast", "extends": "H200", "memory": {"bandwidth": "6 TB/s"},
                                "source": "a what-if"})",
                            "my.json");
  EXPECT_EQ(gpu.memory.bandwidth, 6.0 * units::TB_per_s);
  EXPECT_EQ(gpu.memory.capacity, base.memory.capacity);
  EXPECT_EQ(gpu.calibration, "h200_sxm");
  EXPECT_EQ(gpu.sources.at("/memory/bandwidth"), "a what-if");
  EXPECT_THAT(gpu.sources.at("/memory/capacity"), HasSubstr("inherited from h200_sxm"));
  EXPECT_THAT(gpu.assumptions, Contains(AllOf(HasSubstr("inherited from h200_sxm"), HasSubstr("sm_count"))));
}

TEST(GpuDescriptor, AnExplicitRateIsNotScaled) {
  const Gpu gpu = parse_gpu(R"({"name": "x", "extends": "h100_sxm", "tensor_bf16": "1500 TFLOP/s",
      "sm": {"tensor_flop_per_clk": {"fp8": 9000}}})",
                            "x.json");
  EXPECT_DOUBLE_EQ(gpu.sm.tensor_flop_per_clk[DType::fp8], 9000);
  EXPECT_NEAR(gpu.sm.tensor_flop_per_clk[DType::bf16], 1500e12 / (132 * 1.98e9), 1e-6);
}

TEST(GpuDescriptor, ReadsAFileByPath) {
  const auto path = (std::filesystem::temp_directory_path() / "plumbline_gpu_test_my_chip.json").string();
  write_text_file(path, kSixNumbers);
  EXPECT_EQ(load_gpu(path).name, "my_chip");
  std::filesystem::remove(path);
  EXPECT_THAT(refusal([&] { load_gpu(path); }), HasSubstr("cannot be opened"));
}

TEST(GpuDescriptor, OverridesAreAppliedAndNoted) {
  const Gpu base = load_gpu("h200");
  const Gpu gpu = load_gpu("h200", {{"memory.bandwidth", "5TB/s"}, {"sm_count", "160"}, {"memory.bandwidth", "6TB/s"}});
  EXPECT_EQ(gpu.memory.bandwidth, 6.0 * units::TB_per_s);  // in order: the last one counts
  EXPECT_EQ(gpu.sm_count, 160);
  EXPECT_NEAR(gpu.l2.bandwidth / base.l2.bandwidth, 160.0 / 132, 1e-12) << "derived from the SMs: follows them";
  EXPECT_THAT(gpu.sources.at("/memory/bandwidth"), StartsWith("set memory.bandwidth=6TB/s (was \"5TB/s\""));
  EXPECT_THAT(gpu.assumptions, Contains("sm_count set to 160 (was 132)"));
  EXPECT_EQ(load_gpu("h200", {{"l2.bytes_per_sm_clk", "75"}}).l2.bandwidth, 2.0 * base.l2.bandwidth);
  EXPECT_EQ(load_gpu("h100", {{"idle_power_fraction", "0.2"}}).idle_power, 0.2 * 700.0 * units::W);
  EXPECT_NEAR(load_gpu("h100", {{"tensor_bf16", "2141 TFLOP/s"}}).sm.tensor_flop_per_clk[DType::fp8], 16384, 20)
      << "a what-if may double the rate";
  EXPECT_THAT(refusal([] { load_gpu("h100", {{"tensor_bf16", "1979 TFLOP/s"}}); }), HasSubstr("sparse (2:4)"));
  EXPECT_EQ(load_gpu("h200", {{"sm.tensor_flop_per_clk.fp4", "16384"}}).sm.tensor_flop_per_clk[DType::fp4], 16384);
}

TEST(GpuDescriptor, RelativeOverridesAreOfWhatItHas) {
  const Gpu base = load_gpu("h200");
  EXPECT_EQ(load_gpu("h200", {{"sm_count", "x2"}}).sm_count, 264);
  EXPECT_EQ(load_gpu("h200", {{"sm_count", "+10%"}}).sm_count, 145);  // 145.2
  EXPECT_NEAR(load_gpu("h200", {{"memory.bandwidth", "-25 %"}}).memory.bandwidth / base.memory.bandwidth, 0.75, 1e-12);
  EXPECT_NEAR(load_gpu("h200", {{"memory.bandwidth", "x1.5"}, {"memory.bandwidth", "x2"}}).memory.bandwidth /
                  base.memory.bandwidth,
              3, 1e-12);
  const Gpu doubled = load_gpu("h200", {{"tensor_bf16", "x2"}});
  EXPECT_NEAR(doubled.sm.tensor_flop_per_clk[DType::fp8] / base.sm.tensor_flop_per_clk[DType::fp8], 2, 1e-9);
  EXPECT_THAT(load_gpu("h200", {{"tdp", "+10%"}}).assumptions, Contains(HasSubstr("tdp set to 770 W (+10%)")));
  EXPECT_THAT(refusal_of_set("tdp", "-100%"), HasSubstr("leaves something"));
  EXPECT_THAT(refusal_of_set("tdp", "+x%"), HasSubstr("expected a number"));
  EXPECT_THAT(refusal_of_set("links.nvlink_link_rate", "x2"), HasSubstr("none to change"));
}

/// What was derived says what it was derived from, once.
TEST(GpuDescriptor, DerivedNumbersAreDerivedAfterOverrides) {
  const Gpu gpu = load_gpu("h200", {{"sm_count", "264"}});
  int said = 0;
  for (const std::string& sentence : gpu.assumptions) {
    if (sentence.find("l2.bandwidth derived") != 0) continue;
    ++said;
    EXPECT_THAT(sentence, HasSubstr("264 SMs"));
  }
  EXPECT_EQ(said, 1);
  const Gpu stated = load_gpu("h200", {{"sm_count", "264"}, {"l2.bandwidth", "5 TB/s"}});
  EXPECT_EQ(stated.l2.bandwidth, 5.0 * units::TB_per_s);
}

/// A stated L2 bandwidth is that at the boost clock, with which its slices run: a faster clock is no slower L2 a clock.
TEST(GpuDescriptor, AStatedL2BandwidthGoesWithTheBoostClock) {
  const Gpu base = load_gpu("a100_sxm");
  ASSERT_EQ(base.l2_bytes_per_sm_clk, 0);
  EXPECT_NEAR(load_gpu("a100_sxm", {{"boost_clock", "x1.2"}}).l2.bandwidth / base.l2.bandwidth, 1.2, 1e-12);
  EXPECT_EQ(load_gpu("a100_sxm", {{"boost_clock", "x1.2"}, {"l2.bandwidth", "5 TB/s"}}).l2.bandwidth,
            5.0 * units::TB_per_s);
  EXPECT_EQ(load_gpu("a100_sxm", {{"sm_count", "x2"}}).l2.bandwidth, base.l2.bandwidth);
  GpuNumbers faster = base;
  faster.boost_clock *= 1.2;
  EXPECT_NEAR(derived_again(base, base, faster).l2.bandwidth / base.l2.bandwidth, 1.2, 1e-12);
  EXPECT_EQ(derived_again(base, base, faster, {"l2.bandwidth"}).l2.bandwidth, base.l2.bandwidth);
}

/// Changed twice is changed by both: what follows the clock follows it from wherever it was.
TEST(GpuDescriptor, WhatIsDerivedFollowsASecondChangeToo) {
  for (const char* card : {"a100_sxm", "h200_sxm"}) {
    const Gpu base = load_gpu(card);
    GpuNumbers once = base;
    once.boost_clock *= 1.2;
    once.tdp *= 1.1;
    once = derived_again(base, base, once);
    GpuNumbers twice = once;
    twice.boost_clock *= 1.5;
    twice.tdp *= 1.1;
    twice = derived_again(base, once, twice);
    EXPECT_NEAR(twice.l2.bandwidth / base.l2.bandwidth, 1.8, 1e-9) << card;
    if (base.idle_power_fraction > 0) {
      EXPECT_NEAR(twice.idle_power / base.idle_power, 1.21, 1e-9) << card;
    }
    // what was stated in between is as stated, and goes with the clock from there
    once.l2.bandwidth = 5.0 * units::TB_per_s;
    GpuNumbers later = once;
    later.boost_clock *= 1.5;
    later.sm_count *= 2;
    EXPECT_NEAR(derived_again(base, once, later).l2.bandwidth.in(units::TB_per_s), 7.5, 1e-9) << card;
  }
}

TEST(GpuDescriptor, ListsWhatCanBeSet) {
  bool bandwidth = false;
  for (const GpuParameter& p : gpu_parameters())
    bandwidth = bandwidth || (p.path == "memory.bandwidth" && p.unit == "GB/s, TB/s");
  EXPECT_TRUE(bandwidth);
}

TEST(GpuDescriptor, RefusesUnknownOverridesWithTheNearest) {
  EXPECT_THAT(refusal_of_set("clock.boost", "2GHz"), HasSubstr("did you mean 'boost_clock'?"));
  EXPECT_THAT(refusal_of_set("bandwidth", "6TB/s"), HasSubstr("did you mean 'l2.bandwidth' or 'memory.bandwidth'?"));
  EXPECT_THAT(refusal_of_set("flux", "6"), HasSubstr("predict-model list parameters"));
  EXPECT_THAT(refusal_of_set("memory.bandwith", "6TB/s"), HasSubstr("did you mean 'memory.bandwidth'?"));
  EXPECT_THAT(refusal_of_set("capacity", "6 GiB"), HasSubstr("did you mean 'memory.capacity'?"));
  EXPECT_THAT(refusal_of_set("bandwith", "6"), HasSubstr("did you mean 'l2.bandwidth' or 'memory.bandwidth'?"));
  EXPECT_THAT(refusal_of_set("smcount", "6"), HasSubstr("did you mean 'sm_count'?"));
  EXPECT_THAT(refusal_of_set("memory", "6"), HasSubstr("expected the path of a descriptor number"));
  EXPECT_THAT(refusal_of_set("name", "x"), HasSubstr("expected the path of a descriptor number"));
  EXPECT_THAT(refusal_of_set("", ""), HasSubstr("expected the path of a descriptor number"));
}

TEST(GpuDescriptor, RefusesBadOverrideValuesByName) {
  EXPECT_THAT(refusal_of_set("memory.bandwidth", "6"),
              AllOf(StartsWith("set memory.bandwidth=6: expected a bandwidth"), HasSubstr("4.8 TB/s")));
  EXPECT_THAT(refusal_of_set("memory.bandwidth", "6 TBps"), StartsWith("set memory.bandwidth=6 TBps: expected"));
  EXPECT_THAT(refusal_of_set("sm_count", "0"), StartsWith("set sm_count=0: expected a number above zero"));
  EXPECT_THAT(refusal_of_set("sm_count", "1.5"), HasSubstr("whole number"));
  EXPECT_THAT(refusal_of_set("sm_count", "-4"), HasSubstr("not negative"));
  EXPECT_THAT(refusal_of_set("memory.bandwidth", "null"), HasSubstr("missing key '/memory/bandwidth'"));
  EXPECT_THAT(refusal_of_set("memory.capacity", "192GB"), AllOf(HasSubstr("GB/GiB mix-up"), HasSubstr("192GiB")));
  EXPECT_THAT(refusal_of_set("tdp", "60W"), HasSubstr("TDP at or below idle"));
  EXPECT_THAT(refusal([] {
                load_gpu("h200_sxm", {{"idle_power", "80W"}, {"tdp", "80W"}});
              }),
              HasSubstr("TDP at or below idle"));
  EXPECT_THAT(refusal_of_set("links.nvlink_per_direction", "900GB/s"), HasSubstr("two-way rate"));
  EXPECT_NO_THROW(load_gpu("h200", {{"links.nvlink_per_direction", "900GB/s"}, {"links.nvlink_generation", "5"}}));
}

TEST(GpuDescriptor, RefusesUnknownNames) {
  EXPECT_THAT(refusal([] { load_gpu("h20x"); }),
              AllOf(HasSubstr("unknown GPU 'h20x'"), HasSubstr("did you mean 'h20'?")));
  EXPECT_THAT(refusal([] { load_gpu(""); }), HasSubstr("unknown GPU"));
  EXPECT_THAT(refusal([] { load_gpu("index"); }), HasSubstr("unknown GPU"));
  EXPECT_THAT(refusal([] { parse_gpu(R"({"extends": "family:hoper"})", "x"); }),
              AllOf(StartsWith("x: /extends"), HasSubstr("did you mean 'hopper'?")));
  EXPECT_THAT(refusal([] { parse_gpu(R"({"extends": "../../../etc/passwd"})", "x"); }), HasSubstr("unknown GPU"));
  EXPECT_THAT(refusal([] { parse_gpu(R"({"extends": "family:../gpus/h200_sxm"})", "x"); }),
              HasSubstr("unknown family"));
}

TEST(GpuDescriptor, RefusesUnknownAndMissingKeys) {
  EXPECT_THAT(refusal_of(R"("smcount": 4)"), AllOf(StartsWith("my.json"), HasSubstr("did you mean 'sm_count'?")));
  EXPECT_THAT(refusal_of(R"("memory": {"bandwith": "1 TB/s"})"),
              AllOf(StartsWith("my.json: /memory"), HasSubstr("did you mean 'bandwidth'?")));
  EXPECT_THAT(refusal_of(R"("sm": {"tensor_flop_per_clk": {"bf66": 1}})"), HasSubstr("did you mean 'bf16'?"));
  EXPECT_THAT(refusal_of(R"("memory": 4)"), HasSubstr("expected an object"));
  EXPECT_THAT(refusal_of(R"("memory.bandwidth": "4 TB/s")"), HasSubstr("unknown key"));
  EXPECT_THAT(refusal_of(R"("sources": {"/memory/bandwith": "x"})"), HasSubstr("did you mean '/memory/bandwidth'?"));
  EXPECT_THAT(refusal_of(R"("memory": {"bandwidth": null})"), HasSubstr("missing key '/memory/bandwidth'"));
  EXPECT_THAT(refusal([] { parse_gpu(R"({"extends": "h200"})", "x"); }), HasSubstr("missing key 'name'"));
  EXPECT_THAT(refusal([] { parse_gpu("{}", "x"); }), HasSubstr("missing key '/sm_count'"));
  EXPECT_THAT(refusal([] { parse_gpu("[]", "x"); }), HasSubstr("expected a GPU descriptor"));
  EXPECT_THAT(refusal([] {
                parse_gpu(R"({"name": "x", "extends": "family:volta", "sm_count": 80,
      "boost_clock": "1 GHz", "tensor_bf16": "100 TFLOP/s"})",
                          "x");
              }),
              HasSubstr("bf16 tensor path"));
}

TEST(GpuDescriptor, RefusesSparseRatesInDenseFields) {
  // 1979 bf16 is the H200 brochure's figure with 2:4 sparsity.
  EXPECT_THAT(refusal_of(R"("datasheet": {"tensor_peak": {"bf16": "1979 TFLOP/s"}})"),
              AllOf(StartsWith("my.json: /datasheet/tensor_peak/bf16: looks like a sparse (2:4) rate"),
                    HasSubstr("expected about 989 TFLOP/s")));
  EXPECT_THAT(refusal_of(R"("tensor_bf16": "1979 TFLOP/s")"),
              AllOf(HasSubstr("looks like a sparse (2:4) rate"), HasSubstr("989 TFLOP/s")));
  EXPECT_THAT(refusal_of(R"("sm": {"tensor_flop_per_clk": {"fp8": 16384}})"),
              AllOf(StartsWith("my.json: /sm/tensor_flop_per_clk/fp8: looks like a sparse"), HasSubstr("8192")));
  EXPECT_THAT(refusal_of(R"("sm": {"tensor_flop_per_clk": {"bf16": 8192}})"), HasSubstr("looks like a sparse"));
  EXPECT_THAT(refusal_of(R"("datasheet": {"tensor_peak": {"bf16": "700 TFLOP/s"}})"),
              HasSubstr("expected about 989 TFLOP/s (SMs x rate x clock), found 700 TFLOP/s"));
}

/// 132 SMs at 1980 MHz of Hopper's 4096 FLOP a clock make 1070.5 TFLOP/s: exactly twice that is its sparse rate.
TEST(GpuDescriptor, RefusesADoubledShorthandOfAFamily) {
  const auto shorthand = [](const std::string& rate) {
    return refusal([&] {
      parse_gpu(R"({"name": "x", "extends": "family:hopper", "sm_count": 132, "boost_clock": "1980 MHz",
                    "tensor_bf16": ")" +
                    rate + R"(", "memory": {"bandwidth": "4 TB/s", "capacity": "80 GiB"}, "tdp": "700 W"})",
                "x.json");
    });
  };
  EXPECT_EQ(shorthand("1070 TFLOP/s"), "(accepted)");
  EXPECT_THAT(shorthand("2141 TFLOP/s"), HasSubstr("looks like a sparse (2:4) rate"));
}

/// 8-bit rates of four times bf16's are a chip's own where its datasheet gives both; a rate alone is taken for sparse.
TEST(GpuDescriptor, BelievesUnusualRatesThatTheDatasheetGives) {
  const std::string rates = R"("sm": {"tensor_flop_per_clk": {"fp8": 16384}})";
  const std::string sheet = R"("datasheet": {"tensor_clock": "1830 MHz", "tensor_peak": {"fp8": "3957.7 TFLOP/s"%}})";
  const auto with = [&](const std::string& more) {
    std::string text = sheet;
    text.replace(text.find('%'), 1, more);
    return R"({"name": "my", "extends": "family:hopper", "sm_count": 132, "boost_clock": "1980 MHz", "tdp": "700 W",
      "memory": {"bandwidth": "4.8 TB/s", "capacity": "141 GiB"}, )" +
           rates + ", " + text + "}";
  };
  EXPECT_NO_THROW(parse_gpu(with(R"(, "bf16": "989.4 TFLOP/s")"), "my.json"));
  EXPECT_THAT(refusal([&] { parse_gpu(with(""), "my.json"); }), HasSubstr("looks like a sparse (2:4) rate"));
}

TEST(GpuDescriptor, RefusesDecimalMemorySizesAndBinaryRates) {
  EXPECT_THAT(refusal_of(R"("memory": {"capacity": "141 GB"})"),
              AllOf(StartsWith("my.json: /memory/capacity: GB/GiB mix-up"), HasSubstr("expected \"141 GiB\"")));
  EXPECT_THAT(refusal_of(R"("l2": {"size": "60 MB"})"), HasSubstr("expected \"60 MiB\""));
  EXPECT_THAT(refusal_of(R"("sm": {"smem": "228 kB"})"), HasSubstr("expected \"228 KiB\""));
  EXPECT_THAT(refusal_of(R"("memory": {"bandwidth": "4.4 TiB/s"})"), HasSubstr("powers of ten"));
}

TEST(GpuDescriptor, RefusesTwoWayLinkRates) {
  EXPECT_THAT(
      refusal_of(R"("links": {"nvlink_per_direction": "900 GB/s"})"),
      AllOf(HasSubstr("/links/nvlink_per_direction: two-way rate"), HasSubstr("18 links x 25.0 GB/s = 450 GB/s")));
  EXPECT_THAT(refusal_of(R"("links": {"pcie_per_direction": "128 GB/s"})"), HasSubstr("two-way rate"));
  EXPECT_THAT(refusal_of(R"("links": {"nvlink_link_rate": "50 GB/s"})"), HasSubstr("two-way rate"));
  EXPECT_THAT(refusal([] {
                parse_gpu(R"({"name": "x", "extends": "mi300x", "links": {"nvlink_per_direction": "896 GB/s"}})", "x");
              }),
              HasSubstr("7 links x 64.0 GB/s"));
}

TEST(GpuDescriptor, RefusesImpossiblePhysics) {
  EXPECT_THAT(refusal_of(R"("tdp": "80 W")"),
              HasSubstr("/tdp: TDP at or below idle: expected more than idle_power 82.5 W"));
  EXPECT_THAT(refusal_of(R"("base_clock": "2 GHz")"),
              HasSubstr("/base_clock: expected at most the boost clock 1980 MHz"));
  EXPECT_THAT(refusal_of(R"("boost_clock": "0 MHz")"), HasSubstr("expected a number above zero"));
  EXPECT_THAT(refusal_of(R"("sm_count": -1)"), HasSubstr("not negative"));
  EXPECT_THAT(refusal_of(R"("sm_count": 1e12)"), HasSubstr("at most a million"));
  EXPECT_THAT(refusal_of(R"("sm": {"smem_per_block": "229 KiB"})"), HasSubstr("expected at most the SM's 228 KiB"));
  EXPECT_THAT(refusal_of(R"("sm": {"smem": "300 KiB"})"), HasSubstr("l1_and_smem"));
  EXPECT_THAT(refusal_of(R"("sm": {"threads_per_block": 4096})"), HasSubstr("2048 threads"));
  EXPECT_THAT(refusal_of(R"("sm": {"warp_size": 48})"), HasSubstr("multiple of the warp size"));
  EXPECT_THAT(refusal_of(R"("sm": {"smem_granule": "0.5 B"})"), HasSubstr("expected from 1 B"));
  EXPECT_THAT(refusal_of(R"("memory": {"bandwidth": "1e308 TB/s"})"), HasSubstr("finite"));
  EXPECT_THAT(refusal_of(R"("memory": {"latency": "0 ns"})"), HasSubstr("above zero"));
  EXPECT_THAT(refusal_of(R"("idle_power_fraction": 1.2)"), HasSubstr("expected a fraction below 1"));
}

TEST(GpuDescriptor, RefusesWordsThatNameNothing) {
  EXPECT_THAT(
      refusal_of(R"("sm": {"matrix_unit": "wgma"})"),
      AllOf(StartsWith("my.json: /sm/matrix_unit: expected one of mma_sync, wgmma, tcgen05, mfma, found \"wgma\""),
            HasSubstr("did you mean 'wgmma'?")));
  EXPECT_THAT(refusal_of(R"("sm": {"async_copy": "cpasync"})"), HasSubstr("did you mean 'cp_async'?"));
  EXPECT_THAT(refusal_of(R"("sm": {"matrix_unit": null})"), HasSubstr("missing key '/sm/matrix_unit'"));
  EXPECT_THAT(refusal_of(R"("generation": "")"), HasSubstr("/generation: expected a word"));
  EXPECT_THAT(refusal_of(R"("process": {"node": null})"), HasSubstr("missing key '/process/node'"));
  EXPECT_THAT(refusal_of(R"("process": {"energy": 1})"), HasSubstr("did you mean 'energy_ratio'?"));
}

TEST(GpuDescriptor, RefusesCachesAndClustersThatCannotBe) {
  EXPECT_THAT(refusal_of(R"("l2": {"far_latency_ratio": 0.9})"),
              HasSubstr("/l2/far_latency_ratio: expected at least 1"));
  EXPECT_THAT(refusal_of(R"("l2": {"reuse_fraction": 1.1})"), HasSubstr("/l2/reuse_fraction: expected a fraction"));
  EXPECT_THAT(refusal_of(R"("clusters": {"of_8": 17})"), HasSubstr("/clusters/of_8: expected clusters of at most 120"));
  EXPECT_THAT(refusal_of(R"("clusters": {"of_2": 67})"), HasSubstr("/clusters/of_2: expected clusters of at most 132"));
  EXPECT_THAT(refusal_of(R"("clusters": {"of_4": null})"), HasSubstr("above zero together"));
}

/// 132 SMs: 66 clusters of two take all, 32 of four 128, 15 of eight 120; larger ones are counted as those of eight.
TEST(GpuDescriptor, ClustersLeaveSmsOver) {
  const ClusterSlots hopper{132, 66, 32, 15};
  EXPECT_EQ(hopper.share(1), 1);
  EXPECT_EQ(hopper.share(2), 1);
  EXPECT_DOUBLE_EQ(hopper.share(4), 128.0 / 132);
  EXPECT_DOUBLE_EQ(hopper.share(8), 120.0 / 132);
  EXPECT_EQ(ClusterSlots{}.share(8), 1);
}

RC_GTEST_PROP(GpuDescriptor, EveryNumberIsOpenToSetAndRefusesNonsenseByName, ()) {
  const auto& paths = descriptor::number_paths();
  const std::string path = *rc::gen::elementOf(paths);
  RC_PRE(path != "tensor_bf16");
  const Gpu base = load_gpu("mi355x");
  const std::string pointer = descriptor::pointer_of(path);
  RC_PRE(base.sources.count(pointer) > 0);
  try {
    load_gpu("mi355x", {{path, "nonsense"}});
    RC_FAIL("nonsense was accepted for " + path);
  } catch (const BadInput& e) {
    RC_ASSERT(std::string(e.what()).find("set " + path + "=nonsense: expected") == 0U);
  }
}

RC_GTEST_PROP(GpuDescriptor, AnyTextIsReadOrRefused, (const std::string& text)) {
  try {
    (void)parse_gpu(text, "place");
    RC_FAIL("random text made a GPU");
  } catch (const BadInput& e) {
    RC_ASSERT(std::string(e.what()).find("place") == 0U);
  }
}

RC_GTEST_PROP(GpuDescriptor, SixNumbersGiveBackTheirPeak, ()) {
  const int sms = *rc::gen::inRange(1, 500), mhz = *rc::gen::inRange(500, 4000), tflops = *rc::gen::inRange(1, 20000);
  const double plain = sms * 4096.0 * mhz * 1e-6;
  RC_PRE(std::abs(tflops / plain - 2.0) > 0.06);  // exactly twice the family's dense rate is refused as sparse
  const Gpu gpu = parse_gpu(
      R"({"name": "x", "extends": "family:hopper", "sm_count": )" + std::to_string(sms) + R"(, "boost_clock": ")" +
          std::to_string(mhz) + R"( MHz", "tensor_bf16": ")" + std::to_string(tflops) +
          R"( TFLOP/s", "memory": {"bandwidth": "1 TB/s", "capacity": "10 GiB"}, "tdp": "500 W"})",
      "x");
  RC_ASSERT(std::abs(tensor_peak(gpu, DType::bf16, gpu.boost_clock).in(units::TFLOP_per_s) / tflops - 1) < 1e-12);
}

}  // namespace
}  // namespace plumbline::gpu_test

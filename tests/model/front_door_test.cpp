// What a user of predictions relies on: provenance by class and number format, changes that change nothing, bands that
// keep to the roofline, and the power limit by its name.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "arch/error.hpp"
#include "model/bands/bands.hpp"
#include "model/machine/parts.hpp"
#include "model/predict.hpp"
#include "model/stacks/stack.hpp"
#include "tests/support/toy_machine.hpp"

namespace plumbline::front_door_test {
namespace {

using namespace testing_support;

Machine card(const char* gpu, const char* stack, std::vector<Override> overrides = {},
             ClockMode clock = ClockMode::burst) {
  MachineOptions options;
  options.stack = stack;
  options.clock = clock;
  return machines().get({gpu, options, "", std::move(overrides)});
}

Op gemm(const char* dtype) { return Gemm{512, 4096, 4096, 1, *parse_precision(dtype), false}; }

TEST(Provenance, IsOfTheKernelsClassAndTheNumberFormat) {
  const auto of = [](const Op& op, const char* gpu, const char* stack) {
    return predict(op, card(gpu, stack)).provenance;
  };
  EXPECT_EQ(of(gemm("bf16"), "h200_sxm", "trt-llm"), Provenance::measured);
  EXPECT_EQ(of(gemm("fp16"), "h200_sxm", "trt-llm"), Provenance::measured);  // the same units, the same bytes
  EXPECT_EQ(of(gemm("fp8"), "h200_sxm", "trt-llm"), Provenance::measured);
  EXPECT_EQ(of(gemm("int8"), "h200_sxm", "trt-llm"), Provenance::measured);  // cuBLAS's kernels by mma.sync
  for (const char* dtype : {"w4a16", "mxfp4"}) {
    EXPECT_EQ(of(gemm(dtype), "h200_sxm", "trt-llm"), Provenance::never_measured) << dtype;
    EXPECT_EQ(of(gemm(dtype), "h200_sxm", "own"), Provenance::never_measured) << dtype;
  }
  EXPECT_EQ(of(GemmSparse24{512, 4096, 4096, {}}, "h200_sxm", "trt-llm"), Provenance::measured);
  EXPECT_EQ(of(GemmSparse24{512, 4096, 4096, {}}, "b200_sxm", "trt-llm"), Provenance::other_generation);
  EXPECT_EQ(of(Spmv{4096, 4096, 65536}, "h200_sxm", "own"), Provenance::never_measured);
  EXPECT_EQ(of(gemm("bf16"), "b200_sxm", "trt-llm"), Provenance::other_generation);
  EXPECT_EQ(of(gemm("bf16"), "h100_pcie", "trt-llm"), Provenance::same_generation);
  EXPECT_EQ(of(gemm("bf16"), "h200_sxm", "ideal"), Provenance::datasheet);
}

/// What nobody measured has the band of cards of another generation, of the class or the next wider one, nowhere narrower than its kind.
TEST(Provenance, TheBandFollowsIt) {
  const Machine h200 = card("h200_sxm", "trt-llm");
  const OpPrediction p = predict(gemm("w4a16"), h200);
  const BandTable never(h200.calibration(), BandSection::never);
  const BandEnds ends = never.ends(KernelSet::library, p.band_class, p.time, p.bound, p.roofline / p.time);
  EXPECT_EQ(p.band_range.low, ends.low);
  EXPECT_GT(std::log(p.high / p.low), std::log(predict(gemm("bf16"), h200).high / predict(gemm("bf16"), h200).low));
}

TEST(Set, ToItsOwnValueChangesNothing) {
  const Op op = AttentionDecode{32, 64, 8, 128, 128, 4096};
  for (const char* stack : {"own", "trt-llm"}) {
    const Machine plain = card("h200_sxm", stack);
    const Machine same = card("h200_sxm", stack, {{"memory.bandwidth", "4800 GB/s"}, {"sm_count", "132"}});
    const OpPrediction a = predict(op, plain), b = predict(op, same);
    EXPECT_EQ(a.time, b.time);
    EXPECT_EQ(a.low, b.low);
    EXPECT_EQ(a.high, b.high);
    EXPECT_EQ(a.provenance, b.provenance);
    EXPECT_EQ(same.assumptions(), plain.assumptions());
  }
}

/// The band of a changed number begins as the card's own and widens with the change.
TEST(Set, WidensTheBandAsFarAsItGoes) {
  const Op op = gemm("bf16");
  double last = 0;
  for (const char* bandwidth : {"4800 GB/s", "4900 GB/s", "5500 GB/s", "9 TB/s"}) {
    const OpPrediction p = predict(op, card("h200_sxm", "trt-llm", {{"memory.bandwidth", bandwidth}}));
    const double width = p.band_range.high - p.band_range.low;
    EXPECT_GE(width, last) << bandwidth;
    EXPECT_LE(p.low, p.time);
    EXPECT_LE(p.time, p.high);
    if (last > 0) {
      EXPECT_EQ(p.provenance, Provenance::same_generation);
    }
    last = width;
  }
  const OpPrediction near = predict(op, card("h200_sxm", "trt-llm", {{"memory.bandwidth", "4801 GB/s"}}));
  const OpPrediction own = predict(op, card("h200_sxm", "trt-llm"));
  EXPECT_NEAR(near.band_range.low, own.band_range.low, 0.001);
  EXPECT_NEAR(near.band_range.high, own.band_range.high, 0.001);
}

TEST(Set, IsSaidAmongTheAssumptions) {
  const Machine m = card("h200_sxm", "trt-llm", {{"memory.bandwidth", "6 TB/s"}});
  bool said = false;
  for (const std::string& sentence : m.assumptions()) said = said || sentence.find("memory.bandwidth set to") == 0;
  EXPECT_TRUE(said);
}

TEST(Band, IsNeverBelowTheRoofline) {
  for (const char* gpu : {"h200_sxm", "a100_sxm", "l40s", "b200_sxm", "mi300x"}) {
    for (const char* stack : {"own", "trt-llm", "vllm"}) {
      const Machine m = card(gpu, stack);
      for (const Op& op : {gemm("bf16"), Op{AttentionDecode{183, 2, 2, 256, 256, 1398}},
                           Op{Rowwise{RowwiseKind::copy, 65536, 8192}}}) {
        EXPECT_GE(predict(op, m).low, roofline(op, m.gpu()) * (1 - 1e-12)) << gpu << " " << stack;
      }
    }
  }
}

TEST(PowerLimit, IsNamedWhereItHoldsTheClockDown) {
  const Llm llm = load_llm("llama-3.1-8b");
  Workload prefill;
  prefill.phase = Phase::prefill;
  prefill.prompt = 3072;
  const Machine steady = card("h200_sxm", "trt-llm", {}, ClockMode::steady);
  const StepPrediction held = predict(llm, prefill, steady, RunOptions{});
  EXPECT_TRUE(held.power_limited);
  EXPECT_LT(held.uncapped, held.latency);
  MachineOptions far;
  far.clock = ClockMode::steady;
  far.power_cap = 5000.0 * units::W;
  const StepPrediction loose = predict(llm, prefill, make_machine(load_gpu("h200_sxm"), far), RunOptions{});
  EXPECT_FALSE(loose.power_limited);
  EXPECT_NEAR(loose.latency / held.uncapped, 1, 1e-9);
}

/// A locked clock prices as one, and no cap raises it.
TEST(SmClock, IsLockedBesideTheCap) {
  MachineOptions options;
  options.clock = ClockMode::steady;
  const Gpu h200 = load_gpu("h200_sxm");
  const Op big = Gemm{8192, 8192, 8192, 1, {}, false};
  const OpPrediction free = predict(big, make_machine(h200, options));
  options.sm_clock = 990.0 * units::MHz;
  const OpPrediction locked = predict(big, make_machine(h200, options));
  EXPECT_LE(locked.clock, 990.0 * units::MHz);
  EXPECT_GT(locked.time, free.time);
  EXPECT_LT(*locked.power, *free.power);
  EXPECT_FALSE(locked.power_limited);
  options.clock = ClockMode::burst;
  EXPECT_LE(predict(big, make_machine(h200, options)).clock, 990.0 * units::MHz);
  options.sm_clock = 3.0 * units::GHz;
  EXPECT_THROW((void)make_machine(h200, options), BadInput);
  options.stack = "ideal";
  EXPECT_THROW((void)make_machine(h200, options), NotModelled);
}

/// A machine that is made in code is held to what a descriptor is held to.
TEST(MachineInCode, RefusesNumbersThatNoMachineHas) {
  const Machine h200 = card("h200_sxm", "trt-llm");
  const auto refused = [&](auto change) {
    GpuNumbers numbers = h200.numbers();
    change(numbers);
    EXPECT_THROW((void)h200.with(numbers), BadInput);
    Gpu gpu = h200.gpu();
    static_cast<GpuNumbers&>(gpu) = numbers;
    EXPECT_THROW((void)make_machine(gpu, MachineOptions{}), BadInput);
  };
  refused([](GpuNumbers& g) { g.sm_count = 0; });
  refused([](GpuNumbers& g) { g.memory.bandwidth = -1.0 * units::TB_per_s; });
  refused([](GpuNumbers& g) { g.memory.latency = Seconds{}; });
  refused([](GpuNumbers& g) { g.boost_clock = std::nan("") * units::Hz; });
  refused([](GpuNumbers& g) { g.sm.tensor_flop_per_clk[DType::bf16] = -1; });
  refused([](GpuNumbers& g) { g.idle_power = 2.0 * g.tdp; });
}

/// The default is a stack that is served with.
TEST(DefaultStack, IsTensorRtLlms) {
  EXPECT_EQ(make_machine(load_gpu("h200_sxm"), MachineOptions{}).stack().name, "trt-llm");
}

}  // namespace
}  // namespace plumbline::front_door_test

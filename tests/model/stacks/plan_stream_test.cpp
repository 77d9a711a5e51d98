// The planner of operators that mostly move data, by hand on the toy machine: DRAM 1 TB/s after 500 ns, L2 10 TB/s
// after 200 ns, PCIe 25 GB/s, 10 SMs at 1 GHz; 1 us fixed, perfect overlap.
#include "model/stacks/common/plan_stream.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "model/engine/timing.hpp"
#include "model/predictor/predict_internal.hpp"
#include "tests/support/planners.hpp"
#include "tests/support/random_gpu.hpp"

namespace plumbline::plan_stream_test {
namespace {

using namespace testing_support;

class ToyStream : public ::testing::Test {
 protected:
  Machine machine = toy_machine();

  static Demand plan(const Op& op, const Machine& on, Warmth warmth, double held = 1) {
    const Work w = work(op);
    const std::string name = "toy";
    GemmCache cache;
    return plan_stream(
        {.op = op, .work = w, .rates = on.rates(), .gpu = name, .warmth = warmth, .held = held, .cache = cache});
  }
  Demand plan(const Op& op, bool warm = false) const {
    return plan(op, machine, warm ? Warmth::streams : Warmth::cold);
  }
  double us(const Op& op, bool warm = false) const {
    return price(plan(op, warm), machine.rates(), scalars_of(machine, "library.rowwise")).total.in(units::us);
  }
  static Rowwise copy(std::int64_t rows, std::int64_t cols) { return Rowwise{RowwiseKind::copy, rows, cols}; }
};

/// 32 768 000 bf16 in and out: 131.072 MB in CTAs of 16 KiB = 8000, of which 8 x 10 run at a time: 100 full waves.
/// 80 x 16 KiB in flight cover 1.3 MB of the 0.5 MB that 500 ns at 1 TB/s need: 131.072 us of DRAM, 1 us fixed.
TEST_F(ToyStream, ACopyMovesItsBytesAtDramSpeed) {
  const Op op = copy(1000, 32768);
  const Demand d = plan(op);
  EXPECT_EQ(d.plan.ctas, 8000);
  EXPECT_EQ(d.plan.ctas_per_sm, 8);
  const LaunchTime t = price(d, machine.rates(), scalars_of(machine, "library.rowwise"));
  EXPECT_NEAR(t.total.in(units::us), 1 + 131.072, 1e-9);
  EXPECT_EQ(t.limiter, Resource::dram);
  // as an operator: and a graph gap of 1 us
  EXPECT_NEAR(predict(op, machine).time.in(units::us), 1 + 131.072 + 1, 1e-9);
  EXPECT_EQ(predict(op, machine).bound, Bound::memory);
}

/// 32 B: nothing but 1 us fixed and one DRAM latency of 500 ns.
TEST_F(ToyStream, ATinyCopyIsLatency) {
  EXPECT_NEAR(us(copy(1, 8)), 1.5, 1e-9);
  EXPECT_EQ(predict(copy(1, 8), machine).bound, Bound::latency);
  EXPECT_NEAR(us(copy(1, 1)), 1.5, 1e-9);
}

/// Four waves of 1.31072 MB that a producer left in L2: 4 x max(131.072 ns at 10 TB/s, two L2 latencies = 400 ns). No
/// DRAM. 64 MiB do not fit in 32 and come from DRAM.
TEST_F(ToyStream, WhatAProducerLeftInL2IsNotReadAgain) {
  const Op small = copy(40, 32768), large = copy(512, 32768);
  EXPECT_NEAR(us(small, true), 1 + 4 * 0.4, 1e-9);
  EXPECT_EQ(plan(small, true).dram_read, Bytes{});
  EXPECT_NEAR(us(small, false), 1 + 4 * 1.31072, 1e-9);
  EXPECT_DOUBLE_EQ(us(large, true), us(large, false));
}

/// In a step 2.62144 MB of 5.24288 are written, to DRAM at 1 TB/s, and the others come from L2 at 10 TB/s before that; or a
/// quarter of them does. Their bytes are asked of L2 all the same.
TEST_F(ToyStream, WhatAStepWritesGoesToDramBesideWhatL2Holds) {
  const Op op = copy(40, 32768);
  const auto& scalars = scalars_of(machine, "library.rowwise");
  const Demand all = plan(op, machine, Warmth::part), quarter = plan(op, machine, Warmth::part, 0.25);
  EXPECT_EQ(all.dram_read, Bytes{});
  EXPECT_NEAR(price(all, machine.rates(), scalars).total.in(units::us), 1 + 2.62144 + 0.262144, 1e-9);
  EXPECT_DOUBLE_EQ(quarter.dram_read.in(units::B), 0.75 * 2621440);
  EXPECT_NEAR(price(quarter, machine.rates(), scalars).total.in(units::us), 1 + 1.75 * 2.62144 + 0.0655360, 1e-9);
  for (const Demand& d : {all, quarter}) {
    EXPECT_DOUBLE_EQ((d.l2 + d.l2_hidden).in(units::B) * static_cast<double>(d.plan.ctas), 5242880);
  }
}

/// A row's statistics cost two L2 latencies more: 0.4 us.
TEST_F(ToyStream, NormsWaitForTheirStatistics) {
  EXPECT_DOUBLE_EQ(plan(Rowwise{RowwiseKind::rmsnorm, 8, 64}).serial_latency.in(units::ns), 400);
  EXPECT_EQ(plan(copy(8, 64)).serial_latency, Seconds{});
}

/// sum_all waits for its last CTA (8 L2 latencies), a scan for its look-back as well.
TEST_F(ToyStream, ScansEndInAChain) {
  EXPECT_DOUBLE_EQ(plan(Scan{ScanKind::sum_all, 1000}).serial_latency.in(units::ns), 1600);
  EXPECT_DOUBLE_EQ(plan(Scan{ScanKind::cumsum, 1000}).serial_latency.in(units::ns), 3200);
}

/// Rows of 4 bf16 use 8 of the 32 bytes of a sector, beside which their numbers of 4 bytes are read: 36 bytes for 12.
TEST_F(ToyStream, NarrowGathersWasteSectors) {
  const Op narrow = Embedding{1000, 4}, wide = Embedding{1000, 16};
  EXPECT_DOUBLE_EQ(plan(narrow).dram_read / work(narrow).read, 3);
  EXPECT_DOUBLE_EQ(plan(wide).dram_read / work(wide).read, 1);
}

/// Radix selection takes 11 bits a pass: two passes over 16-bit keys; the second comes from L2 while they fit.
TEST_F(ToyStream, SelectionReadsItsKeysTwice) {
  const Op fits = TopK{100, 1000, 10}, spills = TopK{1000, 32768, 10};
  EXPECT_DOUBLE_EQ(plan(fits).dram_read / work(fits).read, 1);
  EXPECT_DOUBLE_EQ(plan(spills).dram_read / work(spills).read, 2);
}

/// Softmax with its selection reads once; statistics and selection are ten L2 latencies.
TEST_F(ToyStream, FusedSelectionReadsOnce) {
  const Op op = SoftmaxTopK{1000, 32768, 10};
  EXPECT_DOUBLE_EQ(plan(op).dram_read / work(op).read, 1);
  EXPECT_DOUBLE_EQ(plan(op).serial_latency.in(units::ns), 2000);
}

/// x of 2^24 fp32 = 64 MiB, twice the L2: half of the 32-byte gathers go to DRAM.
TEST_F(ToyStream, SpmvGathersFromDramWhatL2CannotHold) {
  const Op fits = Spmv{1000, 1000, 50000}, spills = Spmv{1000, 1 << 24, 50000};
  EXPECT_EQ(plan(fits).dram_read, work(fits).read);
  EXPECT_DOUBLE_EQ((plan(spills).dram_read - work(spills).read).in(units::B), 50000.0 * 32 / 2);
}

/// GELU of many: 4 FLOP and one special function an element; 16 a clock and SM rule only when DRAM is out of the way.
TEST_F(ToyStream, ArithmeticIsSpreadOverTheCtas) {
  const Op op = Rowwise{RowwiseKind::gelu, 1000, 32768};
  const Demand d = plan(op);
  EXPECT_DOUBLE_EQ(d.sfu_clk, 4096.0 / 16);  // 4096 elements a CTA
  EXPECT_DOUBLE_EQ(d.fp32_clk, 4 * 4096.0 / 256);
  EXPECT_DOUBLE_EQ(d.issue_clk, 5 * 4096.0 / 32 / 4);
  // 8000 CTAs x 256 clk / 10 SMs = 204.8 us of special functions against 131.072 us of DRAM
  EXPECT_NEAR(us(op), 1 + 204.8, 1e-9);
}

/// A recurrence in fp64 runs on fp64 lanes where there is no tensor path for it.
TEST_F(ToyStream, Fp64RecurrencesUseFp64Lanes) {
  Gpu gpu = toy_gpu();
  gpu.sm.tensor_flop_per_clk[DType::fp64] = 0;
  gpu.sm.fp64_flop_per_clk = 4;
  const auto m = toy_machine(gpu);
  Recurrence r{RecurrentKind::mamba2, 1, 64, 8, 64, 64, 1, DType::fp64, DType::fp64};
  const Work w = work(Op(r));
  const Demand d = plan(Op(r), m, Warmth::cold);
  EXPECT_DOUBLE_EQ(d.tensor_clk * static_cast<double>(d.plan.ctas) * 4, w.tensor.in(units::FLOP));
}

/// 250 MB over PCIe at 25 GB/s: 10 ms, 1 us fixed, 1 us gap. Device memory sees one side of it.
TEST_F(ToyStream, HostCopiesTakeTheLink) {
  const OpPrediction p = predict(Transfer{TransferKind::h2d, 250'000'000}, machine);
  EXPECT_NEAR(p.time.in(units::us), 10000 + 2, 1e-6);
  EXPECT_EQ(p.bound, Bound::network);
  EXPECT_DOUBLE_EQ(p.dram_write.in(units::MB), 250);
  EXPECT_EQ(p.dram_read, Bytes{});
  const OpPrediction back = predict(Transfer{TransferKind::d2h, 250'000'000}, machine);
  EXPECT_EQ(back.dram_write, Bytes{});
  EXPECT_DOUBLE_EQ(back.dram_read.in(units::MB), 250);
}

/// Data in L2 are never slower to reach than data in DRAM, where L2 is the closer and faster of the two.
RC_GTEST_PROP(StreamLaws, WarmIsNeverSlowerThanCold, ()) {
  Gpu gpu = random_gpu();
  gpu.l2.latency =
      std::min(gpu.l2.latency, gpu.memory.latency / 2);  // two trips through L2 are planned for one to DRAM
  const auto m = toy_machine(gpu, random_calibration());
  for (int i = 0; i < 40; ++i) {
    const Op op = random_op_on(m);
    RC_LOG() << describe(op) << "\n";
    OpPrediction warm;
    GemmCache cache;
    predict_op(op, m, cache, {Warmth::streams}, warm);
    const OpPrediction cold = predict(op, m);
    RC_ASSERT(warm.time <= cold.time * (1 + 1e-3));
    RC_ASSERT(warm.dram_bytes() <= cold.dram_bytes());
    if (!only_streams(op) || m.rates().l2 < m.rates().dram_read) continue;
    OpPrediction half, whole;
    predict_op(op, m, cache, {Warmth::part, 0.5}, half);
    predict_op(op, m, cache, {Warmth::part, 1}, whole);
    RC_ASSERT(whole.time <= half.time * (1 + 1e-3));
    RC_ASSERT(half.time <= cold.time * (1 + 1e-3));
    RC_ASSERT(half.dram_bytes() <= cold.dram_bytes());
  }
}

}  // namespace
}  // namespace plumbline::plan_stream_test

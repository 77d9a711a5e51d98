// Attention's backward pass: its launches by hand, and FlashAttention-2's published forward and backward passes together.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "arch/files.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"
#include "model/stacks/common/deal_in_order.hpp"
#include "ops/csv.hpp"
#include "ops/table/text.hpp"
#include "ops/whole_number.hpp"

namespace plumbline::flash_backward_test {
namespace {

Machine machine_of(const char* gpu, const char* stack = "megatron") {
  MachineOptions options{stack};
  options.clock = ClockMode::burst;
  return machines().get({gpu, options});
}

/// FA2's tiles of 128 columns: 128 keys stay, 64 queries at a time. A step has five products of 64 x 128 x 128, 2048 FLOP a
/// clock of an A100's SM, and its scores' exponentials, 16 a clock.
TEST(FlashBackward, IsTheLaunchesOfFlashAttention2) {
  const AttentionBackward s{8, 16, 16, 128, 128, 2048, 2048, false, 0, DType::fp16};
  const OpPrediction p = predict(s, machine_of("a100_sxm"));
  ASSERT_EQ(p.launch_count, 3);
  const Demand& d = p.launches[1].demand;
  EXPECT_EQ(d.plan.ctas, 8 * 16 * 2048 / 128);
  EXPECT_EQ(d.plan.steps, 2048 / 64);
  EXPECT_EQ(d.tensor_clk, 5 * 2.0 * 64 * 128 * 128 / 2048);
  EXPECT_EQ(d.sfu_clk, 64 * 128 / 16.0);
  EXPECT_EQ(p.provenance, Provenance::never_measured);
  EXPECT_GE(p.time, p.roofline);
  // O and dO are read for the rows' sums, and dQ's fp32 sums cleared, written and read
  const double each = 8 * 16 * 2048 * 128 * 2.0;
  EXPECT_DOUBLE_EQ(p.launches[0].demand.dram_read.in(units::B), 2 * each);
  EXPECT_DOUBLE_EQ(p.launches[2].demand.dram_read.in(units::B), 2 * each);
  EXPECT_DOUBLE_EQ(p.launches[2].demand.dram_write.in(units::B), each);
}

/// Causal: half of the blocks and those on the diagonal; CTAs of the first keys see all queries.
TEST(FlashBackward, SkipsWhatTheMaskHides) {
  const AttentionBackward s{1, 16, 16, 128, 128, 2048, 2048, true, 0, DType::fp16};
  const Demand d = predict(s, machine_of("a100_sxm")).launches[1].demand;
  EXPECT_EQ(d.plan.longest, 2048 / 64);
  // tile i of 64 queries sees ceil((i + 1) / 2) blocks of keys: 2 (1 + ... + 16), by 16 CTAs a head
  EXPECT_DOUBLE_EQ(d.plan.steps, 2 * 136 / 16.0);
}

/// 8 heads on 132 SMs: 17 CTAs each, which sum dQ in buffers of their own; 8 blocks of 128 keys leave nine of them without any.
TEST(FlashBackward, DeterministicGradientsHaveABufferForEachCta) {
  AttentionBackward s{1, 8, 8, 128, 128, 1024, 1024, false};
  const Machine machine = machine_of("h200_sxm", "hf-sdpa");
  EXPECT_EQ(predict(s, machine).launch_count, 3);
  s.deterministic = true;
  const OpPrediction p = predict(s, machine);
  ASSERT_EQ(p.launch_count, 4);
  const double sums = 17 * 4.0 * 8 * 1024 * 128;
  EXPECT_EQ(p.launches[0].demand.dram_write.in(units::B), sums) << "of 71 MB that L2 does not hold";
  EXPECT_EQ(p.launches[2].demand.plan.ctas, 8 * 8);
  EXPECT_EQ(p.launches[3].demand.dram_read.in(units::B), sums);
  s.q_heads = s.kv_heads = 264;  // one CTA a head, which takes all blocks of keys
  const OpPrediction full = predict(s, machine);
  // two heads an SM, 8 blocks each of 16 tiles of queries, and what a block begins and ends with beside a tile
  EXPECT_GE(full.launches[2].demand.plan.longest, 2 * 8 * 1024 / 64);
  EXPECT_LE(full.launches[2].demand.plan.longest, 2 * 8 * (1024 / 64 + 1));
  s.dtype = DType::fp32;  // memory-efficient kernels, whose keys are one part then
  EXPECT_GT(predict(s, machine).time, full.time);
  s.dtype = DType::bf16;
  EXPECT_THROW(predict(s, machine_of("h200_sxm")), NotModelled);
}

TEST(FlashBackward, SumsTheGradientsOfSharedKeys) {
  EXPECT_EQ(predict(AttentionBackward{1, 16, 4, 128, 128, 1024, 1024}, machine_of("h200_sxm")).launch_count, 4);
  EXPECT_EQ(predict(AttentionBackward{1, 16, 4, 128, 128, 1024, 1024}, machine_of("h200_sxm", "trt-llm")).launch_count,
            4)
      << "stacks that do not train have it stand in";
}

/// The first FlashAttention: tiles of 128 x 128, what is counted and what is waited for added up. A step of the forward pass
/// has two products, at 2048 FLOP a clock of an A100's SM.
TEST(FlashBackward, OfTheFirstVersionAddsUpItsSteps) {
  const Machine machine = machine_of("a100_sxm", "llm-foundry");
  const AttentionPrefill forward{2, 16, 16, 128, 128, 1024, 1024, false, 0, 0, DType::bf16, DType::bf16};
  const OpPrediction p = predict(forward, machine);
  ASSERT_EQ(p.launch_count, 1);
  const Demand& d = p.launches[0].demand;
  EXPECT_EQ(d.plan.ctas, 2 * 16 * 8);
  EXPECT_EQ(d.plan.steps, 8);
  EXPECT_EQ(d.tensor_clk, 2 * 2.0 * 128 * 128 * 128 / 2048);
  const LaunchTime& t = p.launches[0].time;
  // 256 CTAs, one an SM of 108: three walks of eight steps, of which each takes what it counts and what it waits
  const double step = d.tensor_clk + d.sfu_clk + d.fp32_clk + d.smem_clk + d.exposed_clk;
  EXPECT_GE(t.total.in(units::us), 3 * 8 * step / 1410);
  EXPECT_LE(t.total.in(units::us), 1.25 * 3 * 8 * step / 1410 + 15);
  EXPECT_EQ(predict(AttentionBackward{2, 16, 16, 128, 128, 1024, 1024}, machine).launch_count, 3);
  EXPECT_EQ(p.provenance, Provenance::never_measured);
}

/// The same instructions on an H100, whose SMs take mma.sync at 2723 FLOP a clock of wgmma's 4096.
TEST(FlashBackward, EarlierVersionsRunByMmaSyncOnAnyCard) {
  const AttentionBackward s{2, 16, 16, 128, 128, 2048, 2048, true, 0, DType::bf16};
  const OpPrediction first = predict(s, machine_of("h100_sxm", "llm-foundry")),
                     second = predict(s, machine_of("h100_sxm", "torchtitan")),
                     third = predict(s, machine_of("h100_sxm", "megatron"));
  EXPECT_EQ(first.launches[1].demand.tensor_clk, 5 * 2.0 * 128 * 128 * 128 / 2723);
  EXPECT_EQ(second.launches[1].demand.tensor_clk, 5 * 2.0 * 64 * 128 * 128 / 2723);
  EXPECT_GT(first.time, second.time);
  EXPECT_GT(second.time, third.time);
}

/// Of the first version's published sums on an A100, whose one scalar is fitted to the training rows among them: heads of 64
/// columns come out too slow, of 128 too fast.
TEST(FlashBackward, OfTheFirstVersionMeetsWhatWasPublished) {
  const Machine machine = machine_of("a100_sxm", "llm-foundry");
  std::vector<double> errors;
  for (const char* side : {"train", "heldout"}) {
    const std::string file =
        data_folder() + "/measurements/flash_attention/a100_sxm/attention_fwd_bwd." + side + ".csv";
    const std::string text = read_text_file(file);
    CsvReader reader(text, file);
    const CsvHeader header(reader);
    while (reader.next()) {
      const auto fields = reader.fields();
      const auto field = [&](const char* column) { return std::string(fields[header.require(column)]); };
      if (field("kernel") != "FA1") continue;
      const Op forward = parse_op("attention_prefill", field("dtype"), field("shape") + ";append=0");
      const Op backward = parse_op("attention_backward", field("dtype"), field("shape"));
      const Seconds both = predict(forward, machine).time + predict(backward, machine).time;
      errors.push_back(std::abs(std::log(both.in(units::us) / std::stod(field("measured_us")))));
    }
  }
  ASSERT_EQ(errors.size(), 24U);
  std::sort(errors.begin(), errors.end());
  EXPECT_LE(errors[12], 0.18);
  EXPECT_LE(errors.back(), 0.34);
}

/// Forward and backward by both planners against the sums that FlashAttention-2 published for an A100; what a step of the
/// backward pass waits was chosen, of the forward pass's and twice that, with these rows in view.
TEST(FlashBackward, WithTheForwardPassTakesWhatWasPublished) {
  const Machine machine = machine_of("a100_sxm");
  std::vector<double> errors;
  for (const char* side : {"train", "heldout"}) {
    const std::string file =
        data_folder() + "/measurements/flash_attention/a100_sxm/attention_fwd_bwd." + side + ".csv";
    const std::string text = read_text_file(file);
    CsvReader reader(text, file);
    const CsvHeader header(reader);
    while (reader.next()) {
      const auto fields = reader.fields();
      const auto field = [&](const char* column) { return std::string(fields[header.require(column)]); };
      if (field("kernel") != "FA2") continue;
      const Op forward = parse_op("attention_prefill", field("dtype"), field("shape") + ";append=0");
      const Op backward = parse_op("attention_backward", field("dtype"), field("shape"));
      const Seconds both = predict(forward, machine).time + predict(backward, machine).time;
      errors.push_back(std::abs(std::log(both.in(units::us) / std::stod(field("measured_us")))));
    }
  }
  ASSERT_EQ(errors.size(), 22U);
  std::sort(errors.begin(), errors.end());
  EXPECT_LE(errors[11], 0.02);
  EXPECT_LE(errors.back(), 0.06);
}

TEST(DealInOrder, WhoIsFreeFirstTakesTheNextItem) {
  // two SMs, items of 4, 3, 2 and 1 steps: 4 + 1 beside 3 + 2
  const DealtInOrder even = deal_in_order(1, {4, 3, 2, 1}, 0, 2);
  EXPECT_EQ(even.ctas, 2);
  EXPECT_DOUBLE_EQ(even.mean, 5);
  EXPECT_DOUBLE_EQ(even.steps, 5);
  EXPECT_DOUBLE_EQ(even.items, 2);
  // shortest first: 1 + 3 beside 2 + 4
  const DealtInOrder uneven = deal_in_order(1, {1, 2, 3, 4}, 0, 2);
  EXPECT_DOUBLE_EQ(uneven.mean, 5);
  EXPECT_DOUBLE_EQ(uneven.steps, 6);
}

TEST(DealInOrder, NoMoreCtasThanItems) {
  const DealtInOrder few = deal_in_order(3, {7}, 1, 132);
  EXPECT_EQ(few.ctas, 3);
  EXPECT_DOUBLE_EQ(few.steps, 7);
  EXPECT_DOUBLE_EQ(few.items, 1);
}

/// 4.12 items an SM are five for some.
TEST(DealInOrder, ATurnThatIsNotFullIsATurn) {
  const DealtInOrder some = deal_in_order(68, std::vector<double>(8, 16), 4, 132);
  EXPECT_DOUBLE_EQ(some.items, 5);
  EXPECT_DOUBLE_EQ(some.steps, 5 * 16);
}

/// Of many heads the last ones alone are dealt: as long as all of them would take, within a hundredth.
TEST(DealInOrder, ManyHeadsTakeTheirMean) {
  const DealtInOrder many = deal_in_order(1e6, {8, 6, 4, 2}, 3, 132);
  EXPECT_NEAR(many.steps / many.mean, 1, 0.01);
  EXPECT_NEAR(many.items, 4e6 / 132, 0.01 * 4e6 / 132);
}

}  // namespace
}  // namespace plumbline::flash_backward_test

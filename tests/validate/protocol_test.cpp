// How published rows were timed, by hand on the toy GPU and read from text.
#include "validate/record/protocol.hpp"

#include <gtest/gtest.h>

#include "arch/error.hpp"
#include "model/engine/rates.hpp"
#include "tests/support/random_gpu.hpp"

namespace plumbline::protocol_test {
namespace {

using namespace testing_support;

const char* const kRules = R"({"schema": 1, "rules": [
  {"op": "gemm", "stack": "a-1", "rotates": "weights", "least_copies": 1, "most_copies": 5, "fill_l2": 1, "warm_up": 3,
   "runs": 6, "between_graphs_s": 3e-6},
  {"op": "gemm", "stack": "b", "rotates": "operands", "least_copies": 2, "most_copies": 24, "fill_l2": 3, "warm_up": 0,
   "runs": 1, "between_graphs_s": 0}]})";

TEST(Protocol, TheFirstRuleThatMatchesHolds) {
  const Protocols rules = Protocols::parse(kRules, "text");
  EXPECT_TRUE(rules.of("gemm", "a-1.3").known);
  EXPECT_DOUBLE_EQ(rules.of("gemm", "a-1.3").most_copies, 5);
  EXPECT_TRUE(rules.of("gemm", "b").rotates_all);
  EXPECT_FALSE(rules.of("gemm", "a-2").known);
  EXPECT_FALSE(rules.of("rmsnorm", "a-1").known);
}

/// A rule may be for products with a batch alone; others skip it.
TEST(Protocol, ABatchMayHaveARuleOfItsOwn) {
  std::string text = kRules;
  const std::string list = "\"rules\": [";
  text.insert(text.find(list) + list.size(),
              R"({"op": "gemm", "stack": "a-1", "rotates": "operands", "least_copies": 1, "most_copies": 1,
                  "fill_l2": 0, "warm_up": 2, "runs": 10, "between_graphs_s": 0, "batched": true},)");
  const Protocols rules = Protocols::parse(text, "text");
  EXPECT_DOUBLE_EQ(rules.of(Gemm{16, 128, 128, 8, {}, false}, "a-1").most_copies, 1);
  EXPECT_DOUBLE_EQ(rules.of(Gemm{16, 128, 128, 1, {}, false}, "a-1").most_copies, 5);
  EXPECT_DOUBLE_EQ(rules.of(Gemm{16, 128, 128, 8, {}, false}, "b").most_copies, 24);
}

/// A layer between a profiler's events takes so much more than its kernel; narrow weights have a rule of their own.
TEST(Protocol, ALayerIsSeenWithWhatLiesAroundIt) {
  std::string text = kRules;
  const std::string list = "\"rules\": [";
  text.insert(text.find(list) + list.size(),
              R"({"op": "gemm", "stack": "a-1", "narrow": true, "around_layer_s": 7e-6},)");
  const Protocols rules = Protocols::parse(text, "text");
  const Gemm wide{16, 4096, 4096, 1, {}, false}, narrow{16, 4096, 4096, 1, *parse_precision("w4a16"), false};
  EXPECT_EQ(rules.of(wide, "a-1").around_layer, Seconds{});
  const Machine m = make_machine(load_gpu("a100_sxm"), MachineOptions{"trt-llm"});
  OpPrediction out;
  Predictor predictor;
  const Seconds seen = predict_as_timed(narrow, rules.of(narrow, "a-1"), m, predictor, out);
  EXPECT_DOUBLE_EQ((seen - out.time).in(units::us), 7);
  // the row's band, as its callers scale it: both ends 7 us later, too
  OpPrediction alone;
  predictor.predict(narrow, m, alone);
  EXPECT_LT(seen * (out.low / out.time), seen);
  EXPECT_GT((seen * (out.low / out.time)).in(units::us), 7);
  EXPECT_NEAR((seen * ((out.high - out.low) / out.time)).in(units::us), (alone.high - alone.low).in(units::us),
              0.3 * (alone.high - alone.low).in(units::us));
}

TEST(Protocol, RefusesWhatIsNoRule) {
  EXPECT_THROW(Protocols::parse(R"({"rules": [{"op": "gemm"}]})", "text"), BadInput);
  EXPECT_THROW(Protocols::parse(R"({"rules": [], "surprise": 1})", "text"), BadInput);
}

/// A call that the host takes 30 us to issue: a short one takes that, with the spread of the host; a long one its own time.
TEST(Protocol, ACallTakesNoLessThanItsHost) {
  const Protocol p = Protocols::parse(R"({"rules": [{"op": "gemm", "stack": "a", "host_call_s": 30e-6,
    "host_call_low_s": 25e-6, "host_call_high_s": 45e-6}]})",
                                      "text")
                         .of("gemm", "a");
  const Machine m = make_machine(load_gpu("h200_sxm"), MachineOptions{"trt-llm"});
  OpPrediction out;
  Predictor predictor;
  const Seconds short_one = predict_as_timed(Gemm{16, 1024, 1024, 1, {}, false}, p, m, predictor, out);
  EXPECT_DOUBLE_EQ(short_one.in(units::us), 30);
  // as callers scale them to the row's time
  EXPECT_DOUBLE_EQ((short_one * (out.low / out.time)).in(units::us), 25);
  EXPECT_DOUBLE_EQ((short_one * (out.high / out.time)).in(units::us), 45);
  const Op large = Gemm{8192, 8192, 8192, 1, {}, false};
  const Seconds time = predict_as_timed(large, p, m, predictor, out);
  predictor.predict(large, m, out);
  EXPECT_EQ(time, out.time);
}

/// Queued calls lie a stream's gap apart, not a graph's, and say whose buffers an exchange goes by.
/// Of products as wide as the rule says, in one launch, what lies before it and around its counter's memset is left
/// out.
TEST(Protocol, OwnTimesHoldNoGaps) {
  const Protocol p =
      Protocols::parse(R"({"rules": [{"op": "gemm", "stack": "a", "own_times_of_bits": 16}]})", "text").of("gemm", "a");
  const Machine m = make_machine(load_gpu("h200_sxm"), MachineOptions{"trt-llm"});
  Predictor predictor;
  const auto left_out = [&](const Op& op) {
    OpPrediction out;
    predictor.predict(op, m, out);
    const Seconds before = out.time;
    leave_out_gaps(op, p, m, out);
    return before - out.time;
  };
  const Seconds gap = m.rates().gap_graph;
  EXPECT_NEAR(left_out(Gemm{4096, 1024, 1024, 1, {}, false}) / gap, 1, 1e-9);
  EXPECT_NEAR((left_out(Gemm{8192, 8192, 8192, 1, {}, false}) - gap).in(units::us), 1.76, 0.01);
  Gemm narrow{4096, 1024, 1024, 1, {}, false};
  narrow.precision.math = narrow.precision.input = narrow.precision.weight = DType::fp8;
  EXPECT_EQ(left_out(narrow), Seconds{});
}

/// The memset before cuDNN's kernel, and what lies between the two.
TEST(Protocol, RowsWithoutClearsLeaveOutTheMemsetAlone) {
  const Protocol p =
      Protocols::parse(R"({"rules": [{"op": "attention_prefill", "stack": "a", "without_clears": true}]})", "text")
          .of("attention_prefill", "a");
  const Machine m = make_machine(load_gpu("h200_sxm"), MachineOptions{"hf-sdpa"});
  const Op op = AttentionPrefill{1, 32, 32, 128, 128, 2048, 2048, true};
  Predictor predictor;
  OpPrediction out;
  predictor.predict(op, m, out);
  const Seconds before = out.time;
  const double width = (out.high - out.low) / before;
  leave_out_gaps(op, p, m, out);
  EXPECT_NEAR((before - out.time - m.rates().gap_graph).in(units::us), 0.86, 0.01);
  EXPECT_NEAR((out.high - out.low) / out.time, width, 1e-9);
}

TEST(Protocol, CollectivesArePricedAsTheyWereCalled) {
  const auto m = make_machine(load_gpu("h200_sxm"), MachineOptions{"own"});
  const Protocols rules = Protocols::parse(
      R"({"rules": [{"op": "all_gather", "stack": "q", "alone": true, "queued": true, "collective": "ring"},
                    {"op": "all_reduce", "stack": "o", "alone": true, "collective": "two-shot"}]})",
      "text");
  Predictor predictor;
  OpPrediction out;
  const Op gather = Collective{CollectiveKind::all_gather, 8192, 2, DType::bf16};
  PredictOptions alone;
  alone.alone = true;
  alone.collective = CollectiveChoice::ring;
  predictor.predict(gather, m, out, alone);
  const Seconds captured = out.time;
  EXPECT_NEAR((predict_as_timed(gather, rules.of("all_gather", "q-1"), m, predictor, out) - captured) /
                  (m.rates().gap_stream - m.rates().gap_graph),
              1, 1e-9);
  const Op reduce = Collective{CollectiveKind::all_reduce, 8192, 2, DType::bf16};
  predict_as_timed(reduce, rules.of("all_reduce", "o"), m, predictor, out);
  EXPECT_STREQ(out.launches[0].kernel, "two-shot");
  EXPECT_THROW(Protocols::parse(
                   R"({"rules": [{"op": "all_reduce", "stack": "", "alone": true, "collective": "star"}]})", "text"),
               BadInput);
}

/// Both algorithms of one shape are measured beside each other: each row is priced by its own, whichever the plan
/// takes.
TEST(Protocol, RowsOfSeveralGpusArePricedByTheirOwnAlgorithm) {
  const Op reduce = Collective{CollectiveKind::all_reduce, 65536, 2, DType::bf16};
  const auto way = [&](const char* kernel) { return timed_among_gpus(reduce, "own", kernel).collective; };
  EXPECT_EQ(way("one_shot"), CollectiveChoice::one_shot);
  EXPECT_EQ(way("two_shot.early"), CollectiveChoice::two_shot);
  EXPECT_TRUE(timed_among_gpus(reduce, "own", "two_shot").alone);
  EXPECT_FALSE(timed_among_gpus(reduce, "own", "push").known) << "no kernel of an all-reduce";
  EXPECT_FALSE(timed_among_gpus(reduce, "nccl-2.28.9", "nccl").known);
  EXPECT_FALSE(timed_among_gpus(Gemm{16, 1024, 1024, 1, {}, false}, "own", "one_shot").known);
}

TEST(Protocol, SmallWeightsThatTakeTurnsStayInL2AndLargeOnesDoNot) {
  const auto m = make_machine(load_gpu("h200_sxm"), MachineOptions{"trt-llm", ClockMode::burst, std::nullopt});
  const Protocol p = Protocols::parse(kRules, "text").of("gemm", "a-1");
  const Resident small = resident_of(Gemm{16, 512, 1024, 1, {}, false}, p, m);  // 5 x 1 MB of 60 MiB
  EXPECT_DOUBLE_EQ(small.weights, 1);
  EXPECT_DOUBLE_EQ(small.inputs, 1);
  const Resident large = resident_of(Gemm{16, 16384, 4096, 1, {}, false}, p, m);  // 134 MB
  EXPECT_DOUBLE_EQ(large.weights, 0);
  const Protocol all = Protocols::parse(kRules, "text").of("gemm", "b");
  EXPECT_LT(resident_of(Gemm{16, 16384, 4096, 1, {}, false}, all, m).inputs, 1e-9);
}

/// Two copies of 18 MB of weights on 32 MiB of L2: a tenth too much. The edge is a fifth wide to either side, so a
/// quarter of them is still there.
TEST(Protocol, TheEdgeOfWhatL2KeepsIsAFifthWide) {
  const auto m = toy_machine();
  const Protocol p = Protocols::parse(kRules, "text").of("gemm", "a-1");
  const double weights = 2.0 * 9011 * 1024, rest = 2.0 * 16 * (1024 + 9011), l2 = 32.0 * 1024 * 1024;
  const double expected = (1.2 - (2 * weights + rest) / l2) / 0.4;
  EXPECT_NEAR(expected, 0.23, 0.02);
  EXPECT_NEAR(resident_of(Gemm{16, 9011, 1024, 1, {}, false}, p, m).weights, expected, 1e-9);
}

/// One copy of a weight that fills L2: each call is a replay of its own.
TEST(Protocol, AReplayCostsItsShare) {
  const auto m = make_machine(load_gpu("h200_sxm"), MachineOptions{"trt-llm", ClockMode::burst, std::nullopt});
  const Op op = Gemm{16, 16384, 4096, 1, {}, false};
  OpPrediction scratch;
  Predictor predictor;
  Protocol p = Protocols::parse(kRules, "text").of("gemm", "a-1");
  const Seconds with = predict_as_timed(op, p, m, predictor, scratch);
  p.between_graphs = Seconds{};
  EXPECT_NEAR((with - predict_as_timed(op, p, m, predictor, scratch)).in(units::us), 3, 1e-9);
}

/// Long runs of dense work are nearer to the steady clock than to the burst.
TEST(Protocol, TheRegulatorComesInBetweenBurstAndSteady) {
  const auto burst = make_machine(load_gpu("h200_sxm"), MachineOptions{"trt-llm", ClockMode::burst, std::nullopt});
  const auto steady = make_machine(load_gpu("h200_sxm"), MachineOptions{"trt-llm", ClockMode::steady, std::nullopt});
  const Protocol p = Protocols::parse(kRules, "text").of("gemm", "a-1");
  OpPrediction scratch;
  Predictor predictor;
  const Op longest = Gemm{16384, 16384, 16384, 1, {}, false};
  const Seconds timed = predict_as_timed(longest, p, burst, predictor, scratch);
  EXPECT_GT(timed, predict(longest, burst).time);
  EXPECT_LT(timed, predict(longest, steady).time + 4.0 * units::us);
  EXPECT_GT(timed, 0.98 * predict(longest, steady).time);
}

}  // namespace
/// 67 MB of keys and values lie in an L40S' L2 from call to call: they come several times as fast as from memory. Where
/// scalars were fitted as if they did not (`scalars_know`), a measured card's prediction stays.
TEST(Protocol, RepeatedAttentionFindsItsCacheInL2) {
  constexpr const char* kRepeats = R"({"rules": [{"op": "attention_decode", "stack": "a", "rotates": "operands",
    "least_copies": 1, "most_copies": 1, "fill_l2": 0, "warm_up": 3, "runs": 6, "between_graphs_s": 0},
    {"op": "attention_decode", "stack": "b", "rotates": "operands", "least_copies": 1, "most_copies": 1, "fill_l2": 0,
    "warm_up": 3, "runs": 6, "between_graphs_s": 0, "scalars_know": true}]})";
  const Protocols rules = Protocols::parse(kRepeats, "text");
  const Op op = AttentionDecode{16, 32, 8, 128, 128, 1024};
  Predictor predictor;
  OpPrediction out;
  const auto timed = [&](const char* gpu, const char* stack) {
    const Machine m = make_machine(load_gpu(gpu), MachineOptions{"trt-llm"});
    return predict_as_timed(op, rules.of("attention_decode", stack), m, predictor, out);
  };
  EXPECT_LT(timed("l40s", "a"), 0.8 * timed("l40s", "none"));
  EXPECT_EQ(timed("l40s", "b"), timed("l40s", "a"));
  EXPECT_EQ(timed("h200_sxm", "b"), timed("h200_sxm", "none"));
}

}  // namespace plumbline::protocol_test

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "arch/error.hpp"
#include "arch/fabric/cluster.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"
#include "model/stacks/nccl/tuner.hpp"
#include "ops/table/text.hpp"
#include "tests/support/planners.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::nccl_test {
namespace {

using nccl::Algorithm;
using nccl::Protocol;
using ::testing::HasSubstr;
using testing_support::refusal;
using testing_support::scalars_of;

constexpr double kMiB = 1048576;

nccl::Group hopper(double ranks) {
  nccl::Group g;
  g.ranks = ranks;
  g.wire = 450.0 * units::GB_per_s;
  return g;
}

/// By hand, from NCCL's tables: a ring of 360 GB/s; LL 6.6 us + a hop of 0.6 us a step, at most 141 GB/s; Simple 8.4 + 3.4
/// us a step. All-reduce of 1 MiB on two GPUs: 7.8 + 1.05e6 / 141e3 = 15.2 us with LL, 15.2 + 2.9 = 18.1 with Simple.
TEST(NcclTuner, ReckonsWithNcclsOwnConstants) {
  const auto small = nccl::choose(CollectiveKind::all_reduce, kMiB, hopper(2));
  EXPECT_EQ(small.algorithm, Algorithm::ring);
  EXPECT_EQ(small.protocol, Protocol::ll);
  EXPECT_NEAR(small.reckoned.in(units::us), 7.8 + kMiB / 141e3, 1e-6);
  const auto large = nccl::choose(CollectiveKind::all_reduce, 4 * kMiB, hopper(2));
  EXPECT_EQ(large.protocol, Protocol::simple);
  EXPECT_NEAR(large.reckoned.in(units::us), 8.4 + 2 * 3.4 + 4 * kMiB / 360e3, 1e-6);
}

/// Published times on two H100s jump between 1 and 2 MiB for an all-reduce, between 2 and 4 for an all-gather.
TEST(NcclTuner, ProtocolsChangeWherePublishedTimesJump) {
  EXPECT_EQ(nccl::choose(CollectiveKind::all_reduce, 1 * kMiB, hopper(2)).protocol, Protocol::ll);
  EXPECT_EQ(nccl::choose(CollectiveKind::all_reduce, 2 * kMiB, hopper(2)).protocol, Protocol::simple);
  EXPECT_EQ(nccl::choose(CollectiveKind::all_gather, 2 * kMiB, hopper(2)).protocol, Protocol::ll);
  EXPECT_EQ(nccl::choose(CollectiveKind::all_gather, 4 * kMiB, hopper(2)).protocol, Protocol::simple);
}

/// Channels are taken off until each of its 512 threads has 8 bytes a rank; then threads, halved down to 64.
TEST(NcclTuner, SmallMessagesTakeFewChannels) {
  const auto tiny = nccl::choose(CollectiveKind::all_reduce, 4096, hopper(8));
  EXPECT_EQ(tiny.channels, 1);
  EXPECT_EQ(tiny.threads, 64);
  EXPECT_EQ(nccl::choose(CollectiveKind::all_reduce, 131072, hopper(8)).channels, 4);
  EXPECT_EQ(nccl::choose(CollectiveKind::all_reduce, 131072, hopper(2)).channels, 16);
  EXPECT_EQ(nccl::choose(CollectiveKind::all_reduce, 64 * kMiB, hopper(8)).channels, 24);
}

TEST(NcclTuner, MulticastIsTakenOnEightGpusForLargeAllReducesAlone) {
  nccl::Group g = hopper(8);
  EXPECT_NE(nccl::choose(CollectiveKind::all_reduce, 64 * kMiB, g).algorithm, Algorithm::nvls);
  g.multicast = true;
  EXPECT_EQ(nccl::choose(CollectiveKind::all_reduce, 64 * kMiB, g).algorithm, Algorithm::nvls);
  EXPECT_EQ(nccl::choose(CollectiveKind::all_reduce, 4096, g).algorithm, Algorithm::ring);
  EXPECT_EQ(nccl::choose(CollectiveKind::all_gather, 64 * kMiB, g).algorithm, Algorithm::ring);
}

/// Between nodes a tree's latency grows with the logarithm of their number, a ring's with the number itself.
TEST(NcclTuner, SmallAllReducesOverManyNodesTakeTheTree) {
  nccl::Group g = hopper(256);
  g.nodes = 32;
  g.network = 50.0 * units::GB_per_s;
  EXPECT_EQ(nccl::choose(CollectiveKind::all_reduce, 65536, g).algorithm, Algorithm::tree);
  EXPECT_EQ(nccl::ring_network_steps(CollectiveKind::all_reduce, 32), 62);
}

TEST(NcclTuner, FlagsOf128BytesNeedNvlink) {
  nccl::Group g = hopper(8);
  g.path = nccl::Path::pcie;
  g.wire = 63.0 * units::GB_per_s;
  for (double bytes = 512; bytes < 2e9; bytes *= 2) {
    EXPECT_NE(nccl::choose(CollectiveKind::all_gather, bytes, g).protocol, Protocol::ll128) << bytes;
  }
}

/// 64 KiB a channel at least; a share of 32 channels for each peer; twice that while parts are longer than 16 MiB.
TEST(NcclTuner, ChannelsOfAMessageFollowItsSize) {
  EXPECT_EQ(nccl::peer_channels(1000, 2), 1);
  EXPECT_EQ(nccl::peer_channels(4 * 65536, 2), 4);
  EXPECT_EQ(nccl::peer_channels(16 * 16 * kMiB, 2), 16);
  EXPECT_EQ(nccl::peer_channels(16 * 16 * kMiB + 16, 2), 32);
  EXPECT_EQ(nccl::peer_channels(4 * 16 * kMiB, 8), 4);
  EXPECT_EQ(nccl::peer_channels(4 * 16 * kMiB + 16, 8), 8);
}

TEST(NcclTuner, AnAlgorithmThatAUserNamesIsTakenWhereThereIsOne) {
  nccl::Group g = hopper(8);
  EXPECT_EQ(nccl::choose(CollectiveKind::all_reduce, 64 * kMiB, g, Algorithm::tree).algorithm, Algorithm::tree);
  EXPECT_THROW(nccl::choose(CollectiveKind::all_gather, kMiB, g, Algorithm::tree), BadInput);
  EXPECT_THROW(nccl::choose(CollectiveKind::all_reduce, kMiB, g, Algorithm::nvls), BadInput);
  g.multicast = true;
  EXPECT_EQ(nccl::choose(CollectiveKind::all_reduce, 4096, g, Algorithm::nvls).algorithm, Algorithm::nvls);
}

/// NCCL_PROTO. 64 MiB by LL on two GPUs, by hand: 6.6 us, two hops of 0.6, 141 GB/s.
TEST(NcclTuner, AProtocolThatAUserNamesIsTakenWhereThereIsOne) {
  nccl::Group g = hopper(2);
  const auto flags = nccl::choose(CollectiveKind::all_reduce, 64 * kMiB, g, Algorithm::ring, Protocol::ll);
  EXPECT_EQ(flags.protocol, Protocol::ll);
  EXPECT_NEAR(flags.reckoned.in(units::us), 6.6 + 2 * 0.6 + 64 * kMiB / 141e3, 1e-6);
  EXPECT_EQ(nccl::choose(CollectiveKind::all_gather, 512, g, {}, Protocol::ll128).protocol, Protocol::ll128);
  EXPECT_EQ(nccl::choose(CollectiveKind::broadcast, 8, g, {}, Protocol::simple).protocol, Protocol::simple);
  g = hopper(8);
  g.multicast = true;
  EXPECT_EQ(nccl::choose(CollectiveKind::all_reduce, 64 * kMiB, g).algorithm, Algorithm::nvls);
  EXPECT_NE(nccl::choose(CollectiveKind::all_reduce, 64 * kMiB, g, {}, Protocol::ll).algorithm, Algorithm::nvls)
      << "switches add for Simple alone";
  EXPECT_THROW(nccl::choose(CollectiveKind::all_reduce, kMiB, g, Algorithm::nvls, Protocol::ll), BadInput);
  g.path = nccl::Path::pcie;
  EXPECT_THROW(nccl::choose(CollectiveKind::all_reduce, kMiB, g, {}, Protocol::ll128), BadInput);
}

/// By NCCL's tables: LL 6.6 us and eight hops of 0.6; Simple 8.4 us and eight of the tree's 4.
TEST(NcclTuner, ABroadcastIsAChain) {
  const auto small = nccl::choose(CollectiveKind::broadcast, 8, hopper(8));
  EXPECT_EQ(small.protocol, Protocol::ll);
  EXPECT_NEAR(small.reckoned.in(units::us), 6.6 + 8 * 0.6, 1e-3);
  const auto large = nccl::choose(CollectiveKind::broadcast, 64 * kMiB, hopper(8));
  EXPECT_EQ(large.protocol, Protocol::simple);
  EXPECT_NEAR(large.reckoned.in(units::us), 8.4 + 8 * 4.0 + 64 * kMiB / 360e3, 1e-6);
}

class NcclOnH200 : public testing::Test {
 protected:
  Seconds time_of(const std::string& op, const std::string& shape, bool alone = true, bool queued = false) {
    PredictOptions options;
    options.alone = alone;
    options.queued = queued;
    predictor_.predict(parse_op(op, "bf16", shape), machine_, out_, options);
    return out_.time;
  }
  Machine machine_ = machines().get({.gpu = "h200_sxm"});
  Predictor predictor_;
  OpPrediction out_;
};

/// A ring of Simple, by hand: six steps of N / 4 and what the ends copy, six hops, and half a chunk of 2 MiB at one
/// channel's rate.
TEST_F(NcclOnH200, ARingTakesItsStepsItsHopsAndItsFill) {
  const FamilyScalars& f = scalars_of(machine_, "library.nccl_ring_simple");
  const Seconds part = kMiB * 1024 / 4 * units::B / (f.link_share * 450.0 * units::GB_per_s);
  const Seconds hops = 6.0 * f.step, fill = kMiB * units::B / f.channel;
  const Seconds by_hand = f.fixed + hops + fill + (6 + f.exposed) * part + machine_.rates().gap_graph;
  EXPECT_NEAR(time_of("all_reduce", "bytes=1073741824;gpus=4") / by_hand, 1, 1e-9);
  EXPECT_EQ(out_.bound, Bound::network);
  EXPECT_STREQ(out_.launches[0].kernel, "nccl ring simple");
}

/// A ring of LL, by hand. 512 KiB on 8 GPUs: 16 channels, whose 512 threads have one line of 8 bytes a step each; an
/// all-gather's 8 parts are stored byte by byte. 2 MiB on 24 channels: 2.7 lines a thread, so three, in 8 turns.
TEST_F(NcclOnH200, ARingOfLlGoesByWholeLinesOfItsThreads) {
  const FamilyScalars& f = scalars_of(machine_, "library.nccl_ring_ll");
  const Seconds hops = 7.0 * (f.step + f.per_cta) + f.per_cta;  // once at a CTA's ends
  const auto by_hand = [&](double bytes, double channels, double more_lines, double kept, double element) {
    return f.fixed + machine_.rates().gap_graph + hops + (channels - 1) * f.counter +
           8 * more_lines * 4096 * units::B / f.channel + kept * bytes / 8 / element / channels * units::B / f.element;
  };
  EXPECT_NEAR(time_of("all_gather", "bytes=524288;gpus=8") / by_hand(524288, 16, 0, 8, 1), 1, 1e-9);
  EXPECT_STREQ(out_.launches[0].kernel, "nccl ring ll");
  EXPECT_NEAR(time_of("all_gather", "bytes=2097152;gpus=8") / by_hand(2 * kMiB, 24, 2, 8, 1), 1, 1e-9);
  EXPECT_NEAR(time_of("reduce_scatter", "bytes=2097152;gpus=8") / by_hand(2 * kMiB, 24, 2, 1, 2), 1, 1e-9);
}

/// Among two GPUs 2 MiB are more than 8 lines a thread: the ring begins anew, which is a hop more.
TEST_F(NcclOnH200, ALineBufferIsFilledAgain) {
  const FamilyScalars& f = scalars_of(machine_, "library.nccl_ring_ll");
  const Seconds stored = 2 * kMiB / 2 / 2 / 24 * units::B / f.element;
  const Seconds by_hand = f.fixed + machine_.rates().gap_graph + 2.0 * f.step + 3.0 * f.per_cta + 23.0 * f.counter +
                          2.0 * 9 * 4096 * units::B / f.channel + stored;
  EXPECT_NEAR(time_of("reduce_scatter", "bytes=2097152;gpus=2") / by_hand, 1, 1e-9);
}

/// Flags beside each 4 bytes are half of what the links carry.
TEST_F(NcclOnH200, LlIsNeverQuickerThanTheLinks) {
  MachineOptions options;
  options.stack.protocol = CollectiveProtocol::ll;
  const Machine forced = make_machine(load_gpu("h200_sxm"), options);
  for (const double ranks : {2.0, 4.0, 8.0}) {
    const std::string shape = "bytes=268435456;multicast=0;gpus=" + std::to_string(static_cast<int>(ranks));
    predictor_.predict(parse_op("all_gather", "bf16", shape), forced, out_, PredictOptions{});
    EXPECT_STREQ(out_.launches[0].kernel, "nccl ring ll");
    const double payload = 256 * kMiB * (ranks - 1) / ranks;
    EXPECT_GT(out_.time, 2 * payload * units::B / (450.0 * units::GB_per_s));
  }
}

TEST_F(NcclOnH200, AStackCallsFromAStreamOfItsOwn) {
  const Seconds bare = time_of("all_gather", "bytes=8192;gpus=2");
  const CollectiveCall& call = machine_.stack().collective_call;
  const Seconds called = time_of("all_gather", "bytes=8192;gpus=2", false);
  EXPECT_GT(call.fixed, Seconds{});
  EXPECT_NEAR((called - bare) / call.fixed, 1, 1e-9);
  const Seconds of_four =
      time_of("all_gather", "bytes=8192;gpus=4", false) - time_of("all_gather", "bytes=8192;gpus=4");
  EXPECT_NEAR(of_four / (call.fixed + call.more_than_two), 1, 1e-9);
}

TEST_F(NcclOnH200, MulticastIsAFactOfARowToo) {
  const Seconds with = time_of("all_reduce", "bytes=268435456;gpus=8");
  EXPECT_STREQ(out_.launches[0].kernel, "nccl nvls");
  EXPECT_GT(time_of("all_reduce", "bytes=268435456;gpus=8;multicast=0"), with);
  EXPECT_STREQ(out_.launches[0].kernel, "nccl ring simple");
}

/// Switches add no 8-bit types; what is only gathered is bytes to them.
TEST_F(NcclOnH200, SumsOfEightBitsGoByRings) {
  const auto kernel_of = [&](const char* op, const char* type, const char* shape) {
    predictor_.predict(parse_op(op, type, shape), machine_, out_, {.alone = true});
    return std::string(out_.launches[0].kernel);
  };
  for (const char* type : {"int8", "fp8"}) {
    EXPECT_EQ(kernel_of("all_reduce", type, "bytes=268435456;gpus=8"), "nccl ring simple") << type;
    EXPECT_EQ(kernel_of("all_gather", type, "bytes=268435456;gpus=8"),
              kernel_of("all_gather", "bf16", "bytes=268435456;gpus=8"));
  }
  EXPECT_EQ(kernel_of("all_reduce", "fp16", "bytes=268435456;gpus=8"), "nccl nvls");
  MachineOptions told;
  told.stack.collective = CollectiveChoice::nvls;
  const Machine forced = make_machine(load_gpu("h200_sxm"), told);
  EXPECT_THAT(refusal([&] {
                predictor_.predict(parse_op("all_reduce", "int8", "bytes=1048576;gpus=8"), forced, out_,
                                   PredictOptions{});
              }),
              HasSubstr("NCCL has no such algorithm"));
}

/// What eight GPUs reach with switches that add and without, nccl-tests on H100 and H200 (data/measurements/aiconfigurator,
/// training rows): 512 MiB of fp16 and of int8.
TEST(Nccl, LargeSumsReachWhatSwitchesGive) {
  struct Row {
    const char *gpu, *type;
    double us;
  };
  Predictor predictor;
  for (const Row& row : {Row{"h100_sxm", "fp16", 2111.4}, Row{"h100_sxm", "int8", 2667.8},
                         Row{"h200_sxm", "fp16", 2040.3}, Row{"h200_sxm", "int8", 2653.2}}) {
    OpPrediction out;
    predictor.predict(parse_op("all_reduce", row.type, "bytes=536870912;gpus=8"), machines().get({.gpu = row.gpu}), out,
                      {.alone = true});
    EXPECT_NEAR(out.time.in(units::us) / row.us, 1, 0.04) << row.gpu << ' ' << row.type;
  }
}

TEST_F(NcclOnH200, ANodeIsFasterThanTheNetwork) {
  const Seconds inside = time_of("all_gather", "bytes=67108864;gpus=8");
  EXPECT_GT(time_of("all_gather", "bytes=67108864;gpus=16"), inside);
  EXPECT_GT(time_of("all_to_all", "bytes=67108864;gpus=16"), time_of("all_to_all", "bytes=67108864;gpus=8"));
}

/// By hand, 64 ranks of a node each and 4 MiB: 8 us, six doublings of 14 / 3.5 us, 2.8 us a rank, three quarters of 50 GB/s:
/// 323 us. Rings: LL 6.6 + 63 x 2.7 us and 4 MiB at 20.7 GB/s, 379; LL128 14 + 63 x 4 us and 4 MiB at 46.7 GB/s, 356.
TEST(NcclTuner, TreesInParallelRunWhereEachRankHasANode) {
  nccl::Group g = hopper(64);
  g.nodes = 64;
  g.network = 50.0 * units::GB_per_s;
  const auto gathered = nccl::choose(CollectiveKind::all_gather, 4 * kMiB, g);
  EXPECT_EQ(gathered.algorithm, Algorithm::pat);
  EXPECT_NEAR(gathered.reckoned.in(units::us), 8 + 6 * 14 / 3.5 + 64 * 2.8 + 4 * kMiB / 37.5e3, 1e-6);
  EXPECT_EQ(nccl::choose(CollectiveKind::reduce_scatter, 4 * kMiB, g).algorithm, Algorithm::pat);
  EXPECT_EQ(nccl::choose(CollectiveKind::all_gather, 256 * kMiB, g).algorithm, Algorithm::ring) << "of more bandwidth";
  EXPECT_NE(nccl::choose(CollectiveKind::all_reduce, 4 * kMiB, g).algorithm, Algorithm::pat);
  EXPECT_NE(nccl::choose(CollectiveKind::broadcast, 4 * kMiB, g).algorithm, Algorithm::pat);
  EXPECT_EQ(nccl::choose(CollectiveKind::all_gather, 4 * kMiB, g, Algorithm::ring).algorithm, Algorithm::ring);
  g.nodes = 32;
  EXPECT_EQ(nccl::choose(CollectiveKind::all_gather, 4 * kMiB, g).algorithm, Algorithm::ring) << "two ranks a node";
  for (const double bytes : {1024.0, kMiB, 64 * kMiB}) {
    EXPECT_EQ(nccl::choose(CollectiveKind::all_gather, bytes, hopper(8)).algorithm, Algorithm::ring);
  }
}

TEST_F(NcclOnH200, RanksANodeApartGatherByTrees) {
  time_of("all_gather", "bytes=4194304;gpus=64;stride=8");
  EXPECT_STREQ(out_.launches[0].kernel, "nccl pat simple");
  EXPECT_EQ(out_.provenance, Provenance::never_measured);
  time_of("all_gather", "bytes=4194304;gpus=64");
  EXPECT_THAT(out_.launches[0].kernel, HasSubstr("nccl ring"));
}

/// Of 500,000 bf16 and a byte the longest of three parts is 166,667 bf16: as of 1,000,002 bytes.
TEST_F(NcclOnH200, PartsOfUnequalLengthTakeAsLongAsTheLongest) {
  for (const char* op : {"all_gather", "reduce_scatter", "all_to_all"}) {
    EXPECT_EQ(time_of(op, "bytes=1000001;gpus=3"), time_of(op, "bytes=1000002;gpus=3")) << op;
    EXPECT_LT(time_of(op, "bytes=1000002;gpus=3"), time_of(op, "bytes=1000008;gpus=3")) << op;
  }
}

TEST_F(NcclOnH200, MessagesBetweenTwoGpusArePriced) {
  EXPECT_GT(time_of("send_recv", "bytes=1048576"), time_of("send_recv", "bytes=1024"));
}

/// Messages of 128 KiB by the library's buffers wait for the receiver; of 512 MiB nobody sees that.
TEST_F(NcclOnH200, ACapturedExchangeSkipsTheLibrarysBuffers) {
  EXPECT_GT(time_of("all_to_all", "bytes=262144;gpus=2", true, true) / time_of("all_to_all", "bytes=262144;gpus=2"),
            1.2);
  EXPECT_NEAR(
      time_of("all_to_all", "bytes=1073741824;gpus=2", true, true) / time_of("all_to_all", "bytes=1073741824;gpus=2"),
      1, 0.01);
  EXPECT_EQ(time_of("all_gather", "bytes=262144;gpus=2", true, true), time_of("all_gather", "bytes=262144;gpus=2"));
}

/// By hand: a message of 128 MiB on 16 channels, which begin one after the other beside the data; the launch's last CTA is one
/// more start.
TEST_F(NcclOnH200, ChannelsOfAnExchangeShareTheLink) {
  const FamilyScalars& f = scalars_of(machine_, "library.nccl_peer_simple");
  const Bytes message = 128 * kMiB * units::B, first = (524288 - 65536) * units::B;
  const Seconds data =
      message / (f.link_share * 450.0 * units::GB_per_s) + (message / 16.0 + f.exposed * first) / f.channel;
  const auto by_hand = [&](Seconds begun) {
    const double together = std::pow(begun.in(units::s), f.overlap) + std::pow(data.in(units::s), f.overlap);
    return f.fixed + std::pow(together, 1 / f.overlap) * units::s + f.per_cta + machine_.rates().gap_graph;
  };
  EXPECT_NEAR(time_of("all_to_all", "bytes=268435456;gpus=2") / by_hand(15 * f.per_cta), 1, 1e-9);
}

/// 64 KiB on each of so many channels (data/measurements/h200/links/x4_first.csv, captured; the aiconfigurator's A100, queued:
/// its own stream's gap with it). Nothing was fitted to four H200.
TEST(NcclExchanges, TakeLongerByTheirChannelsStarts) {
  struct Row {
    const char* gpu;
    const char* shape;
    bool queued;
    double us, within;
  };
  const Row rows[] = {{"h200_sxm", "bytes=131072;gpus=2", false, 7.62, 0.06},
                      {"h200_sxm", "bytes=524288;gpus=2", false, 9.33, 0.06},
                      {"h200_sxm", "bytes=2097152;gpus=2", false, 14.34, 0.06},
                      {"h200_sxm", "bytes=2097152;gpus=4", false, 20.09, 0.11},
                      {"a100_sxm", "bytes=131072;gpus=2", true, 14.45, 0.06},
                      {"a100_sxm", "bytes=524288;gpus=2", true, 17.31, 0.06},
                      {"a100_sxm", "bytes=2097152;gpus=2", true, 28.81, 0.06},
                      {"a100_sxm", "bytes=2097152;gpus=4", true, 36.02, 0.08}};
  Predictor predictor;
  for (const Row& row : rows) {
    const Machine machine = machines().get({.gpu = row.gpu, .options = MachineOptions{"nccl"}});
    OpPrediction out;
    predictor.predict(parse_op("all_to_all", "bf16", row.shape), machine, out, {.alone = true, .queued = row.queued});
    EXPECT_NEAR(out.time.in(units::us) / row.us, 1, row.within) << row.gpu << ' ' << row.shape;
  }
}

/// One chip and one set of links: what nobody timed on an H100, a captured call, is as on the H200.
TEST(NcclExchanges, ACapturedCallOnAnH100IsAsOnAnH200) {
  Predictor predictor;
  for (const char* shape : {"bytes=131072;gpus=2", "bytes=524288;gpus=4", "bytes=2097152;gpus=8"}) {
    OpPrediction h100, h200;
    predictor.predict(parse_op("all_to_all", "bf16", shape), machines().get({.gpu = "h100_sxm"}), h100,
                      {.alone = true});
    predictor.predict(parse_op("all_to_all", "bf16", shape), machines().get({.gpu = "h200_sxm"}), h200,
                      {.alone = true});
    EXPECT_NEAR(h100.time / h200.time, 1, 0.15) << shape;
  }
}

TEST_F(NcclOnH200, TheBusiestRankDecides) {
  const Seconds even = time_of("all_to_all", "bytes=268435456;gpus=8");
  EXPECT_NEAR(time_of("all_to_all", "bytes=268435456;gpus=8;skew=50") / even, 1.5, 0.05);
  EXPECT_THROW(time_of("all_gather", "bytes=268435456;gpus=8;skew=50"), BadInput);
}

TEST_F(NcclOnH200, ABroadcastIsPricedAndNeverMeasured) {
  const Seconds wire = 1024 * kMiB * units::B / (450.0 * units::GB_per_s);
  const Seconds all = time_of("broadcast", "bytes=1073741824;gpus=8");
  EXPECT_EQ(out_.provenance, Provenance::never_measured);
  EXPECT_GT(all, wire);
  EXPECT_LT(all, 1.5 * wire);
  EXPECT_GT(time_of("broadcast", "bytes=64;gpus=8"), time_of("broadcast", "bytes=64;gpus=2"));
}

/// A study that doubles the port doubles the tier; what depends on neither bytes nor bandwidth stays.
TEST_F(NcclOnH200, AFasterPortIsNeverSlower) {
  GpuNumbers numbers = machine_.numbers();
  numbers.links.nvlink_per_direction *= 2.0;
  const Machine faster = machine_.with(numbers);
  for (const char* op : {"all_gather", "reduce_scatter", "all_to_all"}) {
    const Seconds before = time_of(op, "bytes=1073741824;gpus=8");
    predictor_.predict(parse_op(op, "bf16", "bytes=1073741824;gpus=8"), faster, out_, {.alone = true});
    EXPECT_LT(out_.time, before) << op;
  }
}

TEST(Nccl, ANodeWithoutANetworkEndsThere) {
  MachineOptions options;
  options.cluster = "pcie_rtx_4090";
  const Machine machine = machines().get({.gpu = "rtx_4090", .options = options});
  Predictor predictor;
  OpPrediction out;
  EXPECT_THAT(refusal([&] { predictor.predict(parse_op("all_reduce", "bf16", "bytes=1024;gpus=5"), machine, out); }),
              HasSubstr("nothing joins more than its 4 GPUs; found 5"));
}

}  // namespace
}  // namespace plumbline::nccl_test

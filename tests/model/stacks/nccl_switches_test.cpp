// NCCL's algorithms of switches that add, inside nodes (NVLS), between them (NVLS trees) and in the network (CollNet): which
// one its cost model takes, by hand, and that nobody measured them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "model/predict.hpp"
#include "model/question/question.hpp"
#include "model/question/words.hpp"
#include "model/stacks/common/collective_choice.hpp"
#include "model/stacks/nccl/tuner.hpp"
#include "ops/table/text.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/workloads.hpp"

namespace plumbline::nccl_switches_test {
namespace {

using nccl::Algorithm;
using ::testing::HasSubstr;
using testing_support::decode;
using testing_support::prefill;
using testing_support::refusal;

constexpr double kMiB = 1048576;
constexpr auto kSum = CollectiveKind::all_reduce;

/// Nodes of eight with NVLink switches that add, a port of 50 GB/s a GPU.
nccl::Group pod(double nodes) {
  nccl::Group g;
  g.ranks = 8 * nodes;
  g.nodes = nodes;
  g.wire = 450.0 * units::GB_per_s;
  g.network = 50.0 * units::GB_per_s;
  g.multicast = true;
  return g;
}

/// By hand, two nodes: eight channels, each at most 2 x 360 / 8 x 0.85 x 7 / 8 = 66.9 GB/s of NVLS, 2 x 50 of the port and 57.7
/// of NCCL's table: 461.6 GB/s, of which 16 of 30 steps' worth; 25 us and twice 14. Rings: 400 GB/s.
TEST(NcclSwitches, TwoNodesTakeATreeOfNodes) {
  const auto choice = nccl::choose(kSum, 256 * kMiB, pod(2));
  EXPECT_EQ(choice.algorithm, Algorithm::nvls_tree);
  EXPECT_NEAR(choice.reckoned.in(units::us), 25 + 2 * 14 + 256 * kMiB / (1000 * 8 * 57.7 * 16 / 30), 1e-6);
  nccl::Group alone = pod(2);
  alone.multicast = false;
  EXPECT_EQ(nccl::choose(kSum, 256 * kMiB, alone).algorithm, Algorithm::ring);
  EXPECT_EQ(nccl::choose(kSum, 4096, pod(2)).algorithm, Algorithm::tree) << "25 us are long for 4 KiB";
}

/// Four nodes: 45.5 GB/s a channel, four messages of the network; nodes of one rank have nothing to add inside.
TEST(NcclSwitches, MoreNodesTakeItForMiddlingSizes) {
  const auto choice = nccl::choose(kSum, 64 * kMiB, pod(4));
  EXPECT_EQ(choice.algorithm, Algorithm::nvls_tree);
  EXPECT_NEAR(choice.reckoned.in(units::us), 25 + 4 * 14 + 64 * kMiB / (1000 * 8 * 45.5 * 32 / 62), 1e-6);
  nccl::Group sparse = pod(4);
  sparse.ranks = 4;
  EXPECT_FALSE(nccl::switches_allowed(Algorithm::nvls_tree, kSum, sparse));
}

/// Direct, by hand: 0.85 of 8 x 50 GB/s, half of it; 2 (3.7 + 7 x 0.4) us and the network's 31.
TEST(NcclSwitches, ANetworkThatAddsIsTakenWhereTheClusterHasIt) {
  nccl::Group g = pod(16);
  EXPECT_THROW(nccl::choose(kSum, kMiB, g, Algorithm::collnet_direct), BadInput);
  g.network_adds = true;
  const auto direct = nccl::choose(kSum, 64 * kMiB, g, Algorithm::collnet_direct);
  EXPECT_NEAR(direct.reckoned.in(units::us), 2 * (3.7 + 7 * 0.4) + 31 + 64 * kMiB / (1000 * 0.85 * 400 / 2), 1e-6);
  const auto chain = nccl::choose(kSum, 64 * kMiB, g, Algorithm::collnet_chain);
  EXPECT_NEAR(chain.reckoned.in(units::us), 2 * 7 * 2.8 + 30 + 64 * kMiB / (1000 * 200.0), 1e-6);
  const auto gathered = nccl::choose(CollectiveKind::all_gather, 64 * kMiB, g, Algorithm::collnet_direct);
  EXPECT_NEAR(gathered.reckoned.in(units::us), 2 * (3.7 + 7 * 0.4) + 31 + 64 * kMiB / (1000 * 8 * 45.0), 1e-6);
  EXPECT_EQ(nccl::choose(kSum, 64 * kMiB, g, Algorithm::nvls).algorithm, Algorithm::nvls)
      << "NVLS and the network's sum";
  g.ranks = 16 * 16;
  EXPECT_FALSE(nccl::switches_allowed(Algorithm::collnet_direct, kSum, g)) << "of nodes of eight at most";
}

/// Where each rank has a node to itself NCCL reckons with the tree's message, as nothing hides it: 14 + 30 x 8.5 us for LL128.
TEST(NcclSwitches, RanksOfANodeEachSeeWholeMessages) {
  nccl::Group g = pod(16);
  g.ranks = 16;
  EXPECT_EQ(nccl::reckoned_network_hop(g, Algorithm::ring, nccl::Protocol::ll).in(units::us), 5);
  EXPECT_EQ(nccl::reckoned_network_hop(pod(16), Algorithm::ring, nccl::Protocol::ll).in(units::us), 2.7);
}

/// Whatever is chosen is quickest of what may be named.
RC_GTEST_PROP(NcclSwitches, TheChoiceIsTheLeastOfAll, ()) {
  nccl::Group g = pod(*rc::gen::inRange(1, 65));
  g.ranks = *rc::gen::element(1.0, 4.0, 8.0) * g.nodes;
  RC_PRE(g.ranks > 1);
  g.multicast = *rc::gen::arbitrary<bool>();
  g.network_adds = *rc::gen::arbitrary<bool>();
  const auto kind = *rc::gen::element(kSum, CollectiveKind::all_gather, CollectiveKind::reduce_scatter);
  const double bytes = std::exp2(*rc::gen::inRange(8, 31));
  const auto best = nccl::choose(kind, bytes, g);
  RC_ASSERT(best.reckoned > Seconds{});
  for (const Algorithm a : {Algorithm::ring, Algorithm::tree, Algorithm::pat, Algorithm::nvls_tree,
                            Algorithm::collnet_direct, Algorithm::collnet_chain}) {
    const bool few = a == Algorithm::nvls_tree && g.ranks_per_node() < 8;  // left to the ring, unless it is named
    if (few) continue;
    try {
      RC_ASSERT(best.reckoned <= nccl::choose(kind, bytes, g, a).reckoned);
    } catch (const BadInput&) {
      RC_ASSERT(a != Algorithm::ring);
    }
  }
}

Machine of(const char* stack, CollectiveChoice collective, const std::string& cluster = "") {
  MachineOptions options{stack};
  options.stack.collective = collective;
  options.cluster = cluster;
  return make_machine(load_gpu("h200_sxm"), options);
}

std::string kernel_of(const Machine& machine, const char* op, const char* shape, Provenance* provenance = nullptr) {
  const OpPrediction out = predict(parse_op(op, "bf16", shape), machine);
  if (provenance != nullptr) *provenance = out.provenance;
  return out.launches[0].kernel;
}

/// DGX H200 whose network adds.
std::string adding_network() {
  nlohmann::json cluster = nlohmann::json::parse(read_text_file(data_folder() + "/clusters/dgx_h200.json"));
  cluster["tiers"][1]["in_network_reduction"] = true;
  const std::string file = testing::TempDir() + "adding_network.json";
  std::ofstream(file) << cluster;
  return file;
}

TEST(NcclSwitches, ArePricedAndNeverMeasured) {
  Provenance provenance{};
  EXPECT_EQ(kernel_of(of("nccl", CollectiveChoice::automatic), "all_reduce", "bytes=268435456;gpus=16", &provenance),
            "nccl nvls tree");
  EXPECT_EQ(provenance, Provenance::never_measured);
  const std::string file = adding_network();
  const std::pair<CollectiveChoice, const char*> named[] = {{CollectiveChoice::collnet_direct, "nccl collnet direct"},
                                                            {CollectiveChoice::collnet_chain, "nccl collnet chain"},
                                                            {CollectiveChoice::nvls, "nccl nvls"}};
  for (const auto& [choice, kernel] : named) {
    EXPECT_EQ(kernel_of(of("nccl", choice, file), "all_reduce", "bytes=268435456;gpus=64", &provenance), kernel);
    EXPECT_EQ(provenance, Provenance::never_measured);
  }
  EXPECT_EQ(kernel_of(of("nccl", CollectiveChoice::pat), "all_gather", "bytes=1024;gpus=16;stride=8"),
            "nccl pat simple");
  EXPECT_THAT(refusal([&] { kernel_of(of("nccl", CollectiveChoice::pat), "all_gather", "bytes=1024;gpus=16"); }),
              HasSubstr("pat of all_gather and reduce_scatter among ranks of a node each"));
  EXPECT_THAT(
      refusal([&] { kernel_of(of("nccl", CollectiveChoice::collnet_direct), "all_reduce", "bytes=1024;gpus=16"); }),
      HasSubstr("collnet a network that adds"));
}

/// No collective is quicker than its bytes: a port's share of the node's, the GPU's own inside.
TEST(NcclSwitches, NoneIsQuickerThanItsPort) {
  const std::string file = adding_network();
  for (const CollectiveChoice choice :
       {CollectiveChoice::automatic, CollectiveChoice::nvls_tree, CollectiveChoice::nvls,
        CollectiveChoice::collnet_direct, CollectiveChoice::collnet_chain}) {
    for (const double gpus : {16.0, 64.0}) {
      const double bytes = 1 << 30;
      const std::string shape = "bytes=1073741824;gpus=" + std::to_string(static_cast<int>(gpus));
      const Seconds time = predict(parse_op("all_reduce", "bf16", shape), of("nccl", choice, file)).time;
      EXPECT_GT(time, bytes / 8 * units::B / (50.0 * units::GB_per_s)) << static_cast<int>(choice);
      EXPECT_LT(time, 4 * bytes / 8 * units::B / (50.0 * units::GB_per_s)) << static_cast<int>(choice);
    }
  }
}

/// In a step the collectives that an algorithm is of go by it; it is refused where there are none.
TEST(NcclSwitches, ANamedAlgorithmIsOfThoseCollectivesThatHaveIt) {
  Workload w = decode(16, 1000);
  w.parallel.tensor = 8;
  const StepPrediction step = predict(load_llm("llama-3.1-8b"), w, of("nccl", CollectiveChoice::tree), {});
  int trees = 0, rings = 0;
  for (const NodePrediction& n : step.nodes) {
    if (!std::holds_alternative<Collective>(n.node->op)) continue;
    const std::string_view kernel = n.op.launches[0].kernel;
    trees += kernel.substr(0, 9) == "nccl tree";
    rings += kernel.substr(0, 9) == "nccl ring";
  }
  EXPECT_GT(trees, 0);
  EXPECT_EQ(rings, 1) << "the logits are gathered";
  EXPECT_FALSE(is_algorithm_of(CollectiveChoice::pat, kSum));
  EXPECT_TRUE(is_algorithm_of(CollectiveChoice::nvls, CollectiveKind::reduce_scatter));
}

/// Protocols are named behind an algorithm or alone; in a step they are of all collectives of NCCL's but exchanges.
TEST(NcclSwitches, AProtocolIsNamedWithOrWithoutAnAlgorithm) {
  StackChoice choice;
  set_collective(choice, "--collective", "tree:ll128");
  EXPECT_EQ(choice.collective, CollectiveChoice::tree);
  EXPECT_EQ(choice.protocol, CollectiveProtocol::ll128);
  EXPECT_EQ(collective_text(choice), "tree:ll128");
  set_collective(choice, "--collective", "simple");
  EXPECT_EQ(choice.collective, CollectiveChoice::automatic);
  EXPECT_EQ(choice.protocol, CollectiveProtocol::simple);
  set_collective(choice, "--collective", "ring");
  EXPECT_EQ(choice.protocol, CollectiveProtocol::automatic);
  EXPECT_THAT(refusal([&] { set_collective(choice, "--collective", "nvls:ll"); }), HasSubstr("that nvls has"));
  EXPECT_THAT(refusal([&] { set_collective(choice, "--collective", "one-shot:simple"); }),
              HasSubstr("no kernels of NCCL"));
  EXPECT_THAT(refusal([&] { set_collective(choice, "--collective", "ring:ll12"); }), HasSubstr("ll128"));
  EXPECT_THAT(refusal([&] { set_collective(choice, "--collective", "rin:ll"); }), HasSubstr("ring"));
}

TEST(NcclSwitches, ANamedProtocolIsOfAllOfAStepsCollectives) {
  Workload w = decode(16, 1000);
  w.parallel.tensor = 8;
  for (const char* stack : {"nccl", "trt-llm", "own"}) {
    MachineOptions options{stack};
    options.stack.protocol = CollectiveProtocol::ll128;
    const Machine machine = make_machine(load_gpu("h200_sxm"), options);
    int seen = 0;
    const StepPrediction step = predict(load_llm("llama-3.1-8b"), w, machine, {});
    for (const NodePrediction& n : step.nodes) {
      if (!std::holds_alternative<Collective>(n.node->op)) continue;
      ++seen;
      EXPECT_THAT(std::string(n.op.launches[0].kernel), HasSubstr("ll128")) << stack;
    }
    EXPECT_GT(seen, 1);
  }
}

/// Whoever timed NCCL let it choose: another protocol is priced by its own scalars, at sizes that nobody timed it at.
TEST(NcclSwitches, AProtocolThatNcclWouldNotTakeIsNeverMeasured) {
  MachineOptions options{"nccl"};
  options.stack.protocol = CollectiveProtocol::ll;
  const Machine flags = make_machine(load_gpu("h200_sxm"), options);
  Provenance provenance{};
  EXPECT_EQ(kernel_of(flags, "all_gather", "bytes=1048576;gpus=2", &provenance), "nccl ring ll");
  EXPECT_EQ(provenance, Provenance::measured);
  EXPECT_EQ(kernel_of(flags, "all_gather", "bytes=67108864;gpus=2", &provenance), "nccl ring ll");
  EXPECT_EQ(provenance, Provenance::never_measured);
}

TEST(NcclSwitches, ExchangesChooseTheirProtocolThemselves) {
  StackChoice choice;
  choice.protocol = CollectiveProtocol::ll;
  EXPECT_FALSE(has_said_way(choice, parse_op("all_to_all", "bf16", "bytes=1024;gpus=2")));
  EXPECT_TRUE(has_said_way(choice, parse_op("all_gather", "bf16", "bytes=1024;gpus=2")));
  EXPECT_FALSE(goes_as_said(CollectiveChoice::automatic, CollectiveProtocol::ll, CollectiveKind::all_to_all));
  EXPECT_TRUE(goes_as_said(CollectiveChoice::ring, CollectiveProtocol::ll, CollectiveKind::broadcast));
}

Machine told(CollectiveChoice collective) {
  MachineOptions options{"nccl"};
  options.stack.collective = collective;
  return make_machine(load_gpu("h200_sxm"), options);
}

OpPrediction priced(const Machine& machine, const char* op, const std::string& shape) {
  Predictor predictor;
  OpPrediction out;
  predictor.predict(parse_op(op, "bf16", shape), machine, out, {.alone = true});
  return out;
}

/// In levels: the calls by themselves, one after the other, of which the network sees a node's eighth.
TEST(NcclLevels, AreCallsOneAfterTheOther) {
  const Machine levels = told(CollectiveChoice::hierarchical), usual = told(CollectiveChoice::automatic);
  const auto together = [&](std::initializer_list<std::pair<const char*, const char*>> calls) {
    Seconds all;
    for (const auto& [op, shape] : calls) all += priced(usual, op, shape).time;
    return all;
  };
  const auto in_levels = [&](const char* op) { return priced(levels, op, "bytes=67108864;gpus=32").time; };
  EXPECT_NEAR(in_levels("all_reduce") / together({{"reduce_scatter", "bytes=67108864;gpus=8"},
                                                  {"all_reduce", "bytes=8388608;gpus=4;stride=8"},
                                                  {"all_gather", "bytes=67108864;gpus=8"}}),
              1, 1e-9);
  EXPECT_NEAR(in_levels("all_gather") /
                  together({{"all_gather", "bytes=8388608;gpus=4;stride=8"}, {"all_gather", "bytes=67108864;gpus=8"}}),
              1, 1e-9);
  EXPECT_NEAR(in_levels("reduce_scatter") / together({{"reduce_scatter", "bytes=67108864;gpus=8"},
                                                      {"reduce_scatter", "bytes=8388608;gpus=4;stride=8"}}),
              1, 1e-9);
  EXPECT_NEAR(in_levels("broadcast") /
                  together({{"broadcast", "bytes=67108864;gpus=4;stride=8"}, {"broadcast", "bytes=67108864;gpus=8"}}),
              1, 1e-9);
  EXPECT_EQ(priced(levels, "all_reduce", "bytes=67108864;gpus=32").provenance, Provenance::never_measured);
}

TEST(NcclLevels, AreNoneInsideANodeOrOfRanksANodeApart) {
  const Machine levels = told(CollectiveChoice::hierarchical), usual = told(CollectiveChoice::automatic);
  for (const char* shape : {"bytes=67108864;gpus=8", "bytes=1048576;gpus=4;stride=8"}) {
    EXPECT_EQ(priced(levels, "all_reduce", shape).time, priced(usual, "all_reduce", shape).time) << shape;
  }
  EXPECT_THAT(refusal([&] { priced(levels, "all_reduce", "bytes=1048576;gpus=20"); }),
              HasSubstr("as many ranks in each node of 8 GPUs; found 20"));
}

/// Along rails, by hand, 32 ranks in 4 nodes of 8, 2 MiB each to each: 3 x 8 messages by a GPU's port of 50 GB/s; nothing of
/// the 7 x 4 by NVLink is longer. A message with flags takes a hop of NVLink's 0.6 us more than straight.
TEST(NcclRails, CarryAMessageANode) {
  const Machine rails = told(CollectiveChoice::rail_aligned), straight = told(CollectiveChoice::automatic);
  const OpPrediction out = priced(rails, "all_to_all", "bytes=67108864;gpus=32");
  EXPECT_NEAR(out.launches[0].demand.link.in(units::B), 24 * 2 * kMiB, 1);
  EXPECT_NEAR(out.launches[0].demand.link_rate.in(units::GB_per_s), 50, 1e-9);
  EXPECT_EQ(out.provenance, Provenance::never_measured);
  const Seconds on = priced(rails, "all_to_all", "bytes=32;gpus=32").time,
                off = priced(straight, "all_to_all", "bytes=32;gpus=32").time;
  EXPECT_NEAR((on - off).in(units::us), 0.6, 0.05);
  EXPECT_EQ(priced(rails, "all_to_all", "bytes=67108864;gpus=8").time,
            priced(straight, "all_to_all", "bytes=67108864;gpus=8").time)
      << "one node has no rails";
  EXPECT_THAT(refusal([&] { priced(rails, "all_gather", "bytes=1048576;gpus=32"); }), HasSubstr("of all_to_all"));
}

/// In a step each collective goes so that the choice is of.
TEST(NcclLevels, OfAStepAreThoseBeyondANode) {
  Predictor predictor;
  const Llm llm = load_llm("llama-3.1-70b");
  Workload w = prefill(4, 2048);
  w.parallel.tensor = 16;
  const Seconds usual = predictor.predict(llm, w, told(CollectiveChoice::automatic), {}).latency;
  EXPECT_GT(predictor.predict(llm, w, told(CollectiveChoice::hierarchical), {}).latency, usual)
      << "NCCL's own rings pass through the nodes in chunks that overlap";
  EXPECT_EQ(predictor.predict(llm, w, told(CollectiveChoice::rail_aligned), {}).latency, usual);
  w.parallel.tensor = 8;
  EXPECT_EQ(predictor.predict(llm, w, told(CollectiveChoice::hierarchical), {}).latency,
            predictor.predict(llm, w, told(CollectiveChoice::automatic), {}).latency);
}

}  // namespace
}  // namespace plumbline::nccl_switches_test

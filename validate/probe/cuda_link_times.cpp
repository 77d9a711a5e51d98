// Collectives, ours and NCCL's, in CUDA graphs: ranks aligned by a barrier of theirs, the slowest rank's time.
#include <algorithm>
#include <cstdio>

#include "arch/error.hpp"
#include "kernels/collective/fabric.hpp"
#include "kernels/collective/nccl_group.hpp"
#include "validate/probe/cuda_links.hpp"

namespace plumbline {
namespace {

constexpr CollectiveKind kKinds[] = {CollectiveKind::all_reduce, CollectiveKind::all_gather,
                                     CollectiveKind::reduce_scatter, CollectiveKind::all_to_all};
/// Where placing CTAs early can matter.
constexpr std::int64_t kEarlyBytes = std::int64_t{2} << 20;
/// Only to choose how many calls a graph holds.
constexpr Seconds kExpectedFloor = 8.0 * units::us;
constexpr Bandwidth kExpectedRate = 250.0 * units::GB_per_s;

/// Buffers, streams and the time of a graph without calls.
class TimedRanks {
 public:
  TimedRanks(LinkBench& bench, int gpus, std::int64_t most)
      : group(first_devices(gpus)),
        graphs(group),
        bench_(bench),
        in_(group, static_cast<std::size_t>(most) + kSlack),
        out_(group, static_cast<std::size_t>(most) + kSlack),
        buffers(peer_buffers(group, in_, out_)) {
    in_.fill_random(group, DType::bf16, bench.options.seed);
    out_.fill_random(group, DType::bf16, bench.options.seed + 1);
    floor_ = spread(graphs.time(0, 15, [](const std::vector<StreamHandle>&) {})).median;
  }

  double floor() const { return floor_; }
  const PeerGroup group;
  const RankGraphs graphs;

  void time(const Collective& shape, LinkRow row, const RankGraphs::Enqueue& call) const {
    row.op = name(shape.kind);
    row.dtype = shape.dtype == DType::bf16 ? "bf16" : "fp32";
    row.shape = collective_shape_text(shape);
    row.gpus = group.ranks();
    row.counted = bus_bytes(shape);
    const Seconds expected = kExpectedFloor + 2.0 * static_cast<double>(shape.bytes) * units::B / kExpectedRate;
    const int calls = calls_in_graph(expected);
    const int repeats = bench_.options.quick ? 5 : expected > 1.0 * units::ms ? 7 : 15;
    bench_.measure(row, [&](LinkRow& r) {
      graphs.run(call);  // what is set up at a first call, NCCL's connections for one, is not captured
      r.seconds = spread(per_call(graphs.time(calls, repeats, call), floor_, calls));
      if (row.stack == "own") need_no_fault(group);
    });
  }

 private:
  static constexpr std::size_t kSlack = 4096;
  LinkBench& bench_;
  RankMemory in_, out_;
  double floor_ = 0;

 public:
  const PeerBuffers buffers;
};

std::int64_t most_bytes(const LinkBench& bench) { return std::int64_t{1} << (bench.options.quick ? 26 : 30); }

std::vector<Collective> timed_shapes(const LinkBench& bench, CollectiveKind kind, int gpus) {
  std::vector<Collective> shapes;
  for (const std::int64_t bytes :
       link_sizes(most_bytes(bench), bench.options.quick ? 0 : 12, bench.options.seed + static_cast<unsigned>(kind),
                  std::int64_t{2} * gpus)) {
    shapes.push_back({kind, bytes, gpus, DType::bf16});
  }
  return shapes;
}

void time_own(const TimedRanks& ranks, const Collective& shape, const PeerPlan& plan, const std::string& note) {
  LinkRow row;
  row.kernel = std::string(kernel_name(shape.kind, plan.algorithm)) + note;
  row.plan = plan_text(shape, plan);
  ranks.time(shape, row, own_collective(ranks.group, shape, plan, ranks.buffers));
}

/// How many CTAs and threads short collectives want, and how many SMs fill the links.
void time_other_plans(const TimedRanks& ranks, int sms, std::int64_t most) {
  const int gpus = ranks.group.ranks();
  for (const std::int64_t bytes : {std::int64_t{8} << 10, std::int64_t{64} << 10, std::int64_t{256} << 10}) {
    const Collective shape{CollectiveKind::all_reduce, bytes, gpus, DType::bf16};
    for (const std::int64_t ctas : {1, 2, 4, 8, 16, 32, 64, 128}) {
      for (const std::int64_t threads : {128, 256, 512}) {
        PeerPlan plan = *peer_plan(shape, sms, PeerAlgorithm::one_shot);
        const std::int64_t each = (plan.packs + ctas - 1) / ctas;
        if (each > kOneShotPacks || each < threads / 2 || each > 4 * threads) continue;
        plan.ctas = (plan.packs + each - 1) / each;
        plan.threads = threads;
        time_own(ranks, shape, plan, ".other_plan");
      }
    }
  }
  for (const std::int64_t bytes : {std::int64_t{1} << 20, std::int64_t{64} << 20, std::int64_t{256} << 20}) {
    for (const CollectiveKind kind : kKinds) {
      if (bytes > most) continue;
      const Collective shape{kind, bytes, gpus, DType::bf16};
      for (const int granted : {8, 16, 24, 32, 48, 64, 96}) {
        time_own(ranks, shape, *peer_plan(shape, std::min(granted, sms), PeerAlgorithm::two_shot), ".other_plan");
      }
    }
  }
}

}  // namespace

void time_own_collectives(LinkBench& bench, int gpus) {
  const TimedRanks ranks(bench, gpus, most_bytes(bench));
  const int sms = sm_count();
  LinkRow row;
  row.op = "graph_node";
  row.kernel = "barrier_and_stamp";
  row.shape = "calls=0;gpus=" + std::to_string(gpus);
  row.gpus = gpus;
  row.seconds = Spread{ranks.floor(), ranks.floor(), ranks.floor(), 1};
  bench.add(row);
  row.kernel = "empty_kernel";
  row.shape = "calls=20;gpus=" + std::to_string(gpus);
  bench.measure(row, [&](LinkRow& r) {
    const auto empty = [&](const std::vector<StreamHandle>& streams) {
      for (int rank = 0; rank < gpus; ++rank) {
        ranks.group.select(rank);
        launch_nothing(streams[static_cast<std::size_t>(rank)]);
      }
    };
    r.seconds = spread(per_call(ranks.graphs.time(20, 15, empty), ranks.floor(), 20));
  });
  row.kernel = "barrier";
  bench.measure(row, [&](LinkRow& r) {
    const auto barrier = [&](const std::vector<StreamHandle>& streams) {
      for (int rank = 0; rank < gpus; ++rank) {
        ranks.group.launch_align(rank, nullptr, streams[static_cast<std::size_t>(rank)]);
      }
    };
    r.seconds = spread(per_call(ranks.graphs.time(20, 15, barrier), ranks.floor(), 20));
  });
  for (const CollectiveKind kind : kKinds) {
    for (const Collective& shape : timed_shapes(bench, kind, gpus)) {
      for (const PeerAlgorithm algorithm : {PeerAlgorithm::one_shot, PeerAlgorithm::two_shot}) {
        std::optional<PeerPlan> plan = peer_plan(shape, sms, algorithm);
        if (!plan) continue;
        time_own(ranks, shape, *plan, "");
        plan->early = true;
        if (shape.bytes <= kEarlyBytes) time_own(ranks, shape, *plan, ".early");
      }
    }
  }
  for (const std::int64_t bytes : {std::int64_t{8} << 10, std::int64_t{1} << 20, std::int64_t{64} << 20}) {
    const Collective shape{CollectiveKind::all_reduce, bytes, gpus, DType::fp32};
    time_own(ranks, shape, peer_plan(shape, sms), "");
  }
  time_other_plans(ranks, sms, most_bytes(bench));
}

void time_nccl_collectives(LinkBench& bench, int gpus) {
  const NcclGroup nccl(bench.options.nccl, first_devices(gpus));
  const TimedRanks ranks(bench, gpus, most_bytes(bench));
  std::fprintf(stderr, "NCCL %s\n", nccl.version().c_str());
  for (const CollectiveKind kind : kKinds) {
    const auto call = [&](const Collective& shape) {
      return [&nccl, &ranks, shape](const std::vector<StreamHandle>& streams) {
        nccl.enqueue(shape, ranks.buffers, streams);
      };
    };
    LinkRow row;
    row.stack = "nccl-" + nccl.version();
    row.kernel = "nccl";
    for (const Collective& shape : timed_shapes(bench, kind, gpus)) ranks.time(shape, row, call(shape));
  }
}

}  // namespace plumbline

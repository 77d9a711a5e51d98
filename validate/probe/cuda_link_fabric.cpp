// The links themselves: flags passed to and fro, loads that wait for one another, reads and writes of a peer's memory by
// number of CTAs and by size, in one direction and in both.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "arch/error.hpp"
#include "kernels/collective/fabric.hpp"
#include "validate/probe/cuda_links.hpp"

namespace plumbline {
namespace {

class Fabric {
 public:
  Fabric(LinkBench& bench, int gpus)
      : bench_(bench),
        group_(first_devices(gpus)),
        graphs_(group_),
        memory_(group_, kMost),
        words_(group_, 4096),
        repeats_(bench.options.quick ? 5 : 9) {
    memory_.fill_random(group_, DType::bf16, bench.options.seed);
    for (int r = 0; r < gpus; ++r) {
      group_.select(r);
      PLUMBLINE_CUDA_CHECK(cudaMemset(words_.at(r), 0, words_.bytes()));
      PLUMBLINE_CUDA_CHECK(cudaDeviceSynchronize());
    }
    floor_ = spread(graphs_.time(0, 15, [](const std::vector<StreamHandle>&) {})).median;
    sms_ = sm_count();
  }

  void run() {
    const int gpus = group_.ranks();
    for (int a = 0; a < gpus; ++a) {
      for (int b = 0; b < gpus; ++b) {
        if (a < b) flags(a, b);
        if (a == 0 || b == 0) chase(a, b);  // a == b: its own memory
      }
    }
    for (const bool writes : {false, true}) {
      for (const int readers : {1, 2, gpus}) {
        if (readers > 2 && gpus == 2) continue;
        for (const int ctas : {1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 132}) {
          if (ctas <= sms_) stream(writes, readers, std::size_t{1} << 28, ctas);
        }
        for (std::size_t bytes = std::size_t{1} << 16; bytes <= kMost; bytes *= 4) stream(writes, readers, bytes, sms_);
      }
    }
  }

 private:
  static constexpr std::size_t kMost = std::size_t{1} << 28;

  StreamHandle on(int rank) const { return graphs_.streams()[static_cast<std::size_t>(rank)]; }

  unsigned long long read_word(int rank) const {
    unsigned long long value = 0;
    group_.select(rank);
    PLUMBLINE_CUDA_CHECK(cudaMemcpy(&value, words_.at(rank, kElapsed), sizeof value, cudaMemcpyDeviceToHost));
    return value;
  }

  void flags(int a, int b) {
    LinkRow row;
    row.op = "p2p_latency";
    row.kernel = "flag";
    row.shape = "from=" + std::to_string(a) + ";to=" + std::to_string(b);
    row.gpus = 2;
    bench_.measure(row, [&](LinkRow& r) {
      std::vector<double> seconds;
      for (int repeat = 0; repeat < repeats_; ++repeat) {
        constexpr int rounds = 1000;
        for (const int side : {a, b}) {
          FlagGame game;
          game.mine = reinterpret_cast<std::uint32_t*>(words_.at(side));
          game.theirs = reinterpret_cast<std::uint32_t*>(words_.at(side == a ? b : a));
          game.elapsed_ns = reinterpret_cast<unsigned long long*>(words_.at(side, kElapsed));
          game.base = next_flag_;
          game.rounds = rounds;
          game.serves = side == a;
          group_.select(side);
          launch_flag_game(game, on(side));
        }
        next_flag_ += rounds + 1;
        graphs_.wait();
        const unsigned long long elapsed = read_word(a);
        if (elapsed == 0) throw DeviceError("a flag did not arrive within two seconds");
        seconds.push_back(1e-9 * static_cast<double>(elapsed) / (2 * rounds));
      }
      r.seconds = spread(seconds);
    });
  }

  void chase(int from, int owner) {
    LinkRow row;
    row.op = "p2p_latency";
    row.kernel = from == owner ? "own_load" : "load";
    row.shape = "from=" + std::to_string(from) + ";to=" + std::to_string(owner);
    row.gpus = from == owner ? 1 : 2;
    bench_.measure(row, [&](LinkRow& r) {
      constexpr std::uint32_t lines = 8192;  // 1 MiB: stays in the owner's L2
      constexpr int hops = 2000;
      group_.select(owner);
      launch_link_ring(memory_.at(owner), lines, on(owner));
      graphs_.wait();
      std::vector<double> seconds;
      for (int repeat = 0; repeat < repeats_; ++repeat) {
        group_.select(from);
        launch_chase(memory_.at(owner), hops, reinterpret_cast<unsigned long long*>(words_.at(from, kElapsed)),
                     on(from));
        graphs_.wait();
        seconds.push_back(1e-9 * static_cast<double>(read_word(from)) / hops);
      }
      r.seconds = spread(seconds);
    });
  }

  /// Rank r of the first `active` reads (writes) the memory of the rank after it; the last one that of rank 0, so that 2
  /// are both directions of one pair. One active: rank 0 that of rank 1.
  void stream(bool writes, int active, std::size_t bytes, int ctas) {
    LinkRow row;
    row.op = writes ? "p2p_write" : "p2p_read";
    row.kernel = "stream";
    row.shape =
        "bytes=" + std::to_string(bytes) + ";ctas=" + std::to_string(ctas) + ";active=" + std::to_string(active);
    row.gpus = group_.ranks();
    row.counted = static_cast<double>(bytes) * units::B;
    bench_.measure(row, [&](LinkRow& r) {
      const Seconds expected =
          static_cast<double>(bytes) * units::B / (std::min(350.0, 10.0 * ctas) * units::GB_per_s) + 3.0 * units::us;
      const int calls = calls_in_graph(expected);
      const auto call = [&](const std::vector<StreamHandle>& streams) {
        for (int rank = 0; rank < active; ++rank) {
          const int owner = active == 1 ? 1 : (rank + 1) % active;
          group_.select(rank);
          StreamHandle to = streams[static_cast<std::size_t>(rank)];
          if (writes) {
            launch_stream_write(memory_.at(owner), bytes, ctas, to);
          } else {
            launch_stream_read(memory_.at(owner), bytes, ctas, words_.at(rank, kSink), to);
          }
        }
      };
      r.seconds = spread(per_call(graphs_.time(calls, repeats_, call), floor_, calls));
    });
  }

  /// In `words_`: the flag, the elapsed time, the sink that is never written.
  static constexpr std::size_t kElapsed = 1024, kSink = 2048;

  LinkBench& bench_;
  const PeerGroup group_;
  const RankGraphs graphs_;
  RankMemory memory_, words_;
  int repeats_, sms_ = 0;
  double floor_ = 0;
  std::uint32_t next_flag_ = 1;
};

}  // namespace

void probe_fabric(LinkBench& bench, int gpus) { Fabric(bench, gpus).run(); }

}  // namespace plumbline

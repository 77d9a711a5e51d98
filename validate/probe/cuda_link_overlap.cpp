// The overlap tax: a kernel that computes (our GEMM) or streams, and collectives on another stream beside it: both times
// alone and together, with the GPUs' power.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>

#include "arch/error.hpp"
#include "kernels/collective/fabric.hpp"
#include "kernels/collective/nccl_group.hpp"
#include "kernels/gemm/gemm.hpp"
#include "ops/plan/text.hpp"
#include "validate/board/nvml_board.hpp"
#include "validate/probe/cuda_links.hpp"

namespace plumbline {
namespace {

constexpr double kLasts_s = 0.4;
constexpr std::int64_t kReduced = std::int64_t{64} << 20;
const Gemm kGemm = [] {
  Gemm g;
  g.m = g.n = g.k = 8192;
  g.precision = *parse_precision("bf16");
  return g;
}();
const char* const kGemmPlan = "tile=128x224x64 stages=4 splits=1 wgmma";

/// One kind of work: `enqueue` puts one item on a rank's stream, or on all ranks' (rank < 0 then).
struct Work {
  std::string op, shape, stack, kernel, plan;
  std::function<void(const std::vector<StreamHandle>&)> enqueue;
  Bytes counted;
};

/// Completion times of items on every rank's stream.
class Marks {
 public:
  Marks(const PeerGroup& group, int items) {
    for (int r = 0; r < group.ranks(); ++r) {
      group.select(r);
      std::vector<cudaEvent_t> events(static_cast<std::size_t>(items));
      for (cudaEvent_t& event : events) PLUMBLINE_CUDA_CHECK(cudaEventCreate(&event));
      events_.push_back(std::move(events));
    }
  }
  ~Marks() {
    for (const auto& events : events_) {
      for (cudaEvent_t event : events) cudaEventDestroy(event);
    }
  }
  Marks(const Marks&) = delete;
  Marks& operator=(const Marks&) = delete;
  const std::vector<cudaEvent_t>& of(int rank) const { return events_[static_cast<std::size_t>(rank)]; }

 private:
  std::vector<std::vector<cudaEvent_t>> events_;
};

class OverlapProbe {
 public:
  OverlapProbe(LinkBench& bench, int gpus)
      : bench_(bench),
        group_(first_devices(gpus)),
        graphs_(group_),
        operands_(group_, 3 * kGemmBytes),
        workspace_(group_, 64 << 20),
        in_(group_, kReduced),
        out_(group_, kReduced),
        buffers_(peer_buffers(group_, in_, out_)) {
    operands_.fill_random(group_, DType::bf16, bench.options.seed);
    in_.fill_random(group_, DType::bf16, bench.options.seed + 1);
    for (int r = 0; r < gpus; ++r) {
      group_.select(r);
      second_.push_back(std::make_unique<Stream>());
      second_handles_.push_back(static_cast<cudaStream_t>(*second_.back()));
      PLUMBLINE_CUDA_CHECK(cudaMemset(workspace_.at(r), 0, workspace_.bytes()));
      char id[32] = {};
      PLUMBLINE_CUDA_CHECK(cudaDeviceGetPCIBusId(id, sizeof id, group_.device(r)));
      boards_.push_back(std::make_unique<Board>(id));
    }
    sms_ = sm_count();
  }

  void run() {
    std::vector<Work> computing{gemm(), stream()}, moving;
    const Collective reduced{CollectiveKind::all_reduce, kReduced, group_.ranks(), DType::bf16};
    try {
      nccl_ = std::make_unique<NcclGroup>(bench_.options.nccl, first_devices(group_.ranks()));
      moving.push_back(
          collective(reduced, "nccl-" + nccl_->version(), "nccl", "",
                     [this, reduced](const auto& streams) { nccl_->enqueue(reduced, buffers_, streams); }));
      graphs_.run(moving.back().enqueue);
    } catch (const Error& e) {
      LinkRow row;
      row.op = "all_reduce";
      row.kernel = "nccl";
      row.status = e.what();
      bench_.add(row);
    }
    for (const int granted : {sms_, 32}) {
      const PeerPlan plan = *peer_plan(reduced, granted, PeerAlgorithm::two_shot);
      moving.push_back(collective(reduced, "own", "two_shot", plan_text(reduced, plan),
                                  own_collective(group_, reduced, plan, buffers_)));
    }
    for (const Work& work : computing) alone(work);
    for (const Work& work : moving) alone(work);
    for (const Work& compute : computing) {
      for (const Work& move : moving) together(compute, move);
    }
  }

 private:
  static constexpr std::size_t kGemmBytes = std::size_t{8192} * 8192 * 2;

  Work gemm() const {
    Work w{"gemm", "M=8192;N=8192;K=8192", "own", "gemm", kGemmPlan, {}, {}};
    const GemmPlan plan = parse_gemm_plan(kGemmPlan).value();
    w.enqueue = [this, plan](const std::vector<StreamHandle>& streams) {
      for (int r = 0; r < group_.ranks(); ++r) {
        group_.select(r);
        launch_gemm(kGemm, plan,
                    {operands_.at(r), operands_.at(r, kGemmBytes), operands_.at(r, 2 * kGemmBytes), workspace_.at(r)},
                    streams[static_cast<std::size_t>(r)]);
      }
    };
    return w;
  }

  /// Half of the operands copied to the other half.
  Work stream() const {
    const std::size_t bytes = operands_.bytes() / 2;
    Work w{"stream_copy", "bytes=" + std::to_string(bytes), "own", "stream", "ctas=" + std::to_string(sms_), {}, {}};
    w.counted = 2.0 * static_cast<double>(bytes) * units::B;
    w.enqueue = [this, bytes](const std::vector<StreamHandle>& streams) {
      for (int r = 0; r < group_.ranks(); ++r) {
        group_.select(r);
        launch_stream_copy(operands_.at(r), operands_.at(r, bytes), bytes, sms_, streams[static_cast<std::size_t>(r)]);
      }
    };
    return w;
  }

  Work collective(const Collective& shape, std::string stack, std::string kernel, std::string plan,
                  RankGraphs::Enqueue enqueue) const {
    return {std::string(name(shape.kind)),
            collective_shape_text(shape),
            std::move(stack),
            std::move(kernel),
            std::move(plan),
            std::move(enqueue),
            bus_bytes(shape)};
  }

  LinkRow row_of(const Work& work, const Work* beside) const {
    LinkRow row;
    row.op = work.op;
    row.dtype = "bf16";
    row.shape = work.shape;
    row.clock = "steady";
    row.stack = work.stack;
    row.kernel = work.kernel;
    row.plan = work.plan +
               (beside == nullptr ? " alone" : " beside " + beside->op + " " + beside->kernel + " " + beside->plan);
    row.gpus = group_.ranks();
    row.counted = work.counted;
    return row;
  }

  /// Seconds at which each item was done, of each rank.
  using Times = std::vector<std::vector<double>>;

  /// The two kinds of work on streams of their own (`second` may be null), from one moment on.
  std::pair<Times, Times> run_items(const Work& first, int first_items, const Work* second, int second_items) {
    const int ranks = group_.ranks();
    const Marks begin(group_, 1), a(group_, first_items), b(group_, std::max(second_items, 1));
    const auto& streams = graphs_.streams();
    for (int r = 0; r < ranks; ++r) {
      const auto at = static_cast<std::size_t>(r);
      group_.launch_align(r, nullptr, streams[at]);
      PLUMBLINE_CUDA_CHECK(cudaEventRecord(begin.of(r)[0], static_cast<cudaStream_t>(streams[at])));
      PLUMBLINE_CUDA_CHECK(cudaStreamWaitEvent(static_cast<cudaStream_t>(second_handles_[at]), begin.of(r)[0], 0));
    }
    const auto put = [&](const Work& work, const std::vector<StreamHandle>& to, const Marks& marks, int item) {
      work.enqueue(to);
      for (int r = 0; r < ranks; ++r) {
        group_.select(r);
        PLUMBLINE_CUDA_CHECK(cudaEventRecord(marks.of(r)[static_cast<std::size_t>(item)],
                                             static_cast<cudaStream_t>(to[static_cast<std::size_t>(r)])));
      }
    };
    // In the order in which they should be done, so that no stream waits for the host.
    int i = 0, j = 0;
    while (i < first_items || j < second_items) {
      const bool first_next = j >= second_items || (i < first_items && static_cast<double>(i) * second_items <=
                                                                           static_cast<double>(j) * first_items);
      if (first_next) {
        put(first, streams, a, i++);
      } else {
        put(*second, second_handles_, b, j++);
      }
    }
    for (int r = 0; r < ranks; ++r) {
      group_.select(r);
      PLUMBLINE_CUDA_CHECK(cudaDeviceSynchronize());
    }
    return {elapsed(begin, a, first_items), elapsed(begin, b, second_items)};
  }

  Times elapsed(const Marks& begin, const Marks& marks, int items) const {
    Times times;
    for (int r = 0; r < group_.ranks(); ++r) {
      std::vector<double> each;
      for (int i = 0; i < items; ++i) {
        float ms = 0;
        PLUMBLINE_CUDA_CHECK(cudaEventElapsedTime(&ms, begin.of(r)[0], marks.of(r)[static_cast<std::size_t>(i)]));
        each.push_back(1e-3 * static_cast<double>(ms));
      }
      times.push_back(std::move(each));
    }
    return times;
  }

  /// Mean time of the items done until `end`, the first left out: the slowest rank's, in parts of the run.
  static Spread mean_item(const Times& times, double end) {
    constexpr std::size_t parts = 5;
    std::vector<double> means(parts, 0.0);
    for (const std::vector<double>& rank : times) {
      const auto counted =
          static_cast<std::size_t>(std::count_if(rank.begin(), rank.end(), [&](double t) { return t <= end; }));
      if (counted < 2 * parts + 1) throw DeviceError("too few items ran side by side");
      for (std::size_t part = 0; part < parts; ++part) {
        const std::size_t from = part * (counted - 1) / parts, to = (part + 1) * (counted - 1) / parts;
        means[part] = std::max(means[part], (rank[to] - rank[from]) / static_cast<double>(to - from));
      }
    }
    return spread(means);
  }

  int items_for(const Work& work) {
    const Times few = run_items(work, 4, nullptr, 0).first;
    const double each = (few[0][3] - few[0][0]) / 3;
    return static_cast<int>(std::clamp(kLasts_s / std::max(each, 1e-6), 20.0, 1500.0));
  }

  /// Mean power of all GPUs in the later half of what `work` runs.
  std::optional<double> with_power(const std::function<void()>& work) {
    std::vector<std::unique_ptr<BoardSampler>> samplers;
    for (const auto& board : boards_) samplers.push_back(std::make_unique<BoardSampler>(*board));
    work();
    double watts = 0;
    int count = 0;
    for (const auto& sampler : samplers) {
      const std::vector<BoardSample> samples = sampler->stop();
      for (std::size_t i = samples.size() / 2; i < samples.size() * 9 / 10; ++i) {
        if (!samples[i].power) continue;
        watts += samples[i].power->in(units::W);
        ++count;
      }
    }
    if (count == 0) return {};
    return watts / count;
  }

  void alone(const Work& work) {
    bench_.measure(row_of(work, nullptr), [&](LinkRow& row) {
      const int items = items_for(work);
      Times times;
      row.watts = with_power([&] { times = run_items(work, items, nullptr, 0).first; });
      row.seconds = mean_item(times, INFINITY);
      if (group_.take_fault()) throw DeviceError("a rank gave up waiting for a peer");
    });
  }

  void together(const Work& compute, const Work& move) {
    LinkRow other = row_of(move, &compute);
    bench_.measure(row_of(compute, &move), [&](LinkRow& row) {
      // The one that is slowed more goes on longer: only the time in which both run counts.
      const int items = items_for(compute), moves = items_for(move);
      std::pair<Times, Times> times;
      row.watts = with_power([&] { times = run_items(compute, items, &move, moves); });
      double end = INFINITY;
      for (const Times* each : {&times.first, &times.second}) {
        for (const std::vector<double>& rank : *each) end = std::min(end, rank.back());
      }
      row.seconds = mean_item(times.first, end);
      other.seconds = mean_item(times.second, end);
      other.watts = row.watts;
      if (group_.take_fault()) throw DeviceError("a rank gave up waiting for a peer");
    });
    if (!other.seconds) other.status = "failed: see the row before";
    bench_.add(other);
  }

  LinkBench& bench_;
  const PeerGroup group_;
  const RankGraphs graphs_;
  RankMemory operands_, workspace_, in_, out_;
  const PeerBuffers buffers_;
  std::vector<std::unique_ptr<Stream>> second_;
  std::vector<StreamHandle> second_handles_;
  std::vector<std::unique_ptr<Board>> boards_;
  std::unique_ptr<NcclGroup> nccl_;
  int sms_ = 0;
};

}  // namespace

void probe_overlap(LinkBench& bench, int gpus) { OverlapProbe(bench, gpus).run(); }

}  // namespace plumbline

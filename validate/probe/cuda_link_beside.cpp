// Collectives beside a sequence of kernels, as in a step whose streams run side by side: a CUDA graph in which a
// collective begins behind the first kernel of a sequence, on a stream of its own, and both streams meet at the end.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "arch/error.hpp"
#include "kernels/collective/fabric.hpp"
#include "kernels/collective/nccl_group.hpp"
#include "kernels/gemm/gemm.hpp"
#include "ops/plan/text.hpp"
#include "validate/probe/cuda_links.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kOperand = std::size_t{192} << 20;
constexpr std::int64_t kMostReduced = std::int64_t{64} << 20;

/// `items` kernels, one behind the other.
struct Sequence {
  std::string shape, kernel, plan;
  int items = 0;
  std::function<void(int rank, StreamHandle stream)> launch;
};
struct Exchange {
  std::string shape, stack, kernel, plan;
  RankGraphs::Enqueue enqueue;
};

class BesideProbe {
 public:
  BesideProbe(LinkBench& bench, int gpus)
      : bench_(bench),
        group_(first_devices(gpus)),
        graphs_(group_),
        operands_(group_, 3 * kOperand),
        workspace_(group_, 64 << 20),
        in_(group_, kMostReduced),
        out_(group_, kMostReduced),
        buffers_(peer_buffers(group_, in_, out_)) {
    operands_.fill_random(group_, DType::bf16, bench.options.seed);
    in_.fill_random(group_, DType::bf16, bench.options.seed + 1);
    for (int r = 0; r < gpus; ++r) {
      group_.select(r);
      PLUMBLINE_CUDA_CHECK(cudaMemset(workspace_.at(r), 0, workspace_.bytes()));
      second_.push_back(std::make_unique<Stream>());
      second_handles_.push_back(static_cast<cudaStream_t>(*second_.back()));
      for (cudaEvent_t* event : {&forks_.emplace_back(), &joins_.emplace_back()}) {
        PLUMBLINE_CUDA_CHECK(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
      }
    }
  }
  ~BesideProbe() {
    for (const auto& events : {forks_, joins_}) {
      for (cudaEvent_t event : events) cudaEventDestroy(event);
    }
  }
  BesideProbe(const BesideProbe&) = delete;
  BesideProbe& operator=(const BesideProbe&) = delete;

  void run() {
    floor_ = spread(graphs_.time(0, kRepeats, [](const auto&) {})).median;
    const std::vector<Sequence> sequences{
        gemm("M=4096;N=4096;K=4096", {4096, 4096, 4096}, "tile=128x256x64 stages=4 splits=1 wgmma", 4),
        gemm("M=64;N=8192;K=8192", {64, 8192, 8192}, "tile=64x64x64 stages=12 splits=1 wgmma", 12), copies(4)};
    const std::vector<Exchange> exchanges = all_reduces();
    for (const Sequence& sequence : sequences) measure(&sequence, nullptr);
    for (const Exchange& exchange : exchanges) measure(nullptr, &exchange);
    for (const Sequence& sequence : sequences) {
      for (const Exchange& exchange : exchanges) measure(&sequence, &exchange);
    }
  }

 private:
  static constexpr int kCalls = 10, kRepeats = 15;

  Sequence gemm(const std::string& text, std::array<std::int64_t, 3> mnk, const std::string& plan_words,
                int items) const {
    Gemm shape;
    shape.m = mnk[0];
    shape.n = mnk[1];
    shape.k = mnk[2];
    shape.precision = *parse_precision("bf16");
    const GemmPlan plan = parse_gemm_plan(plan_words).value();
    return {text, "gemm", plan_words, items, [this, shape, plan](int r, StreamHandle stream) {
              launch_gemm(shape, plan,
                          {operands_.at(r), operands_.at(r, kOperand), operands_.at(r, 2 * kOperand), workspace_.at(r)},
                          stream);
            }};
  }

  Sequence copies(int items) const {
    const int ctas = sm_count();
    return {"bytes=" + std::to_string(kOperand), "stream", "ctas=" + std::to_string(ctas), items,
            [this, ctas](int r, StreamHandle stream) {
              launch_stream_copy(operands_.at(r), operands_.at(r, kOperand), kOperand, ctas, stream);
            }};
  }

  std::vector<Exchange> all_reduces() {
    std::vector<Exchange> all;
    for (const std::int64_t bytes : {std::int64_t{4} << 20, kMostReduced}) {
      const Collective shape{CollectiveKind::all_reduce, bytes, group_.ranks(), DType::bf16};
      if (!nccl_) nccl_ = std::make_unique<NcclGroup>(bench_.options.nccl, first_devices(group_.ranks()));
      all.push_back({collective_shape_text(shape), "nccl-" + nccl_->version(), "nccl", "",
                     [this, shape](const auto& streams) { nccl_->enqueue(shape, buffers_, streams); }});
      graphs_.run(all.back().enqueue);
      for (const int granted : {sm_count(), 32}) {
        const PeerPlan plan = *peer_plan(shape, granted, PeerAlgorithm::two_shot);
        all.push_back({collective_shape_text(shape), "own", "two_shot", plan_text(shape, plan),
                       own_collective(group_, shape, plan, buffers_)});
      }
    }
    return all;
  }

  void launch(const Sequence& sequence, int from, int to, const std::vector<StreamHandle>& streams) const {
    for (int r = 0; r < group_.ranks(); ++r) {
      group_.select(r);
      for (int i = from; i < to; ++i) sequence.launch(r, streams[static_cast<std::size_t>(r)]);
    }
  }

  /// `to` waits for what `from` has come to.
  void follow(const std::vector<cudaEvent_t>& events, const std::vector<StreamHandle>& from,
              const std::vector<StreamHandle>& to) const {
    for (int r = 0; r < group_.ranks(); ++r) {
      const auto at = static_cast<std::size_t>(r);
      group_.select(r);
      PLUMBLINE_CUDA_CHECK(cudaEventRecord(events[at], static_cast<cudaStream_t>(from[at])));
      PLUMBLINE_CUDA_CHECK(cudaStreamWaitEvent(static_cast<cudaStream_t>(to[at]), events[at], 0));
    }
  }

  void enqueue(const Sequence* sequence, const Exchange* exchange, const std::vector<StreamHandle>& streams) const {
    if (sequence == nullptr) return exchange->enqueue(streams);
    launch(*sequence, 0, 1, streams);
    if (exchange != nullptr) {
      follow(forks_, streams, second_handles_);
      exchange->enqueue(second_handles_);
    }
    launch(*sequence, 1, sequence->items, streams);
    if (exchange != nullptr) follow(joins_, second_handles_, streams);
  }

  void measure(const Sequence* sequence, const Exchange* exchange) {
    LinkRow row;
    row.op = "beside";
    row.dtype = "bf16";
    row.gpus = group_.ranks();
    if (sequence != nullptr) {
      row.shape = sequence->shape + ";items=" + std::to_string(sequence->items);
      row.kernel = sequence->kernel;
      row.plan = sequence->plan;
    }
    if (exchange != nullptr) {
      row.stack = exchange->stack;
      row.shape += (row.shape.empty() ? "" : " ") + exchange->shape;
      row.kernel += (row.kernel.empty() ? "" : " ") + exchange->kernel;
      row.plan += (row.plan.empty() ? "" : " beside ") + exchange->plan;
    }
    bench_.measure(row, [&](LinkRow& r) {
      const auto seconds =
          graphs_.time(kCalls, kRepeats, [&](const auto& streams) { enqueue(sequence, exchange, streams); });
      r.seconds = spread(per_call(seconds, floor_, kCalls));
      need_no_fault(group_);
    });
  }

  LinkBench& bench_;
  const PeerGroup group_;
  const RankGraphs graphs_;
  RankMemory operands_, workspace_, in_, out_;
  const PeerBuffers buffers_;
  std::vector<std::unique_ptr<Stream>> second_;
  std::vector<StreamHandle> second_handles_;
  std::vector<cudaEvent_t> forks_, joins_;
  std::unique_ptr<NcclGroup> nccl_;
  double floor_ = 0;
};

}  // namespace

void probe_beside(LinkBench& bench, int gpus) { BesideProbe(bench, gpus).run(); }

}  // namespace plumbline

// All-reduce kernels that serving stacks run in place of NCCL's on small messages, over NVLink and inside one node: each
// rank loads from or stores to its peers' memory.
//
//   time = fixed + stages * (ranks - 2) * step + what the links carry at the share of them that the kernel reaches
//          + what one CTA stores and polls (TensorRT-LLM's)
//
// One shot: every rank gets all ranks' data, (n - 1) N. Two: a part each, added, and the sums to all, 2 (n - 1) N / n; each
// of its stages waits for as many peers as one shot does, so that `step` is one shot's: published rows that were fitted
// have two stages on eight ranks alone. Scalars a kernel, fitted to published times (families of calibrations); which
// kernel runs is the source's own rule:
//   TensorRT-LLM  cpp/tensorrt_llm/thop/allreduceOp.cpp, AllreduceOp::selectImplementation (strategy AUTO): up to a
//                 workspace of 16 MB (two ranks, else 8) and below 1 MB (four) or 500 kB (more), NCCL else. Later releases
//                 look their strategy up in tables of tokens and widths, and cross over at about twice that. Published rows
//                 of cards without clusters are of 1.0 alone, where two ranks too leave the kernel behind 128 tokens.
//                 cpp/tensorrt_llm/kernels/communicationKernels/allReduceFusionKernels.cu: a row is a CTA's, or a
//                 cluster's where there are any; each CTA stores its share for all ranks, itself too, and polls as much.
//   vLLM, SGLang  csrc/custom_all_reduce.cuh: two ranks one stage; up to four below 512 KiB, up to eight below 256 KiB;
//                 two stages else, and NCCL from 8 MiB on (vllm/distributed/device_communicators/custom_all_reduce.py).
#include <algorithm>
#include <array>
#include <cmath>

#include "model/stacks/common/links.hpp"
#include "model/stacks/provider.hpp"

namespace plumbline {
namespace {

constexpr std::array<std::string_view, 1> kOps{"all_reduce"};
constexpr auto kClasses = std::to_array<BandClass>({{Variant::usual, "collective_custom"}});
/// A launch, a CTA's way to its flags and what it polls are code. (A100 and Hopper by each other's scalars: -0.21 and
/// +0.31 of ln(measured / predicted) below 10 us as they are, 0.05 in cycles; training rows.)
constexpr CarryOver kInCycles{.fixed_in_cycles = true, .chains_in_cycles = true};
constexpr std::array<FamilyDeclaration, 1> kTrtllm{
    {{.name = "trtllm_all_reduce", .required = false, .carry = kInCycles, .kind = "collective", .classes = kClasses}}};
constexpr std::array<FamilyDeclaration, 2> kVllm{
    {{.name = "vllm_one_stage", .required = false, .carry = kInCycles, .kind = "collective", .classes = kClasses},
     {.name = "vllm_two_stages", .required = false, .carry = kInCycles, .kind = "collective", .classes = kClasses}}};

constexpr std::int64_t kMostRanks = 8;  // that their kernels are made for

enum class Way { none, one_shot, two_shot };

/// Of published calls (4096 values of 16 bits); nothing says how long the rows of a model's sum are.
constexpr std::int64_t kRow = 8192;

bool has_clusters(const Rates& m) { return m.gpu.clusters.sms > 0; }

Way trtllm_rule(std::int64_t bytes, std::int64_t ranks, const Rates& m) {
  constexpr std::int64_t kWorkspaceOfTwo = 16'000'000, kOfFour = 1'000'000, kOfMore = 500'000, kMostTokens = 128;
  const std::int64_t of_two = has_clusters(m) ? kWorkspaceOfTwo : kMostTokens * kRow;
  const bool small = ranks <= 2 ? bytes <= of_two : bytes < (ranks <= 4 ? kOfFour : kOfMore);
  return small ? Way::one_shot : Way::none;
}

struct Grid {
  double ctas = 1, bytes_of_a_cta = 0;
};

/// TensorRT-LLM's one shot (allreduce_fusion_kernel_launcher): threads of 16 bytes, a cluster of up to eight CTAs a row as
/// long as a CTA has 128 threads, fewer where rows in all would take more CTAs than there are SMs; then rows in turn.
Grid trtllm_grid(std::int64_t bytes, const Rates& m) {
  constexpr double kBytesOfAThread = 16, kLeastThreads = 128, kMostGrown = 512;
  const double row = static_cast<double>(std::min(bytes, kRow)),
               rows = std::max(1.0, std::ceil(static_cast<double>(bytes) / row));
  double cluster = has_clusters(m) ? 8 : 1;
  const double threads_of_a_row = std::max(1.0, std::floor(row / kBytesOfAThread));
  while (cluster > 1 && std::fmod(threads_of_a_row, cluster) != 0) cluster /= 2;
  double threads = threads_of_a_row / cluster;
  while (threads < kLeastThreads && cluster >= 2) threads *= 2, cluster /= 2;
  while (rows * cluster > m.sm_count && cluster > 1 && threads <= kMostGrown) threads *= 2, cluster /= 2;
  Grid grid;
  grid.ctas = std::floor(std::min(m.sm_count, rows * cluster) / cluster) * cluster;
  grid.bytes_of_a_cta = std::ceil(rows * cluster / grid.ctas) * row / cluster;
  return grid;
}

/// A CTA's bytes are not counted: the links' share has them.
Grid vllm_grid(std::int64_t /*bytes*/, const Rates& /*m*/) {
  constexpr double kCtas = 36;  // at most
  return {kCtas, 0};
}

Way vllm_rule(std::int64_t bytes, std::int64_t ranks, const Rates& /*m*/) {
  constexpr std::int64_t kKiB = 1024;
  if (bytes >= 8192 * kKiB) return Way::none;
  const bool one = ranks == 2 || bytes < (ranks <= 4 ? 512 : 256) * kKiB;
  return one ? Way::one_shot : Way::two_shot;
}

class CustomAllReduce final : public Provider {
 public:
  using RankRule = Way (*)(std::int64_t bytes, std::int64_t ranks, const Rates& m);
  using GridRule = Grid (*)(std::int64_t bytes, const Rates& m);
  CustomAllReduce(std::string_view name, std::span<const FamilyDeclaration> declared, RankRule chosen_by, GridRule grid)
      : name_(name), declared_(declared), rule_(chosen_by), grid_(grid) {}

  std::string_view name() const override { return name_; }
  std::span<const FamilyDeclaration> families() const override { return declared_; }
  std::span<const std::string_view> ops() const override { return kOps; }

  bool plan(const Question& q, Answer& out) const override {
    const auto* s = std::get_if<Collective>(&q.op);
    if (s == nullptr || s->kind != CollectiveKind::all_reduce || !reach_each_other(*s, kMostRanks, q.rates))
      return false;
    const Way way = q.protocol == CollectiveProtocol::automatic ? way_of(*s, q) : Way::none;
    const std::size_t family = way == Way::two_shot ? 1 : 0;
    if (way == Way::none || family >= declared_.size() || !q.families[family].on_file) return false;
    answer(*s, way, q.families[family], q, out);
    return true;
  }

 private:
  Way way_of(const Collective& s, const Question& q) const {
    switch (q.collective) {
      case CollectiveChoice::automatic: return rule_(s.bytes, s.gpus, q.rates);
      case CollectiveChoice::one_shot: return Way::one_shot;
      case CollectiveChoice::two_shot: return Way::two_shot;
      default: return Way::none;
    }
  }

  void answer(const Collective& s, Way way, const FamilyScalars& f, const Question& q, Answer& out) const {
    const double ranks = static_cast<double>(s.gpus), bytes = static_cast<double>(s.bytes);
    const double stages = way == Way::one_shot ? 1 : 2;
    const Grid grid = grid_(s.bytes, q.rates);
    out.sign(f);
    Demand& d = out.launch(way == Way::one_shot ? "all-reduce in one shot" : "all-reduce in two shots", f) = Demand{};
    d.plan.ctas = static_cast<std::int64_t>(grid.ctas);
    d.link = (ranks - 1) * bytes * (way == Way::one_shot ? 1 : 2 / ranks) * units::B;
    d.link_rate = f.link_share * inner_wire(q.rates);
    // two stages: loads behind a barrier, and once more
    const double ways = stages * kLoadBetweenBarriers - (stages - 1);
    Seconds waits = stages * (ranks - 2) * q.families[0].step + ways * longer_way(q.rates.fabric->inner());
    if (f.channel > Bandwidth{}) waits += ranks * grid.bytes_of_a_cta * units::B / f.channel;
    d.serial_latency = std::max(-f.fixed, waits);
    d.serial_latency_of = "of one more peer each, and of what one CTA stores and polls";
    out.read_beside = q.work.read;
    out.written_beside = q.work.write;
  }

  std::string_view name_;
  std::span<const FamilyDeclaration> declared_;
  RankRule rule_;
  GridRule grid_;
};

}  // namespace

const Provider& trtllm_all_reduce_provider() {
  static const CustomAllReduce provider("trtllm_all_reduce", kTrtllm, trtllm_rule, trtllm_grid);
  return provider;
}

const Provider& vllm_all_reduce_provider() {
  static const CustomAllReduce provider("vllm_all_reduce", kVllm, vllm_rule, vllm_grid);
  return provider;
}

}  // namespace plumbline

// All-reduce kernels that serving stacks run in place of NCCL's on small messages, over NVLink and inside one node: each
// rank loads from or stores to its peers' memory.
//
//   time = fixed + (ranks - 2) * step + what the links carry at the share of them that the kernel reaches
//
// One shot: every rank gets all ranks' data, (n - 1) N. Two: a part each, added, and the sums to all, 2 (n - 1) N / n.
// Three scalars a kernel, fitted to published times (families of calibrations); which kernel runs is the source's own rule:
//   TensorRT-LLM  cpp/tensorrt_llm/thop/allreduceOp.cpp, AllreduceOp::selectImplementation (strategy AUTO): up to a
//                 workspace of 16 MB (two ranks, else 8) and below 1 MB (four) or 500 kB (more), NCCL else. Later releases
//                 look their strategy up in tables of tokens and widths, and cross over at about twice that.
//   vLLM, SGLang  csrc/custom_all_reduce.cuh: two ranks one stage; up to four below 512 KiB, up to eight below 256 KiB;
//                 two stages else, and NCCL from 8 MiB on (vllm/distributed/device_communicators/custom_all_reduce.py).
#include <algorithm>
#include <array>

#include "model/stacks/common/links.hpp"
#include "model/stacks/provider.hpp"

namespace plumbline {
namespace {

constexpr std::array<std::string_view, 1> kOps{"all_reduce"};
constexpr auto kClasses = std::to_array<BandClass>({{Variant::usual, "collective_custom"}});
constexpr std::array<FamilyDeclaration, 1> kTrtllm{
    {{.name = "trtllm_all_reduce", .required = false, .kind = "collective", .classes = kClasses}}};
constexpr std::array<FamilyDeclaration, 2> kVllm{
    {{.name = "vllm_one_stage", .required = false, .kind = "collective", .classes = kClasses},
     {.name = "vllm_two_stages", .required = false, .kind = "collective", .classes = kClasses}}};

constexpr std::int64_t kMostRanks = 8;  // that their kernels are made for

enum class Way { none, one_shot, two_shot };

Way trtllm_rule(std::int64_t bytes, std::int64_t ranks) {
  constexpr std::int64_t kWorkspaceOfTwo = 16'000'000, kOfFour = 1'000'000, kOfMore = 500'000;
  const bool small = ranks <= 2 ? bytes <= kWorkspaceOfTwo : bytes < (ranks <= 4 ? kOfFour : kOfMore);
  return small ? Way::one_shot : Way::none;
}

Way vllm_rule(std::int64_t bytes, std::int64_t ranks) {
  constexpr std::int64_t kKiB = 1024;
  if (bytes >= 8192 * kKiB) return Way::none;
  const bool one = ranks == 2 || bytes < (ranks <= 4 ? 512 : 256) * kKiB;
  return one ? Way::one_shot : Way::two_shot;
}

class CustomAllReduce final : public Provider {
 public:
  using RankRule = Way (*)(std::int64_t bytes, std::int64_t ranks);
  CustomAllReduce(std::string_view name, std::span<const FamilyDeclaration> declared, RankRule chosen_by)
      : name_(name), declared_(declared), rule_(chosen_by) {}

  std::string_view name() const override { return name_; }
  std::span<const FamilyDeclaration> families() const override { return declared_; }
  std::span<const std::string_view> ops() const override { return kOps; }

  bool plan(const Question& q, Answer& out) const override {
    const auto* s = std::get_if<Collective>(&q.op);
    if (s == nullptr || s->kind != CollectiveKind::all_reduce || !reach_each_other(*s, kMostRanks, q.rates))
      return false;
    const Way way = q.protocol == CollectiveProtocol::automatic ? way_of(*s, q.collective) : Way::none;
    const std::size_t family = way == Way::two_shot ? 1 : 0;
    if (way == Way::none || family >= declared_.size() || !q.families[family].on_file) return false;
    answer(*s, way, q.families[family], q, out);
    return true;
  }

 private:
  Way way_of(const Collective& s, CollectiveChoice choice) const {
    switch (choice) {
      case CollectiveChoice::automatic: return rule_(s.bytes, s.gpus);
      case CollectiveChoice::one_shot: return Way::one_shot;
      case CollectiveChoice::two_shot: return Way::two_shot;
      default: return Way::none;
    }
  }

  static void answer(const Collective& s, Way way, const FamilyScalars& f, const Question& q, Answer& out) {
    const double ranks = static_cast<double>(s.gpus), bytes = static_cast<double>(s.bytes);
    constexpr double kCtas = 36;  // of vLLM's; others have as many or fewer
    out.sign(f);
    Demand& d = out.launch(way == Way::one_shot ? "all-reduce in one shot" : "all-reduce in two shots", f) = Demand{};
    d.plan.ctas = static_cast<std::int64_t>(kCtas);
    d.link = (ranks - 1) * bytes * (way == Way::one_shot ? 1 : 2 / ranks) * units::B;
    d.link_rate = f.link_share * inner_wire(q.rates);
    // two stages: loads behind a barrier, and once more
    const double ways = (way == Way::one_shot ? 1 : 2) * kLoadBetweenBarriers - (way == Way::one_shot ? 0 : 1);
    d.serial_latency = std::max(-f.fixed, (ranks - 2) * f.step + ways * longer_way(q.rates.fabric->inner()));
    d.serial_latency_of = "of one more peer each";
    out.read_beside = q.work.read;
    out.written_beside = q.work.write;
  }

  std::string_view name_;
  std::span<const FamilyDeclaration> declared_;
  RankRule rule_;
};

}  // namespace

const Provider& trtllm_all_reduce_provider() {
  static const CustomAllReduce provider("trtllm_all_reduce", kTrtllm, trtllm_rule);
  return provider;
}

const Provider& vllm_all_reduce_provider() {
  static const CustomAllReduce provider("vllm_all_reduce", kVllm, vllm_rule);
  return provider;
}

}  // namespace plumbline

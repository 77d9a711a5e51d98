// The fallback for everything that mostly moves data: any well-written kernel reads and writes its operands once. And
// users' own kernels, which say themselves what they ask for. Mixtures of experts as one call, and activations rounded in a
// call of its own, are TensorRT-LLM's in every stack but vLLM's, whose experts are those of `vllm_experts` here.
#include <algorithm>
#include <array>
#include <string>

#include "arch/error.hpp"
#include "arch/fabric/cluster.hpp"
#include "model/stacks/common/links.hpp"
#include "model/stacks/common/plan_quantize.hpp"
#include "model/stacks/common/plan_stream.hpp"
#include "model/stacks/generic/plan_custom.hpp"
#include "model/stacks/generic/plan_moe.hpp"
#include "model/stacks/provider.hpp"

namespace plumbline {
namespace {

/// In the order in which they are declared.
enum GenericFamily : std::size_t {
  kRows,
  kCopyEngine,
  kExperts,
  kBlockExperts,
  kScales,
  kTokenScales,
  kMmaExperts,
  kGenericFamilies
};

constexpr auto kHostCopies = std::to_array<BandClass>({{Variant::usual, "host_copy"}});
constexpr std::array<FamilyDeclaration, kGenericFamilies> kDeclared{
    {{.name = "rowwise"},
     {.name = "copy_engine", .stand_in = "library.rowwise", .kind = "host", .classes = kHostCopies},
     kMoeFamily,
     kMoeBlockFamily,
     kQuantizeFamily,
     kTokenScalesFamily,
     kMoeMmaFamily}};

constexpr std::array<FamilyDeclaration, 8> kExpertsDeclared{{kMoeFamily,
                                                             kMoeBlockFamily,
                                                             kQuantizeFamily,
                                                             {.name = "rowwise"},
                                                             kMarlinFamily,
                                                             kMoeMmaFamily,
                                                             kMoeTritonMmaFamily,
                                                             kMoeTritonFamily}};
constexpr std::array<std::string_view, 1> kExpertsOps{"moe"};

/// TensorRT-LLM's tuner picks tiles of experts, in its own library and in FlashInfer's copy of it: the stack has the first one
/// of its list.
constexpr std::string_view kUntunedExperts = "vllm-untuned";

/// Of another GPU's memory, in reach by the innermost tier: its links at the share that a copy engine fills of them.
Bandwidth rate_between_gpus(const Transfer& transfer, const Question& q, const FamilyScalars& family) {
  if (q.rates.fabric == nullptr) throw BadInput(q.gpu + ": nothing says what joins several of it");
  if (transfer.stride >= q.rates.fabric->gpus_per_node()) {
    throw NotModelled("p2p_copy: copy engines reach the GPUs of their own node, cluster " + q.rates.fabric->name +
                      " has " + std::to_string(q.rates.fabric->gpus_per_node()) + "; found two that are " +
                      std::to_string(transfer.stride) + " ranks apart");
  }
  return family.link_share * inner_wire(q.rates);
}

/// Between the host's memory, pinned, and the GPU's, or between two GPUs' memories: the copy engine's own start, and the
/// bytes over the port to the host or over the links. Where copies go both ways at once the second starts behind the first, and what one direction needs of the other
/// (requests to read, acknowledgements) takes a share of the other's time: two scalars, measured.
bool answer_copy(const Transfer& transfer, const Question& q, const FamilyScalars& family, Answer& out) {
  if (transfer.kind == TransferKind::send_recv) return false;
  out.sign(family);
  Demand& d = out.launch("copy engine", family) = Demand{};
  d.plan.ctas = 1;
  d.copy_engine = true;
  d.link = static_cast<double>(transfer.bytes) * units::B;
  if (transfer.kind == TransferKind::p2p_copy) {
    d.link_rate = rate_between_gpus(transfer, q, family);
    // memory moves beside the links: what takes longer
    const Seconds memory = q.work.bytes() / std::min(q.rates.dram_read, q.rates.dram_write) - d.link / d.link_rate;
    d.serial_latency = std::max(Seconds{}, memory);
    d.serial_latency_of = "of memory behind the links";
    out.unmeasured = q.rates.fabric->inner().kind == LinkKind::pcie;
  }
  if (transfer.both) {
    d.serial_latency = family.step + family.exposed * (d.link / q.rates.pcie);
    d.serial_latency_of = "of copies the other way";
  }
  out.read_beside = q.work.read;  // beside the link's time, not in it
  out.written_beside = q.work.write;
  return true;
}

class Generic final : public Provider {
 public:
  std::string_view name() const override { return "generic"; }
  std::span<const FamilyDeclaration> families() const override { return kDeclared; }
  std::string_view untuned_stack(const Op& op) const override {
    return std::holds_alternative<Moe>(op) ? kUntunedExperts : "";
  }
  bool plan(const Question& q, Answer& out) const override {
    if (const auto* custom = std::get_if<CustomOp>(&q.op)) return answer_custom(*custom, q, q.families[kRows], out);
    if (const auto* experts = std::get_if<Moe>(&q.op)) {
      answer_moe(*experts,
                 {q.families[kExperts], q.families[kBlockExperts], q.families[kScales], q.families[kRows], nullptr,
                  &q.families[kMmaExperts]},
                 MoeLibrary::trtllm, q, out);
      return true;
    }
    if (const auto* rounds = std::get_if<QuantizeDynamic>(&q.op)) {
      const FamilyScalars& tokens = q.families[kTokenScales];
      out.sign(rounds->block == 1 && tokens.step_clk > 0 ? tokens : q.families[kRows]);
      const bool held = q.warmth != Warmth::cold && q.work.bytes() <= q.rates.l2_kept;
      answer_quantize(*rounds, held ? 1 : 0, {q.families[kScales], tokens, q.families[kRows]}, q, out);
      return true;
    }
    const auto* transfer = std::get_if<Transfer>(&q.op);
    if (transfer != nullptr && transfer->kind != TransferKind::d2d) {
      return answer_copy(*transfer, q, q.families[kCopyEngine], out);
    }
    return runs_as_stream(q.op) && answer_stream(q, q.families[kRows], stream_planner, out);
  }
};

/// Experts as one call, of one library: vLLM's fused experts, by Triton (by Marlin where weights have 4 bits) or FlashInfer.
class Experts final : public Provider {
 public:
  Experts(std::string_view name, MoeLibrary library) : name_(name), library_(library) {}
  std::string_view name() const override { return name_; }
  std::span<const FamilyDeclaration> families() const override { return kExpertsDeclared; }
  std::span<const std::string_view> ops() const override { return kExpertsOps; }
  /// vLLM has FlashInfer's experts where both operands have 8 bits and one scale, else Triton's.
  std::string_view untuned_stack(const Op& op) const override {
    const auto* experts = std::get_if<Moe>(&op);
    const bool by_flashinfer = library_ == MoeLibrary::vllm && experts != nullptr &&
                               experts->precision.input == DType::fp8 && experts->block == 0;
    return by_flashinfer ? kUntunedExperts : "";
  }
  bool plan(const Question& q, Answer& out) const override {
    const auto* experts = std::get_if<Moe>(&q.op);
    if (experts == nullptr) return false;
    answer_moe(*experts,
               {q.families[0], q.families[1], q.families[2], q.families[3], &q.families[4], &q.families[5],
                &q.families[6], &q.families[7]},
               library_, q, out);
    return true;
  }

 private:
  std::string_view name_;
  MoeLibrary library_;
};

}  // namespace

const Provider& vllm_experts_provider() {
  static const Experts provider("vllm_experts", MoeLibrary::vllm);
  return provider;
}

const Provider& vllm_triton_experts_provider() {
  static const Experts provider("vllm_triton_experts", MoeLibrary::vllm_triton);
  return provider;
}

const Provider& untuned_experts_provider() {
  static const Experts provider("untuned_experts", MoeLibrary::trtllm_first);
  return provider;
}

const Provider& generic_provider() {
  static const Generic provider;
  return provider;
}

}  // namespace plumbline

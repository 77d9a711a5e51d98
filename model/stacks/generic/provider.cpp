// The fallback for everything that mostly moves data: any well-written kernel reads and writes its operands once. And
// users' own kernels, which say themselves what they ask for. Mixtures of experts as one call, and activations rounded in a
// call of its own, are TensorRT-LLM's in every stack.
#include <array>

#include "model/stacks/common/plan_quantize.hpp"
#include "model/stacks/common/plan_stream.hpp"
#include "model/stacks/generic/plan_custom.hpp"
#include "model/stacks/generic/plan_moe.hpp"
#include "model/stacks/provider.hpp"

namespace plumbline {
namespace {

/// In the order in which they are declared.
enum GenericFamily : std::size_t { kRows, kCopyEngine, kExperts, kBlockExperts, kScales, kGenericFamilies };

constexpr auto kHostCopies = std::to_array<BandClass>({{Variant::usual, "host_copy"}});
constexpr std::array<FamilyDeclaration, kGenericFamilies> kDeclared{
    {{.name = "rowwise"},
     {.name = "copy_engine", .stand_in = "library.rowwise", .kind = "host", .classes = kHostCopies},
     kMoeFamily,
     kMoeBlockFamily,
     kQuantizeFamily}};

/// Between the host's memory, pinned, and the GPU's: the copy engine's own start, and the bytes over the port to the host.
/// Where copies go both ways at once the second starts behind the first, and what one direction needs of the other
/// (requests to read, acknowledgements) takes a share of the other's time: two scalars, measured.
bool answer_copy(const Transfer& transfer, const Question& q, const FamilyScalars& family, Answer& out) {
  if (transfer.kind == TransferKind::send_recv) return false;
  out.sign(family);
  Demand& d = out.launch("copy engine", family) = Demand{};
  d.plan.ctas = 1;
  d.link = static_cast<double>(transfer.bytes) * units::B;
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
  bool plan(const Question& q, Answer& out) const override {
    if (const auto* custom = std::get_if<CustomOp>(&q.op)) return answer_custom(*custom, q, q.families[kRows], out);
    if (const auto* experts = std::get_if<Moe>(&q.op)) {
      answer_moe(*experts, {q.families[kExperts], q.families[kBlockExperts], q.families[kScales], q.families[kRows]}, q,
                 out);
      return true;
    }
    if (const auto* rounds = std::get_if<QuantizeDynamic>(&q.op)) {
      out.sign(q.families[kRows]);
      answer_quantize(*rounds, q.warmth == Warmth::cold ? 0 : 1, {q.families[kScales], q.families[kRows]}, q, out);
      return true;
    }
    const auto* transfer = std::get_if<Transfer>(&q.op);
    if (transfer != nullptr && transfer->kind != TransferKind::d2d) {
      return answer_copy(*transfer, q, q.families[kCopyEngine], out);
    }
    return runs_as_stream(q.op) && answer_stream(q, q.families[kRows], stream_planner, out);
  }
};

}  // namespace

const Provider& generic_provider() {
  static const Generic provider;
  return provider;
}

}  // namespace plumbline

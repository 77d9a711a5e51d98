// Linear attention's prompts: Flash Linear Attention's kernels in Triton, and FlashInfer's for Hopper. Both take the gated
// delta rule; other recurrences, and steps of one token, go to the stack's next provider.
#include <array>

#include "model/stacks/fla/plan_chunks.hpp"

namespace plumbline {
namespace {

/// In the order in which they are declared.
enum FlaFamily : std::size_t { kChunks, kScan, kRows, kFlaFamilies };

constexpr std::array<std::string_view, 1> kOps{"recurrence"};
constexpr auto kChunkClasses = std::to_array<BandClass>({{Variant::usual, "linear_chunk"}});
constexpr auto kWalkClasses = std::to_array<BandClass>({{Variant::usual, "linear_flashinfer"}});
constexpr FamilyDeclaration kRowsFamily{.name = "rowwise", .op = "recurrence"};
constexpr std::array<FamilyDeclaration, kFlaFamilies> kDeclared{
    {{.name = "linear_chunk",
      .op = "recurrence",
      .required = false,
      .carry = {.fixed_in_cycles = true},
      .kind = "attention",
      .classes = kChunkClasses},
     {.name = "linear_scan", .op = "recurrence", .required = false, .carry = {.fixed_in_cycles = true}},
     kRowsFamily}};
constexpr std::array<FamilyDeclaration, 2> kFlashInferDeclared{{{.name = "linear_flashinfer",
                                                                 .op = "recurrence",
                                                                 .required = false,
                                                                 .carry = {.fixed_in_cycles = true},
                                                                 .kind = "attention",
                                                                 .classes = kWalkClasses},
                                                                kRowsFamily}};

const Recurrence* in_chunks(const Question& q, std::size_t family) {
  const auto* shape = std::get_if<Recurrence>(&q.op);
  return shape != nullptr && runs_in_chunks(*shape) && q.families[family].on_file ? shape : nullptr;
}

class FlashLinearAttention final : public Provider {
 public:
  std::string_view name() const override { return "fla"; }
  std::span<const FamilyDeclaration> families() const override { return kDeclared; }
  std::span<const std::string_view> ops() const override { return kOps; }
  bool plan(const Question& q, Answer& out) const override {
    const Recurrence* shape = in_chunks(q, kChunks);
    if (shape == nullptr) return false;
    answer_chunks(*shape, {q.families[kChunks], q.families[kScan], q.families[kRows]}, q, out);
    return true;
  }
};

class FlashInferGdn final : public Provider {
 public:
  std::string_view name() const override { return "flashinfer_gdn"; }
  std::span<const FamilyDeclaration> families() const override { return kFlashInferDeclared; }
  std::span<const std::string_view> ops() const override { return kOps; }
  bool plan(const Question& q, Answer& out) const override {
    const Recurrence* shape = in_chunks(q, 0);
    if (shape == nullptr || q.rates.path.kind != TensorPath::Kind::wgmma || bits(shape->dtype) != 16) return false;
    answer_walk(*shape, q.families[0], q.families[1], q, out);
    return true;
  }
};

}  // namespace

const Provider& fla_provider() {
  static const FlashLinearAttention provider;
  return provider;
}

const Provider& flashinfer_gdn_provider() {
  static const FlashInferGdn provider;
  return provider;
}

}  // namespace plumbline
